/* Programs as bytes: what is written comes back the same, sizes with symbols too, and damaged bytes are refused or at least
 * harmless. */
#include "compile/program_bytes.h"
#include "support/fault.h"
#include "support/program_make.h"
#include "support/test.h"

#include <stdlib.h>

static sn_graph *empty_graph(sn_ctx *ctx) {
  sn_graph *g = NULL;
  CHECK(sn_graph_create(ctx, &g) == SN_OK);
  return g;
}

/* --- sizes --- */

TEST(sizes_as_text) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_graph *g = empty_graph(ctx);
  sn_dim n = sn_symbol(g, "n", 100), kv = sn_symbol(g, "kv_len", 7), d;
  const sn_dim sizes[] = {
      n, sn_dim_sub(g, kv, 3), sn_dim_mul(g, sn_dim_add(g, n, kv), sn_dim_mul(g, n, 5)),
      sn_dim_div(g, sn_dim_add(g, sn_dim_mul(g, n, 3), 1), 4),
      sn_dim_sub(g, sn_dim_div(g, sn_dim_add(g, sn_dim_div(g, n, 2), kv), 3), sn_dim_mul(g, n, 2))};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    text t;
    text_init(&t, ctx);
    dim_print(g, sizes[i], &t);
    if (!dim_text_read(g, t.data, &d) || d != sizes[i])
      FAIL("%s comes back as another size", t.data);
    text_free(&t);
  }
  CHECK(dim_text_read(g, "12", &d) && d == 12);
  static const char *const bad[] = {"",
                                    "m",
                                    "n+",
                                    "(n",
                                    "n)",
                                    "n/0",
                                    "n//2",
                                    "-",
                                    "99999999999999999999",
                                    "n*-2",
                                    "((((n)",
                                    "n n",
                                    "288230376151711744"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    sn_graph *scratch = empty_graph(ctx);
    (void)sn_symbol(scratch, "n", 100);
    if (dim_text_read(scratch, bad[i], &d))
      FAIL("\"%s\" was taken for a size", bad[i]);
    sn_graph_destroy(scratch);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* --- programs --- */

/* What make_random_program leaves out: names and types of leaves. */
static void name_leaves(program *p, program_leaf **leaves, int n) {
  if (!*leaves)
    *leaves = arena_array(&p->memory, (size_t)n, sizeof **leaves);
  for (int i = 0; *leaves && i < n; i++) {
    (*leaves)[i].name = arena_printf(&p->memory, "leaf %d", i);
    (*leaves)[i].type = (sn_type){SN_F32, SN_SHAPE(2, DIM_HANDLES)};
  }
}

static program *random_one(sn_ctx *ctx, uint64_t seed) {
  program *p = make_random_program(
      ctx, &(random_program){.seed = seed, .steps = 3 + (int)(seed % 20), .largest = 4096});
  sn_graph *g = empty_graph(ctx);
  (void)sn_dim_div(g, sn_dim_mul(g, sn_symbol(g, "n", 64), 3), 4);
  if (CHECK(p != NULL) && !p->dims)
    CHECK(program_copy_dims(p, g) == SN_OK);
  if (p) {
    name_leaves(p, &p->inputs, p->n_inputs);
    name_leaves(p, &p->outputs, p->n_outputs);
    name_leaves(p, &p->states, p->n_states);
    for (uint32_t v = 1; v < p->n_values; v += 3) {
      p->values[v].channels = 16 * v;
      p->values[v].pixels = v + 5;
    }
  }
  sn_graph_destroy(g);
  return p;
}

static char *print(const program *p) {
  text t;
  text_init(&t, p->memory.ctx);
  program_print(p, &t);
  CHECK(text_done(&t) == SN_OK);
  char *copy = mem_strdup(p->memory.ctx, t.data ? t.data : "");
  text_free(&t);
  return copy;
}

static void check_same(const program *a, const program *b) {
  char *x = print(a), *y = print(b);
  CHECK_EQ_STR(x, y);
  CHECK(a->arena_bytes == b->arena_bytes && a->lower_bound == b->lower_bound);
  for (uint32_t v = 1; v < a->n_values && v < b->n_values; v++)
    CHECK(a->values[v].first == b->values[v].first && a->values[v].last == b->values[v].last &&
          a->values[v].offset == b->values[v].offset &&
          a->values[v].source == b->values[v].source &&
          a->values[v].channels == b->values[v].channels &&
          a->values[v].pixels == b->values[v].pixels);
  mem_free_str(a->memory.ctx, x);
  mem_free_str(a->memory.ctx, y);
}

TEST(random_programs_come_back_the_same) {
  for (uint64_t seed = 1; seed <= 60 && !test_failed(); seed++) {
    sn_ctx *ctx;
    text bytes;
    program *back;
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    program *p = random_one(ctx, seed);
    sn_graph *g = empty_graph(ctx);
    (void)sn_symbol(g, "n", 64);
    text_init(&bytes, ctx);
    CHECK_EQ_INT(program_write(p, &bytes), SN_OK);
    if (CHECK_EQ_INT(program_read(bytes.data, bytes.size, g, &back), SN_OK))
      check_same(p, back);
    else
      FAIL("%s", sn_ctx_message(ctx));
    program_destroy(back);
    program_destroy(p);
    text_free(&bytes);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  }
}

/* Reads bytes that are wrong somewhere; what is accepted must be safe to walk. */
static bool try_read(sn_ctx *ctx, const char *bytes, size_t size) {
  sn_graph *g = empty_graph(ctx);
  program *p;
  (void)sn_symbol(g, "n", 64);
  sn_status status = program_read(bytes, size, g, &p);
  CHECK(status == SN_OK || status == SN_ERR_FORMAT);
  CHECK_EQ_INT(sn_graph_status(g), SN_OK);
  if (status == SN_OK) {
    char *shown = print(p);
    mem_free_str(ctx, shown);
  }
  program_destroy(p);
  sn_graph_destroy(g);
  return status == SN_OK;
}

TEST(damaged_bytes) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  REQUIRE(ctx != NULL);
  program *p = random_one(ctx, 7);
  text bytes;
  text_init(&bytes, ctx);
  REQUIRE(program_write(p, &bytes) == SN_OK);
  size_t before = heap.bytes, peak = 0;
  heap.peak = before;
  for (size_t n = 0; n < bytes.size; n++) /* cut off: never whole */
    CHECK(!try_read(ctx, bytes.data, n));
  for (size_t i = 0; i < bytes.size; i++)
    for (int k = 0; k < 3; k++) {
      static const unsigned char flips[] = {0x01, 0x80, 0xff};
      char old = bytes.data[i];
      bytes.data[i] = (char)((unsigned char)old ^ flips[k]);
      (void)try_read(ctx, bytes.data, bytes.size);
      bytes.data[i] = old;
    }
  peak = heap.peak - before;
  CHECK(peak < 4096 * bytes.size + (1 << 20)); /* few bytes ask for little memory */
  CHECK_EQ_INT(heap.bytes, before);
  text_free(&bytes);
  program_destroy(p);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
}

TEST(every_allocation_may_fail) {
  fault_heap heap = {.fail_at = 0};
  sn_ctx *safe;
  text bytes;
  REQUIRE(sn_ctx_create(NULL, &safe) == SN_OK);
  program *p = random_one(safe, 11);
  text_init(&bytes, safe);
  REQUIRE(program_write(p, &bytes) == SN_OK);
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_graph *g = NULL;
    program *back = NULL;
    sn_status status = ctx ? sn_graph_create(ctx, &g) : SN_ERR_NO_MEMORY;
    if (status == SN_OK) {
      (void)sn_symbol(g, "n", 64);
      status = sn_graph_status(g);
    }
    if (status == SN_OK)
      status = program_read(bytes.data, bytes.size, g, &back);
    CHECK(status == (heap.failed ? SN_ERR_NO_MEMORY : SN_OK));
    program_destroy(back);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  text_free(&bytes);
  program_destroy(p);
  sn_ctx_destroy(safe);
}
