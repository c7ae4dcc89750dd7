/* Launches that wait for each other by themselves (chain.c): PHASES of them, each of as many workgroups as may be waited for, which take half of
 * the shared memory each, so that those of two phases do not all fit at once. Element g of a phase comes from another workgroup of the phase before, and a phase stores
 * where the last but one has read:
 *
 *   y[0][g] = x[g];  y[p % 2][g] = y[(p - 1) % 2][(STRIDE g + p) % n] + 1
 */
#include "device/vulkan/self_test_matrix.h"

enum { PHASES = 8, STRIDE = 7, THREADS = 128 };

static int groups_of(const matrix_trial *t) { return t->n_words; }

bool chain_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, int seed) {
  int n = CHAIN_MOST * target->units;
  *t = (matrix_trial){.n_words = n, .n_sums = 2 * n, .size = {target->shared_bytes / 8}};
  if (!matrix_trial_build(t, ctx))
    return false;
  for (int i = 0; i < n; i++)
    t->x[i] = (uint32_t)((i * 7919 + seed) % 65521);
  return true;
}

static int source(const matrix_trial *t, int p, int g) {
  return (int)(((int64_t)STRIDE * g + p) % groups_of(t));
}

bool chain_trial_is_right(const matrix_trial *t) {
  for (int i = 0; i < groups_of(t); i++) {
    int from = i;
    for (int p = PHASES - 1; p > 0; p--)
      from = source(t, p, from);
    if (t->y[(PHASES - 1) % 2 * groups_of(t) + i] != (float)(t->x[from] + PHASES - 1))
      return false;
  }
  return true;
}

/* Element g of phase p: what its first thread stores. The shared memory is there to be taken. */
static sn_status emit_phase(emitter *e, const matrix_trial *t, int p) {
  const sn_dim n = groups_of(t);
  kernel *k = emit_open(e, THREADS);
  if (!k)
    return SN_ERR_NO_MEMORY;
  val shared = k_shared(k, k->s.f32, t->size[0]), zero = k_index(k, 0);
  val half[2] = {zero, k_index(k, n)}, mine = k_add(k, half[p % 2], k->group), x;
  if (p == 0)
    x = k_to_f32(k, k_load(k, k->s.u32, k_address(k, TRIAL_X), k->group));
  else {
    val from = k_add(k, k_mul(k, k->group, k_index(k, STRIDE)), k_index(k, p));
    from = k_add(k, half[(p - 1) % 2], k_rem(k, from, k_index(k, n)));
    x = k_add(k, k_load(k, k->s.f32, k_address(k, TRIAL_Y), from), k_f32(k, 1));
  }
  k_shared_set(k, shared, k->local, x);
  k_barrier_shared(k);
  k_if first = k_if_begin(k, k_eq(k, k->local, zero));
  val there = k_shared_get(k, shared, k_index(k, THREADS - 1));
  k_store(k, k_address(k, TRIAL_Y), mine, there);
  k_if_end(k, &first);
  kernel_grid(k, 1, &(amount){1, 1, &n});
  return emit_launch(e, p > 0);
}

sn_status chain_trial_emit(emitter *e, const part *p) {
  (void)p;
  for (int i = 0; i < PHASES; i++)
    SN_TRY(emit_phase(e, e->env.hand, i));
  return SN_OK;
}
