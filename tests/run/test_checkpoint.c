/* Checkpoints: a store to a file and back, weights from foreign files, and what faults may not do: leave half of a file in
 * the store as if it were whole, or change the old file on the way out. */
#include "base/half.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <errno.h>
#include <sinew/ops.h>
#include <sinew/session.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static sn_type type_of(sn_dtype dtype, sn_shape shape) { return (sn_type){dtype, shape}; }

/* Entries of every dtype: a matrix of odd size, a scalar, none at all. `salt` varies the values. */
static sn_status add_samples(sn_store *store, int salt) {
  const sn_shape shapes[] = {SN_SHAPE(3, 5), SN_SCALAR, SN_SHAPE(4, 0, 2)};
  for (int d = 1; d < SN_DTYPE_COUNT; d++)
    for (int k = 0; k < 3; k++) {
      unsigned char bytes[15 * 4];
      for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(d == SN_BOOL ? (i + (size_t)salt) % 2
                                                : i * 37 + (size_t)(d * 7 + salt));
      char name[32];
      snprintf(name, sizeof name, "%s %d", sn_dtype_name((sn_dtype)d), k);
      SN_TRY(sn_store_add(store, name, type_of((sn_dtype)d, shapes[k]), bytes));
    }
  return SN_OK;
}

static sn_store *new_store(sn_ctx *ctx) {
  sn_store *store = NULL;
  CHECK(sn_store_create(ctx, &store) == SN_OK);
  return store;
}

static sn_store *sample_store(sn_ctx *ctx, int salt) {
  sn_store *store = new_store(ctx);
  CHECK(add_samples(store, salt) == SN_OK);
  return store;
}

static sn_ctx *new_ctx(void) {
  sn_ctx *ctx = NULL;
  CHECK(sn_ctx_create(NULL, &ctx) == SN_OK);
  return ctx;
}

/* Whether the file, loaded into a store with samples, gives those of `salt`. */
static bool file_holds(const char *path, int salt) {
  sn_ctx *ctx = new_ctx();
  sn_store *want = sample_store(ctx, salt), *got = sample_store(ctx, salt + 1);
  bool same = CHECK(sn_store_load(got, path) == SN_OK);
  snapshot a = snapshot_take(want, false), b = snapshot_take(got, false);
  same = same && snapshot_equal(&a, &b);
  snapshot_free(&a);
  snapshot_free(&b);
  sn_store_destroy(want);
  sn_store_destroy(got);
  sn_ctx_destroy(ctx);
  return same;
}

