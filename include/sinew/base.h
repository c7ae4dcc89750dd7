/* Base of the public API: status codes, the context, the allocator, dtypes, shapes.
 *
 * Manners that hold everywhere in Sinew:
 *  - Functions that can fail return sn_status; the message (what, where, expected, got) is kept in
 *    the context and read with sn_ctx_message. The library never prints, exits or aborts.
 *  - A NULL where the header does not allow one is an error like another: SN_ERR_INVALID, or, from functions that
 *    return no status, what stands for nothing (NULL, 0, false, -1, an invalid value).
 *  - Arguments are borrowed for the call; results come through `out_x` parameters, which stand last
 *    and are zeroed first. Objects made with `create` are ended with `destroy`, which takes NULL.
 *  - A context and what was made from it belong to one thread at a time; separate contexts are
 *    independent of each other. There is no global mutable state.
 */
#ifndef SINEW_BASE_H
#define SINEW_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SN_API      __attribute__((visibility("default")))
#define SN_MUST_USE __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

#define SN_VERSION "0.1.0"

typedef enum sn_status {
  SN_OK = 0,
  SN_ERR_INVALID,     /* the caller's arguments do not fit: shapes, names, dtypes, attributes */
  SN_ERR_NOT_FOUND,   /* a file, a name, a device that is not there */
  SN_ERR_FORMAT,      /* a file or text that breaks its own format */
  SN_ERR_IO,          /* the operating system refused: open, read, write, a full disk */
  SN_ERR_NO_MEMORY,   /* the allocator returned NULL, or a size does not fit in memory */
  SN_ERR_UNSUPPORTED, /* well formed, but not something that this build can do */
  SN_ERR_NUMERIC, /* NaN or infinity where the caller asked for finite numbers, x / 0 in integers */
  SN_ERR_STATE,   /* the object cannot do this now: a broken graph, an unusable store */
  SN_ERR_CANCELLED, /* a progress callback asked to stop */
  SN_ERR_INTERNAL   /* a bug in Sinew: please report it */
} sn_status;

/* Returns from the calling function when x is not SN_OK. */
#define SN_TRY(x)                \
  do {                           \
    sn_status try_status_ = (x); \
    if (try_status_ != SN_OK)    \
      return try_status_;        \
  } while (0)

/* The name of a status: "invalid argument", "no memory", ... Never NULL. */
SN_API const char *sn_status_name(sn_status status);
SN_API const char *sn_version(void);

/* One function is the whole allocator: size 0 frees (and returns NULL), ptr NULL allocates. old_size
 * is what the block was asked with. Returns NULL when it cannot; the old block is then untouched. */
typedef struct sn_allocator {
  void *(*resize)(void *user, void *ptr, size_t old_size, size_t new_size);
  void *user;
} sn_allocator;

/* The context: allocator and diagnostics. Everything made from it must be destroyed before it. */
typedef struct sn_ctx sn_ctx;

/* allocator may be NULL: malloc and free. */
SN_MUST_USE SN_API sn_status sn_ctx_create(const sn_allocator *allocator, sn_ctx **out_ctx);
SN_API void sn_ctx_destroy(sn_ctx *ctx);
/* The message of the last call that failed; "" when there was none. Valid until the next failure. */
SN_API const char *sn_ctx_message(const sn_ctx *ctx);

/* For code on top of the library that wants to speak through the same context: sets the message and returns
 * status; puts "prefix: " before the message on the way up; memory through the context's allocator
 * (zeroed; free it with the size it was asked with; NULL, with the message set, when there is none). */
SN_API sn_status sn_ctx_fail(sn_ctx *ctx, sn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
SN_API sn_status sn_ctx_within(sn_ctx *ctx, sn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
SN_API void *sn_ctx_alloc(sn_ctx *ctx, size_t size);
SN_API void sn_ctx_free(sn_ctx *ctx, void *ptr, size_t size);

/* Element types. Values of bool are stored as u8, 0 or 1. */
typedef enum sn_dtype {
  SN_NO_DTYPE = 0,
  SN_F32,
  SN_F16,
  SN_BF16,
  SN_I32,
  SN_U8,
  SN_BOOL,
  SN_DTYPE_COUNT
} sn_dtype;

/* "f32", "bf16", ...; "none" for SN_NO_DTYPE. */
SN_API const char *sn_dtype_name(sn_dtype dtype);
/* Bytes of one element; 0 when dtype is not one. */
SN_API size_t sn_dtype_size(sn_dtype dtype);

/* A size along an axis: a plain number, or a handle of an integer expression over symbols that a
 * graph owns (see graph.h). Handles lie far below any plain number. */
typedef int64_t sn_dim;

enum { SN_MAX_RANK = 8 };

typedef struct sn_shape {
  int rank;
  sn_dim dim[SN_MAX_RANK];
} sn_shape;

/* A short list of integers: axes, strides, paddings. */
typedef struct sn_ints {
  int n;
  int64_t v[SN_MAX_RANK];
} sn_ints;

typedef struct sn_type {
  sn_dtype dtype;
  sn_shape shape;
} sn_type;

/* In an option that is a number and whose 0 means its default, so that a zeroed struct has good values: 0 itself.
 *   sn_optimizer o = {.kind = SN_ADAM, .beta1 = SN_ZERO};
 * Any other negative number is an error there. */
#define SN_ZERO (-1.0)

/* Called now and then during long work with how much is done. Return false to cancel. */
typedef struct sn_progress {
  bool (*report)(void *user, int64_t done, int64_t total, const char *what);
  void *user;
} sn_progress;

#ifdef __cplusplus
}
template <typename... T> inline sn_shape sn_shape_of(T... dims) {
  return sn_shape{static_cast<int>(sizeof...(T)), {static_cast<sn_dim>(dims)...}};
}
template <typename... T> inline sn_ints sn_ints_of(T... values) {
  return sn_ints{static_cast<int>(sizeof...(T)), {static_cast<int64_t>(values)...}};
}
#define SN_SHAPE(...) sn_shape_of(__VA_ARGS__)
#define SN_INTS(...)  sn_ints_of(__VA_ARGS__)
#define SN_SCALAR     sn_shape_of()
#else
/* SN_SHAPE(2, 3) and SN_INTS(0, -1): literals of sn_shape and sn_ints; SN_SCALAR: rank 0. */
#define SN_SHAPE(...) \
  ((sn_shape){(int)(sizeof((sn_dim[]){__VA_ARGS__}) / sizeof(sn_dim)), {__VA_ARGS__}})
#define SN_INTS(...) \
  ((sn_ints){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define SN_SCALAR ((sn_shape){0, {0}})
#endif

#endif
