/* Launches that wait for each other by themselves (chain.c): PHASES, each of as many workgroups as may be waited for. Those of even phases are large: they
 * take as much shared memory as one may have, so that few of them fit at once, and the last ones begin when others of the next phase could have taken their places.
 * Those of odd phases are tiny, in two launches of half of the elements each. Element g of a phase comes from another workgroup of the phase
 * before, and a phase stores where the phase before has read:
 *
 *   y[0][g] = x[g];  y[p % 2][g] = y[1 - p % 2][(STRIDE g + 1) % n] + 1
 */
#include "device/vulkan/self_test_matrix.h"

enum { PHASES = 8, STRIDE = 7, LARGE = 128, TINY = 32 };
_Static_assert(CHAIN_MOST % 2 == 0, "elements have halves");

static int groups_of(const matrix_trial *t) { return t->n_words; }

bool chain_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, int seed) {
  int n = CHAIN_MOST * target->units;
  *t = (matrix_trial){.n_words = n, .n_sums = 2 * n, .size = {target->shared_bytes / 4}};
  if (!matrix_trial_build(t, ctx))
    return false;
  for (int i = 0; i < n; i++)
    t->x[i] = (uint32_t)((i * 7919 + seed) % 65521);
  return true;
}

bool chain_trial_is_right(const matrix_trial *t) {
  const int n = groups_of(t);
  for (int i = 0; i < n; i++) {
    int from = i;
    for (int p = 1; p < PHASES; p++)
      from = (STRIDE * from + 1) % n;
    if (t->y[(PHASES - 1) % 2 * n + i] != (float)(t->x[from] + PHASES - 1))
      return false;
  }
  return true;
}

/* `n` elements of a phase, from `first` on: each is what a workgroup's first thread stores. Phases that are alike are one shader. */
static sn_status emit_elements(emitter *e, const matrix_trial *t, int p, int first, sn_dim n) {
  const bool large = p % 2 == 0;
  kernel *k = emit_open(e, large ? LARGE : TINY);
  if (!k)
    return SN_ERR_NO_MEMORY;
  val shared = k_shared(k, k->s.f32, large ? t->size[0] : TINY), zero = k_index(k, 0);
  val all = k_index(k, groups_of(t)), g = k_add(k, k->group, k_index(k, first)), x;
  if (p == 0)
    x = k_to_f32(k, k_load(k, k->s.u32, k_address(k, TRIAL_X), g));
  else {
    val from = k_add(k, k_mul(k, g, k_index(k, STRIDE)), k_index(k, 1));
    from = k_add(k, large ? all : zero, k_rem(k, from, all));
    x = k_add(k, k_load(k, k->s.f32, k_address(k, TRIAL_Y), from), k_f32(k, 1));
  }
  k_shared_set(k, shared, k->local, x);
  k_barrier_shared(k);
  k_if stores = k_if_begin(k, k_eq(k, k->local, zero));
  val there = k_shared_get(k, shared, k_index(k, (large ? LARGE : TINY) - 1));
  k_store(k, k_address(k, TRIAL_Y), k_add(k, large ? zero : all, g), there);
  k_if_end(k, &stores);
  kernel_grid(k, 1, &(amount){1, 1, &n});
  return emit_launch(e, p > 0 && first == 0);
}

sn_status chain_trial_emit(emitter *e, const part *p) {
  (void)p;
  const matrix_trial *t = e->env.hand;
  const int n = groups_of(t);
  for (int i = 0; i < PHASES; i++) {
    int each = i % 2 ? n / 2 : n;
    for (int first = 0; first < n; first += each)
      SN_TRY(emit_elements(e, t, i, first, each));
  }
  return SN_OK;
}
