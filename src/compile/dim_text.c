/* Sizes from the text that dim_print writes. Called by program_bytes.c. Limits: nesting is bounded by what dim.c accepts, numbers
 * by DIM_LIMIT; a graph error (too many terms) counts as bad text. */
#include "compile/program_bytes.h"

enum { NESTING = 4 * DIM_MAX_DEPTH };

typedef struct reader {
  sn_graph *g;
  const char *at;
  int depth;
} reader;

static bool read_sum(reader *r, sn_dim *out);

static bool take(reader *r, char c) {
  if (*r->at != c)
    return false;
  r->at++;
  return true;
}

static bool read_number(reader *r, int64_t *out) {
  *out = 0;
  const char *start = r->at;
  for (; *r->at >= '0' && *r->at <= '9'; r->at++)
    if (!mul_fits(*out, 10, out) || !add_fits(*out, *r->at - '0', out) || *out >= DIM_LIMIT)
      return false;
  return r->at != start;
}

static bool read_symbol(reader *r, sn_dim *out) {
  size_t n = strcspn(r->at, "+-*/()");
  for (int s = 0; s < dim_symbol_count(r->g); s++) {
    const char *name = dim_symbol_name(r->g, s);
    if (strlen(name) == n && memcmp(name, r->at, n) == 0) {
      *out = sn_symbol(r->g, name, dim_symbol_max(r->g, s));
      r->at += n;
      return true;
    }
  }
  return false;
}

static bool read_factor(reader *r, sn_dim *out) {
  if (take(r, '('))
    return ++r->depth < NESTING && read_sum(r, out) && take(r, ')') && r->depth-- > 0;
  return *r->at >= '0' && *r->at <= '9' ? read_number(r, out) : read_symbol(r, out);
}

static bool read_product(reader *r, sn_dim *out) {
  if (!read_factor(r, out))
    return false;
  for (;;) {
    int64_t by;
    if (take(r, '*')) {
      if (!read_factor(r, &by))
        return false;
      *out = sn_dim_mul(r->g, *out, by);
    } else if (take(r, '/')) {
      if (!read_number(r, &by) || by == 0)
        return false;
      *out = sn_dim_div(r->g, *out, by);
    } else {
      return r->g->status == SN_OK;
    }
    if (r->g->status != SN_OK)
      return false;
  }
}

static bool read_sum(reader *r, sn_dim *out) {
  sn_dim sum = 0;
  bool minus = take(r, '-');
  do {
    sn_dim more;
    if (!read_product(r, &more))
      return false;
    sum = minus ? sn_dim_sub(r->g, sum, more) : sn_dim_add(r->g, sum, more);
    if (r->g->status != SN_OK)
      return false;
    minus = *r->at == '-';
  } while (take(r, '+') || take(r, '-'));
  *out = sum;
  return true;
}

bool dim_text_read(sn_graph *g, const char *form, sn_dim *out) {
  reader r = {g, form, 0};
  *out = 0;
  return read_sum(&r, out) && *r.at == '\0';
}
