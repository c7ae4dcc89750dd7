/* The interpreter of SPIR-V itself: kernels with a fault planted, each of which it must find, and sound ones, which
 * it must not accuse. */
#include "support/test.h"
#include "support/vm_stage.h"

enum { THREADS = STAGE_THREADS, GROUPS = STAGE_GROUPS, WORDS = STAGE_WORDS };
enum { DEFINED = STAGE_DEFINED, BARRIER = 0x8 | 0x100 | 0x40 };

/* --- kernels --- */

static val buffer(kernel *k) { return stage_buffer(k); }

/* This thread's number among all. */
static val number(kernel *k) {
  val before = k_mul(k, k->group, k_index(k, THREADS));
  return k_add(k, before, k->local);
}

static val above(kernel *k, val i, int64_t by) { return k_add(k, i, k_index(k, by)); }

/* Word i of the buffer read, and word DEFINED + i written, so that loads are used. */
static void copy(kernel *k, val from, val to) {
  val x = k_load(k, k->s.u32, buffer(k), from);
  k_store(k, buffer(k), to, x);
}

static void sound_copy(kernel *k) {
  val i = number(k);
  copy(k, i, above(k, i, DEFINED));
}

static void reads_beyond(kernel *k) {
  val i = number(k);
  copy(k, above(k, i, WORDS), above(k, i, DEFINED));
}

static void reads_before(kernel *k) {
  val i = number(k);
  copy(k, above(k, i, -1), above(k, i, DEFINED));
}

static void writes_beyond(kernel *k) {
  val i = number(k);
  copy(k, i, above(k, i, WORDS - THREADS * GROUPS + 1));
}

static void reads_undefined(kernel *k) {
  val i = number(k);
  copy(k, above(k, i, DEFINED - 2 * THREADS), i);
}

static void reads_nowhere(kernel *k) {
  val at = spirv_u64(&k->s, 0x1000);
  k_store(k, buffer(k), above(k, number(k), DEFINED), k_load(k, k->s.u32, at, k_index(k, 0)));
}

static void reads_unaligned(kernel *k) {
  val at = k_add(k, buffer(k), spirv_u64(&k->s, 2));
  k_store(k, buffer(k), above(k, number(k), DEFINED), k_load(k, k->s.u32, at, k_index(k, 0)));
}

static void reads_vector_unaligned(kernel *k) {
  val at = k_add(k, buffer(k), spirv_u64(&k->s, 8));
  val x = k_load(k, spirv_vector(&k->s, k->s.u32, 4), at, k_index(k, 0));
  k_store(k, buffer(k), above(k, number(k), DEFINED), k_part(k, x, 1));
}

static void reads_constants(kernel *k) {
  val x = k_load(k, k->s.u32, stage_constants(k), k_index(k, 15));
  k_store(k, buffer(k), above(k, number(k), DEFINED), x);
}

static void writes_constants(kernel *k) {
  k_if one = k_if_begin(k, k_eq(k, number(k), k_index(k, 0)));
  k_store(k, stage_constants(k), k_index(k, 0), k_u32(k, 1));
  k_if_end(k, &one);
}

static void reads_unset_variable(kernel *k) {
  val v = spirv_local(&k->s, k->s.u32);
  k_if some = k_if_begin(k, k_lt(k, k->local, k_index(k, THREADS - 1)));
  k_set(k, v, k_u32(k, 1));
  k_if_end(k, &some);
  k_store(k, buffer(k), above(k, number(k), DEFINED), k_get(k, v));
}

/* --- races in buffers --- */

static void threads_write_alike(kernel *k) {
  k_store(k, buffer(k), above(k, k->group, DEFINED), k_u32(k, 1));
}

static void groups_write_alike(kernel *k) {
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 5)));
  k_store(k, buffer(k), k_index(k, DEFINED), k_u32(k, 1));
  k_if_end(k, &one);
}

static void threads_read_what_others_write(kernel *k) {
  val i = number(k);
  k_store(k, buffer(k), i, k_u32(k, 1));
  copy(k, k_xor(k, i, k_index(k, 1)), above(k, i, DEFINED));
}

static void groups_read_what_others_write(kernel *k) {
  val i = number(k);
  copy(k, above(k, i, THREADS), i);
}

/* Read by two workgroups, written by the last. */
static void groups_write_what_others_read(kernel *k) {
  copy(k, k->local, above(k, number(k), DEFINED));
  k_if last = k_if_begin(k, k_eq(k, k->group, k_index(k, GROUPS - 1)));
  k_barrier(k);
  k_store(k, buffer(k), k->local, k_u32(k, 1));
  k_if_end(k, &last);
}

