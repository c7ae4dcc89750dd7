/* The store in memory: entries, sizes, versions, initial values. Files are in test_checkpoint.c. */
#include "ir/dtype.h"
#include "support/fixture.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sn_type f32(sn_shape shape) { return (sn_type){SN_F32, shape}; }

TEST(entries_are_added_found_read_and_written) {
  fixture f;
  REQUIRE(fixture_start(&f));
  const float w[2][3] = {{1, 2, 3}, {4, 5, 6}}, v[2][3] = {{-1, -2, -3}, {-4, -5, -6}};
  float got[2][3];
  sn_entry e;
  CHECK_EQ_INT(sn_store_count(f.store), 0);
  CHECK(!sn_store_has(f.store, "w"));
  CHECK_EQ_INT(sn_store_find(f.store, "w", &e), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "no entry \"w\"");
  CHECK(e.name == NULL);
  CHECK_EQ_INT(sn_store_add(f.store, "w", f32(SN_SHAPE(2, 3)), w), SN_OK);
  CHECK_EQ_INT(sn_store_add(f.store, "zeros", f32(SN_SHAPE(2, 3)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(f.store, "none", f32(SN_SHAPE(0, 3)), NULL), SN_OK);
  CHECK_EQ_INT(sn_store_count(f.store), 3);
  CHECK(sn_store_has(f.store, "w") && !sn_store_has(f.store, "W"));
  REQUIRE(sn_store_find(f.store, "w", &e) == SN_OK);
  CHECK_EQ_STR(e.name, "w");
  CHECK_EQ_INT(e.type.dtype, SN_F32);
  CHECK_EQ_INT(e.type.shape.rank, 2);
  CHECK_EQ_INT(e.type.shape.dim[1], 3);
  CHECK_EQ_UINT(e.size, sizeof w);
  CHECK_EQ_INT(sn_store_read(f.store, "w", got, sizeof got), SN_OK);
  CHECK_EQ_MEM(got, w, sizeof w);
  CHECK_EQ_INT(sn_store_write(f.store, "w", v, sizeof v), SN_OK);
  CHECK_EQ_INT(sn_store_read(f.store, "w", got, sizeof got), SN_OK);
  CHECK_EQ_MEM(got, v, sizeof v);
  CHECK_EQ_INT(sn_store_read(f.store, "zeros", got, sizeof got), SN_OK);
  for (int i = 0; i < 6; i++)
    CHECK(got[i / 3][i % 3] == 0);
  CHECK_EQ_INT(sn_store_read(f.store, "none", NULL, 0), SN_OK);
  CHECK_EQ_INT(sn_store_at(f.store, 1, &e), SN_OK);
  CHECK_EQ_STR(e.name, "zeros");
  CHECK_EQ_INT(sn_store_at(f.store, 3, &e), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_store_at(f.store, -1, &e), SN_ERR_NOT_FOUND);
  fixture_end(&f);
}

static uint64_t version(const fixture *f, const char *name) {
  sn_entry e;
  return CHECK(sn_store_find(f->store, name, &e) == SN_OK) ? e.version : 0;
}

TEST(only_writes_count_the_version_up) {
  fixture f;
  REQUIRE(fixture_start(&f));
  float x = 1;
  CHECK_EQ_INT(sn_store_add(f.store, "a", f32(SN_SCALAR), &x), SN_OK);
  CHECK_EQ_INT(sn_store_add(f.store, "b", f32(SN_SCALAR), &x), SN_OK);
  CHECK_EQ_INT(sn_store_add(f.store, "none", f32(SN_SHAPE(0)), NULL), SN_OK);
  uint64_t a = version(&f, "a"), b = version(&f, "b"), none = version(&f, "none");
  CHECK_EQ_INT(sn_store_read(f.store, "a", &x, sizeof x), SN_OK);
  CHECK_EQ_INT(sn_store_write(f.store, "a", &x, 3), SN_ERR_INVALID);
  CHECK_EQ_UINT(version(&f, "a"), a);
  CHECK_EQ_INT(sn_store_write(f.store, "a", &x, sizeof x), SN_OK);
  CHECK_EQ_UINT(version(&f, "a"), a + 1);
  CHECK_EQ_UINT(version(&f, "b"), b);
  CHECK_EQ_INT(sn_store_write(f.store, "none", NULL, 0), SN_OK);
  CHECK_EQ_UINT(version(&f, "none"), none + 1);
  fixture_end(&f);
}

TEST(what_does_not_fit_is_refused) {
  fixture f;
  REQUIRE(fixture_start(&f));
  float x[4] = {1, 2, 3, 4};
  CHECK_EQ_INT(sn_store_add(f.store, "x", f32(SN_SHAPE(4)), x), SN_OK);
  snapshot before = snapshot_take(f.store, true);
  CHECK_EQ_INT(sn_store_add(f.store, "x", f32(SN_SHAPE(4)), NULL), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"x\" already");
  CHECK_EQ_INT(sn_store_add(f.store, "", f32(SN_SHAPE(4)), NULL), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, NULL, f32(SN_SHAPE(4)), NULL), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, "y", (sn_type){SN_NO_DTYPE, SN_SHAPE(4)}, x), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, "y", (sn_type){SN_DTYPE_COUNT, SN_SHAPE(4)}, x),
               SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, "y", f32(SN_SHAPE(-4)), x), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, "y", f32(SN_SHAPE(INT64_MAX, 8)), x), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, "y", f32((sn_shape){9, {0}}), x), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_add(f.store, "y", f32((sn_shape){-1, {0}}), x), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_read(f.store, "x", x, 12), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"x\" has 16 bytes, got 12");
  CHECK_EQ_INT(sn_store_write(f.store, "x", x, 17), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_store_write(f.store, "y", x, 16), SN_ERR_NOT_FOUND);
  CHECK(snapshot_unchanged(&before, f.store));
  fixture_end(&f);
}

