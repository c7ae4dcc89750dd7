/* Tests of the writer of sinew/safetensors.h, and of large tensors. */
#include "io/safetensors.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sn_ctx *new_ctx(void) {
  sn_ctx *ctx;
  CHECK_EQ_INT(sn_ctx_create(NULL, &ctx), SN_OK);
  return ctx;
}

static const float floats[6] = {1, 2, 3, -4.5f, 0, 6};
static const uint8_t flags[3] = {1, 0, 1};

static sn_status write_example(sn_ctx *ctx, const char *path) {
  const sn_safetensors_item items[] = {{"layer.\"w\"\n", {SN_F32, SN_SHAPE(2, 3)}, floats},
                                       {"fl\xc3\xa4gs", {SN_BOOL, SN_SHAPE(3)}, flags},
                                       {"none", {SN_BF16, SN_SHAPE(0, 7)}, NULL},
                                       {"scalar", {SN_I32, SN_SCALAR}, &(int32_t){-9}}};
  const sn_safetensors_pair pairs[] = {{"format", "pt"}, {"note", "a \\ \"b\"\t\xe2\x82\xac"}};
  return sn_safetensors_write(ctx, path, items, 4, pairs, 2);
}

TEST(written_files_read_back) {
  sn_ctx *ctx = new_ctx();
  const char *path = test_scratch("written.safetensors");
  if (!CHECK_EQ_INT(write_example(ctx, path), SN_OK))
    FAIL("%s", sn_ctx_message(ctx));
  sn_safetensors *st;
  REQUIRE(sn_safetensors_open(ctx, path, &st) == SN_OK);
  CHECK_EQ_UINT(sn_safetensors_count(st), 4);
  CHECK_EQ_STR(sn_safetensors_metadata(st, "note"), "a \\ \"b\"\t\xe2\x82\xac");
  float got[6];
  CHECK_EQ_STR(sn_safetensors_at(st, 0)->name, "layer.\"w\"\n");
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_F32, got, 6), SN_OK);
  CHECK_EQ_MEM(got, floats, sizeof got);
  uint8_t bools[3];
  const sn_safetensors_tensor *t = sn_safetensors_find(st, "fl\xc3\xa4gs");
  REQUIRE(t != NULL);
  CHECK_EQ_INT(sn_safetensors_read(st, t->index, SN_BOOL, bools, 3), SN_OK);
  CHECK_EQ_MEM(bools, flags, 3);
  t = sn_safetensors_at(st, 2);
  CHECK(t->count == 0 && t->dtype == SN_BF16 && t->shape.dim[1] == 7);
  int32_t scalar;
  CHECK_EQ_INT(sn_safetensors_read(st, 3, SN_I32, &scalar, 1), SN_OK);
  CHECK_EQ_INT(scalar, -9);
  sn_safetensors_close(st);
  FILE *f = fopen(path, "rb");
  REQUIRE(f != NULL);
  uint64_t length = 1;
  CHECK_EQ_UINT(fread(&length, 1, 8, f), 8);
  CHECK_EQ_UINT(length % 8, 0);
  fclose(f);
  CHECK_EQ_INT(sn_safetensors_write(ctx, path, NULL, 0, NULL, 0), SN_OK);
  REQUIRE(sn_safetensors_open(ctx, path, &st) == SN_OK);
  CHECK_EQ_UINT(sn_safetensors_count(st), 0);
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
}

