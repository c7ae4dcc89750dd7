/* sinew run, as a user runs it: wrong usage, bad files, what is given and what is drawn, symbols, states, files that go
 * round, devices and options compared. Comparing itself is tested on results made by hand. */
#include "cli/run.h"
#include "support/command.h"
#include "support/files.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUN(...) command_run(command_sinew(), "run", __VA_ARGS__, (char *)NULL)

static sn_ctx *ctx;

static bool start(void) { return CHECK_EQ_INT(sn_ctx_create(NULL, &ctx), SN_OK); }

static const char *graph(const char *name) {
  static char relative[128];
  snprintf(relative, sizeof relative, "tests/fixtures/run/%s.txt", name);
  return test_source(relative);
}

static void check_fails(command_result r, int code, const char *message) {
  CHECK_EQ_INT(r.code, code);
  CHECK_STR_HAS(r.err, message);
  command_free(&r);
}

/* Each part must be in what is printed. */
static void check_prints(command_result r, int code, const char *const *parts) {
  if (r.code != code)
    FAIL("exit %d, expected %d\n%s%s", r.code, code, r.out, r.err);
  for (; *parts; parts++)
    CHECK_STR_HAS(r.out, *parts);
  command_free(&r);
}

#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* --- wrong usage, bad graphs --- */

TEST(wrong_usage) {
  const char *g = graph("affine");
  check_fails(command_run(command_sinew(), "run", (char *)NULL), 2, "missing: GRAPH.txt");
  check_fails(RUN(g, g), 2, "unexpected argument");
  check_fails(RUN(g, "--in", "x.csv"), 2, "ends in .npy or .safetensors, got \"x.csv\"");
  check_fails(RUN(g, "--out", "y.txt"), 2, "--out: expected a file that ends in");
  check_fails(RUN(g, "--runs", "0"), 2, "--runs: expected 1 … 1000000, got 0");
  check_fails(RUN(g, "--runs", "x"), 2, "--runs: not a whole number");
  check_fails(RUN(g, "--seed", "-1"), 2, "--seed: expected 0 …");
  check_fails(RUN(g, "--draw-int", "-1"), 2, "--draw-int: expected 0 …");
  check_fails(RUN(g, "--tolerance", "1"), 2, "--tolerance means nothing without --compare");
  check_fails(RUN(g, "--compare", "ref", "--tolerance", "-2"), 2, "--tolerance must not be");
  check_fails(RUN(g, "--compare", "abacus"), 2, "there is no \"abacus\"");
  check_fails(RUN(g, "--device", "abacus"), 2, "there is no \"abacus\"");
  check_fails(RUN(g, "--threads", "1025"), 2, "--threads: expected 0 … 1024");
  check_fails(RUN(g, "--precision", "poor"), 2, "--precision: expected exact, fast or half");
  check_fails(RUN(g, "--plan-cache", "/no/such"), 1, "--plan-cache: /no/such: No such file");
  check_fails(RUN(g, "--out", test_scratch("no/such/y.npy")), 1, "y.npy: cannot be written");
}

/* An option that is repeated more often than there is room for. */
TEST(too_many_values) {
  static cli_texts texts;
  static const cli_option rows[] = {{"--in", "FILE", CLI_TEXTS, 0, false, "values"},
                                    {NULL, NULL, CLI_FLAG, 0, false, NULL}};
  static const cli_command command = {"try", "", rows, NULL, NULL};
  static char name[] = "--in", value[] = "x";
  char *argv[2 * CLI_MOST_TEXTS + 2];
  for (int i = 0; i < 2 * CLI_MOST_TEXTS + 2; i++)
    argv[i] = i % 2 ? value : name;
  CHECK(cli_parse(&command, 2 * CLI_MOST_TEXTS, argv, &texts));
  CHECK_EQ_INT(texts.n, CLI_MOST_TEXTS);
  texts.n = 0;
  CHECK(!cli_parse(&command, 2 * CLI_MOST_TEXTS + 2, argv, &texts));
}

