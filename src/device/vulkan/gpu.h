/* GPUs: Vulkan's loader, the physical devices, and one open device of each that is in use.
 *
 *   gpu *g;  gpu_get(ctx, 0, &g);      // the best one; opened by whoever comes first, shared by all
 *   …
 *   gpu_put(g);
 *
 * All of it is one for the process, behind locks: contexts and threads share an open GPU. Its memory is malloc's, since it
 * belongs to no context; messages go to the context of the caller. The loader's library, its instance and GPUs that were opened
 * stay for the life of the process: to open one takes longer than most programs take to compile.
 *
 * A GPU that was lost (a hung shader, a driver reset) stays lost for those who have it; gpu_get opens a fresh one.
 */
#ifndef SINEW_DEVICE_VULKAN_GPU_H
#define SINEW_DEVICE_VULKAN_GPU_H

#include "device/vulkan/calls.h"
#include "device/vulkan/launch.h"

#include <pthread.h>
#include <stdatomic.h>

enum { GPU_MOST = 16 };

/* What is known of a GPU without opening it. */
typedef struct gpu_info {
  char name[16];         /* "vulkan" for the first, then "vulkan:1", … */
  char description[400]; /* for people: name, driver, memory */
  uint32_t kind, api;    /* VK_TYPE_… */
  int64_t memory;        /* bytes, device-local */
  vk_handle physical;
} gpu_info;

/* Opens the loader when first called. Best first: discrete, integrated, virtual, software. 0 where there is none, and why. */
int gpu_count(void);
const char *gpu_why_none(void);
const gpu_info *gpu_at(int index); /* NULL beyond the last */
bool gpu_is_software(const gpu_info *info);

/* --- an open one --- */

typedef enum memory_kind {
  MEMORY_DEVICE, /* the GPU's; mapped only where the host caches it as well */
  MEMORY_SHARED, /* the GPU's, written by the host through a window where there is one; mapped */
  MEMORY_HOST,   /* the host's, cached there, reached by the GPU; mapped */
  MEMORY_KINDS
} memory_kind;

/* One buffer with memory of its own. */
typedef struct gpu_block {
  vk_handle buffer, memory;
  uint64_t address;
  char *data;          /* NULL: not mapped */
  int64_t bytes, held; /* that were asked for; that the driver took for it */
  memory_kind kind;
} gpu_block;

typedef struct gpu_limits {
  int64_t allocation_bytes; /* of one block; drivers may give more */
  int64_t buffer_bytes;     /* of one block; they never give more */
  int64_t uniform_alignment, uniform_range;
  double timestamp_ns;     /* of a tick; 0: no timestamps */
  uint64_t timestamp_mask; /* bits of them that count */
  uint32_t group_counts[3];
  int subgroup_least, subgroup_most; /* both 0: no choice */
} gpu_limits;

typedef struct gpu {
  const gpu_info *info;
  int index;
  int refs; /* under the loader's lock */
  atomic_bool lost;
  vk_device_calls vk;
  vk_handle physical, device, queue;
  uint32_t family;
  uint8_t driver_uuid[16], device_uuid[16];
  gpu_target target;
  pthread_mutex_t proof;     /* held while one of these is tested */
  _Atomic uint32_t matrices; /* what is known of them; see gpu_matrix_proof */
  atomic_int chain;          /* matrix_proof: whether launches wait for each other as they should */
  gpu_limits limits;
  uint32_t memory_type[MEMORY_KINDS], memory_flags[MEMORY_KINDS], memory_heap[MEMORY_KINDS];
  uint64_t heap_bytes[16];
  bool has_budget;
  _Atomic int64_t used;   /* bytes of the heap of MEMORY_DEVICE */
  pthread_mutex_t submit; /* the queue */
  pthread_mutex_t chunks_lock;
  struct mirror_chunk *chunks; /* of mirror.c */
  struct gpu_transfers *transfers;
  struct gpu_pipelines *pipelines;
} gpu;

sn_status gpu_get(sn_ctx *ctx, int index, gpu **out) SN_MUST_USE;
void gpu_put(gpu *g);
/* Closes those that nobody has. Tests then see what was left behind. */
void gpu_close_unused(void);
/* The error of a call's result. Notes that the GPU was lost. */
sn_status gpu_fail(gpu *g, sn_ctx *ctx, int result, const char *doing) SN_MUST_USE;
sn_status gpu_check(gpu *g, sn_ctx *ctx) SN_MUST_USE; /* fails once it is lost */

/* Of the sizes from `least` to `most` (both 0: no choice) that which kernels ask for. */
int gpu_choose_subgroup(uint32_t driver, int usual, int least, int most);
/* How many threads a workgroup may have for them: a power of two. `subgroups`: how many of these it may have; 0: any number. */
int gpu_choose_threads(int64_t most, int subgroup, int64_t subgroups);

/* Submits commands; `semaphore` gets `value` when they are done. */
sn_status gpu_submit(gpu *g, sn_ctx *ctx, int n, const vk_handle *commands, vk_handle semaphore,
                     uint64_t value) SN_MUST_USE;
