/* See rope.h. */
#include "ops/attention/rope.h"

static const double PI = 3.14159265358979323846;

double rope_magnitude(const attrs_rope *a) {
  if (a->attention_factor != 0)
    return a->attention_factor;
  return a->scaling == SN_ROPE_YARN && a->factor > 1 ? 0.1 * log(a->factor) + 1 : 1;
}

static rope_ramp llama3_ramp(const attrs_rope *a) {
  double width = a->high - a->low;
  return (rope_ramp){(double)a->original_length / (2 * PI) / width, -a->low / width, false};
}

/* The (fractional) pair that turns so many times within the original length. */
static double yarn_pair(const attrs_rope *a, double turns) {
  return (double)a->dims * log((double)a->original_length / (turns * 2 * PI)) / (2 * log(a->base));
}

static rope_ramp yarn_ramp(const attrs_rope *a) {
  double first = fmax(floor(yarn_pair(a, a->high)), 0);
  double last = fmin(ceil(yarn_pair(a, a->low)), (double)a->dims - 1);
  double width = first == last ? 0.001 : last - first;
  return (rope_ramp){-1 / width, 1 + first / width, true};
}

rope_ramp rope_keep(const attrs_rope *a) {
  switch (a->scaling) {
  case SN_ROPE_LINEAR: return (rope_ramp){0, 0, true};
  case SN_ROPE_LLAMA3: return llama3_ramp(a);
  case SN_ROPE_YARN: return yarn_ramp(a);
  case SN_ROPE_DEFAULT:
  case SN_ROPE_DYNAMIC: break;
  }
  return (rope_ramp){0, 1, true};
}

static double dynamic_base(const attrs_rope *a, double last) {
  double original = (double)a->original_length, dims = (double)a->dims;
  double length = fmax(last + 1, original);
  return a->base * pow(a->factor * length / original - (a->factor - 1), dims / (dims - 2));
}

double rope_frequency(const attrs_rope *a, int64_t i, double last) {
  double base = a->scaling == SN_ROPE_DYNAMIC ? dynamic_base(a, last) : a->base;
  double theta = pow(base, -2 * (double)i / (double)a->dims);
  rope_ramp r = rope_keep(a);
  double keep = fmin(fmax(r.mul * (r.of_index ? (double)i : theta) + r.add, 0), 1);
  double turn = keep == 1 ? theta : theta * (keep + (1 - keep) / a->factor);
  return a->rounding == SN_F32 ? turn : dtype_round(a->rounding, turn);
}