/* Nothing waits for a pipe or reads a device without end. */
TEST(graphs_that_are_none) {
  const char *path = test_scratch("bad.txt"), *pipe = test_scratch("pipe.txt");
  CHECK_EQ_INT(mkfifo(pipe, 0666), 0);
  check_fails(RUN(test_scratch("none.txt")), 1, "none.txt: cannot open");
  check_fails(RUN(pipe), 1, "expected a regular file");
  check_fails(RUN("/dev/zero"), 1, "/dev/zero: expected a regular file");
  check_fails(RUN("/"), 1, "expected a regular file, got a folder");
  files_put_text(path, "%1 = input() name=\"x\"\n%2 = softmax(%1 axis=0\n");
  check_fails(RUN(path), 1, "bad.txt: graph text 2:17: expected ')', got 'axis=0'");
  files_put_text(path, "%1 = input() name=\"x\" shape=[2]\n");
  check_fails(RUN(path), 1, "bad.txt: the graph has no outputs and assigns nothing");
}

/* --- symbols --- */

TEST(symbols) {
  const char *g = graph("affine");
  check_prints(RUN(g), 0, PARTS("symbol n = 6: its maximum\n", "output y f32[6, 3]\n"));
  check_prints(RUN(g, "--bind", "n=2"), 0, PARTS("symbol n = 2: given\n", "output y f32[2, 3]\n"));
  check_prints(RUN(g, "--bind=n=0"), 0, PARTS("output y f32[0, 3]\n    no elements\n"));
  check_fails(RUN(g, "--bind", "n"), 1, "--bind: expected SYMBOL=N, a whole number, got \"n\"");
  check_fails(RUN(g, "--bind", "n="), 1, "--bind: expected SYMBOL=N");
  check_fails(RUN(g, "--bind", "n=2x"), 1, "--bind: expected SYMBOL=N");
  check_fails(RUN(g, "--bind", "n=7"), 1, "--bind: symbol n: expected 0 … 6, got 7");
  check_fails(RUN(g, "--bind", "n=-1"), 1, "--bind: symbol n: expected 0 … 6, got -1");
  check_fails(RUN(g, "--bind", "m=1"), 1, "--bind: the graph has no symbol \"m\"");
  check_fails(RUN(g, "--bind", "n=1", "--bind", "n=1"), 1, "symbol n is given twice");
}

static const char *put_npy(const char *name, sn_dtype dtype, sn_shape shape, const void *data) {
  const char *path = test_scratch(name);
  CHECK_EQ_INT(sn_npy_write(ctx, path, (sn_type){dtype, shape}, data), SN_OK);
  return path;
}

