/* any and all over axes, of bools. Over nothing: any is false, all is true. */
#include "ops/reduce/reduce.h"

static sn_status infer_bools(infer_ctx *c, const sn_ints *axes, bool keepdims) {
  SN_TRY(infer_dtype(c, 0, SN_BOOL));
  return infer_reduced(c, axes, keepdims, SN_BOOL);
}

/* --- any --- */
static double either(double acc, double x) { return acc != 0 || x != 0; }
static const fold at_least_one = {0, either, NULL};

static sn_status infer_any(infer_ctx *c) {
  return infer_bools(c, &ATTRS(any)->axes, ATTRS(any)->keepdims);
}

static sn_status ref_any(ref_ctx *c) {
  ref_fold(c, &ATTRS(any)->axes, &at_least_one);
  return SN_OK;
}

static uint16_t element_any(elem_ctx *c, const place *at) {
  return elem_fold(c, at, &ATTRS(any)->axes, ATTRS(any)->keepdims, REDUCE_ANY);
}

static const op_case any_cases[] = {
    {"any(bool[2, 3]{0, 0, 0, 0, 1, 0}) axes=[1] => bool[2]{0, 1}", NULL},
    {"any(bool[2, 3]{0, 0, 0, 0, 1, 0}) axes=[-2] keepdims=true => bool[1, 3]{0, 1, 0}", NULL},
    {"any(bool[2, 3]{0, 0, 0, 0, 0, 1}) => bool[]{1}", NULL},
    {"any(bool[5]{0}) => bool[]{0}", NULL},
    {"any(bool[2, 2, 2]{0, 0, 1, 0, 0, 0, 0, 0}) axes=[0, 2] => bool[2]{0, 1}", NULL},
    {"any(bool[0, 3]) axes=[0] => bool[3]{0}", NULL},
    {"any(bool[0, 3]) axes=[1] => bool[0]{}", NULL},
    {"any(bool[]{1}) => bool[]{1}", NULL},
    {"any(bool[2, 3]) axes=[2]", "outside of rank"},
    {"any(f32[2])", "must be bool"},
};

const op_impl op_impl_any = {.infer = infer_any,
                             .ref = ref_any,
                             .no_grad = "its result is a bool",
                             .element = element_any,
                             CASES(any_cases)};

/* --- all --- */
static double both(double acc, double x) { return acc != 0 && x != 0; }
static const fold none_false = {1, both, NULL};

static sn_status infer_all(infer_ctx *c) {
  return infer_bools(c, &ATTRS(all)->axes, ATTRS(all)->keepdims);
}

static sn_status ref_all(ref_ctx *c) {
  ref_fold(c, &ATTRS(all)->axes, &none_false);
  return SN_OK;
}

static uint16_t element_all(elem_ctx *c, const place *at) {
  return elem_fold(c, at, &ATTRS(all)->axes, ATTRS(all)->keepdims, REDUCE_ALL);
}

static const op_case all_cases[] = {
    {"all(bool[2, 3]{1, 1, 1, 1, 0, 1}) axes=[1] => bool[2]{1, 0}", NULL},
    {"all(bool[2, 3]{1, 1, 1, 1, 0, 1}) axes=[-2] keepdims=true => bool[1, 3]{1, 0, 1}", NULL},
    {"all(bool[2, 3]{1, 1, 1, 1, 1, 0}) => bool[]{0}", NULL},
    {"all(bool[5]{1}) => bool[]{1}", NULL},
    {"all(bool[2, 2, 2]{1, 1, 0, 1, 1, 1, 1, 1}) axes=[0, 2] => bool[2]{1, 0}", NULL},
    {"all(bool[0, 3]) axes=[0] => bool[3]{1}", NULL},
    {"all(bool[0, 3]) axes=[1] => bool[0]{}", NULL},
    {"all(bool[]{0}) => bool[]{0}", NULL},
    {"all(bool[2, 3]) axes=[0, -2]", "listed twice"},
    {"all(i32[2])", "must be bool"},
};

const op_impl op_impl_all = {.infer = infer_all,
                             .ref = ref_all,
                             .no_grad = "its result is a bool",
                             .element = element_all,
                             CASES(all_cases)};
