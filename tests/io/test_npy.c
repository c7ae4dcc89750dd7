/* npy files: what numpy wrote (tools/oracle/make_npy_fixtures.py), every broken header, writing, faults. */
#include "io/npy.h"
#include "ir/dtype.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 1024 };

static const char *fixture(const char *name) {
  static char relative[128];
  snprintf(relative, sizeof relative, "tests/fixtures/npy/%s.npy", name);
  return test_source(relative);
}

static sn_ctx *new_ctx(void) {
  sn_ctx *ctx;
  CHECK_EQ_INT(sn_ctx_create(NULL, &ctx), SN_OK);
  return ctx;
}

/* --- reading what numpy wrote --- */

/* The script's formula. */
static double element(const char *dtype_name, int64_t k) {
  if (strstr(dtype_name, "b1"))
    return k % 3 == 0;
  return (double)(k * 7 % 11 - (strchr(dtype_name, 'u') ? 0 : 3));
}

static void check_elements(sn_npy *npy, sn_dtype dtype) {
  static double data[MOST];
  const sn_npy_array *a = sn_npy_get(npy);
  REQUIRE(a->count <= MOST);
  CHECK_EQ_INT(sn_npy_read(npy, dtype, data, a->count), SN_OK);
  for (int64_t k = 0; k < a->count; k++)
    if (dtype_load(dtype, data, k) != element(a->dtype_name, k))
      FAIL("%s as %s: element %lld is %g", a->dtype_name, sn_dtype_name(dtype), (long long)k,
           dtype_load(dtype, data, k));
}

TEST_WALK(fixtures) {
  static const struct {
    const char *name, *dtype_name;
    sn_dtype dtype; /* of the file */
    sn_shape shape;
    sn_dtype as[4]; /* what else it is read as */
  } rows[] = {
      {"f2", "<f2", SN_F16, {2, {3, 4}}, {SN_F32, SN_BF16}},
      {"f4", "<f4", SN_F32, {2, {3, 4}}, {SN_F16, SN_BF16}},
      {"f8", "<f8", SN_NO_DTYPE, {2, {3, 4}}, {SN_F32, SN_F16, SN_BF16}},
      {"i1", "|i1", SN_NO_DTYPE, {2, {3, 4}}, {SN_I32}},
      {"i2", "<i2", SN_NO_DTYPE, {2, {3, 4}}, {SN_I32}},
      {"i4", "<i4", SN_I32, {2, {3, 4}}, {SN_NO_DTYPE}},
      {"i8", "<i8", SN_NO_DTYPE, {2, {3, 4}}, {SN_I32}},
      {"u1", "|u1", SN_U8, {2, {3, 4}}, {SN_I32}},
      {"u2", "<u2", SN_NO_DTYPE, {2, {3, 4}}, {SN_U8, SN_I32}},
      {"u4", "<u4", SN_NO_DTYPE, {2, {3, 4}}, {SN_U8, SN_I32}},
      {"u8", "<u8", SN_NO_DTYPE, {2, {3, 4}}, {SN_U8, SN_I32}},
      {"b1", "|b1", SN_BOOL, {2, {3, 4}}, {SN_U8, SN_I32}},
      {"scalar", "<f4", SN_F32, {0, {0}}, {SN_F16}},
      {"vector", "<i4", SN_I32, {1, {5}}, {SN_NO_DTYPE}},
      {"empty", "<f4", SN_F32, {3, {3, 0, 2}}, {SN_F16}},
      {"deep", "|u1", SN_U8, {8, {1, 2, 1, 2, 1, 2, 1, 2}}, {SN_I32}},
      {"fortran", "<f4", SN_F32, {3, {2, 3, 4}}, {SN_BF16}},
      {"fortran_i8", "<i8", SN_NO_DTYPE, {2, {40, 25}}, {SN_I32}},
      {"version_2", "<f4", SN_F32, {2, {3, 4}}, {SN_F16}},
      {"version_3", "<f4", SN_F32, {2, {3, 4}}, {SN_F16}},
  };
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    sn_npy *npy;
    if (!test_begin("%s", rows[i].name))
      continue;
    if (CHECK_EQ_INT(sn_npy_open(ctx, fixture(rows[i].name), &npy), SN_OK)) {
      const sn_npy_array *a = sn_npy_get(npy);
      CHECK_EQ_STR(a->dtype_name, rows[i].dtype_name);
      CHECK_EQ_INT(a->dtype, rows[i].dtype);
      CHECK_EQ_INT(a->shape.rank, rows[i].shape.rank);
      for (int d = 0; d < a->shape.rank; d++)
        CHECK_EQ_INT(a->shape.dim[d], rows[i].shape.dim[d]);
      if (a->dtype)
        check_elements(npy, a->dtype);
      for (int k = 0; rows[i].as[k]; k++)
        check_elements(npy, rows[i].as[k]);
    }
    sn_npy_close(npy);
    test_end();
  }
  sn_ctx_destroy(ctx);
}

