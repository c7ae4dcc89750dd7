/* SCAN: running sums and products along an axis. Floats run in double and are rounded when they are stored; integers
 * wrap. Neighbouring slices run side by side, so that memory is read in order. */
#include "device/cpu/view.h"

enum { SLICES = 64 };

typedef struct scan {
  view x, y;
  bool product, exclusive, reverse;
} scan;

/* n slices that begin at inner index i. */
static void scan_floats(const scan *s, int64_t o, int64_t i, int64_t n) {
  const view *x = &s->x, *y = &s->y;
  double acc[SLICES];
  for (int64_t j = 0; j < n; j++)
    acc[j] = s->product ? 1 : 0;
  for (int64_t k = 0; k < x->dim[1]; k++) {
    int64_t index[] = {o, s->reverse ? x->dim[1] - 1 - k : k, i};
    int64_t from = view_at(x, 3, index), to = view_at(y, 3, index);
    for (int64_t j = 0; j < n; j++) {
      double v = (double)view_load(x, from + j * x->stride[2]);
      double next = s->product ? acc[j] * v : acc[j] + v;
      view_store(y, to + j * y->stride[2], (float)(s->exclusive ? acc[j] : next));
      acc[j] = next;
    }
  }
}

/* The same for i32 and u8: what wraps at 32 bits is right in the low 8 too. */
static void scan_ints(const scan *s, int64_t o, int64_t i, int64_t n) {
  const view *x = &s->x, *y = &s->y;
  uint32_t acc[SLICES];
  for (int64_t j = 0; j < n; j++)
    acc[j] = s->product ? 1 : 0;
  for (int64_t k = 0; k < x->dim[1]; k++) {
    int64_t index[] = {o, s->reverse ? x->dim[1] - 1 - k : k, i};
    int64_t from = view_at(x, 3, index), to = view_at(y, 3, index);
    for (int64_t j = 0; j < n; j++) {
      int64_t at = from + j * x->stride[2], into = to + j * y->stride[2];
      bool wide = x->dtype == SN_I32;
      uint32_t v = wide ? (uint32_t)view_i32(x, at) : (uint8_t)x->data[at];
      uint32_t next = s->product ? acc[j] * v : acc[j] + v, result = s->exclusive ? acc[j] : next;
      if (wide)
        ((uint32_t *)(void *)y->data)[into] = result;
      else
        y->data[into] = (char)(uint8_t)result;
      acc[j] = next;
    }
  }
}

sn_status cpu_run_scan(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    scan w = {.x = view_of(r, &c->in[0]),
              .y = view_of(r, &c->out[0]),
              .product = c->ints[0] == 1,
              .exclusive = c->ints[1] != 0,
              .reverse = c->ints[2] != 0};
    bool is_int = w.x.dtype == SN_I32 || w.x.dtype == SN_U8;
    for (int64_t o = 0; o < w.x.dim[0]; o++)
      for (int64_t j = 0; j < w.x.dim[2]; j += SLICES)
        (is_int ? scan_ints : scan_floats)(&w, o, j, min_i64(SLICES, w.x.dim[2] - j));
  }
  return SN_OK;
}

size_t cpu_need_scan(const program *p, const step *s) {
  (void)p;
  (void)s;
  return 0;
}
