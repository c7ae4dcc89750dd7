/* Reading and checking the header of an npy file. See npy.h. Nothing in it is believed. */
#include "io/npy.h"

typedef struct cursor {
  sn_ctx *ctx;
  const char *begin, *at, *end;
} cursor;

static const char *const keys[] = {"descr", "fortran_order", "shape"};

/* Something else should stand here. */
static sn_status expected(const cursor *c, const char *what) {
  return diag_fail(c->ctx, SN_ERR_FORMAT, "header: byte %zu: expected %s",
                   (size_t)(c->at - c->begin), what);
}

static void skip_blanks(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
    c->at++;
}

static bool take(cursor *c, char wanted) {
  skip_blanks(c);
  if (c->at == c->end || *c->at != wanted)
    return false;
  c->at++;
  return true;
}

/* A string in quotes of either sort, without escapes. */
static sn_status read_string(cursor *c, char *out, size_t room) {
  skip_blanks(c);
  char quote = c->at < c->end ? *c->at : '\0';
  if (quote != '\'' && quote != '"')
    return expected(c, "a string");
  size_t n = 0;
  for (c->at++; c->at < c->end && *c->at != quote; c->at++) {
    if (n + 1 >= room || *c->at < ' ' || *c->at == '\\')
      return expected(c, "a plain short string");
    out[n++] = *c->at;
  }
  out[n] = '\0';
  return take(c, quote) ? SN_OK : expected(c, "a closing quote");
}

static sn_status read_size(cursor *c, int64_t *out) {
  const char *start = c->at;
  *out = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    if (!mul_fits(*out, 10, out) || !add_fits(*out, *c->at - '0', out))
      return expected(c, "a smaller size");
  return c->at > start ? SN_OK : expected(c, "a size");
}

/* (), (3,), (3, 4): a comma may stand behind the last one, and must where it is the only one. */
static sn_status read_shape(cursor *c, sn_shape *shape) {
  bool comma = true;
  if (!take(c, '('))
    return expected(c, "'('");
  while (!take(c, ')')) {
    if (!comma)
      return expected(c, "',' or ')'");
    if (shape->rank == SN_MAX_RANK)
      return diag_fail(c->ctx, SN_ERR_UNSUPPORTED, "shape: more than %d axes", SN_MAX_RANK);
    SN_TRY(read_size(c, &shape->dim[shape->rank]));
    shape->rank++;
    comma = take(c, ',');
  }
  return shape->rank == 1 && !comma ? expected(c, "',' behind the only size") : SN_OK;
}

static sn_status read_bool(cursor *c, bool *out) {
  static const char *const words[] = {"False", "True"};
  skip_blanks(c);
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(c->end - c->at) >= n && memcmp(c->at, words[i], n) == 0) {
      c->at += n;
      *out = i;
      return SN_OK;
    }
  }
  return expected(c, "True or False");
}

/* "<f4": byte order, kind, bytes. */
static sn_status parse_descr(sn_npy *npy) {
  static const struct {
    const char *kind_size;
    sn_dtype dtype;
  } known[] = {{"f4", SN_F32},      {"f2", SN_F16},      {"i4", SN_I32},      {"u1", SN_U8},
               {"b1", SN_BOOL},     {"f8", SN_NO_DTYPE}, {"i8", SN_NO_DTYPE}, {"i1", SN_NO_DTYPE},
               {"i2", SN_NO_DTYPE}, {"u2", SN_NO_DTYPE}, {"u4", SN_NO_DTYPE}, {"u8", SN_NO_DTYPE}};
  const char *d = npy->descr;
  for (size_t i = 0; i < COUNT_OF(known) && *d; i++) {
    size_t size = (size_t)(known[i].kind_size[1] - '0');
    if (strcmp(d + 1, known[i].kind_size) != 0 || (*d != '<' && (*d != '|' || size > 1)))
      continue;
    npy->view.dtype = known[i].dtype;
    npy->element = (npy_element){known[i].kind_size[0], size};
    return SN_OK;
  }
  return diag_fail(npy->ctx, SN_ERR_UNSUPPORTED,
                   "dtype '%s' is none of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, little-endian", d);
}

static sn_status read_descr(cursor *c, sn_npy *npy) {
  skip_blanks(c);
  if (c->at < c->end && *c->at == '[')
    return diag_fail(c->ctx, SN_ERR_UNSUPPORTED, "arrays of records are not supported");
  SN_TRY(read_string(c, npy->descr, sizeof npy->descr));
  return parse_descr(npy);
}