static void barrier_of(kernel *k, uint32_t scope, uint32_t order) {
  val s = k_u32(k, scope), o = k_u32(k, order);
  spirv_do(&k->s, SPV_ControlBarrier, SPV_ARGS(s, s, o));
}

static void hand_over(kernel *k, uint32_t order) {
  val i = number(k), to = above(k, i, DEFINED);
  k_store(k, buffer(k), to, k_u32(k, 1));
  barrier_of(k, 2, order);
  val x = k_load(k, k->s.u32, buffer(k), k_xor(k, to, k_index(k, 1)));
  barrier_of(k, 2, order);
  k_store(k, buffer(k), to, k_add(k, x, x));
}

static void sound_hand_over(kernel *k) { hand_over(k, BARRIER); }
static void hand_over_in_shared_order(kernel *k) { hand_over(k, 0x8 | 0x100); }

static val add_atomic(kernel *k, val address, int64_t word) {
  spirv *s = &k->s;
  val at = k_add(k, address, spirv_u64(s, (uint64_t)(4 * word)));
  spirv_id pointer = spirv_pointer(s, SPV_PhysicalBuffer, s->u32);
  val p = spirv_op(s, SPV_ConvertUToPtr, pointer, SPV_ARGS(at)), one = k_u32(k, 1);
  return spirv_op(s, SPV_AtomicIAdd, s->u32, SPV_ARGS(p, one, k_u32(k, 0), one));
}

static void sound_atomics(kernel *k) {
  val x = add_atomic(k, buffer(k), 0);
  k_store(k, buffer(k), above(k, number(k), DEFINED), x);
}

static void reads_atomics_plainly(kernel *k) {
  add_atomic(k, buffer(k), 0);
  copy(k, k_index(k, 0), above(k, number(k), DEFINED));
}

/* --- shared memory --- */

static void sound_tree(kernel *k) {
  val array = k_shared(k, k->s.u32, THREADS), i = number(k);
  k_shared_set(k, array, k->local, k_load(k, k->s.u32, buffer(k), i));
  k_barrier(k);
  for (int by = THREADS / 2; by > 0; by /= 2) {
    k_if active = k_if_begin(k, k_lt(k, k->local, k_index(k, by)));
    val a = k_shared_get(k, array, k->local), b = k_shared_get(k, array, above(k, k->local, by));
    k_shared_set(k, array, k->local, k_add(k, a, b));
    k_if_end(k, &active);
    k_barrier(k);
  }
  k_store(k, buffer(k), above(k, i, DEFINED), k_shared_get(k, array, k_index(k, 0)));
}

static void reads_shared_neighbour(kernel *k, uint32_t scope, uint32_t order, int mask) {
  val array = k_shared(k, k->s.u32, THREADS);
  k_shared_set(k, array, k->local, k_to_u32(k, k->local));
  if (order)
    barrier_of(k, scope, order);
  val x = k_shared_get(k, array, k_xor(k, k->local, k_index(k, mask)));
  k_store(k, buffer(k), above(k, number(k), DEFINED), x);
}

static void sound_shared(kernel *k) { reads_shared_neighbour(k, 2, BARRIER, 1); }
static void shared_without_barrier(kernel *k) { reads_shared_neighbour(k, 2, 0, 1); }
static void shared_with_other_order(kernel *k) { reads_shared_neighbour(k, 2, 0x8 | 0x40, 1); }
static void shared_unordered(kernel *k) { reads_shared_neighbour(k, 2, 0x100, 1); }
static void sound_in_subgroup(kernel *k) { reads_shared_neighbour(k, 3, BARRIER, 1); }
static void across_subgroups(kernel *k) { reads_shared_neighbour(k, 3, BARRIER, THREADS / 2); }

static void shared_written_alike(kernel *k) {
  val array = k_shared(k, k->s.u32, 4);
  k_shared_set(k, array, k_index(k, 2), k_u32(k, 7));
}

/* What was read is written again, by another thread, before a barrier. */
static void shared_written_after_read(kernel *k) {
  val array = k_shared(k, k->s.u32, THREADS);
  k_shared_set(k, array, k->local, k_u32(k, 7));
  k_barrier(k);
  val x = k_shared_get(k, array, k_xor(k, k->local, k_index(k, 1)));
  k_shared_set(k, array, k->local, x);
}

static void shared_unset(kernel *k) {
  val array = k_shared(k, k->s.u32, THREADS + 1);
  k_shared_set(k, array, k->local, k_u32(k, 7));
  k_barrier(k);
  val x = k_shared_get(k, array, above(k, k->local, 1));
  k_store(k, buffer(k), above(k, number(k), DEFINED), x);
}

static void shared_beyond(kernel *k) {
  val array = k_shared(k, k->s.u32, THREADS);
  k_shared_set(k, array, above(k, k->local, 1), k_u32(k, 7));
}

