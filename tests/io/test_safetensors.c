/* Tests of the reader of sinew/safetensors.h: single files, what is refused, models of shards,
 * failing allocations and file operations. Writing: test_safetensors_write.c. */
#include "io/safetensors.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static sn_ctx *new_ctx(void) {
  sn_ctx *ctx;
  CHECK_EQ_INT(sn_ctx_create(NULL, &ctx), SN_OK);
  return ctx;
}

/* A file in memory from a header and data; returns its size. */
static size_t make_file(char *to, const char *header, const void *data, size_t size) {
  uint64_t length = strlen(header);
  memcpy(to, &length, sizeof length);
  memcpy(to + 8, header, length);
  if (size)
    memcpy(to + 8 + length, data, size);
  return 8 + length + size;
}

/* --- reading --- */

TEST(reads_tensors_of_all_kinds) {
  static const struct {
    uint16_t f16[2], bf16[2];
    double f64[2];
    uint8_t bools[3], u8;
    int32_t i32;
    int64_t i64;
  } data = {{0x3c00, 0x8001}, {0x3f80, 0xff80}, {1.5, 1e300}, {0, 1, 1}, 7, -5, 99};
  static char file[2000];
  size_t size =
      make_file(file,
                "{\"g\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[32,40]},"
                "\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                "\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"},"
                "\"b\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[4,8]},"
                "\"c\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]},"
                "\"d\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[24,27]},"
                "\"e\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[27,28]},"
                "\"z\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[28,28]},"
                "\"f\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[28,32],\"more\":1}}   ",
                &data, 40);
  sn_ctx *ctx = new_ctx();
  sn_safetensors *st;
  if (!CHECK_EQ_INT(safetensors_open_bytes(ctx, file, size, &st), SN_OK))
    FAIL("%s", sn_ctx_message(ctx));
  REQUIRE(st != NULL);
  CHECK_EQ_UINT(sn_safetensors_count(st), 8);
  CHECK(sn_safetensors_at(st, 8) == NULL && sn_safetensors_find(st, "none") == NULL);
  CHECK(sn_safetensors_find(st, "__metadata__") == NULL);
  CHECK_EQ_STR(sn_safetensors_metadata(st, "format"), "pt");
  CHECK_EQ_STR(sn_safetensors_metadata(st, "empty"), "");
  CHECK(sn_safetensors_metadata(st, "none") == NULL);
  static const char *const names[] = {"g", "a", "b", "c", "d", "e", "z", "f"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    CHECK_EQ_STR(sn_safetensors_at(st, i)->name, names[i]);
    CHECK_EQ_PTR(sn_safetensors_find(st, names[i]), sn_safetensors_at(st, i));
    CHECK_EQ_UINT(sn_safetensors_at(st, i)->index, i);
  }
  const sn_safetensors_tensor *b = sn_safetensors_find(st, "b");
  CHECK(b->dtype == SN_BF16 && b->shape.rank == 2 && b->shape.dim[1] == 2 && b->count == 2);
  CHECK_EQ_UINT(b->size, 4);
  float wide[2];
  CHECK_EQ_INT(sn_safetensors_read(st, 1, SN_F32, wide, 2), SN_OK);
  CHECK(wide[0] == 1 && wide[1] == -0x1p-24f);
  CHECK_EQ_INT(sn_safetensors_read(st, 2, SN_F32, wide, 2), SN_OK);
  CHECK(wide[0] == 1 && isinf(wide[1]) && wide[1] < 0);
  CHECK_EQ_INT(sn_safetensors_read(st, 3, SN_F32, wide, 2), SN_OK);
  CHECK(wide[0] == 1.5f && isinf(wide[1]));
  uint16_t half[2];
  CHECK_EQ_INT(sn_safetensors_read(st, 1, SN_F16, half, 2), SN_OK);
  CHECK_EQ_MEM(half, data.f16, 4);
  uint8_t bytes[3];
  CHECK_EQ_INT(sn_safetensors_read(st, 4, SN_BOOL, bytes, 3), SN_OK);
  CHECK_EQ_MEM(bytes, data.bools, 3);
  CHECK_EQ_INT(sn_safetensors_read(st, 5, SN_U8, bytes, 1), SN_OK);
  CHECK_EQ_INT(bytes[0], 7);
  CHECK_EQ_INT(sn_safetensors_read(st, 6, SN_F32, wide, 0), SN_OK);
  int32_t i32 = 0;
  CHECK_EQ_INT(sn_safetensors_read(st, 7, SN_I32, &i32, 1), SN_OK);
  CHECK_EQ_INT(i32, -5);
  int64_t i64 = 0;
  CHECK_EQ_INT(sn_safetensors_read_raw(st, 0, &i64, 8), SN_OK);
  CHECK_EQ_INT(i64, 99);
  /* What does not fit. */
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_I32, &i32, 1), SN_ERR_UNSUPPORTED);
  CHECK_STR_HAS(sn_ctx_message(ctx), "tensor \"g\": cannot read dtype I64 as i32");
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_NO_DTYPE, &i32, 1), SN_ERR_UNSUPPORTED);
  CHECK_EQ_INT(sn_safetensors_read(st, 1, SN_BF16, half, 2), SN_ERR_UNSUPPORTED);
  CHECK_EQ_INT(sn_safetensors_read(st, 1, SN_F16, half, 3), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "tensor \"a\": expected a buffer of 2 elements, got 3");
  CHECK_EQ_INT(sn_safetensors_read_raw(st, 1, half, 3), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "expected a buffer of 4 bytes, got 3");
  CHECK_EQ_INT(sn_safetensors_read(st, 8, SN_F16, half, 3), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_safetensors_read_raw(st, 8, half, 3), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "no tensor 8: there are 8");
  sn_safetensors_close(st);
  sn_safetensors_close(NULL);
  sn_ctx_destroy(ctx);
}

