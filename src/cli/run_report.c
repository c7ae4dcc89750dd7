/* Inputs and results as text, and how far two devices are apart. See run.h. */
#include "cli/run.h"

#include <math.h>
#include <string.h>

/* A name from a file, which may hold what a terminal would obey. */
static void print_name(FILE *out, const char *name) {
  for (; *name; name++)
    if ((unsigned char)*name < ' ' || *name == 0x7f)
      fprintf(out, "\\x%02x", *name);
    else
      fputc(*name, out);
}

/* --- values --- */

static bool is_float(sn_dtype dtype) {
  return dtype == SN_F32 || dtype == SN_F16 || dtype == SN_BF16;
}

/* With as many digits as reading the number back needs. */
static void print_number(FILE *out, sn_dtype dtype, double x) {
  if (isnan(x))
    fputs("nan", out); /* its sign means nothing */
  else
    fprintf(out, "%.*g", dtype == SN_F32 ? 9 : is_float(dtype) ? 5 : 10, x);
}

/* The first ones and the last ones. */
static void print_values(FILE *out, const run_result *x, int64_t count) {
  enum { FIRST = 6, LAST = 2 };
  fputs("   ", out);
  for (int64_t i = 0; i < count; i++) {
    if (i == FIRST && count > FIRST + LAST) {
      fputs(" …", out);
      i = count - LAST;
    }
    fputc(' ', out);
    print_number(out, x->type.dtype, replay_load(x->type.dtype, x->data, i));
  }
  fputs(count ? "\n" : " no elements\n", out);
}

/* FNV-1a of the bytes. */
static uint64_t checksum(const run_result *x) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < x->size; i++)
    h = (h ^ ((const unsigned char *)x->data)[i]) * UINT64_C(0x100000001b3);
  return h;
}

/* Least and most of what is no NaN, mean of what is finite. */
static void print_statistics(FILE *out, const run_result *x, int64_t count) {
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t n_nan = 0, n_inf = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = replay_load(x->type.dtype, x->data, i);
    n_nan += isnan(v) != 0;
    n_inf += isinf(v) != 0;
    least = v < least ? v : least;
    most = v > most ? v : most;
    sum += isfinite(v) ? v : 0;
  }
  fputs("    ", out);
  if (count > n_nan) {
    fputs("min ", out);
    print_number(out, x->type.dtype, least);
    fputs("  max ", out);
    print_number(out, x->type.dtype, most);
    fputs("  ", out);
  }
  if (count > n_nan + n_inf)
    fprintf(out, "mean %.6g  ", sum / (double)(count - n_nan - n_inf));
  if (is_float(x->type.dtype))
    fprintf(out, "nan %lld  inf %lld  ", (long long)n_nan, (long long)n_inf);
  fprintf(out, "checksum %016llx\n", (unsigned long long)checksum(x));
}

void run_print_results(FILE *out, const run_side *side) {
  char type[REPLAY_TYPE];
  for (int i = 0; i < side->n; i++) {
    const run_result *x = &side->results[i];
    int64_t count = replay_count(x->type.shape);
    fputs(x->is_state ? "state " : "output ", out);
    print_name(out, x->name);
    fprintf(out, " %s\n", replay_type_text(x->type, type));
    print_values(out, x, count);
    print_statistics(out, x, count);
  }
}

void run_print_inputs(FILE *out, const replay *r) {
  char type[REPLAY_TYPE];
  for (int s = 0; s < r->n_symbols; s++) {
    const replay_symbol *symbol = &r->symbols[s];
    fprintf(out, "symbol %s = %lld: ", symbol->name, (long long)r->values[s]);
    fputs(symbol->origin == REPLAY_GIVEN   ? "given"
          : symbol->origin == REPLAY_SHAPE ? "from the shape of "
                                           : "its maximum",
          out);
    print_name(out, symbol->input ? symbol->input : "");
    fputc('\n', out);
  }
  for (int i = 0; i < r->n_leaves; i++) {
    const replay_leaf *leaf = &r->leaves[i];
    fputs(leaf->is_state ? "state " : "input ", out);
    print_name(out, leaf->name);
    fprintf(out, " %s: %s%s\n", replay_type_text(leaf->type, type), leaf->file ? "from " : "",
            leaf->file       ? leaf->file
            : leaf->is_state ? "as the graph says"
                             : "drawn");
  }
}

/* --- comparing --- */