/* --- all threads --- */

static void some_at_barrier(kernel *k) {
  k_if some = k_if_begin(k, k_lt(k, k->local, k_index(k, THREADS - 1)));
  k_barrier(k);
  k_if_end(k, &some);
}

static void at_two_barriers(kernel *k) {
  k_if some = k_if_begin(k, k_lt(k, k->local, k_index(k, THREADS / 2)));
  k_barrier(k);
  k_if_else(k, &some);
  k_barrier(k);
  k_if_end(k, &some);
}

/* Half of the subgroups. */
static void some_subgroups_meet(kernel *k) {
  k_if some = k_if_begin(k, k_lt(k, k->local, k_index(k, THREADS / 2)));
  k_barrier_subgroup(k);
  k_if_end(k, &some);
}

static void all_subgroups_meet(kernel *k) {
  k_barrier_subgroup(k);
  k_barrier(k);
}

static void sum_of(kernel *k, int threads) {
  spirv *s = &k->s;
  val out = k_var(k, k_u32(k, 0)), scope = k_u32(k, 3);
  k_if some = k_if_begin(k, k_lt(k, k->local, k_index(k, threads)));
  val one = k_u32(k, 1);
  k_set(k, out, spirv_op(s, SPV_GroupNonUniformIAdd, s->u32, SPV_ARGS(scope, 0, one)));
  k_if_end(k, &some);
  k_store(k, buffer(k), above(k, number(k), DEFINED), k_get(k, out));
}

static void sound_sum(kernel *k) { sum_of(k, THREADS); }
static void sum_of_some(kernel *k) { sum_of(k, 3); }

/* --- arithmetic --- */

static void store_one(kernel *k, val x) { k_store(k, buffer(k), above(k, number(k), DEFINED), x); }

static void divides_by_zero(kernel *k) {
  val x = k_bits(k, k_load(k, k->s.u32, buffer(k), number(k)), k->s.i32);
  store_one(k, k_div(k, k_i32(k, 7), x));
}

static void divides_least(kernel *k) {
  val x = k_bits(k, k_load(k, k->s.u32, buffer(k), k_index(k, 1)), k->s.i32);
  store_one(k, k_div(k, k_i32(k, INT32_MIN), k_neg(k, x)));
}

static void shifts_out(kernel *k) {
  val by = k_load(k, k->s.u32, buffer(k), k_index(k, 32)), one = k_u32(k, 1);
  store_one(k, spirv_op(&k->s, SPV_ShiftLeftLogical, k->s.u32, SPV_ARGS(one, by)));
}

static void converts_out(kernel *k) {
  val x = k_to_f32(k, k_load(k, k->s.u32, buffer(k), k_index(k, 3)));
  store_one(k, k_to_i32(k, k_mul(k, x, k_f32(k, 1e9f))));
}

static void sound_arithmetic(kernel *k) {
  val x = k_bits(k, k_load(k, k->s.u32, buffer(k), k_index(k, 9)), k->s.i32);
  x = k_rem(k, k_div(k, k_neg(k, x), k_i32(k, 2)), k_i32(k, 3)); /* -9 / 2 = -4, % 3 = -1 */
  x = k_to_i32(k, k_mul(k, k_to_f32(k, x), k_f32(k, 2.75f)));    /* -2 */
  store_one(k, k_bits(k, k_shr(k, k_bits(k, x, k->s.u32), 31), k->s.i32));
}

static void never_ends(kernel *k) {
  k_loop l = k_loop_begin(k, k_index(k, 0), k_index(k, 10), k_index(k, 0));
  k_loop_end(k, &l);
}

static void sound_loop(kernel *k) {
  val sum = k_var(k, k_index(k, 0));
  k_loop l = k_loop_begin(k, k_index(k, 0), above(k, k->local, 1), k_index(k, 1));
  k_loop_break(k, &l, k_gt(k, l.i, k_index(k, 10)));
  k_set(k, sum, k_add(k, k_get(k, sum), l.i));
  k_loop_end(k, &l);
  store_one(k, k_get(k, sum));
}

/* --- running them --- */