/* Whether the file opens; then reading it so must fail. */
static void check_refused(const char *name, sn_dtype dtype, sn_status status, const char *message) {
  sn_ctx *ctx = new_ctx();
  sn_npy *npy;
  double data[16];
  sn_status got = sn_npy_open(ctx, fixture(name), &npy);
  if (got == SN_OK)
    got = sn_npy_read(npy, dtype, data, sn_npy_get(npy)->count);
  CHECK_EQ_INT(got, status);
  CHECK_STR_HAS(sn_ctx_message(ctx), name);
  CHECK_STR_HAS(sn_ctx_message(ctx), message);
  sn_npy_close(npy);
  sn_ctx_destroy(ctx);
}

TEST(refused_files) {
  check_refused("too_deep", SN_U8, SN_ERR_UNSUPPORTED, "more than 8 axes");
  check_refused("big_endian", SN_F32, SN_ERR_UNSUPPORTED, "'>f4'");
  check_refused("complex", SN_F32, SN_ERR_UNSUPPORTED, "'<c8'");
  check_refused("records", SN_F32, SN_ERR_UNSUPPORTED, "records");
  check_refused("f4", SN_I32, SN_ERR_UNSUPPORTED, "cannot read dtype <f4 as i32");
  check_refused("i4", SN_F32, SN_ERR_UNSUPPORTED, "cannot read dtype <i4 as f32");
  check_refused("i8", SN_F32, SN_ERR_UNSUPPORTED, "cannot read dtype <i8 as f32");
  check_refused("i8", SN_DTYPE_COUNT, SN_ERR_UNSUPPORTED, "as ");
  check_refused("no_such", SN_F32, SN_ERR_NOT_FOUND, "cannot open");
}

TEST(numbers_out_of_range) {
  check_refused("large_f8", SN_F32, SN_ERR_INVALID, "element 1 is out of the range of f32");
  check_refused("large_f8", SN_F16, SN_ERR_INVALID, "element 1 is out of the range of f16");
  check_refused("large_i8", SN_I32, SN_ERR_INVALID, "element 2 is out of the range of i32");
  check_refused("large_u8", SN_I32, SN_ERR_INVALID, "element 0 is out of the range of i32");
  check_refused("negative", SN_U8, SN_ERR_INVALID, "element 1 is out of the range of u8");
  check_refused("u1", SN_BOOL, SN_ERR_INVALID, "element 1 is out of the range of bool");
}

/* NaN, infinities, the sign of zero; what is too small becomes 0. */
TEST(odd_floats) {
  sn_ctx *ctx = new_ctx();
  sn_npy *npy;
  static const sn_dtype dtypes[] = {SN_F32, SN_F16, SN_BF16};
  REQUIRE(sn_npy_open(ctx, fixture("odd"), &npy) == SN_OK);
  for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
    float data[5];
    double x[5];
    CHECK_EQ_INT(sn_npy_read(npy, dtypes[t], data, 5), SN_OK);
    for (int64_t i = 0; i < 5; i++)
      x[i] = dtype_load(dtypes[t], data, i);
    CHECK(isnan(x[0]) && isinf(x[1]) && x[1] > 0 && isinf(x[2]) && x[2] < 0);
    CHECK(x[3] == 0 && signbit(x[3]) && x[4] == 0 && !signbit(x[4]));
  }
  CHECK_EQ_INT(sn_npy_read(npy, SN_F32, NULL, 4), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "expected a buffer of 5 elements, got 4");
  sn_npy_close(npy);
  sn_ctx_destroy(ctx);
}