TEST(a_thousand_entries) {
  fixture f;
  REQUIRE(fixture_start(&f));
  char name[32];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "layers.%d.w", i);
    CHECK(sn_store_add(f.store, name, (sn_type){SN_I32, SN_SCALAR}, &(int32_t){i * 7}) == SN_OK);
  }
  CHECK_EQ_INT(sn_store_count(f.store), 1000);
  for (int i = 0; i < 1000; i++) {
    sn_entry e;
    int32_t x = -1;
    snprintf(name, sizeof name, "layers.%d.w", i);
    if (!CHECK(sn_store_read(f.store, name, &x, sizeof x) == SN_OK && x == i * 7) ||
        !CHECK(sn_store_at(f.store, i, &e) == SN_OK && strcmp(e.name, name) == 0))
      break;
  }
  CHECK(!sn_store_has(f.store, "layers.1000.w"));
  fixture_end(&f);
}

/* --- initial values --- */

enum { MANY = 20000 };

static void draw(fixture *f, const char *name, sn_init init, double scale, uint64_t seed,
                 float *out) {
  (void)sn_state(f->g, name, SN_F32, SN_SHAPE(MANY), init, scale);
  CHECK_EQ_INT(sn_store_init(f->store, f->g, seed), SN_OK);
  CHECK_EQ_INT(sn_store_read(f->store, name, out, MANY * sizeof *out), SN_OK);
}

/* Mean of the k-th powers. */
static double moment(const float *x, int k) {
  double sum = 0;
  for (int i = 0; i < MANY; i++)
    sum += pow(x[i], k);
  return sum / MANY;
}

TEST(initial_values_have_their_distribution) {
  fixture f;
  REQUIRE(fixture_start(&f));
  float *x = calloc(MANY, sizeof *x);
  REQUIRE(x != NULL);
  draw(&f, "normal", SN_INIT_NORMAL, 0.5, 1, x);
  /* Bounds of about five standard errors. */
  CHECK_NEAR(moment(x, 1) / 0.5, 0, 0.035);
  CHECK_NEAR(moment(x, 2) / 0.25, 1, 0.05);
  CHECK_NEAR(moment(x, 3) / 0.125, 0, 0.14);
  CHECK_NEAR(moment(x, 4) / 0.0625, 3, 0.35);
  double neighbours = 0;
  for (int i = 1; i < MANY; i++)
    neighbours += (double)x[i] * x[i - 1] / 0.25 / MANY;
  CHECK_NEAR(neighbours, 0, 0.035);
  draw(&f, "uniform", SN_INIT_UNIFORM, 2, 1, x);
  CHECK_NEAR(moment(x, 1) / 2, 0, 0.021);
  CHECK_NEAR(moment(x, 2) / 4, 1.0 / 3, 0.011);
  CHECK_NEAR(moment(x, 4) / 16, 0.2, 0.01);
  float lo = 0, hi = 0;
  for (int i = 0; i < MANY; i++) {
    lo = fminf(lo, x[i]);
    hi = fmaxf(hi, x[i]);
  }
  CHECK(lo >= -2 && lo < -1.99f && hi <= 2 && hi > 1.99f);
  draw(&f, "ones", SN_INIT_ONES, 7, 1, x);
  CHECK(moment(x, 1) == 1 && moment(x, 2) == 1);
  draw(&f, "zeros", SN_INIT_ZEROS, 7, 1, x);
  CHECK(moment(x, 2) == 0);
  free(x);
  fixture_end(&f);
}

TEST(ones_and_zeros_of_every_dtype) {
  fixture f;
  REQUIRE(fixture_start(&f));
  for (int d = 1; d < SN_DTYPE_COUNT; d++) {
    char name[2][32];
    unsigned char bytes[5 * 4];
    size_t size = 5 * sn_dtype_size((sn_dtype)d);
    for (int one = 0; one < 2; one++) {
      snprintf(name[one], sizeof name[one], "%s.%d", sn_dtype_name((sn_dtype)d), one);
      (void)sn_state(f.g, name[one], (sn_dtype)d, SN_SHAPE(5), one ? SN_INIT_ONES : SN_INIT_ZEROS,
                     0);
      CHECK_EQ_INT(sn_store_init(f.store, f.g, 0), SN_OK);
      CHECK_EQ_INT(sn_store_read(f.store, name[one], bytes, size), SN_OK);
      for (int i = 0; i < 5; i++)
        CHECK(dtype_load((sn_dtype)d, bytes, i) == one);
    }
  }
  fixture_end(&f);
}