static sn_status read_entry(cursor *c, sn_npy *npy, unsigned *seen) {
  char key[16];
  size_t k = 0;
  SN_TRY(read_string(c, key, sizeof key));
  while (k < COUNT_OF(keys) && strcmp(keys[k], key) != 0)
    k++;
  if (k == COUNT_OF(keys) || *seen >> k & 1)
    return diag_fail(c->ctx, SN_ERR_FORMAT, "header: key '%s' is %s", key,
                     k == COUNT_OF(keys) ? "unknown" : "there twice");
  *seen |= 1u << k;
  if (!take(c, ':'))
    return expected(c, "':'");
  return k == 0   ? read_descr(c, npy)
         : k == 1 ? read_bool(c, &npy->fortran)
                  : read_shape(c, &npy->view.shape);
}

static sn_status parse_dictionary(cursor *c, sn_npy *npy) {
  unsigned seen = 0;
  bool comma = true;
  if (!take(c, '{'))
    return expected(c, "'{'");
  while (!take(c, '}')) {
    if (!comma)
      return expected(c, "',' or '}'");
    SN_TRY(read_entry(c, npy, &seen));
    comma = take(c, ',');
  }
  skip_blanks(c);
  if (c->at < c->end)
    return expected(c, "nothing behind '}'");
  for (size_t k = 0; k < COUNT_OF(keys); k++)
    if (!(seen >> k & 1))
      return diag_fail(c->ctx, SN_ERR_FORMAT, "header: key '%s' is missing", keys[k]);
  return SN_OK;
}

/* Empty axes are left out of the product, so that strides cannot overflow either. */
static sn_status check_size(sn_npy *npy) {
  const sn_shape *shape = &npy->view.shape;
  int64_t product = 1, bytes;
  bool empty = false;
  for (int i = 0; i < shape->rank; i++) {
    empty |= shape->dim[i] == 0;
    if (shape->dim[i] && !mul_fits(product, shape->dim[i], &product))
      return diag_fail(npy->ctx, SN_ERR_FORMAT, "shape: the number of elements overflows");
  }
  if (!mul_fits(product, (int64_t)npy->element.size, &bytes))
    return diag_fail(npy->ctx, SN_ERR_FORMAT, "shape: the number of bytes overflows");
  npy->view.count = empty ? 0 : product;
  bytes = empty ? 0 : bytes;
  uint64_t there = file_size(npy->file) - npy->data;
  if ((uint64_t)bytes != there)
    return diag_fail(npy->ctx, SN_ERR_FORMAT, "%lld elements of %s are %lld bytes, got %llu",
                     (long long)npy->view.count, npy->descr, (long long)bytes,
                     (unsigned long long)there);
  return SN_OK;
}

/* Where the header's text begins and how long it is. */
static sn_status read_preamble(sn_npy *npy, uint64_t *out_start, size_t *out_length) {
  unsigned char b[12] = {0};
  uint64_t size = file_size(npy->file);
  *out_start = 0;
  *out_length = 0;
  SN_TRY(file_read_at(npy->file, 0, b, size < sizeof b ? (size_t)size : sizeof b));
  if (size < 10 || memcmp(b, "\x93NUMPY", 6) != 0)
    return diag_fail(npy->ctx, SN_ERR_FORMAT, "not an npy file");
  if (b[6] < 1 || b[6] > 3 || b[7] != 0)
    return diag_fail(npy->ctx, SN_ERR_UNSUPPORTED, "version %d.%d: expected 1.0, 2.0 or 3.0", b[6],
                     b[7]);
  bool wide = b[6] > 1;
  uint32_t length = b[8] | (uint32_t)b[9] << 8;
  if (wide)
    length |= (uint32_t)b[10] << 16 | (uint32_t)b[11] << 24;
  uint64_t start = wide ? 12 : 10;
  if (size < start || length > NPY_MAX_HEADER || length > size - start)
    return diag_fail(npy->ctx, SN_ERR_FORMAT,
                     "header length: expected at most %d and within the file of %llu bytes, got %u",
                     NPY_MAX_HEADER, (unsigned long long)size, (unsigned)length);
  *out_start = start;
  *out_length = length;
  return SN_OK;
}

static sn_status load_header(sn_npy *npy) {
  uint64_t start;
  size_t length;
  SN_TRY(read_preamble(npy, &start, &length));
  char *text = mem_alloc(npy->ctx, length);
  if (!text)
    return SN_ERR_NO_MEMORY;
  sn_status status = file_read_at(npy->file, start, text, length);
  cursor c = {npy->ctx, text, text, text + length};
  if (status == SN_OK)
    status = parse_dictionary(&c, npy);
  mem_free(npy->ctx, text, length);
  SN_TRY(status);
  npy->data = start + length;
  return check_size(npy);
}

sn_status npy_load_header(sn_npy *npy) {
  sn_status status = load_header(npy);
  return status == SN_OK ? SN_OK : diag_within(npy->ctx, status, "%s", file_path(npy->file));
}