static const float numbers[64] = {1, -2, 3.5f, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* 2·n + 1 gives n, then n·m gives m; k is not known. */
TEST(symbols_from_shapes) {
  if (!start())
    return;
  const char *g = graph("shapes");
  const char *a = put_npy("a.npy", SN_F32, SN_SHAPE(7), numbers);
  const char *c = put_npy("c.npy", SN_F32, SN_SHAPE(12), numbers);
  const char *even = put_npy("even.npy", SN_F32, SN_SHAPE(8), numbers);
  check_prints(RUN(g, "--in", c, "--in", a), 0,
               PARTS("symbol n = 3: from the shape of a\n", "symbol m = 4: from the shape of c\n",
                     "symbol k = 5: its maximum\n", "output c out f32[12]\n    1 -2 3.5"));
  check_prints(RUN(g, "--in", a, "--bind", "m=5"), 0,
               PARTS("symbol m = 5: given\n", "input c f32[15]: drawn\n"));
  check_fails(RUN(g, "--in", a, "--bind", "n=2"), 1, "a.npy: a: expected f32[5], got f32[7]");
  /* n + k alone tells neither; where n is known, it tells k. */
  const char *e = put_npy("e.npy", SN_F32, SN_SHAPE(5), numbers);
  check_fails(RUN(g, "--in", e), 1, "e.npy: e: expected f32[11], got f32[5]");
  check_prints(RUN(g, "--in", e, "--in", a), 0, PARTS("symbol k = 2: from the shape of e\n"));
  char in[600];
  snprintf(in, sizeof in, "a=%s", even);
  check_fails(RUN(g, "--in", in), 1, "even.npy: a: expected f32[13], got f32[8]");
  sn_ctx_destroy(ctx);
}

/* --- given values --- */

TEST(npy_files) {
  if (!start())
    return;
  const char *g = graph("affine");
  const float b = 0.5f;
  const int32_t whole[3] = {1, 2, 3};
  const char *x = put_npy("x.npy", SN_F32, SN_SHAPE(2, 3), numbers);
  const char *b_file = put_npy("offset.npy", SN_F32, SN_SCALAR, &b);
  const char *ints = put_npy("ints.npy", SN_I32, SN_SHAPE(3), whole);
  char named[600], state[600], y[600];
  snprintf(named, sizeof named, "b=%s", b_file);
  snprintf(state, sizeof state, "w=%s", put_npy("w.npy", SN_F32, SN_SHAPE(3), numbers));
  snprintf(y, sizeof y, "%s", test_scratch("y.npy"));
  check_prints(RUN(g, "--in", x, "--in", named, "--out", y), 0,
               PARTS("x.npy\n", "input b f32[]: from ", "state w f32[3]: as the graph says\n",
                     "output y f32[2, 3]\n    1.5 -1.5 4 4.5 5.5 6.5\n    min -1.5  max 6.5  "
                     "mean 3.41667  nan 0  inf 0  checksum ",
                     "state w f32[3]\n    2 2 2\n"));
  sn_npy *npy;
  float got[6] = {0};
  if (CHECK_EQ_INT(sn_npy_open(ctx, y, &npy), SN_OK))
    CHECK_EQ_INT(sn_npy_read(npy, SN_F32, got, 6), SN_OK);
  for (int i = 0; i < 6; i++)
    CHECK(got[i] == numbers[i] + b);
  sn_npy_close(npy);
  /* x by its name, what is left is b; a state by its name. */
  check_prints(RUN(g, "--in", x, "--in", b_file, "--in", state), 0,
               PARTS("input b f32[]: from ",
                     "output y f32[2, 3]\n    1.5 4.5 12.75 4.5 -9.5 21.5\n",
                     "state w f32[3]\n    2 -4 7\n"));
  check_fails(RUN(g, "--in", b_file), 1, "no input or state has the name of the file");
  check_fails(RUN(g, "--in", x, "--in", x), 1, "--in: x is given twice: by ");
  char wrong[600];
  snprintf(wrong, sizeof wrong, "w=%s", ints);
  check_fails(RUN(g, "--in", wrong), 1, "ints.npy: cannot read dtype <i4 as f32");
  snprintf(wrong, sizeof wrong, "w=%s", x);
  check_fails(RUN(g, "--in", wrong), 1, "x.npy: w: expected f32[3], got f32[2, 3]");
  snprintf(wrong, sizeof wrong, "u=%s", x);
  check_fails(RUN(g, "--in", wrong), 1, "--in: the graph has no input or state \"u\"");
  check_fails(RUN(g, "--in", "b=/no/such.npy"), 1, "/no/such.npy: cannot open");
  sn_ctx_destroy(ctx);
}

static const char *put_tensors(const char *name, const sn_safetensors_item *items, size_t n) {
  const char *path = test_scratch(name);
  CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, n, NULL, 0), SN_OK);
  return path;
}

TEST(safetensors_files) {
  if (!start())
    return;
  const char *g = graph("affine");
  const sn_safetensors_item all[] = {{"x", {SN_F32, SN_SHAPE(1, 3)}, numbers},
                                     {"w", {SN_F32, SN_SHAPE(3)}, numbers},
                                     {"other", {SN_F32, SN_SHAPE(2)}, numbers},
                                     {"b", {SN_F32, SN_SCALAR}, numbers + 3}};
  const char *file = put_tensors("all.safetensors", all, 4);
  const char *alien = put_tensors("alien.safetensors", &all[2], 1);
  char in[600];
  command_result r = RUN(g, "--in", file);
  CHECK_EQ_INT(r.code, 0);
  CHECK_STR_HAS(r.out, "output y f32[1, 3]\n    5 8 16.25\n");
  CHECK_STR_HAS(r.err, "1 of 4 tensors have no input or state of their name");
  command_free(&r);
  check_fails(RUN(g, "--in", alien), 1, "no tensor has the name of an input or a state");
  check_fails(RUN(g, "--in", file, "--in", file), 1, "x is given twice");
  snprintf(in, sizeof in, "b=%s", file);
  check_prints(RUN(g, "--in", in, "--bind", "n=1"), 0, PARTS("input x f32[1, 3]: drawn\n"));
  snprintf(in, sizeof in, "b=%s", alien); /* its only tensor, whatever its name */
  check_fails(RUN(g, "--in", in), 1, "alien.safetensors: b: expected f32[], got f32[2]");
  const sn_safetensors_item two[] = {all[0], all[1]};
  snprintf(in, sizeof in, "b=%s", put_tensors("two.safetensors", two, 2));
  check_fails(RUN(g, "--in", in), 1, "two.safetensors: no tensor \"b\"");
  sn_ctx_destroy(ctx);
}