static void save_samples(const char *path, int salt) {
  sn_ctx *ctx = new_ctx();
  sn_store *store = sample_store(ctx, salt);
  CHECK_EQ_INT(sn_store_save(store, path, NULL, 0), SN_OK);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* --- there and back --- */

TEST(every_dtype_and_size_comes_back) {
  const char *path = test_scratch("round.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = sample_store(ctx, 0), *empty = new_store(ctx);
  const sn_safetensors_pair note = {"step", "17"};
  CHECK_EQ_INT(sn_store_save(store, path, &note, 1), SN_OK);
  CHECK(file_holds(path, 0));
  /* Into an empty store: the entries are added. */
  CHECK_EQ_INT(sn_store_load(empty, path), SN_OK);
  CHECK_EQ_INT(sn_store_count(empty), sn_store_count(store));
  for (int i = 0; i < sn_store_count(store); i++) {
    sn_entry a, b;
    unsigned char x[64], y[64];
    REQUIRE(sn_store_at(store, i, &a) == SN_OK && sn_store_find(empty, a.name, &b) == SN_OK);
    CHECK_EQ_INT(a.type.dtype, b.type.dtype);
    CHECK_EQ_INT(a.type.shape.rank, b.type.shape.rank);
    CHECK_EQ_UINT(a.size, b.size);
    CHECK(sn_store_read(store, a.name, x, a.size) == SN_OK);
    CHECK(sn_store_read(empty, a.name, y, b.size) == SN_OK);
    CHECK_EQ_MEM(x, y, a.size);
  }
  sn_safetensors *file;
  REQUIRE(sn_safetensors_open(ctx, path, &file) == SN_OK);
  CHECK_EQ_STR(sn_safetensors_metadata(file, "step"), "17");
  sn_safetensors_close(file);
  sn_store_destroy(empty);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(an_open_checkpoint_stays_what_it_was) {
  const char *path = test_scratch("replaced.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = sample_store(ctx, 0), *want = sample_store(ctx, 1);
  sn_safetensors *file;
  save_samples(path, 1);
  REQUIRE(sn_safetensors_open(ctx, path, &file) == SN_OK);
  save_samples(path, 2);
  CHECK_EQ_INT(sn_store_load_file(store, file), SN_OK);
  snapshot a = snapshot_take(want, false), b = snapshot_take(store, false);
  CHECK(snapshot_equal(&a, &b));
  snapshot_free(&a);
  snapshot_free(&b);
  sn_safetensors_close(file);
  sn_store_destroy(want);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(an_empty_store_is_a_checkpoint_too) {
  const char *path = test_scratch("empty.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  CHECK_EQ_INT(sn_store_save(store, path, NULL, 0), SN_OK);
  CHECK_EQ_INT(sn_store_load(store, path), SN_OK);
  CHECK_EQ_INT(sn_store_count(store), 0);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(a_load_counts_versions_up) {
  const char *path = test_scratch("versions.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = sample_store(ctx, 0);
  sn_entry before, after;
  CHECK_EQ_INT(sn_store_save(store, path, NULL, 0), SN_OK);
  CHECK_EQ_INT(sn_store_find(store, "f32 0", &before), SN_OK);
  CHECK_EQ_INT(sn_store_load(store, path), SN_OK);
  CHECK_EQ_INT(sn_store_find(store, "f32 0", &after), SN_OK);
  CHECK(after.version > before.version);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* --- loads that fail --- */

typedef struct misfit {
  const char *what;
  sn_status status;
  const char *message;
  sn_type type; /* of "w" in the store; the file has f32 [2, 3] */
  bool more;    /* the store has another entry too */
} misfit;

TEST_WALK(a_checkpoint_that_does_not_fit) {
  const misfit cases[] = {
      {"missing entry", SN_ERR_NOT_FOUND, "\"more\"", type_of(SN_F32, SN_SHAPE(2, 3)), true},
      {"shape", SN_ERR_INVALID, "expected f32[3, 2], the file has F32[2, 3]",
       type_of(SN_F32, SN_SHAPE(3, 2)), false},
      {"rank", SN_ERR_INVALID, "expected f32[6], the file has F32[2, 3]",
       type_of(SN_F32, SN_SHAPE(6)), false},
      {"dtype", SN_ERR_INVALID, "expected i32[2, 3], the file has F32[2, 3]",
       type_of(SN_I32, SN_SHAPE(2, 3)), false},
  };
  const char *path = test_scratch("misfit.safetensors");
  sn_ctx *ctx = new_ctx();
  const float w[2][3] = {{1, 2, 3}, {4, 5, 6}};
  sn_store *saved = new_store(ctx);
  CHECK_EQ_INT(sn_store_add(saved, "a", type_of(SN_F32, SN_SHAPE(2, 3)), w), SN_OK);
  CHECK_EQ_INT(sn_store_add(saved, "new", type_of(SN_F32, SN_SHAPE(2, 3)), w), SN_OK);
  CHECK_EQ_INT(sn_store_add(saved, "w", type_of(SN_F32, SN_SHAPE(2, 3)), w), SN_OK);
  CHECK_EQ_INT(sn_store_save(saved, path, NULL, 0), SN_OK);
  sn_store_destroy(saved);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    const misfit *c = &cases[i];
    if (!test_begin("%s", c->what))
      continue;
    sn_store *store = new_store(ctx);
    CHECK_EQ_INT(sn_store_add(store, "a", type_of(SN_F32, SN_SHAPE(2, 3)), NULL), SN_OK);
    CHECK_EQ_INT(sn_store_add(store, "w", c->type, NULL), SN_OK);
    if (c->more)
      CHECK_EQ_INT(sn_store_add(store, "more", type_of(SN_U8, SN_SCALAR), NULL), SN_OK);
    snapshot before = snapshot_take(store, true);
    CHECK_EQ_INT(sn_store_load(store, path), c->status);
    CHECK_STR_HAS(sn_ctx_message(ctx), "misfit.safetensors: ");
    CHECK_STR_HAS(sn_ctx_message(ctx), c->message);
    CHECK(snapshot_unchanged(&before, store));
    CHECK(!sn_store_has(store, "new"));
    sn_store_destroy(store);
    test_end();
  }
  sn_ctx_destroy(ctx);
}

TEST(a_truncated_checkpoint_changes_nothing) {
  const char *path = test_scratch("whole.safetensors"), *cut = test_scratch("cut.safetensors");
  save_samples(path, 1);
  FILE *f = fopen(path, "rb");
  REQUIRE(f != NULL);
  char bytes[8192];
  size_t size = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  REQUIRE(size > 500 && size < sizeof bytes);
  sn_ctx *ctx = new_ctx();
  sn_store *store = sample_store(ctx, 0);
  for (size_t n = 0; n < size; n += n < 16 || n + 16 > size ? 1 : 97) {
    files_put(cut, bytes, n);
    snapshot before = snapshot_take(store, true);
    if (!CHECK_EQ_INT(sn_store_load(store, cut), SN_ERR_FORMAT) ||
        !CHECK(snapshot_unchanged(&before, store)))
      break;
  }
  CHECK_EQ_INT(sn_store_load(store, test_scratch("nothing.safetensors")), SN_ERR_NOT_FOUND);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* How many entries have lost their values; the others must have those of `salt`. */
static int count_lost(sn_store *store, int salt) {
  sn_ctx *ctx = new_ctx();
  sn_store *want = sample_store(ctx, salt);
  int lost = 0;
  CHECK_EQ_INT(sn_store_count(store), sn_store_count(want));
  for (int i = 0; i < sn_store_count(store); i++) {
    sn_entry e;
    unsigned char x[60], y[60];
    CHECK(sn_store_at(store, i, &e) == SN_OK && e.size <= sizeof x);
    CHECK(sn_store_read(want, e.name, x, e.size) == SN_OK);
    sn_status status = sn_store_read(store, e.name, y, e.size);
    lost += status == SN_ERR_STATE;
    if (status == SN_OK)
      CHECK_EQ_MEM(x, y, e.size);
    else if (CHECK_EQ_INT(status, SN_ERR_STATE))
      CHECK(e.version > 1);
  }
  sn_store_destroy(want);
  sn_ctx_destroy(ctx);
  return lost;
}

TEST(a_read_that_fails_leaves_no_store_of_two_files) {
  const char *path = test_scratch("reads.safetensors"), *over = test_scratch("over.safetensors");
  save_samples(path, 1);
  save_samples(over, 2);
  bool done = false;
  int most = 0;
  for (int64_t at = 1; !done && CHECK(at < 200); at++) {
    sn_ctx *ctx = new_ctx();
    sn_store *store = sample_store(ctx, 0);
    snapshot before = snapshot_take(store, true);
    fault_io io = {.only = -1, .at = at, .error = EIO};
    fault_io_install(ctx, &io);
    sn_status status = sn_store_load(store, path);
    done = io.failed == 0;
    bool ignored = io.last == IO_CLOSE; /* of a file that was only read */
    CHECK_EQ_INT(status, done || ignored ? SN_OK : SN_ERR_IO);
    int lost = count_lost(store, status == SN_OK ? 1 : 0);
    if (lost == 0 && status != SN_OK)
      CHECK(snapshot_unchanged(&before, store));
    else
      snapshot_free(&before);
    CHECK(lost == 0 || status != SN_OK);
    if (lost) {
      CHECK(lost >= most);
      CHECK_EQ_INT(sn_store_save(store, over, NULL, 0), SN_ERR_STATE);
      CHECK(file_holds(over, 2));
    }
    most = lost;
    io.at = 0;
    CHECK_EQ_INT(sn_store_load(store, path), SN_OK);
    CHECK_EQ_INT(count_lost(store, 1), 0);
    sn_store_destroy(store);
    sn_ctx_destroy(ctx);
  }
}

TEST(a_read_that_fails_adds_nothing) {
  const char *path = test_scratch("adds.safetensors");
  save_samples(path, 1);
  bool done = false;
  for (int64_t at = 1; !done && CHECK(at < 200); at++) {
    sn_ctx *ctx = new_ctx();
    sn_store *store = new_store(ctx);
    CHECK_EQ_INT(sn_store_add(store, "u8 0", type_of(SN_U8, SN_SHAPE(3, 5)), NULL), SN_OK);
    fault_io io = {.only = IO_READ, .at = at, .error = EIO};
    fault_io_install(ctx, &io);
    done = sn_store_load(store, path) == SN_OK;
    CHECK(done == (io.failed == 0));
    if (!done)
      CHECK_EQ_INT(sn_store_count(store), 1);
    sn_store_destroy(store);
    sn_ctx_destroy(ctx);
  }
}

/* What a file's bools hold is looked at before anything changes. */
TEST(a_bool_of_2_changes_nothing) {
  const char *path = test_scratch("two.safetensors");
  static unsigned char flags[20000];
  const float w[2] = {1, 2};
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  CHECK_EQ_INT(sn_store_add(store, "flags", type_of(SN_BOOL, SN_SHAPE(20000)), flags), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "w", type_of(SN_F32, SN_SHAPE(2)), w), SN_OK);
  flags[19999] = 2;
  const sn_safetensors_item items[] = {{"w", type_of(SN_F32, SN_SHAPE(2)), "abcdefg"},
                                       {"flags", type_of(SN_BOOL, SN_SHAPE(20000)), flags}};
  CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, 2, NULL, 0), SN_OK);
  snapshot before = snapshot_take(store, true);
  CHECK_EQ_INT(sn_store_load(store, path), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "element 19999: expected 0 or 1, got 2");
  CHECK(snapshot_unchanged(&before, store));
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* A session on an entry that lost its value runs again when it has one. */
TEST(a_session_does_not_run_on_what_was_lost) {
  const char *path = test_scratch("lost.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  const float w[2] = {1, 2};
  sn_graph *g;
  sn_session *session;
  CHECK_EQ_INT(sn_store_add(store, "w", type_of(SN_F32, SN_SHAPE(2)), w), SN_OK);
  CHECK_EQ_INT(sn_store_save(store, path, NULL, 0), SN_OK);
  REQUIRE(sn_graph_create(ctx, &g) == SN_OK);
  sn_output(g, "y", sn_affine(g, sn_state(g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ZEROS, 0), 2, 0));
  static const char *const devices[] = {"ref", "cpu"};
  for (size_t i = 0; i < COUNT_OF(devices); i++) {
    sn_session_options o = {.device = devices[i]};
    float y[2];
    REQUIRE(sn_session_create(g, store, &o, &session) == SN_OK);
    CHECK_EQ_INT(sn_session_run(session), SN_OK);
    fault_io io = {.only = IO_READ, .at = 3, .error = EIO};
    fault_io_install(ctx, &io);
    CHECK_EQ_INT(sn_store_load(store, path), SN_ERR_IO);
    CHECK_EQ_INT(sn_session_run(session), SN_ERR_STATE);
    CHECK_STR_HAS(sn_ctx_message(ctx), "\"w\": its value was lost");
    CHECK_EQ_INT(sn_store_load(store, path), SN_OK);
    CHECK_EQ_INT(sn_session_run(session), SN_OK);
    CHECK_EQ_INT(sn_session_read(session, "y", y, sizeof y), SN_OK);
    CHECK(y[0] == 2 && y[1] == 4);
    sn_session_destroy(session);
  }
  sn_graph_destroy(g);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(tensors_go_to_entries_of_other_names) {
  const char *path = test_scratch("other.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  const float w[2] = {1, 2};
  const sn_type pair = type_of(SN_F32, SN_SHAPE(2));
  const sn_safetensors_item items[] = {{"w", pair, w}, {"u", type_of(SN_U8, SN_SHAPE(2)), "ab"}};
  CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, 2, NULL, 0), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "there", pair, NULL), SN_OK);
  sn_safetensors *file;
  REQUIRE(sn_safetensors_open(ctx, path, &file) == SN_OK);
  const sn_store_source good[] = {{"there", pair, 0}, {"new", pair, 0}};
  const struct {
    sn_store_source second;
    sn_status status;
    const char *message;
  } bad[] = {{{"new", pair, 2}, SN_ERR_INVALID, "no tensor 2"},
             {{"new", pair, 1}, SN_ERR_UNSUPPORTED, "cannot read dtype U8 as f32"},
             {{"new", type_of(SN_F32, SN_SHAPE(1, 2)), 0}, SN_ERR_INVALID, "expected f32[1, 2]"},
             {{"there", type_of(SN_U8, SN_SHAPE(2)), 1}, SN_ERR_INVALID, "the store has f32[2]"},
             {{NULL, pair, 0}, SN_ERR_INVALID, "source 1 has no name"},
             {{"", pair, 0}, SN_ERR_INVALID, "must not be empty"},
             {{"new", {SN_F32, {.rank = -1}}, 0}, SN_ERR_INVALID, "no valid type"},
             {{"new", {SN_F32, {.rank = 99}}, 0}, SN_ERR_INVALID, "no valid type"},
             {{"new", {SN_DTYPE_COUNT, pair.shape}, 0}, SN_ERR_INVALID, "no valid type"}};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    const sn_store_source list[] = {good[0], bad[i].second};
    snapshot before = snapshot_take(store, true);
    CHECK_EQ_INT(sn_store_load_tensors(store, list, 2, file), bad[i].status);
    CHECK_STR_HAS(sn_ctx_message(ctx), bad[i].message);
    CHECK(snapshot_unchanged(&before, store));
  }
  /* One name twice: the second must fit what the first adds. */
  const sn_store_source twice[] = {{"new", type_of(SN_U8, SN_SHAPE(2)), 1}, {"new", pair, 0}};
  CHECK_EQ_INT(sn_store_load_tensors(store, twice, 2, file), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_count(store), 1);
  CHECK_EQ_INT(sn_store_load_tensors(store, good, 2, file), SN_OK);
  CHECK_EQ_INT(sn_store_count(store), 2);
  float got[2];
  CHECK(sn_store_read(store, "new", got, sizeof got) == SN_OK && got[0] == 1 && got[1] == 2);
  CHECK(sn_store_read(store, "there", got, sizeof got) == SN_OK && got[0] == 1 && got[1] == 2);
  sn_safetensors_close(file);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* --- weights --- */

/* A file as another program might write it: f16, bf16 and f32 weights, and things of its own. */
static void write_weights(sn_ctx *ctx, const char *path) {
  static const float a[3] = {1, -2, 0.5f};
  const uint16_t b[3] = {half_from_f64(3), half_from_f64(-0.25), half_from_f64(65504)};
  const uint16_t c[3] = {bf16_from_f64(3), bf16_from_f64(-0.25), bf16_from_f64(1e30)};
  const int32_t d[1] = {9};
  const sn_safetensors_item items[] = {{"extra", type_of(SN_I32, SN_SHAPE(1)), d},
                                       {"a", type_of(SN_F32, SN_SHAPE(3)), a},
                                       {"b", type_of(SN_F16, SN_SHAPE(3)), b},
                                       {"c", type_of(SN_BF16, SN_SHAPE(3)), c}};
  CHECK_EQ_INT(sn_safetensors_write(ctx, path, items, COUNT_OF(items), NULL, 0), SN_OK);
}

static void check_f32(sn_store *store, const char *name, float x, float y, float z) {
  float got[3] = {0};
  CHECK_EQ_INT(sn_store_read(store, name, got, sizeof got), SN_OK);
  CHECK(got[0] == x && got[1] == y && got[2] == z);
}

TEST(weights_are_converted_and_the_rest_is_ignored) {
  const char *path = test_scratch("weights.safetensors");
  static const char *const names[] = {"a", "b", "c"};
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  write_weights(ctx, path);
  sn_safetensors *file;
  REQUIRE(sn_safetensors_open(ctx, path, &file) == SN_OK);
  for (int i = 0; i < 3; i++)
    CHECK_EQ_INT(sn_store_add(store, names[i], type_of(SN_F32, SN_SHAPE(3)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "moment", type_of(SN_F32, SN_SHAPE(3)), (float[]){7, 8, 9}),
               SN_OK);
  CHECK_EQ_INT(sn_store_load_weights(store, names, 3, file), SN_OK);
  check_f32(store, "a", 1, -2, 0.5f);
  check_f32(store, "b", 3, -0.25f, 65504);
  check_f32(store, "c", 3, -0.25f, bf16_to_f32(bf16_from_f64(1e30)));
  check_f32(store, "moment", 7, 8, 9);
  CHECK(!sn_store_has(store, "extra"));
  sn_entry e;
  CHECK(sn_store_find(store, "a", &e) == SN_OK && e.version == 2);
  CHECK(sn_store_find(store, "moment", &e) == SN_OK && e.version == 1);
  sn_safetensors_close(file);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(weights_come_all_or_not_at_all) {
  const char *path = test_scratch("some.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  write_weights(ctx, path);
  sn_safetensors *file;
  REQUIRE(sn_safetensors_open(ctx, path, &file) == SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "a", type_of(SN_F32, SN_SHAPE(3)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "b", type_of(SN_F32, SN_SHAPE(3, 1)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "c", type_of(SN_F16, SN_SHAPE(3)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "extra", type_of(SN_F32, SN_SHAPE(1)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "x", type_of(SN_F32, SN_SHAPE(3)), NULL), SN_OK);
  static const struct {
    const char *name;
    sn_status status;
    const char *message;
  } bad[] = {{"b", SN_ERR_INVALID, "expected f32[3, 1], the file has F16[3]"},
             {"c", SN_ERR_UNSUPPORTED, "cannot read dtype BF16 as f16"},
             {"extra", SN_ERR_UNSUPPORTED, "cannot read dtype I32 as f32"},
             {"x", SN_ERR_NOT_FOUND, "\"x\" is missing in the file"},
             {"y", SN_ERR_NOT_FOUND, "no entry \"y\""}};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    const char *const names[] = {"a", bad[i].name};
    snapshot before = snapshot_take(store, true);
    CHECK_EQ_INT(sn_store_load_weights(store, names, 2, file), bad[i].status);
    CHECK_STR_HAS(sn_ctx_message(ctx), bad[i].message);
    CHECK(snapshot_unchanged(&before, store));
  }
  sn_safetensors_close(file);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(only_the_named_weights_are_saved) {
  const char *path = test_scratch("named.safetensors");
  static const char *const names[] = {"bool 0", "f32 0", "f16 1"}, *const wrong[] = {"f32 0", "no"};
  sn_ctx *ctx = new_ctx();
  sn_store *store = sample_store(ctx, 0), *back = new_store(ctx);
  CHECK_EQ_INT(sn_store_save_weights(store, names, 3, path), SN_OK);
  CHECK_EQ_INT(sn_store_load(back, path), SN_OK);
  CHECK_EQ_INT(sn_store_count(back), 3);
  for (int i = 0; i < 3; i++) {
    unsigned char x[60], y[60];
    sn_entry e;
    REQUIRE(sn_store_find(back, names[i], &e) == SN_OK);
    CHECK(sn_store_read(store, names[i], x, e.size) == SN_OK);
    CHECK(sn_store_read(back, names[i], y, e.size) == SN_OK);
    CHECK_EQ_MEM(x, y, e.size);
  }
  CHECK_EQ_INT(sn_store_save_weights(store, wrong, 2, path), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(ctx), "\"no\"");
  CHECK_EQ_INT(sn_store_save_weights(store, NULL, 0, test_scratch("no.safetensors")), SN_OK);
  sn_store_destroy(back);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST(every_tensor_of_a_checkpoint_is_aligned) {
  const char *path = test_scratch("aligned.safetensors");
  sn_ctx *ctx = new_ctx();
  sn_store *store = new_store(ctx);
  CHECK_EQ_INT(sn_store_add(store, "bytes", type_of(SN_U8, SN_SHAPE(3)), "abc"), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "half", type_of(SN_F16, SN_SHAPE(1)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(store, "full", type_of(SN_F32, SN_SHAPE(1)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_save(store, path, NULL, 0), SN_OK);
  sn_safetensors *file;
  REQUIRE(sn_safetensors_open(ctx, path, &file) == SN_OK);
  static const char *const order[] = {"full", "half", "bytes"};
  for (size_t i = 0; i < 3; i++)
    CHECK_EQ_STR(sn_safetensors_at(file, i)->name, order[i]);
  sn_safetensors_close(file);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* --- saves that fail leave the old checkpoint --- */

TEST(failed_saves_leave_the_old_checkpoint) {
  const char *path = test_scratch("old.safetensors");
  bool done = false;
  for (int64_t at = 1; !done && CHECK(at < 200); at++) {
    save_samples(path, 0);
    sn_ctx *ctx = new_ctx();
    sn_store *store = sample_store(ctx, 1);
    snapshot before = snapshot_take(store, true);
    fault_io io = {.only = -1, .at = at, .error = ENOSPC};
    fault_io_install(ctx, &io);
    sn_status status = sn_store_save(store, path, NULL, 0);
    done = io.failed == 0;
    if (status != SN_OK) {
      CHECK_EQ_INT(status, SN_ERR_IO);
      CHECK_STR_HAS(sn_ctx_message(ctx), "old.safetensors");
      CHECK_STR_HAS(sn_ctx_message(ctx), "No space left");
    }
    bool in_place = strstr(sn_ctx_message(ctx), "the new content is in place") != NULL;
    CHECK(file_holds(path, status == SN_OK || in_place));
    CHECK(snapshot_unchanged(&before, store));
    sn_store_destroy(store);
    sn_ctx_destroy(ctx);
  }
}

/* A child saves over the file and dies before the at-th operation of a kind; 42 when it did. */
static int save_killed(const char *path, int op, int64_t at) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    sn_ctx *ctx = new_ctx();
    sn_store *store = sample_store(ctx, 1);
    fault_io io = {.only = op, .at = at, .kill = true};
    fault_io_install(ctx, &io);
    _exit(sn_store_save(store, path, NULL, 0) == SN_OK ? 0 : 1);
  }
  int status = 0;
  bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  return ended ? WEXITSTATUS(status) : -1;
}

TEST(a_killed_save_leaves_a_whole_checkpoint_and_the_next_one_nothing_else) {
  const char *folder = files_new_folder("killed");
  char path[4096];
  int code = 42, renamed = 0;
  snprintf(path, sizeof path, "%s", files_in(folder, "run.safetensors"));
  for (int64_t at = 1; code == 42 && CHECK(at < 100); at++) {
    save_samples(path, 0);
    CHECK_EQ_INT(files_count(folder), 1);
    code = save_killed(path, -1, at);
    CHECK(code == 42 || code == 0);
    bool is_new = file_holds(path, 1);
    CHECK(is_new || (file_holds(path, 0) && code == 42 && renamed == 0));
    renamed += is_new;
  }
  CHECK(renamed > 1);
  files_remove_folder(folder);
}