/* Values of two states, made in the order given, with another state before them or not. */
static snapshot made(const char *const *names, uint64_t seed, sn_dtype dtype) {
  fixture f;
  snapshot all = {0};
  if (fixture_start(&f)) {
    float junk = 0;
    for (int i = 0; names[i]; i++)
      (void)sn_state(f.g, names[i], dtype, SN_SHAPE(3, 5), SN_INIT_NORMAL, 1);
    CHECK_EQ_INT(sn_store_init(f.store, f.g, seed), SN_OK);
    sn_store *chosen;
    CHECK_EQ_INT(sn_store_create(f.ctx, &chosen), SN_OK);
    for (int i = 0; i < 2; i++) {
      char bytes[15 * 4];
      sn_entry e;
      CHECK_EQ_INT(sn_store_find(f.store, i ? "b" : "a", &e), SN_OK);
      CHECK_EQ_INT(sn_store_read(f.store, e.name, bytes, e.size), SN_OK);
      CHECK_EQ_INT(sn_store_add(chosen, e.name, e.type, bytes), SN_OK);
      CHECK(i || memcmp(bytes, &junk, sizeof junk) != 0);
    }
    all = snapshot_take(chosen, false);
    sn_store_destroy(chosen);
  }
  fixture_end(&f);
  return all;
}

TEST(random_values_depend_on_seed_and_name_only) {
  static const char *const order[][5] = {{"a", "b"}, {"b", "x", "a", "y"}};
  snapshot first = made(order[0], 7, SN_F32), other_order = made(order[1], 7, SN_F32),
           again = made(order[0], 7, SN_F32), other_seed = made(order[0], 8, SN_F32),
           high_seed = made(order[0], 7 + (UINT64_C(1) << 32), SN_F32);
  CHECK(snapshot_equal(&first, &other_order));
  CHECK(snapshot_equal(&first, &again));
  CHECK(!snapshot_equal(&first, &other_seed));
  CHECK(!snapshot_equal(&first, &high_seed));
  /* "a" and "b" differ; both lie in one snapshot, each behind a name of one letter. */
  size_t half = first.size / 2;
  CHECK(memcmp(first.bytes + 2, first.bytes + half + 2, half - 2) != 0);
  snapshot *all[] = {&first, &other_order, &again, &other_seed, &high_seed};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    snapshot_free(all[i]);
  first = made(order[0], 7, SN_BF16);
  other_order = made(order[1], 7, SN_BF16);
  CHECK(snapshot_equal(&first, &other_order));
  snapshot_free(&first);
  snapshot_free(&other_order);
}

TEST(init_leaves_what_is_there_and_refuses_another_type) {
  fixture f;
  REQUIRE(fixture_start(&f));
  const float w[2] = {5, 6};
  float got[2];
  CHECK_EQ_INT(sn_store_add(f.store, "w", f32(SN_SHAPE(2)), w), SN_OK);
  CHECK_EQ_INT(sn_store_add(f.store, "late", (sn_type){SN_I32, SN_SHAPE(2, 1)}, NULL), SN_OK);
  (void)sn_state(f.g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 1);
  CHECK_EQ_INT(sn_store_init(f.store, f.g, 0), SN_OK);
  CHECK_EQ_UINT(version(&f, "w"), 1);
  CHECK_EQ_INT(sn_store_read(f.store, "w", got, sizeof got), SN_OK);
  CHECK_EQ_MEM(got, w, sizeof w);
  snapshot before = snapshot_take(f.store, true);
  (void)sn_state(f.g, "new", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 1);
  (void)sn_state(f.g, "late", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 1);
  CHECK_EQ_INT(sn_store_init(f.store, f.g, 0), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"late\": the graph has f32[2], the store has i32[2, 1]");
  CHECK(snapshot_unchanged(&before, f.store));
  CHECK(!sn_store_has(f.store, "new"));
  fixture_end(&f);
}

TEST(a_broken_graph_initialises_nothing) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_ctx *other;
  REQUIRE(sn_ctx_create(NULL, &other) == SN_OK);
  sn_store *store;
  REQUIRE(sn_store_create(other, &store) == SN_OK);
  (void)sn_state(f.g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 1);
  (void)sn_add(f.g, sn_input(f.g, "x", SN_F32, SN_SHAPE(2)),
               sn_input(f.g, "y", SN_F32, SN_SHAPE(3)));
  CHECK_EQ_INT(sn_store_init(store, f.g, 0), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(other), "add");
  CHECK_EQ_INT(sn_store_count(store), 0);
  sn_store_destroy(store);
  sn_ctx_destroy(other);
  fixture_end(&f);
}

TEST(destroying_nothing) { sn_store_destroy(NULL); }