/* Larger than the pieces of the conversion and the writer's buffer. */
TEST(large_tensors_are_converted) {
  enum { N = 100003 };
  uint16_t *half = malloc(N * sizeof *half);
  float *wide = malloc(N * sizeof *wide);
  REQUIRE(half && wide);
  for (size_t i = 0; i < N; i++)
    half[i] = (uint16_t)(i & 0x7bff);
  sn_ctx *ctx = new_ctx();
  const char *path = test_scratch("large.safetensors");
  const sn_safetensors_item item = {"h", {SN_F16, SN_SHAPE(N)}, half};
  sn_safetensors *st;
  REQUIRE(sn_safetensors_write(ctx, path, &item, 1, NULL, 0) == SN_OK);
  REQUIRE(sn_safetensors_open(ctx, path, &st) == SN_OK);
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_F32, wide, N), SN_OK);
  CHECK(wide[1] == 0x1p-24f && wide[0x3800] == 0.5f && wide[0x4000] == 2);
  CHECK(wide[0x3800 + 65536] == 0.5f && wide[N - 1] == wide[(N - 1) & 0x7bff]);
  CHECK_EQ_INT(truncate(path, 100000), 0); /* shrinks while open */
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_F32, wide, N), SN_ERR_IO);
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_F16, half, N), SN_ERR_IO);
  CHECK_STR_HAS(sn_ctx_message(ctx), "large.safetensors: the file ended");
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
  free(half);
  free(wide);
}

TEST(bad_items_are_refused_before_anything_is_written) {
  static const struct {
    sn_safetensors_item item;
    const char *message;
  } rows[] = {
      {{NULL, {SN_F32, {0, {0}}}, floats}, "name of a tensor: expected UTF-8 text"},
      {{"\xff", {SN_F32, {0, {0}}}, floats}, "name of a tensor: expected UTF-8 text"},
      {{"__metadata__", {SN_F32, {0, {0}}}, floats}, "cannot have the name"},
      {{"first", {SN_F32, {0, {0}}}, floats}, "the name \"first\" occurs twice"},
      {{"x", {SN_NO_DTYPE, {0, {0}}}, floats}, "tensor \"x\": cannot write dtype none"},
      {{"x", {SN_F32, {9, {0}}}, floats}, "rank: expected 0 to 8, got 9"},
      {{"x", {SN_F32, {-1, {0}}}, floats}, "rank: expected 0 to 8, got -1"},
      {{"x", {SN_F32, {1, {-3}}}, floats}, "dim 0: expected a plain size"},
      {{"x", {SN_F32, {2, {INT64_MAX, 2}}}, floats}, "the number of bytes overflows"},
      {{"x", {SN_U8, {1, {INT64_MAX}}}, floats}, "the number of bytes overflows"},
      {{"x", {SN_F32, {1, {2}}}, NULL}, "tensor \"x\": no data"},
  };
  sn_ctx *ctx = new_ctx();
  const char *path = test_scratch("bad.safetensors");
  sn_safetensors_item items[2] = {{"first", {SN_F32, SN_SCALAR}, floats}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    items[1] = rows[i].item;
    CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, 2, NULL, 0), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].message);
  }
  static const sn_safetensors_pair pairs[][2] = {
      {{"a", "b"}, {"a", "c"}}, {{"a", NULL}, {"b", "c"}}, {{"\xc0", "a"}, {"b", "c"}}};
  for (size_t i = 0; i < COUNT_OF(pairs); i++)
    CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, 1, pairs[i], 2), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, SIZE_MAX, NULL, 0), SN_ERR_INVALID);
  CHECK(access(path, F_OK) != 0);
  sn_ctx_destroy(ctx);
}

/* Every allocation fails in turn: an error, nothing leaked, the old file whole. */
TEST(failing_allocations_leave_the_old_file_whole) {
  const char *path = test_scratch("sweep.safetensors");
  for (int persistent = 0; persistent < 2; persistent++) {
    fault_heap heap = {.persistent = persistent};
    do {
      fault_heap_start(&heap);
      sn_ctx *ctx = fault_ctx(&heap);
      files_put_text(path, "old");
      sn_status status = ctx ? write_example(ctx, path) : SN_ERR_NO_MEMORY;
      CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
      CHECK_EQ_INT(files_hold(path, "old", 3), heap.failed != 0);
      sn_ctx_destroy(ctx);
    } while (fault_heap_end(&heap));
    CHECK(heap.fail_at > 5);
  }
}