/* --- broken headers --- */

/* A file of version 1 with this header and so many bytes behind it, all 7. */
static sn_status open_header(sn_ctx *ctx, const char *header, size_t data, sn_npy **out) {
  static char bytes[4096];
  size_t n = strlen(header);
  memcpy(bytes, "\x93NUMPY\x01\x00", 8);
  bytes[8] = (char)(n & 255);
  bytes[9] = (char)(n >> 8);
  memcpy(bytes + 10, header, n);
  memset(bytes + 10 + n, 7, data);
  return npy_open_bytes(ctx, bytes, 10 + n + data, out);
}

#define DESCR "'descr': '<f4', 'fortran_order': False, "

TEST_WALK(headers) {
  static const struct {
    const char *header;
    size_t data;
    const char *error; /* NULL: it opens */
  } rows[] = {
      {"{" DESCR "'shape': (2,), }\n", 8, NULL},
      {"{" DESCR "'shape': (2,)}", 8, NULL},
      {"{\"shape\":(2,1),\"fortran_order\":True,\"descr\":\"<f4\"}", 8, NULL},
      {"{" DESCR "'shape': ( 2 , ) , } \n ", 8, NULL},
      {"{" DESCR "'shape': ()}", 4, NULL},
      {"{" DESCR "'shape': (2)}", 8, "',' behind the only size"},
      {"{" DESCR "'shape': (,)}", 8, "expected a size"},
      {"{" DESCR "'shape': (-2,)}", 8, "expected a size"},
      {"{" DESCR "'shape': (2 3)}", 8, "expected ',' or ')'"},
      {"{" DESCR "'shape': (2,", 8, "expected a size"},
      {"{" DESCR "'shape': [2]}", 8, "expected '('"},
      {"{" DESCR "'shape': (2,)", 8, "expected ',' or '}'"},
      {"{" DESCR "'shape': (2,)} x", 8, "expected nothing behind '}'"},
      {"{" DESCR "'shape': (2,), 'shape': (2,)}", 8, "key 'shape' is there twice"},
      {"{" DESCR "'form': (2,)}", 8, "key 'form' is unknown"},
      {"{" DESCR "}", 8, "key 'shape' is missing"},
      {"{'fortran_order': False, 'shape': (2,)}", 8, "key 'descr' is missing"},
      {"{'descr': '<f4', 'shape': (2,)}", 8, "key 'fortran_order' is missing"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", 8, "expected True or False"},
      {"{'descr': 4, 'fortran_order': False, 'shape': (2,)}", 8, "expected a string"},
      {"{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}", 8, "dtype '<f4, '"},
      {"{'descr': '', 'fortran_order': False, 'shape': (2,)}", 8, "dtype ''"},
      {"{'descr': '|f4', 'fortran_order': False, 'shape': (2,)}", 8, "dtype '|f4'"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (2,)}", 8, "expected ':'"},
      {"{" DESCR "'shape': (2,)}", 7, "2 elements of <f4 are 8 bytes, got 7"},
      {"{" DESCR "'shape': (2,)}", 9, "2 elements of <f4 are 8 bytes, got 9"},
      {"{" DESCR "'shape': (0, 9223372036854775807, 9223372036854775807)}", 0, "overflows"},
      {"{" DESCR "'shape': (0, 4611686018427387904)}", 0, "the number of bytes overflows"},
      {"{" DESCR "'shape': (3037000500, 3037000500)}", 0, "overflows"},
      {"{" DESCR "'shape': (9223372036854775808,)}", 0, "a smaller size"},
      {"{'descr': '<f4\\n', 'fortran_order': False, 'shape': (2,)}", 8, "plain short string"},
      {"{'descr': '<f4<f4<f4<f4<f4<f4', 'shape': (2,)}", 8, "plain short string"},
      {"", 0, "expected '{'"},
  };
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    sn_npy *npy;
    if (!test_begin("%zu", i))
      continue;
    sn_status status = open_header(ctx, rows[i].header, rows[i].data, &npy);
    if ((status == SN_OK) != !rows[i].error)
      FAIL("%s: %s", rows[i].header, sn_status_name(status));
    if (rows[i].error)
      CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].error);
    sn_npy_close(npy);
    test_end();
  }
  sn_ctx_destroy(ctx);
}