TEST(unknown_dtypes_matter_only_when_read) {
  static char file[400];
  size_t size = make_file(file,
                          "{\"q\":{\"dtype\":\"F4_X\",\"shape\":[5],\"data_offsets\":[0,3]},"
                          "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[3,5]}}",
                          "abc\1\2", 5);
  sn_ctx *ctx = new_ctx();
  sn_safetensors *st;
  REQUIRE(safetensors_open_bytes(ctx, file, size, &st) == SN_OK);
  char got[5];
  CHECK_EQ_INT(sn_safetensors_at(st, 0)->dtype, SN_NO_DTYPE);
  CHECK_EQ_STR(sn_safetensors_at(st, 0)->dtype_name, "F4_X");
  CHECK_EQ_INT(sn_safetensors_read_raw(st, 0, got, 3), SN_OK);
  CHECK_EQ_MEM(got, "abc", 3);
  float wide[5];
  CHECK_EQ_INT(sn_safetensors_read(st, 0, SN_F32, wide, 5), SN_ERR_UNSUPPORTED);
  CHECK_STR_HAS(sn_ctx_message(ctx), "cannot read dtype F4_X as f32");
  CHECK_EQ_INT(sn_safetensors_read(st, 1, SN_BOOL, got, 2), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "element 1: expected 0 or 1, got 2");
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
}

#define U8(name, n, a, b) \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" n "],\"data_offsets\":[" a "," b "]}"
#define ENTRY(body) "{\"a\":{" body "}}"