/* A file with one tensor of so many elements; the writer knows no I64. */
static const char *put_i64(const char *name, const int64_t *data, int n) {
  char header[128], bytes[512];
  int length =
      snprintf(header, sizeof header,
               "{\"i\":{\"dtype\":\"I64\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", n, 8 * n);
  memcpy(bytes, &(uint64_t){(uint64_t)length}, 8);
  memcpy(bytes + 8, header, (size_t)length);
  memcpy(bytes + 8 + length, data, (size_t)n * sizeof *data);
  const char *path = test_scratch(name);
  files_put(path, bytes, 8 + (size_t)length + (size_t)n * sizeof *data);
  return path;
}

TEST(wide_whole_numbers) {
  const char *path = test_scratch("ids.txt");
  files_put_text(path, "%1 = input() name=\"i\" dtype=i32 shape=[3]\noutput \"o\" %1\n");
  check_prints(RUN(path, "--in", put_i64("good.safetensors", (int64_t[]){-5, 7, INT32_MAX}, 3)), 0,
               PARTS("output o i32[3]\n    -5 7 2147483647\n"));
  check_fails(RUN(path, "--in", put_i64("bad.safetensors", (int64_t[]){1, INT64_C(1) << 31, 0}, 3)),
              1, "bad.safetensors: tensor \"i\": element 1 is out of the range of i32");
}

/* A terminal is told nothing by the names in a file. */
TEST(names_are_shown_not_obeyed) {
  const char *path = test_scratch("names.txt");
  files_put_text(path,
                 "%1 = input() name=\"a\\x1b[2J\" dtype=u8 shape=[]\noutput \"b\\x7fc\" %1\n");
  command_result r = RUN(path, "--compare", "ref");
  CHECK(!strchr(r.out, 0x1b) && !strchr(r.out, 0x7f));
  check_prints(
      r, 0,
      PARTS("input a\\x1b[2J u8[]: drawn\n", "output b\\x7fc u8[]\n", "compare b\\x7fc: equal\n"));
}

/* A symbol whose maximum no memory holds: said, and mended with --bind. */
TEST(more_than_memory) {
  const char *path = test_scratch("huge.txt");
  files_put_text(path, "symbol n 70000000000000000\n"
                       "%1 = input() name=\"x\" dtype=f32 shape=[n, n, n]\noutput \"o\" %1\n");
  check_fails(RUN(path), 1, "huge.txt");
  files_put_text(path, "symbol n 70000000000000000\n"
                       "%1 = input() name=\"x\" dtype=f32 shape=[n]\noutput \"o\" %1\n");
  check_fails(RUN(path), 1, "x");
}

/* What a run writes is where the next one begins: three runs are two and one. */
TEST(states_go_on) {
  if (!start())
    return;
  const char *g = graph("affine"), *file = test_scratch("states.safetensors");
  check_prints(RUN(g, "--runs", "2", "--out", file), 0, PARTS("state w f32[3]\n    4 4 4\n"));
  check_prints(RUN(g, "--in", file), 0, PARTS("state w f32[3]\n    8 8 8\n"));
  check_prints(RUN(g, "--runs", "3"), 0, PARTS("state w f32[3]\n    8 8 8\n"));
  sn_safetensors *st;
  if (CHECK_EQ_INT(sn_safetensors_open(ctx, file, &st), SN_OK)) {
    const sn_safetensors_tensor *y = sn_safetensors_find(st, "y");
    CHECK(y && y->dtype == SN_F32 && y->shape.rank == 2 && y->shape.dim[0] == 6);
    CHECK_EQ_INT(sn_safetensors_count(st), 2);
  }
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
}

/* --- drawn values --- */

static char *printed(const char *seed, const char *most) {
  command_result r = RUN(graph("dtypes"), "--seed", seed, "--draw-int", most);
  CHECK_EQ_INT(r.code, 0);
  free(r.err);
  return r.out;
}

TEST(drawn_values_depend_on_the_seed) {
  char *a = printed("1", "3"), *b = printed("1", "3"), *c = printed("2", "3");
  CHECK_EQ_STR(a, b);
  CHECK(strcmp(a, c) != 0);
  free(a);
  free(b);
  free(c);
}