TEST(broken_preambles) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *error;
  } rows[] = {{"", 0, "not an npy file"},
              {"\x93NUMPY\x01\x00\x01", 9, "not an npy file"},
              {"\x93NUMPX\x01\x00\x01\x00{", 11, "not an npy file"},
              {"\x93NUMPY\x04\x00\x01\x00{", 11, "version 4.0"},
              {"\x93NUMPY\x01\x01\x01\x00{", 11, "version 1.1"},
              {"\x93NUMPY\x01\x00\x02\x00{", 11, "header length"},
              {"\x93NUMPY\x02\x00\x00\x00\x00", 11, "header length"},
              {"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14, "got 4294967295"}};
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    sn_npy *npy;
    CHECK(npy_open_bytes(ctx, rows[i].bytes, rows[i].size, &npy) != SN_OK && !npy);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].error);
  }
  sn_ctx_destroy(ctx);
}

/* Within the file, but longer than any shape needs. */
TEST(a_long_header) {
  enum { LONGEST = 65535, MORE = 65536 };
  static const char header[] = "{" DESCR "'shape': (0,)}";
  static char bytes[12 + MORE];
  sn_ctx *ctx = new_ctx();
  sn_npy *npy;
  memset(bytes, ' ', sizeof bytes);
  memcpy(bytes, "\x93NUMPY\x02\x00\xff\xff\x00\x00", 12);
  memcpy(bytes + 12, header, sizeof header - 1);
  CHECK_EQ_INT(npy_open_bytes(ctx, bytes, 12 + LONGEST, &npy), SN_OK);
  sn_npy_close(npy);
  memcpy(bytes + 8, "\x00\x00\x01\x00", 4);
  CHECK_EQ_INT(npy_open_bytes(ctx, bytes, 12 + MORE, &npy), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "header length: expected at most 65535");
  sn_npy_close(npy);
  sn_ctx_destroy(ctx);
}

/* A bool that is neither 0 nor 1 does not come in. */
TEST(bools_are_checked) {
  sn_ctx *ctx = new_ctx();
  sn_npy *npy;
  unsigned char data[2];
  REQUIRE(open_header(ctx, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 2, &npy) ==
          SN_OK);
  CHECK_EQ_INT(sn_npy_read(npy, SN_BOOL, data, 2), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_npy_read(npy, SN_U8, data, 2), SN_ERR_INVALID);
  sn_npy_close(npy);
  sn_ctx_destroy(ctx);
}

TEST(not_a_file) {
  sn_ctx *ctx = new_ctx();
  sn_npy *npy;
  const char *pipe = test_scratch("pipe.npy");
  CHECK_EQ_INT(mkfifo(pipe, 0666), 0);
  CHECK_EQ_INT(sn_npy_open(ctx, pipe, &npy), SN_ERR_IO);
  CHECK_EQ_INT(sn_npy_open(ctx, "/dev/zero", &npy), SN_ERR_IO);
  CHECK_EQ_INT(sn_npy_open(ctx, "/", &npy), SN_ERR_IO);
  sn_ctx_destroy(ctx);
}

/* --- writing --- */

static void check_round_trip(sn_ctx *ctx, sn_dtype dtype, sn_shape shape, const char *dtype_name) {
  unsigned char data[64], again[64];
  const char *path = test_scratch("round.npy");
  int64_t count = 1;
  sn_npy *npy;
  for (int d = 0; d < shape.rank; d++)
    count *= shape.dim[d];
  for (int64_t i = 0; i < count; i++)
    dtype_store(dtype, data, i, dtype == SN_BOOL ? (double)(i & 1) : (double)(3 * i + 1));
  CHECK_EQ_INT(sn_npy_write(ctx, path, (sn_type){dtype, shape}, data), SN_OK);
  if (!CHECK_EQ_INT(sn_npy_open(ctx, path, &npy), SN_OK))
    return;
  const sn_npy_array *a = sn_npy_get(npy);
  CHECK_EQ_STR(a->dtype_name, dtype_name);
  CHECK_EQ_INT(a->shape.rank, shape.rank);
  CHECK_EQ_INT(a->count, count);
  CHECK_EQ_INT(sn_npy_read(npy, dtype, again, count), SN_OK);
  CHECK(memcmp(data, again, (size_t)count * sn_dtype_size(dtype)) == 0);
  sn_npy_close(npy);
}

