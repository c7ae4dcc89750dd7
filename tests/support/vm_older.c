/* See vm_older.h. Where the two differ, but for numbers:
 *   - types have no use, so that those of operands would be declared twice: each gets a scope of its own, a copy of the constant;
 *   - layouts are bools, and come behind the stride;
 *   - products of elements by elements are not known, sums of them are: those stand for them;
 *   - there is no bf16: such matrices become those of f16, of which a module has none then. */
#include "support/vm_older.h"

#include "device/vulkan/spirv_numbers.h"

#include <stdlib.h>
#include <string.h>

enum {
  CAPABILITY_F16 = 9,
  CAPABILITY_BF16 = 5116,
  CAPABILITY_BF16_MATRIX = 5118,
  CAPABILITY_MATRIX = 6022,
  NV_CAPABILITY = 5357,
  NV_TYPE = 5358,
  NV_LOAD,
  NV_STORE,
  NV_MULTIPLY_ADD,
  NV_LENGTH,
  MOST = 512 /* words of an instruction that is looked at */
};

typedef struct writing {
  const uint32_t *from; /* the module */
  size_t n_from;
  uint32_t *to;
  size_t n;
  uint32_t bound, boolean, layout[2]; /* ids; layouts once there is one */
} writing;

static void put(writing *w, uint32_t op, uint32_t n, const uint32_t *args) {
  w->to[w->n++] = (n + 1) << 16 | op;
  memcpy(w->to + w->n, args, n * sizeof *args);
  w->n += n;
}

static void keep(writing *w, const uint32_t *at) { put(w, *at & 0xffff, (*at >> 16) - 1, at + 1); }

/* The instruction of that kind, before all functions, whose word `at` is this id; NULL: there is none. */
static const uint32_t *find(const writing *w, uint32_t op, uint32_t at, uint32_t id) {
  for (size_t i = 5; i < w->n_from && (w->from[i] & 0xffff) != SPV_Function; i += w->from[i] >> 16)
    if ((w->from[i] & 0xffff) == op && w->from[i + at] == id)
      return w->from + i;
  return NULL;
}

static const uint32_t *constant_of(const writing *w, uint32_t id) {
  return find(w, SPV_Constant, 2, id);
}

static bool is_matrix(const writing *w, uint32_t type) {
  return find(w, SPV_TypeCooperativeMatrixKHR, 1, type);
}

static bool has_text(const uint32_t *at, const char *text) {
  return (*at >> 16) * 4 > strlen(text) + 4 && memcmp(at + 1, text, strlen(text) + 1) == 0;
}

/* --- the preamble --- */

static void write_extension(writing *w, const uint32_t *at) {
  static const char nv[] = "SPV_NV_cooperative_matrix";
  if (has_text(at, "SPV_KHR_cooperative_matrix")) {
    uint32_t words[sizeof nv / 4 + 1] = {0};
    memcpy(words, nv, sizeof nv);
    put(w, SPV_Extension, sizeof words / sizeof *words, words);
  } else if (!has_text(at, "SPV_KHR_bfloat16"))
    keep(w, at);
}

static void write_capability(writing *w, const uint32_t *at) {
  uint32_t to = at[1] == CAPABILITY_MATRIX ? (uint32_t)NV_CAPABILITY
                : at[1] == CAPABILITY_BF16 ? (uint32_t)CAPABILITY_F16
                                           : at[1];
  if (to != CAPABILITY_BF16_MATRIX)
    put(w, SPV_Capability, 1, &to);
}

/* --- types --- */

static bool write_type(writing *w, const uint32_t *at) {
  const uint32_t *scope = constant_of(w, at[3]);
  if (!scope || !w->boolean)
    return false;
  for (uint32_t i = 0; i < 2 && !w->layout[1]; i++) {
    w->layout[i] = w->bound++;
    put(w, i ? SPV_ConstantTrue : SPV_ConstantFalse, 2, (uint32_t[]){w->boolean, w->layout[i]});
  }
  uint32_t own = w->bound++;
  put(w, SPV_Constant, 3, (uint32_t[]){scope[1], own, scope[3]});
  put(w, NV_TYPE, 5, (uint32_t[]){at[1], at[2], own, at[4], at[5]});
  return true;
}

/* --- instructions --- */

/* Layout and stride are the arguments `first` and the next. */
static bool write_access(writing *w, const uint32_t *at, uint32_t op, uint32_t first) {
  uint32_t args[MOST], n = (*at >> 16) - 1;
  const uint32_t *layout = n > first + 1 && n < MOST ? constant_of(w, at[1 + first]) : NULL;
  if (!layout || layout[3] > 1)
    return false;
  memcpy(args, at + 1, n * sizeof *args);
  args[first] = at[1 + first + 1];
  args[first + 1] = w->layout[layout[3]];
  put(w, op, n, args);
  return true;
}

static bool write_one(writing *w, const uint32_t *at) {
  uint32_t n = (*at >> 16) - 1;
  switch (*at & 0xffff) {
  case SPV_Extension: write_extension(w, at); return true;
  case SPV_Capability: write_capability(w, at); return true;
  case SPV_TypeFloat: put(w, SPV_TypeFloat, 2, at + 1); return true;
  case SPV_TypeBool: w->boolean = at[1]; break;
  case SPV_TypeCooperativeMatrixKHR: return n == 6 && write_type(w, at);
  case SPV_CooperativeMatrixLoadKHR: return write_access(w, at, NV_LOAD, 3);
  case SPV_CooperativeMatrixStoreKHR: return write_access(w, at, NV_STORE, 2);
  case SPV_CooperativeMatrixMulAddKHR:
    put(w, NV_MULTIPLY_ADD, 5, at + 1);
    return n == 5; /* no operands that it does not have */
  case SPV_FMul: put(w, is_matrix(w, at[1]) ? SPV_FAdd : SPV_FMul, n, at + 1); return true;
  case SPV_CooperativeMatrixLengthKHR: put(w, NV_LENGTH, n, at + 1); return true;
  default: break;
  }
  keep(w, at);
  return true;
}

uint32_t *older_matrices(const uint32_t *words, size_t n, size_t *out_n) {
  writing w = {.from = words, .n_from = n, .n = 5, .bound = words[3]};
  w.to =
      calloc(2 * n + 64,
             sizeof *w.to); /* no instruction becomes more than three times as long, and few do */
  if (!w.to)
    abort();
  memcpy(w.to, words, 5 * sizeof *words);
  bool ok = true;
  for (size_t i = 5; i < n && ok; i += words[i] >> 16)
    ok = words[i] >> 16 > 0 && (words[i] >> 16) <= n - i && write_one(&w, words + i);
  w.to[3] = w.bound;
  *out_n = w.n;
  if (ok)
    return w.to;
  free(w.to);
  return NULL;
}