/* Least and most of drawn numbers, over all of an input. */
static void check_drawn(sn_dtype dtype, int64_t most, double least, double largest) {
  enum { COUNT = 4000 };
  static double room[COUNT];
  replay_leaf leaf = {.name = "x", .type = {dtype, SN_SHAPE(COUNT)}, .data = room};
  double lo = INFINITY, hi = -INFINITY, sum = 0;
  replay_draw(&leaf, &(replay_drawing){.seed = 5, .most = most});
  for (int64_t i = 0; i < COUNT; i++) {
    double x = replay_load(dtype, room, i);
    lo = x < lo ? x : lo;
    hi = x > hi ? x : hi;
    sum += x;
  }
  double width = largest - least;
  CHECK(lo >= least && lo <= least + width / 50);
  CHECK(hi <= largest && hi >= largest - width / 50);
  CHECK_NEAR(sum / COUNT, (least + largest) / 2, width / 25);
}

TEST(ranges_of_drawn_values) {
  check_drawn(SN_F32, 3, -2, 2);
  check_drawn(SN_F16, 3, -2, 2);
  check_drawn(SN_BF16, 3, -2, 2);
  check_drawn(SN_I32, 3, 0, 3);
  check_drawn(SN_I32, INT32_MAX, 0, INT32_MAX);
  check_drawn(SN_I32, 0, 0, 0);
  check_drawn(SN_U8, 7, 0, 7);
  check_drawn(SN_U8, 1000, 0, 255);
  check_drawn(SN_BOOL, 3, 0, 1);
}

/* All dtypes go into a file and come back as they were. */
TEST(every_dtype_goes_round) {
  if (!start())
    return;
  const char *file = test_scratch("dtypes.safetensors"), *back = test_scratch("in.safetensors");
  static const char *const names[] = {"f32", "f16", "bf16", "i32", "u8", "bool"};
  sn_safetensors_item items[6];
  static double data[6][500];
  sn_safetensors *st;
  command_result first = RUN(graph("dtypes"), "--out", file);
  CHECK_EQ_INT(first.code, 0);
  REQUIRE(sn_safetensors_open(ctx, file, &st) == SN_OK);
  for (int i = 0; i < 6; i++) {
    char name[16];
    snprintf(name, sizeof name, "%s out", names[i]);
    const sn_safetensors_tensor *t = sn_safetensors_find(st, name);
    REQUIRE(t != NULL);
    CHECK_EQ_STR(sn_dtype_name(t->dtype), names[i]);
    CHECK_EQ_INT(sn_safetensors_read(st, t->index, t->dtype, data[i], t->count), SN_OK);
    items[i] = (sn_safetensors_item){names[i], {t->dtype, t->shape}, data[i]};
  }
  sn_safetensors_close(st);
  CHECK_EQ_INT(sn_safetensors_write(ctx, back, items, 6, NULL, 0), SN_OK);
  command_result second = RUN(graph("dtypes"), "--in", back, "--seed", "9");
  const char *a = strstr(first.out, "output "), *b = strstr(second.out, "output ");
  CHECK_EQ_STR(a ? a : "none", b ? b : "nothing");
  command_free(&first);
  command_free(&second);
  check_fails(RUN(graph("dtypes"), "--out", test_scratch("one.npy")), 1,
              "one.npy holds one array, the graph has several outputs");
  sn_ctx_destroy(ctx);
}

/* --- devices and options --- */

TEST(devices_are_compared) {
  const char *g = graph("rounding");
  check_prints(RUN(g, "--device", "cpu", "--compare", "ref"), 0,
               PARTS("compare y: within tolerance (tolerance 0.0001); largest difference ",
                     ": cpu ", ", ref "));
  command_result r = RUN(g, "--device", "ref", "--compare", "cpu", "--tolerance", "0");
  CHECK_STR_HAS(r.err, "1 result differs");
  check_prints(r, 1, PARTS("compare y: DIFFERS in ", " of 4096; largest difference ", ": ref "));
  check_prints(RUN(g, "--device", "ref", "--compare", "ref", "--tolerance", "0"), 0,
               PARTS("compare y: equal\n"));
  check_prints(RUN(graph("dtypes"), "--compare", "ref", "--tolerance", "0"), 0,
               PARTS("compare bf16 out: equal\n", "compare bool out: equal\n"));
  check_prints(RUN(graph("affine"), "--compare", "ref", "--runs", "2"), 0,
               PARTS("compare y: equal (tolerance 0.0001)\n", "compare w: equal"));
}