/* Each with four bytes of data. */
TEST_WALK(refused) {
  static const struct {
    const char *name, *header, *message;
  } rows[] = {
      {"json", "{\"a\":}", "(memory): 1:6: expected a value"},
      {"array", "[]", "header: expected '{' as its first byte"},
      {"space first", " {}", "header: expected '{' as its first byte"},
      {"no header", "", "header: expected '{' as its first byte"},
      {"duplicate", "{" U8("a", "2", "0", "2") "," U8("a", "2", "2", "4") "}", "occurs twice"},
      {"entry", "{\"a\":[1]}", "tensor \"a\": expected an object, got an array"},
      {"dtype missing", ENTRY("\"shape\":[4],\"data_offsets\":[0,4]"),
       "tensor \"a\": dtype: expected the name of a dtype, got nothing"},
      {"dtype number", ENTRY("\"dtype\":1,\"shape\":[4],\"data_offsets\":[0,4]"),
       "dtype: expected the name of a dtype, got a number"},
      {"shape missing", ENTRY("\"dtype\":\"U8\",\"data_offsets\":[0,4]"),
       "shape: expected an array of sizes, got nothing"},
      {"shape string", "{" U8("a", "\"4\"", "0", "4") "}", "shape[0]: expected a size"},
      {"negative", "{" U8("a", "2,-2", "0", "4") "}", "shape[1]: expected a size, 0 or larger"},
      {"fraction", "{" U8("a", "4.5", "0", "4") "}", "shape[0]: expected a size"},
      {"rank", "{" U8("a", "1,1,1,1,1,1,1,1,4", "0", "4") "}", "rank 9 is above the highest"},
      {"product", "{" U8("a", "4294967296,4294967296", "0", "4") "}", "elements overflows"},
      {"empty product", "{" U8("a", "0,4294967296,4294967296", "0", "0") "}", "elements overflows"},
      {"bytes", ENTRY("\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,4]"),
       "the number of bytes overflows"},
      {"offsets missing", ENTRY("\"dtype\":\"U8\",\"shape\":[4]"), "expected an array of two"},
      {"offsets three", "{" U8("a", "4", "0", "4,5") "}", "data_offsets: expected an array of two"},
      {"offsets text", "{" U8("a", "4", "0", "\"4\"") "}",
       "data_offsets: expected an array of two"},
      {"offsets negative", "{" U8("a", "4", "-4", "0") "}", "expected an array of two offsets"},
      {"beyond", "{" U8("a", "5", "0", "5") "}", "expected a range within 4 bytes, got [0, 5]"},
      {"far beyond", "{" U8("a", "5", "0", "9223372036854775807") "}", "expected a range within 4"},
      {"reversed", "{" U8("a", "0", "3", "1") "}", "expected a range within 4 bytes, got [3, 1]"},
      {"size", "{" U8("a", "3", "0", "4") "}", "3 elements of U8 are 3 bytes, got a range of 4"},
      {"overlap", "{" U8("a", "3", "0", "3") "," U8("b", "2", "2", "4") "}",
       "tensor \"b\": overlaps another: begins at 2, expected 3"},
      {"same", "{" U8("a", "4", "0", "4") "," U8("b", "4", "0", "4") "}", "overlaps another"},
      {"hole", "{" U8("a", "1", "0", "1") "," U8("b", "2", "2", "4") "}",
       "tensor \"b\": has a hole before it: begins at 2, expected 1"},
      {"hole first", "{" U8("a", "3", "1", "4") "}", "has a hole before it"},
      {"rest", "{" U8("a", "3", "0", "3") "}", "tensors end at 3, but there are 4 bytes"},
      {"nothing", "{}", "tensors end at 0, but there are 4 bytes"},
      {"metadata array", "{\"__metadata__\":[]}", "expected an object of strings, got an array"},
      {"metadata number", "{\"__metadata__\":{\"a\":1}}", "expected only strings, got a number"},
      {"metadata NUL", "{\"__metadata__\":{\"a\":\"\\u0000\"}}", "\"a\" contains a NUL"},
      {"name NUL", "{" U8("a\\u0000b", "4", "0", "4") "}", "tensor 0: its name contains a NUL"},
  };
  sn_ctx *ctx = new_ctx();
  char file[1000];
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (!test_begin("%s", rows[i].name))
      continue;
    sn_safetensors *st;
    size_t size = make_file(file, rows[i].header, "abcd", 4);
    sn_status status = safetensors_open_bytes(ctx, file, size, &st);
    CHECK_EQ_INT(status, strcmp(rows[i].name, "rank") == 0 ? SN_ERR_UNSUPPORTED : SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].message);
    CHECK(st == NULL);
    sn_safetensors_close(st);
    test_end();
  }
  sn_ctx_destroy(ctx);
}

