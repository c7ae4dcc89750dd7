/* What every folder may use: the context's body, memory through its allocator, diagnostics, checked
 * arithmetic, small macros.
 *
 * Invariants: every block is released with the size it was asked with; a failed allocation leaves
 * its message in the context; diag_fail is the only way an error message comes about.
 */
#ifndef SINEW_BASE_BASE_H
#define SINEW_BASE_BASE_H

#include <sinew/base.h>
#include <stdarg.h>
#include <string.h>

#define COUNT_OF(a)       (sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* What the operating system is about to be asked; fault injection hooks in here. */
typedef enum io_op {
  IO_OPEN,
  IO_READ,
  IO_WRITE,
  IO_FSYNC,
  IO_RENAME,
  IO_CLOSE,
  IO_LOCK,
  IO_UNLINK,
  IO_OP_COUNT
} io_op;

struct sn_ctx {
  sn_allocator allocator;
  char message[1024];
  /* Tests only: called before each OS call on files; a non-zero result is the errno to fail with. */
  int (*io_fault)(void *user, io_op op);
  void *io_fault_user;
  struct team *team; /* base/team.h; NULL: not needed yet */
};

/* The short names by which the library itself calls sn_ctx_fail and sn_ctx_within. */
#define diag_fail   sn_ctx_fail
#define diag_within sn_ctx_within
sn_status diag_failv(sn_ctx *ctx, sn_status status, const char *format, va_list args) SN_MUST_USE;

/* Memory. mem_alloc returns zeroed bytes; NULL (with the message set) when there is none. Asking for
 * 0 bytes yields a valid pointer that must be freed with size 0. */
void *mem_alloc(sn_ctx *ctx, size_t size);
/* For n elements of `each` bytes; fails on overflow. */
void *mem_array(sn_ctx *ctx, size_t n, size_t each);
/* Grows or shrinks, NULL to a fresh block; new bytes are not zeroed; on failure the old block stays and NULL comes back. */
void *mem_resize(sn_ctx *ctx, void *ptr, size_t old_size, size_t new_size);
void mem_free(sn_ctx *ctx, void *ptr, size_t size);
char *mem_strdup(sn_ctx *ctx, const char *text); /* free with mem_free_str */
void mem_free_str(sn_ctx *ctx, char *text);

/* Checked arithmetic: true when the result fits. */
static inline bool add_fits(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool mul_fits(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_mul_fits(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add_fits(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* FNV-1a over bytes, chained through `seed`; start with HASH_SEED. */
#define HASH_SEED UINT64_C(0xcbf29ce484222325)
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size);
uint64_t hash_string(uint64_t seed, const char *text);
/* The same purpose, eight bytes at a time, and the length counts: for tables, and files of one machine. Depends on the byte order. */
uint64_t hash_long(uint64_t seed, const void *bytes, size_t size);

#endif