/* All of them are taken and change nothing here; the plan is kept. */
TEST(options_of_sessions) {
  const char *plans = files_new_folder("plans");
  static const char *const parts[] = {"compare y: within tolerance", NULL};
  const char *g = graph("rounding");
  check_prints(RUN(g, "--device", "cpu", "--compare", "ref", "--no-fusion", "--no-optimizer"), 0,
               parts);
  check_prints(
      RUN(g, "--device", "cpu", "--compare", "ref", "--threads", "1", "--precision", "fast"), 0,
      parts);
  check_prints(RUN(g, "--compare", "ref", "--device", "cpu", "--plan-cache", plans), 0, parts);
  CHECK_EQ_INT(files_count(plans), 1);
  files_remove_folder(plans);
}

/* --- comparing, by hand --- */

typedef struct pair {
  float a, b;
} pair;

/* How many results differ of one with these numbers; what is printed is in *text. */
static int compared(const pair *p, int n, double tolerance, char text[256]) {
  float a[8], b[8];
  for (int i = 0; i < n; i++) {
    a[i] = p[i].a;
    b[i] = p[i].b;
  }
  run_result x = {"y", false, {SN_F32, SN_SHAPE(1, n)}, a, (size_t)n * sizeof *a}, y = x;
  y.data = b;
  FILE *out = fopen(test_scratch("compared"), "w+");
  if (!CHECK(out != NULL))
    return -1;
  int differ = run_compare(out, &(run_side){"one", &x, 1}, &(run_side){"two", &y, 1}, tolerance);
  rewind(out);
  text[fread(text, 1, 255, out)] = '\0';
  fclose(out);
  return differ;
}

TEST(what_counts_as_equal) {
  const float inf = INFINITY, nan = NAN;
  static const float up = 1.0000001f;
  const struct {
    pair p;
    double tolerance;
    bool differs;
  } rows[] = {{{1, 1}, 0, false},         {{1, up}, 0, true},        {{1, up}, 1e-6, false},
              {{nan, nan}, 0, false},     {{nan, -nan}, 0, false},   {{nan, 1}, 1, true},
              {{1, nan}, 1, true},        {{inf, inf}, 0, false},    {{inf, -inf}, 1, true},
              {{inf, 1e30f}, 1, true},    {{1e30f, inf}, 1, true},   {{0, -0.0f}, 0, true},
              {{0, -0.0f}, 1e-9, false},  {{100, 101}, 0.01, false}, {{100, 101}, 0.009, true},
              {{0.001f, 0}, 0.01, false}, {{0.02f, 0}, 0.01, true},  {{1, 1.00005f}, -1, false},
              {{1, 1.0002f}, -1, true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[256];
    int differ = compared(&rows[i].p, 1, rows[i].tolerance, text);
    if (differ != rows[i].differs)
      FAIL("%g and %g at %g: %s", (double)rows[i].p.a, (double)rows[i].p.b, rows[i].tolerance,
           text);
  }
}

TEST(where_the_largest_difference_is) {
  char text[256];
  CHECK_EQ_INT(compared((pair[]){{1, 1}, {2, 3}, {5, 9}, {7, 7}, {6, 2}}, 5, 0, text), 1);
  CHECK_EQ_STR(text,
               "compare y: DIFFERS in 3 of 5; largest difference 4 at [0, 2]: one 5, two 9\n");
  CHECK_EQ_INT(compared((pair[]){{1, 2}, {NAN, 3}}, 2, 2, text), 1);
  CHECK_EQ_STR(text,
               "compare y: DIFFERS in 1 of 2 (tolerance 2); largest difference inf at [0, 1]: "
               "one nan, two 3\n");
}

/* Whole numbers are equal or not; results of other types differ. */
TEST(types_are_compared) {
  int32_t a = 1000000, b = 1000001;
  run_result x = {"i", false, {SN_I32, SN_SCALAR}, &a, sizeof a}, y = x;
  FILE *out = fopen(test_scratch("types"), "w+");
  y.data = &b;
  run_side one = {"one", &x, 1}, two = {"two", &y, 1};
  REQUIRE(out != NULL);
  CHECK_EQ_INT(run_compare(out, &one, &two, 1), 1);
  y.type.dtype = SN_F32;
  CHECK_EQ_INT(run_compare(out, &one, &two, 1), 1);
  fclose(out);
}