TEST(header_lengths_are_checked) {
  sn_ctx *ctx = new_ctx();
  sn_safetensors *st;
  static const uint64_t lengths[] = {3, 100000001, UINT64_MAX, UINT64_MAX - 7, 1u << 31};
  for (size_t i = 0; i < COUNT_OF(lengths); i++) {
    char file[10] = "........{}";
    memcpy(file, &lengths[i], 8);
    CHECK_EQ_INT(safetensors_open_bytes(ctx, file, 10, &st), SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(ctx), "header length: expected at most 100000000");
  }
  for (size_t size = 0; size < 8; size++) {
    CHECK_EQ_INT(safetensors_open_bytes(ctx, "\0\0\0\0\0\0\0", size, &st), SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(ctx), "too short");
  }
  CHECK_EQ_INT(safetensors_open_bytes(ctx, "\2\0\0\0\0\0\0\0{}", 10, &st), SN_OK);
  CHECK_EQ_UINT(sn_safetensors_count(st), 0);
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
}

/* --- models --- */

static void put_shard(const char *folder, const char *name, const char *header, const char *data) {
  char file[1000];
  size_t size = make_file(file, header, data, strlen(data));
  files_put(files_in(folder, name), file, size);
}

static const char *new_model(const char *name, const char *index) {
  const char *folder = test_scratch(name);
  CHECK_EQ_INT(mkdir(folder, 0777), 0);
  put_shard(folder, "one", "{" U8("a", "2", "0", "2") "," U8("extra", "1", "2", "3") "}", "abx");
  put_shard(
      folder, "two",
      "{\"__metadata__\":{\"k\":\"v\"}," U8("b", "1", "0", "1") "," U8("c", "2", "1", "3") "}",
      "cde");
  if (index)
    files_put_text(files_in(folder, "model.safetensors.index.json"), index);
  return folder;
}

TEST(models_of_shards) {
  sn_ctx *ctx = new_ctx();
  sn_safetensors *st;
  const char *folder =
      new_model("shards", "{\"metadata\":{\"total_size\":5},"
                          "\"weight_map\":{\"c\":\"two\",\"a\":\"one\",\"b\":\"two\"}}");
  if (!CHECK_EQ_INT(sn_safetensors_open_model(ctx, folder, &st), SN_OK))
    FAIL("%s", sn_ctx_message(ctx));
  REQUIRE(st != NULL);
  CHECK_EQ_UINT(sn_safetensors_count(st), 3);
  static const char *const names[] = {"c", "a", "b"}, *const values[] = {"de", "ab", "c"};
  for (size_t i = 0; i < 3; i++) {
    char got[4] = {0};
    const sn_safetensors_tensor *t = sn_safetensors_find(st, names[i]);
    CHECK_EQ_PTR(t, sn_safetensors_at(st, i));
    CHECK(t->index == i && strcmp(t->name, names[i]) == 0);
    CHECK_EQ_INT(sn_safetensors_read(st, i, SN_U8, got, t->count), SN_OK);
    CHECK_EQ_STR(got, values[i]);
  }
  CHECK(sn_safetensors_find(st, "extra") == NULL);
  CHECK_EQ_STR(sn_safetensors_metadata(st, "k"), "v");
  sn_safetensors_close(st);
  put_shard(folder, "model.safetensors", "{" U8("only", "1", "0", "1") "}", "x");
  REQUIRE(sn_safetensors_open_model(ctx, folder, &st) == SN_OK); /* the single file goes first */
  CHECK(sn_safetensors_count(st) == 1 && sn_safetensors_find(st, "only"));
  sn_safetensors_close(st);
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
}

