/* What a graph tells of itself: symbols, inputs, outputs, what states are assigned, sizes under given symbols. And
 * graphs from files. */
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"

#include <sinew/ops.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static sn_ctx *ctx;
static sn_graph *g;

static bool start(const char *text) {
  g = NULL;
  return CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_parse(ctx, text, &g) == SN_OK);
}

static void end(void) {
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static const char example[] = "symbol n 8\n"
                              "symbol m 3\n"
                              "%1 = state() name=\"w\" dtype=f32 shape=[2]\n"
                              "%2 = input() name=\"b\" dtype=f32 shape=[n, 2]\n"
                              "%3 = state() name=\"v\" dtype=f32 shape=[2]\n"
                              "%4 = input() name=\"a\" dtype=f32 shape=[2*n + m/2, m]\n"
                              "%5 = add(%2, %1)\n"
                              "%6 = neg(%3)\n"
                              "output \"z\" %5\n"
                              "output \"y\" %2\n"
                              "assign %3 %6\n";

TEST(leaves_and_results) {
  sn_value list[4], value;
  REQUIRE(start(example));
  CHECK_EQ_INT(sn_graph_inputs(g, list, 4), 2);
  CHECK_EQ_STR(sn_value_name(g, list[0]), "b");
  CHECK_EQ_STR(sn_value_name(g, list[1]), "a");
  list[1] = SN_NONE;
  CHECK_EQ_INT(sn_graph_inputs(g, list, 1), 2);
  CHECK_EQ_INT(list[1].id, 0);
  CHECK_EQ_INT(sn_graph_inputs(g, NULL, 0), 2);
  CHECK_EQ_STR(sn_graph_output(g, 0, NULL), "z");
  CHECK_EQ_STR(sn_graph_output(g, 1, &value), "y");
  CHECK_EQ_INT(value.id, list[0].id);
  CHECK(!sn_graph_output(g, 2, &value) && value.id == 0);
  CHECK(!sn_graph_output(g, -1, NULL));
  REQUIRE(sn_graph_states(g, list, 4) == 2);
  CHECK_EQ_INT(sn_graph_assigned(g, list[0]).id, 0);
  value = sn_graph_assigned(g, list[1]);
  CHECK_EQ_INT(value.id, sn_neg(g, list[1]).id);
  end();
}

TEST(sizes_under_symbols) {
  int64_t max = -1, size = -1;
  sn_value list[2];
  REQUIRE(start(example));
  CHECK_EQ_STR(sn_graph_symbol(g, 0, &max), "n");
  CHECK_EQ_INT(max, 8);
  CHECK_EQ_STR(sn_graph_symbol(g, 1, NULL), "m");
  CHECK(!sn_graph_symbol(g, 2, &max) && max == 0);
  CHECK(!sn_graph_symbol(g, -1, NULL));
  sn_graph_inputs(g, list, 2);
  sn_shape shape = sn_value_type(g, list[1]).shape;
  CHECK_EQ_INT(sn_dim_value(g, shape.dim[0], (int64_t[]){5, 3}, &size), SN_OK);
  CHECK_EQ_INT(size, 11);
  CHECK_EQ_INT(sn_dim_value(g, 7, (int64_t[]){5, 3}, &size), SN_OK);
  CHECK_EQ_INT(size, 7);
  CHECK_EQ_INT(sn_dim_value(g, shape.dim[0], (int64_t[]){9, 3}, &size), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "symbol n: expected 0 … 8, got 9");
  CHECK_EQ_INT(size, 0);
  CHECK_EQ_INT(sn_dim_value(g, shape.dim[0], (int64_t[]){5, -1}, &size), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_dim_value(g, INT64_MIN / 2 - 1000, (int64_t[]){5, 3}, &size), SN_ERR_INVALID);
  end();
}

TEST(a_graph_without_symbols_has_none) {
  int64_t size = -1;
  REQUIRE(start(""));
  CHECK(!sn_graph_symbol(g, 0, NULL) && !sn_graph_output(g, 0, NULL));
  CHECK_EQ_INT(sn_dim_value(g, 4, NULL, &size), SN_OK);
  CHECK_EQ_INT(size, 4);
  end();
}

/* --- files --- */

static void check_file(const char *path, sn_status status, const char *message) {
  sn_graph *read;
  sn_status got = sn_graph_parse_file(ctx, path, &read);
  CHECK_EQ_INT(got, status);
  CHECK((got == SN_OK) == (read != NULL));
  if (status != SN_OK)
    CHECK_STR_HAS(sn_ctx_message(ctx), message);
  sn_graph_destroy(read);
}

TEST(graphs_from_files) {
  const char *path = test_scratch("graph.txt"), *pipe = test_scratch("pipe.txt");
  REQUIRE(start(""));
  files_put_text(path, example);
  check_file(path, SN_OK, "");
  files_put_text(path, "\n\n%1 = inpt()\n");
  check_file(path, SN_ERR_FORMAT, "graph.txt: graph text 3:6: ");
  files_put(path, "# \0", 3);
  check_file(path, SN_ERR_FORMAT, "graph.txt: not a text: byte 2 is NUL");
  check_file(test_scratch("none.txt"), SN_ERR_NOT_FOUND, "none.txt: cannot open");
  CHECK_EQ_INT(mkfifo(pipe, 0666), 0);
  check_file(pipe, SN_ERR_IO, "pipe.txt: expected a regular file");
  check_file("/dev/zero", SN_ERR_IO, "/dev/zero: expected a regular file");
  check_file("/", SN_ERR_IO, "expected a regular file, got a folder");
  end();
}

TEST(memory_runs_out_while_a_file_is_read) {
  const char *path = test_scratch("memory.txt");
  fault_heap heap = {.fail_at = 0};
  files_put_text(path, example);
  do {
    sn_graph *read = NULL;
    fault_heap_start(&heap);
    sn_ctx *c = fault_ctx(&heap);
    sn_status status = c ? sn_graph_parse_file(c, path, &read) : SN_ERR_NO_MEMORY;
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    CHECK((status == SN_OK) == (read != NULL));
    sn_graph_destroy(read);
    sn_ctx_destroy(c);
  } while (fault_heap_end(&heap));
}