TEST(writes_what_it_reads) {
  sn_ctx *ctx = new_ctx();
  check_round_trip(ctx, SN_F32, (sn_shape){2, {3, 4}}, "<f4");
  check_round_trip(ctx, SN_F16, (sn_shape){1, {7}}, "<f2");
  check_round_trip(ctx, SN_BF16, (sn_shape){3, {1, 5, 2}}, "<f4");
  check_round_trip(ctx, SN_I32, (sn_shape){0, {0}}, "<i4");
  check_round_trip(ctx, SN_U8, (sn_shape){2, {0, 4}}, "|u1");
  check_round_trip(ctx, SN_BOOL, (sn_shape){1, {1}}, "|b1");
  sn_ctx_destroy(ctx);
}

/* The same bytes as numpy's, for an array of its own. */
TEST(writes_what_numpy_writes) {
  sn_ctx *ctx = new_ctx();
  unsigned char file[176];
  float data[12];
  const char *path = test_scratch("same.npy");
  for (int k = 0; k < 12; k++)
    data[k] = (float)element("f4", k);
  CHECK_EQ_INT(sn_npy_write(ctx, path, (sn_type){SN_F32, {2, {3, 4}}}, data), SN_OK);
  FILE *f = fopen(fixture("f4"), "rb");
  REQUIRE(f != NULL);
  CHECK_EQ_INT(fread(file, 1, sizeof file, f), sizeof file);
  fclose(f);
  CHECK(files_hold(path, file, sizeof file));
  sn_ctx_destroy(ctx);
}

TEST(refuses_to_write) {
  sn_ctx *ctx = new_ctx();
  const char *path = test_scratch("bad.npy");
  CHECK_EQ_INT(sn_npy_write(ctx, path, (sn_type){SN_NO_DTYPE, {0, {0}}}, NULL), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_npy_write(ctx, path, (sn_type){SN_F32, {1, {-1}}}, NULL), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_npy_write(ctx, path, (sn_type){SN_F32, {2, {INT64_MAX, 2}}}, NULL),
               SN_ERR_INVALID);
  CHECK_EQ_INT(sn_npy_write(ctx, test_scratch("no/such.npy"), (sn_type){SN_F32, {1, {0}}}, NULL),
               SN_ERR_NOT_FOUND);
  FILE *f = fopen(path, "rb");
  CHECK(f == NULL);
  sn_ctx_destroy(ctx);
}

/* --- faults --- */

static sn_status read_and_write(sn_ctx *ctx, const char *path) {
  float data[24];
  sn_npy *npy;
  SN_TRY(sn_npy_open(ctx, fixture("fortran"), &npy));
  sn_status status = sn_npy_read(npy, SN_F32, data, 24);
  if (status == SN_OK)
    status = sn_npy_write(ctx, path, (sn_type){SN_F32, {3, {2, 3, 4}}}, data);
  sn_npy_close(npy);
  return status;
}

TEST(no_memory) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_status status = ctx ? read_and_write(ctx, test_scratch("memory.npy")) : SN_ERR_NO_MEMORY;
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}

TEST(failing_files) {
  for (int64_t at = 1;; at++) {
    sn_ctx *ctx = new_ctx();
    fault_io io = {.only = -1, .at = at, .error = 5};
    fault_io_install(ctx, &io);
    sn_status status = read_and_write(ctx, test_scratch("io.npy"));
    bool failed = io.failed > 0;
    CHECK(status == SN_OK || (failed && status == SN_ERR_IO));
    sn_ctx_destroy(ctx);
    if (!failed)
      break;
  }
}