TEST_WALK(refused_models) {
  static const struct {
    const char *name, *index, *message;
    sn_status status;
  } rows[] = {
      {"no index", NULL, "expected model.safetensors or model.safetensors.index.json",
       SN_ERR_NOT_FOUND},
      {"json", "{", "index.json: 1:2: expected", SN_ERR_FORMAT},
      {"no map", "{}", "weight_map: expected an object, got nothing", SN_ERR_FORMAT},
      {"map array", "{\"weight_map\":[]}", "weight_map: expected an object, got", SN_ERR_FORMAT},
      {"number", "{\"weight_map\":{\"a\":1}}", "\"a\": expected the name of a file", SN_ERR_FORMAT},
      {"empty", "{\"weight_map\":{\"a\":\"\"}}", "expected the name of a file", SN_ERR_FORMAT},
      {"dot", "{\"weight_map\":{\"a\":\".\"}}", "expected the name of a file", SN_ERR_FORMAT},
      {"parent", "{\"weight_map\":{\"a\":\"..\"}}", "expected the name of a file", SN_ERR_FORMAT},
      {"escape", "{\"weight_map\":{\"a\":\"../one\"}}", "got the path ../one", SN_ERR_FORMAT},
      {"inner", "{\"weight_map\":{\"a\":\"x/../../one\"}}", "got the path x/..", SN_ERR_FORMAT},
      {"absolute", "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "got the path", SN_ERR_FORMAT},
      {"backslash", "{\"weight_map\":{\"a\":\"..\\\\one\"}}", "got the path", SN_ERR_FORMAT},
      {"NUL", "{\"weight_map\":{\"a\":\"one\\u0000\"}}", "got no plain text", SN_ERR_FORMAT},
      {"key NUL", "{\"weight_map\":{\"a\\u0000\":\"one\"}}", "name contains a NUL", SN_ERR_FORMAT},
      {"no shard", "{\"weight_map\":{\"a\":\"one\",\"b\":\"none\"}}", "none: cannot open",
       SN_ERR_FORMAT},
      {"not in shard", "{\"weight_map\":{\"a\":\"two\"}}", "\"a\": not found in", SN_ERR_FORMAT},
      {"metadata", "{\"weight_map\":{\"__metadata__\":\"two\"}}", "not found in", SN_ERR_FORMAT},
      {"bad shard", "{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}",
       "header length: expected", SN_ERR_FORMAT},
  };
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (!test_begin("%s", rows[i].name))
      continue;
    sn_safetensors *st;
    const char *folder = new_model(rows[i].name, rows[i].index);
    CHECK_EQ_INT(sn_safetensors_open_model(ctx, folder, &st), rows[i].status);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].message);
    CHECK(st == NULL);
    files_remove_folder(folder);
    test_end();
  }
  sn_ctx_destroy(ctx);
}

/* --- faults --- */

static sn_status load_model(sn_ctx *ctx, const char *folder) {
  sn_safetensors *st = NULL;
  char got[4];
  sn_status status = sn_safetensors_open_model(ctx, folder, &st);
  for (size_t i = 0; status == SN_OK && i < sn_safetensors_count(st); i++)
    status = sn_safetensors_read(st, i, SN_U8, got, sn_safetensors_at(st, i)->count);
  sn_safetensors_close(st);
  return status;
}

/* Every allocation fails in turn, alone or with all after it. */
static void sweep_memory(const char *folder, bool persistent) {
  fault_heap heap = {.persistent = persistent};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_status status = ctx ? load_model(ctx, folder) : SN_ERR_NO_MEMORY;
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  CHECK(heap.fail_at > 10);
}

TEST(failing_allocations_are_survived) {
  const char *folder =
      new_model("sweep", "{\"weight_map\":{\"c\":\"two\",\"a\":\"one\",\"b\":\"two\"}}");
  sweep_memory(folder, false);
  sweep_memory(folder, true);
  put_shard(folder, "model.safetensors", "{" U8("only", "1", "0", "1") "}", "x");
  sweep_memory(folder, false);
  files_remove_folder(folder);
}

TEST(failing_file_operations_are_survived) {
  const char *folder =
      new_model("io", "{\"weight_map\":{\"c\":\"two\",\"a\":\"one\",\"b\":\"two\"}}");
  for (int64_t at = 1, failed = 1; failed; at++) {
    fault_heap heap = {0};
    sn_ctx *ctx = fault_ctx(&heap);
    fault_io io = {.only = -1, .at = at, .error = EIO};
    fault_io_install(ctx, &io);
    sn_status status = load_model(ctx, folder);
    CHECK_EQ_INT(status, io.failed && io.last != IO_CLOSE ? SN_ERR_IO : SN_OK);
    sn_ctx_destroy(ctx);
    CHECK_EQ_INT(heap.blocks, 0);
    failed = io.failed;
    CHECK(at < 100);
  }
  files_remove_folder(folder);
}