/* What is off between two results. */
typedef struct difference {
  int64_t n;   /* numbers that differ by more than they may */
  int64_t at;  /* where it is largest; -1: nowhere */
  double most; /* there; infinite where one is NaN or they are different infinities */
} difference;

static double tolerance_of(sn_dtype dtype, double asked) {
  if (!is_float(dtype))
    return 0;
  if (asked >= 0)
    return asked;
  return dtype == SN_F32 ? 1e-4 : dtype == SN_F16 ? 4e-3 : 3e-2;
}

/* Of the same bits, NaNs aside: zeros of both signs differ. */
static bool same_number(double a, double b) {
  return (isnan(a) && isnan(b)) || (a <= b && a >= b && signbit(a) == signbit(b));
}

static bool near_enough(double a, double b, double tolerance) {
  if (same_number(a, b))
    return true;
  double scale = fabs(b) > 1 ? fabs(b) : 1;
  return tolerance > 0 && isfinite(a) && isfinite(b) && fabs(a - b) <= tolerance * scale;
}

static difference difference_of(const run_result *a, const run_result *b, double tolerance) {
  difference d = {.at = -1, .most = -1};
  int64_t count = replay_count(a->type.shape);
  for (int64_t i = 0; i < count; i++) {
    double x = replay_load(a->type.dtype, a->data, i), y = replay_load(b->type.dtype, b->data, i);
    if (same_number(x, y))
      continue;
    double off = isfinite(x) && isfinite(y) ? fabs(x - y) : (double)INFINITY;
    d.n += !near_enough(x, y, tolerance);
    if (off > d.most) {
      d.most = off;
      d.at = i;
    }
  }
  return d;
}

/* "[0, 3]" */
static void print_place(FILE *out, sn_shape shape, int64_t at) {
  int64_t place[SN_MAX_RANK] = {0};
  for (int d = shape.rank; d-- > 0; at /= shape.dim[d])
    place[d] = at % shape.dim[d];
  fputc('[', out);
  for (int d = 0; d < shape.rank; d++)
    fprintf(out, "%s%lld", d ? ", " : "", (long long)place[d]);
  fputc(']', out);
}

static void print_largest(FILE *out, const run_side *a, const run_side *b, int i, difference d) {
  const run_result *x = &a->results[i], *y = &b->results[i];
  sn_dtype dtype = x->type.dtype;
  fprintf(out, "; largest difference %.3g at ", d.most);
  print_place(out, x->type.shape, d.at);
  fprintf(out, ": %s ", a->device);
  print_number(out, dtype, replay_load(dtype, x->data, d.at));
  fprintf(out, ", %s ", b->device);
  print_number(out, dtype, replay_load(dtype, y->data, d.at));
}

static bool same_type(sn_type a, sn_type b) {
  return a.dtype == b.dtype && a.shape.rank == b.shape.rank &&
         memcmp(a.shape.dim, b.shape.dim, (size_t)a.shape.rank * sizeof *a.shape.dim) == 0;
}

/* Whether result i differs. */
static bool compare_result(FILE *out, const run_side *a, const run_side *b, int i, double asked) {
  const run_result *x = &a->results[i], *y = &b->results[i];
  char one[REPLAY_TYPE], other[REPLAY_TYPE];
  fputs("compare ", out);
  print_name(out, x->name);
  fputs(": ", out);
  if (!same_type(x->type, y->type)) {
    fprintf(out, "DIFFERS: %s on %s, %s on %s\n", replay_type_text(x->type, one), a->device,
            replay_type_text(y->type, other), b->device);
    return true;
  }
  double tolerance = tolerance_of(x->type.dtype, asked);
  difference d = difference_of(x, y, tolerance);
  long long count = (long long)replay_count(x->type.shape);
  if (d.n)
    fprintf(out, "DIFFERS in %lld of %lld", (long long)d.n, count);
  else
    fprintf(out, d.at < 0 ? "equal" : "within tolerance");
  if (tolerance > 0)
    fprintf(out, " (tolerance %g)", tolerance);
  if (d.at >= 0)
    print_largest(out, a, b, i, d);
  fputc('\n', out);
  return d.n > 0;
}

int run_compare(FILE *out, const run_side *a, const run_side *b, double tolerance) {
  int differ = 0;
  for (int i = 0; i < a->n; i++)
    differ += compare_result(out, a, b, i, tolerance);
  return differ;
}
