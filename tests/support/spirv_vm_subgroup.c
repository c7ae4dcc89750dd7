/* Operations of a subgroup, once all its threads have reached them. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

static word *argument(const vm *v, const vm_thread *t, uint32_t ref) { return vm_at(v->m, t, ref); }

static word minimum(const vm_op *o, word a, word b, bool with_sign, bool least) {
  bool less = with_sign ? vm_signed(a, o->shift) < vm_signed(b, o->shift) : a < b;
  return less == least ? a : b;
}

static word combined(const vm_op *o, word a, word b) {
  float x = vm_float_of(a, o->kind), y = vm_float_of(b, o->kind);
  switch (o->code) {
  case VM_GroupNonUniformIAdd: return vm_cut(a + b, o->shift);
  case VM_GroupNonUniformIMul: return vm_cut(a * b, o->shift);
  case VM_GroupNonUniformFAdd: return vm_float_bits(x + y, o->kind);
  case VM_GroupNonUniformFMul: return vm_float_bits(x * y, o->kind);
  case VM_GroupNonUniformFMin: return y < x || x != x ? b : a;
  case VM_GroupNonUniformFMax: return y > x || x != x ? b : a;
  case VM_GroupNonUniformSMin: return minimum(o, a, b, true, true);
  case VM_GroupNonUniformUMin: return minimum(o, a, b, false, true);
  case VM_GroupNonUniformSMax: return minimum(o, a, b, true, false);
  case VM_GroupNonUniformUMax: return minimum(o, a, b, false, false);
  case VM_GroupNonUniformBitwiseAnd:
  case VM_GroupNonUniformLogicalAnd: return a & b;
  case VM_GroupNonUniformBitwiseOr:
  case VM_GroupNonUniformLogicalOr: return a | b;
  default: return a ^ b;
  }
}

static word neutral(const vm_op *o) {
  word ones = vm_cut(~(word)0, o->shift), top = (word)1 << (63 - o->shift);
  switch (o->code) {
  case VM_GroupNonUniformIMul:
  case VM_GroupNonUniformLogicalAnd: return 1;
  case VM_GroupNonUniformFMul: return vm_float_bits(1, o->kind);
  case VM_GroupNonUniformFMin: return vm_float_bits(__builtin_inff(), o->kind);
  case VM_GroupNonUniformFMax: return vm_float_bits(-__builtin_inff(), o->kind);
  case VM_GroupNonUniformSMin: return ones & ~top;
  case VM_GroupNonUniformSMax: return top;
  case VM_GroupNonUniformUMin:
  case VM_GroupNonUniformBitwiseAnd: return ones;
  default: return 0;
  }
}

/* Reductions and scans. The order of a float's sum is the driver's: here, that of the job. */
static bool reduce(vm *v, vm_thread *first, int n, const vm_op *o) {
  word size = (word)n;
  if (o->c == 3) {
    size = o->b ? *argument(v, first, o->b) : 0;
    if (size == 0 || size & (size - 1) || size > (word)n)
      return vm_fault(v, first, o, "clusters of %lu", (unsigned long)size);
  }
  for (uint32_t k = 0; k < o->n; k++)
    for (int from = 0; from < n; from += (int)size) {
      bool scans = o->c == 1 || o->c == 2;
      word all = neutral(o);
      for (int i = 0; i < (int)size && from + i < n; i++) {
        int at = scans ? i : (int)vm_ordered(v->job, (uint32_t)i, (uint32_t)size);
        vm_thread *t = &first[from + at];
        word mine = argument(v, t, o->a)[k], before = all;
        all = i == 0 ? mine : combined(o, all, mine);
        if (scans)
          t->frame[o->dst + k] = o->c == 1 ? all : before;
      }
      for (int i = 0; i < (int)size && !scans && from + i < n; i++)
        first[from + i].frame[o->dst + k] = all;
    }
  return true;
}

/* The thread whose value another one takes; -1: none, -2: after a fault. */
static int source_of(vm *v, const vm_thread *t, int n, const vm_op *o) {
  word x = o->b ? *argument(v, t, o->b) : 0, lane = t->lane, at = x;
  bool may_miss =
      o->code == VM_GroupNonUniformShuffleUp || o->code == VM_GroupNonUniformShuffleDown;
  if (o->code == VM_GroupNonUniformShuffleXor)
    at = lane ^ x;
  else if (o->code == VM_GroupNonUniformShuffleUp)
    at = x > lane ? ~(word)0 : lane - x;
  else if (o->code == VM_GroupNonUniformShuffleDown)
    at = lane + x;
  else if (o->code == VM_GroupNonUniformBroadcastFirst)
    at = 0;
  if (at < (word)n)
    return (int)at;
  if (may_miss)
    return -1;
  vm_fault(v, t, o, "the value of thread %lu of a subgroup of %d", (unsigned long)at, n);
  return -2;
}

/* What comes from beyond the subgroup is undefined, but may be asked for: it is made to be noticed. */
static bool exchange(vm *v, vm_thread *first, int n, const vm_op *o) {
  for (int i = 0; i < n; i++) {
    int from = source_of(v, &first[i], n, o);
    if (from == -2)
      return false;
    for (uint32_t k = 0; k < o->n; k++)
      first[i].frame[o->dst + k] =
          from < 0 ? vm_cut(0x7fc0dead7fc0dead, o->shift) : argument(v, &first[from], o->a)[k];
  }
  return true;
}

static void vote(const vm *v, vm_thread *first, int n, const vm_op *o) {
  word any = 0, all = 1;
  for (int i = 0; i < n && o->code != VM_GroupNonUniformElect; i++) {
    any |= *argument(v, &first[i], o->a);
    all &= *argument(v, &first[i], o->a);
  }
  for (int i = 0; i < n; i++)
    first[i].frame[o->dst] = o->code == VM_GroupNonUniformElect ? i == 0
                             : o->code == VM_GroupNonUniformAll ? all
                                                                : any;
}

bool vm_subgroup_run(vm *v, vm_thread *first, int n, const vm_op *o) {
  v->steps++;
  if (o->code == VM_ControlBarrier) {
    for (int i = 0; i < n; i++)
      first[i].passed++;
    return true;
  }
  if (o->code >= VM_CooperativeMatrixLoadKHR)
    return vm_matrix_run(v, first, n, o);
  if (o->code >= VM_GroupNonUniformIAdd)
    return reduce(v, first, n, o);
  if (o->code >= VM_GroupNonUniformBroadcast)
    return exchange(v, first, n, o);
  vote(v, first, n, o);
  return true;
}
