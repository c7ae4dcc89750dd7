/* A Vulkan device for the spike: finds the loader at run time, prefers the software driver, runs one compute shader at
 * a time on buffers that the host sees. Everything a shader needs stands in one block of parameters, whose device
 * address is its only push constant. */
#ifndef SINEW_TESTS_SPIKE_VULKAN_H
#define SINEW_TESTS_SPIKE_VULKAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gpu gpu;

typedef struct gpu_buffer {
  uint64_t buffer, memory, address;
  void *data;
  size_t size;
} gpu_buffer;

/* NULL, with the reason in `why`, where there is no loader, no driver, or one that lacks what shaders here need: 64-bit
 * integers, buffer addresses, 8- and 16-bit storage. The validation layer is used where it is installed. */
gpu *gpu_open(char *why, size_t size);
void gpu_close(gpu *g);
/* Frees what is kept for the next run, but leaves the device open. */
void gpu_forget(gpu *g);
const char *gpu_name(const gpu *g);
bool gpu_validates(const gpu *g);
/* What the validation layer has found wrong so far, and the first of it. */
int gpu_complaints(const gpu *g);
const char *gpu_complaint(const gpu *g);

/* Zeroed memory; a size of 0 is a buffer of one word. */
bool gpu_buffer_create(gpu *g, size_t size, gpu_buffer *out);
void gpu_buffer_destroy(gpu *g, gpu_buffer *b);

/* Runs the shader `repeat` times with `groups` workgroups and waits; *out_seconds is the time of the last. */
typedef struct gpu_job {
  const uint32_t *words;
  size_t n_words;
  uint64_t parameters; /* address of the block */
  uint32_t groups;
  int repeat;
} gpu_job;
bool gpu_run(gpu *g, const gpu_job *job, double *out_seconds);

#endif