static const struct {
  const char *name;
  void (*body)(kernel *k);
  const char *finding; /* a part of it; NULL: sound */
} cases[] = {
    {"copy", sound_copy, NULL},
    {"reads_beyond", reads_beyond, "of buffer 0, which has 4096"},
    {"reads_before", reads_before, "a read of 4 bytes at byte -4"},
    {"writes_beyond", writes_beyond, "a write of 4 bytes at byte 4096"},
    {"reads_undefined", reads_undefined, "bytes that nothing has written"},
    {"reads_nowhere", reads_nowhere, "in no buffer"},
    {"reads_unaligned", reads_unaligned, "no multiple of 4"},
    {"reads_vector_unaligned", reads_vector_unaligned, "no multiple of 16"},
    {"reads_constants", reads_constants, NULL},
    {"writes_constants", writes_constants, "where none is expected"},
    {"reads_unset_variable", reads_unset_variable, "a variable that nothing has written"},
    {"threads_write_alike", threads_write_alike, "a race: a write of a buffer"},
    {"groups_write_alike", groups_write_alike, "a race: a write of a buffer"},
    {"threads_read_what_others_write", threads_read_what_others_write, "a race"},
    {"groups_read_what_others_write", groups_read_what_others_write, "a race"},
    {"groups_write_what_others_read", groups_write_what_others_read, "a race"},
    {"hand_over", sound_hand_over, NULL},
    {"hand_over_in_shared_order", hand_over_in_shared_order, "a race"},
    {"atomics", sound_atomics, NULL},
    {"reads_atomics_plainly", reads_atomics_plainly, "a race"},
    {"tree", sound_tree, NULL},
    {"shared", sound_shared, NULL},
    {"shared_without_barrier", shared_without_barrier, "of shared memory"},
    {"shared_with_other_order", shared_with_other_order, "a race"},
    {"shared_unordered", shared_unordered, "a race"},
    {"in_subgroup", sound_in_subgroup, NULL},
    {"across_subgroups", across_subgroups, "of shared memory"},
    {"shared_written_alike", shared_written_alike, "a race: a write of shared memory"},
    {"shared_written_after_read", shared_written_after_read, "a race"},
    {"shared_unset", shared_unset, "shared memory that nothing has written"},
    {"shared_beyond", shared_beyond, "index 64 of 64 elements"},
    {"some_at_barrier", some_at_barrier, "63 of the 64 threads of the workgroup reach this"},
    {"at_two_barriers", at_two_barriers, "32 of the 64 threads of the workgroup reach this"},
    {"some_subgroups_meet", some_subgroups_meet,
     "before the end, subgroup 0 met 1 times, subgroup"},
    {"all_subgroups_meet", all_subgroups_meet, NULL},
    {"sum", sound_sum, NULL},
    {"sum_of_some", sum_of_some, "threads of the subgroup reach this"},
    {"divides_by_zero", divides_by_zero, "a division by 0"},
    {"divides_least", divides_least, "of the least number by -1"},
    {"shifts_out", shifts_out, "a shift of 32 bits by 32"},
    {"converts_out", converts_out, "a conversion of 3e+09"},
    {"arithmetic", sound_arithmetic, NULL},
    {"never_ends", never_ends, "it does not end"},
    {"loop", sound_loop, NULL},
};

TEST_WALK(faults) {
  static const int subgroups[] = {8, 32, 64};
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    for (size_t k = 0; k < COUNT_OF(subgroups); k++) {
      vm_stage s;
      /* there are no others */
      if ((cases[i].body == across_subgroups || cases[i].body == some_subgroups_meet) &&
          subgroups[k] == THREADS)
        continue;
      if (!test_begin("%s %d", cases[i].name, subgroups[k]))
        continue;
      if (stage_open(&s, subgroups[k], cases[i].body))
        for (int order = VM_FORWARD; order <= VM_RANDOM; order++) {
          const char *found = stage_run(&s, (vm_order)order);
          if (cases[i].finding ? !strstr(found, cases[i].finding) : *found)
            FAIL("order %d: \"%s\"", order, found);
        }
      stage_close(&s);
      test_end();
    }
}

/* --- what sound kernels compute --- */

static uint32_t computed(void (*body)(kernel *k), int i) {
  vm_stage s;
  uint32_t x = UINT32_MAX;
  if (stage_open(&s, 8, body)) {
    CHECK_EQ_STR(stage_run(&s, VM_REVERSE), "");
    x = stage_result(&s, i);
  }
  stage_close(&s);
  return x;
}

TEST(results) {
  CHECK_EQ_INT(computed(sound_copy, 70), 70);
  CHECK_EQ_INT(computed(sound_tree, 3), 63 * 64 / 2);
  CHECK_EQ_INT(computed(sound_tree, 64), 63 * 64 / 2 + 64 * 64);
  CHECK_EQ_INT(computed(sound_shared, 6), 7);
  CHECK_EQ_INT(computed(sound_hand_over, 9), 2);
  CHECK_EQ_INT(computed(sound_sum, 9), 8);
  CHECK_EQ_INT(computed(sound_arithmetic, 0), 1);
  CHECK_EQ_INT(computed(sound_loop, 4), 0 + 1 + 2 + 3 + 4);
  CHECK_EQ_INT(computed(sound_loop, 40), 55);
  CHECK_EQ_INT(computed(sound_atomics, GROUPS * THREADS - 1), 0); /* in reverse it comes first */
}
