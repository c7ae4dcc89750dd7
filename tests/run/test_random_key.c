/* Random keys: every run draws anew, a seed repeats the whole sequence, and the position in it is state like
 * any other. */
#include "support/fixture.h"
#include "support/test.h"

#include <string.h>

enum { DRAWS = 8, RUNS = 5 };

typedef struct draws {
  float uniform[DRAWS], second[DRAWS], dropped[DRAWS];
} draws;

static bool start(fixture *f, int32_t seed) {
  if (!fixture_start(f))
    return false;
  sn_value key = sn_random_key(f->g, "key");
  sn_shape shape = SN_SHAPE(DRAWS);
  sn_output(f->g, "uniform", sn_uniform(f->g, key, SN_F32, shape, 0, 1, SN_AUTO));
  sn_output(f->g, "second", sn_uniform(f->g, key, SN_F32, shape, 0, 1, SN_AUTO));
  sn_output(f->g, "dropped", sn_dropout(f->g, sn_full(f->g, SN_F32, shape, 1), key, 0.5, SN_AUTO));
  const int32_t first[3] = {seed, 0, 0};
  return fixture_ready(f, NULL) &&
         CHECK(sn_store_write(f->store, "key", first, sizeof first) == SN_OK);
}

static draws run(fixture *f) {
  draws d = {0};
  if (fixture_run(f)) {
    CHECK_EQ_INT(sn_session_read(f->session, "uniform", d.uniform, sizeof d.uniform), SN_OK);
    CHECK_EQ_INT(sn_session_read(f->session, "second", d.second, sizeof d.second), SN_OK);
    CHECK_EQ_INT(sn_session_read(f->session, "dropped", d.dropped, sizeof d.dropped), SN_OK);
  }
  return d;
}

TEST(every_run_draws_anew_and_a_seed_repeats_the_sequence) {
  draws first[RUNS], again[RUNS], other[RUNS];
  draws *all[] = {first, again, other};
  for (int k = 0; k < 3; k++) {
    fixture f;
    REQUIRE(start(&f, k == 2 ? 43 : 42));
    for (int i = 0; i < RUNS; i++)
      all[k][i] = run(&f);
    int32_t key[3];
    CHECK_EQ_INT(sn_store_read(f.store, "key", key, sizeof key), SN_OK);
    CHECK(key[0] == (k == 2 ? 43 : 42) && key[1] == 0 && key[2] == RUNS);
    fixture_end(&f);
  }
  CHECK_EQ_MEM(first, again, sizeof first);
  for (int i = 0; i < RUNS; i++) {
    CHECK(memcmp(first[i].uniform, other[i].uniform, sizeof first[i].uniform) != 0);
    CHECK(memcmp(first[i].uniform, first[i].second, sizeof first[i].uniform) != 0);
    for (int j = 0; j < i; j++)
      CHECK(memcmp(&first[i], &first[j], sizeof first[i].uniform) != 0);
  }
  bool masks_differ = false;
  for (int i = 1; i < RUNS; i++)
    masks_differ |= memcmp(first[0].dropped, first[i].dropped, sizeof first[0].dropped) != 0;
  CHECK(masks_differ);
}

TEST(a_checkpoint_holds_the_place_in_the_sequence) {
  const char *path = test_scratch("key.safetensors");
  fixture f;
  REQUIRE(start(&f, 7));
  (void)run(&f);
  (void)run(&f);
  CHECK_EQ_INT(sn_store_save(f.store, path, NULL, 0), SN_OK);
  draws third = run(&f);
  fixture_end(&f);
  REQUIRE(start(&f, 1));
  CHECK_EQ_INT(sn_store_load(f.store, path), SN_OK);
  draws resumed = run(&f);
  CHECK_EQ_MEM(&resumed, &third, sizeof third);
  fixture_end(&f);
}