/* Until the semaphore has that value: looks for a while, then sleeps. A GPU that takes longer than the limit is given up. */
sn_status gpu_wait(gpu *g, sn_ctx *ctx, vk_handle semaphore, uint64_t value) SN_MUST_USE;

/* Until nothing runs on it any more, also of others, and of what was given up. */
void gpu_idle(gpu *g);
/* Seconds that this thread has spent in gpu_wait so far. */
double gpu_waited(void);

/* A timeline at 0. */
sn_status gpu_semaphore(gpu *g, sn_ctx *ctx, vk_handle *out) SN_MUST_USE;

/* --- which memory (gpu_memory.c) --- */
/* What buffers of a kind are for. */
uint32_t gpu_usage(memory_kind kind);
/* The type for each kind, of those in `of`, which buffers of the kind can have. MEMORY_KINDS, or the first kind that there is none for. */
memory_kind gpu_choose_memory(const vk_memory_properties *m, const uint32_t of[MEMORY_KINDS],
                              uint32_t out[MEMORY_KINDS]);
sn_status gpu_find_memory(gpu *g, sn_ctx *ctx) SN_MUST_USE;

/* --- memory (memory.c) --- */
/* Zero bytes are fine. Not zeroed. `what` says for whom in a message. */
sn_status gpu_block_create(gpu *g, sn_ctx *ctx, memory_kind kind, const char *what, int64_t bytes,
                           gpu_block *out) SN_MUST_USE;
void gpu_block_destroy(gpu *g, gpu_block *b);
/* Whether memory of this kind is the GPU's own. */
static inline bool gpu_is_own(const gpu *g, memory_kind kind) {
  return g->memory_heap[kind] == g->memory_heap[MEMORY_DEVICE];
}
/* Bytes that can still be had of the GPU's memory. */
int64_t gpu_available(gpu *g);
/* Copies between the host and a block, by the window or by staging memory; done on return. Called while no run uses the
 * bytes. */
sn_status gpu_write(gpu *g, sn_ctx *ctx, const gpu_block *b, int64_t at, const void *from,
                    int64_t bytes) SN_MUST_USE;
sn_status gpu_read(gpu *g, sn_ctx *ctx, const gpu_block *b, int64_t at, void *to,
                   int64_t bytes) SN_MUST_USE;
sn_status gpu_transfers_create(gpu *g, sn_ctx *ctx) SN_MUST_USE;
void gpu_transfers_destroy(gpu *g);

/* --- pipelines (pipelines.c) --- */
typedef struct gpu_pipeline gpu_pipeline;
sn_status gpu_pipelines_create(gpu *g, sn_ctx *ctx) SN_MUST_USE;
void gpu_pipelines_destroy(gpu *g);
/* Keeps what was compiled for the next process. */
void gpu_pipelines_save(gpu *g);
vk_handle gpu_set_layout(const gpu *g);
vk_handle gpu_layout(const gpu *g);
/* The pipelines of n shaders, made in parallel where there are none yet. All, or none and an error. */
sn_status gpu_pipelines_get(gpu *g, sn_ctx *ctx, int n, const shader *const *shaders,
                            gpu_pipeline **out) SN_MUST_USE;
void gpu_pipelines_put(gpu *g, int n, gpu_pipeline *const *pipelines);
vk_handle gpu_pipeline_handle(const gpu_pipeline *p);

/* --- cooperative matrices: whether products of f16, of bf16 are right, as a test has found. One word for all, which is kept with what
 * was compiled; 0: nothing is known --- */
typedef enum matrix_proof { MATRIX_UNTESTED, MATRIX_RIGHT, MATRIX_WRONG } matrix_proof;
matrix_proof gpu_matrix_proof(const gpu *g, sn_dtype half);
void gpu_matrix_note(gpu *g, sn_dtype half, matrix_proof proof);
/* Whether their elements are at the places of kernel_matrix.h. */
matrix_proof gpu_places_proof(const gpu *g, sn_dtype half);
void gpu_places_note(gpu *g, sn_dtype half, matrix_proof proof);

/* --- what the validation layer (SINEW_VULKAN_VALIDATE=1) has found wrong so far, and the first of it. Once there is something,
 * waiting for a GPU fails with it --- */
int gpu_complaints(void);
void gpu_forget_complaints(void); /* for tests that plant some */
const char *gpu_complaint(void);
bool gpu_validates(void);

/* --- between loader.c and gpu.c --- */
sn_status gpu_open(sn_ctx *ctx, gpu *g) SN_MUST_USE;
void gpu_close(gpu *g);
/* Cooperative matrices that it lists: into g->target. */
void gpu_find_matrices(gpu *g, bool f16, bool bf16);
const vk_instance_calls *loader_calls(void);
void *loader_instance_call(const char *name); /* NULL: there is none */
void *loader_device_call(vk_handle device, const char *name);

#endif
