/* Fuzzes the file in which a Vulkan driver's pipelines are kept, with a driver that is none: whatever the file holds, the driver
 * gets a cache, with bytes only of a file whose header fits them, and what it has afterwards is kept and found again.
 *
 * The first byte of an input says what the rest is: 'r' the file itself; 'e' edits (support/fuzz_files.h) to the file that was kept;
 * 'm' the same with a checksum that fits again. */
#include "device/vulkan/pipelines.h"
#include "support/fuzz_files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Where things stand in the header; see pipeline_cache.c. */
enum { AT_BYTES = 48, AT_CHECKSUM = 56, AT_MATRICES = 64, HEADER = 72 };

/* --- a driver --- */

/* What it was given last, and has. */
static struct {
  size_t size;
  uint8_t bytes[1 << 16];
  bool open;
} driver;

static int create_cache(vk_handle device, const vk_cache_create_info *info, const void *host,
                        vk_handle *out) {
  (void)device;
  (void)host;
  fuzz_demand(!driver.open && (info->size == 0) == (info->data == NULL));
  fuzz_demand(info->size <= sizeof driver.bytes);
  driver.size = info->size;
  if (info->size)
    memcpy(driver.bytes, info->data, info->size);
  driver.open = true;
  *out = 1;
  return 0;
}

static int cache_data(vk_handle device, vk_handle cache, size_t *n, void *bytes) {
  (void)device;
  fuzz_demand(cache == 1 && driver.open);
  if (bytes)
    memcpy(bytes, driver.bytes, driver.size);
  *n = driver.size;
  return 0;
}

/* --- a GPU --- */

static void gpu_begin(gpu *g, gpu_pipelines *p) {
  memset(g, 0, sizeof *g);
  memset(p, 0, sizeof *p);
  memset(g->driver_uuid, 0x11, sizeof g->driver_uuid);
  memset(g->device_uuid, 0x22, sizeof g->device_uuid);
  g->vk.CreatePipelineCache = create_cache;
  g->vk.GetPipelineCacheData = cache_data;
  g->pipelines = p;
  driver.open = false;
}

/* As a process that begins and ends: reads the file, compiles something if `more`, and keeps it. */
static void run(uint32_t *matrices, bool more) {
  static gpu g;
  gpu_pipelines p;
  sn_ctx *ctx;
  fuzz_demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  gpu_begin(&g, &p);
  fuzz_demand(pipeline_cache_load(&g, ctx) == SN_OK && driver.open);
  for (int half = 0; half < 2; half++) {
    matrix_proof found = gpu_matrix_proof(&g, half ? SN_BF16 : SN_F16);
    fuzz_demand(found == MATRIX_UNTESTED || found == MATRIX_RIGHT || found == MATRIX_WRONG);
  }
  *matrices = atomic_load(&g.matrices);
  if (more && driver.size < sizeof driver.bytes) {
    driver.bytes[driver.size++] = 7;
    pipeline_cache_save(&g);
  }
  sn_ctx_destroy(ctx);
}

/* --- files --- */

typedef struct kept_file {
  char name[128];
  uint8_t *bytes;
  size_t size;
} kept_file;

static const kept_file *kept(void) {
  static kept_file f;
  uint32_t matrices;
  if (f.bytes)
    return &f;
  fuzz_demand(setenv("SINEW_CACHE", fuzz_folder(), 1) == 0);
  for (int i = 0; i < 40; i++)
    run(&matrices, true);
  DIR *d = opendir(fuzz_folder());
  fuzz_demand(d != NULL);
  for (struct dirent *entry; (entry = readdir(d));)
    if (strncmp(entry->d_name, "vulkan-", 7) == 0 && strlen(entry->d_name) < sizeof f.name)
      strcpy(f.name, entry->d_name);
  closedir(d);
  fuzz_demand(*f.name);
  f.bytes = fuzz_get(f.name, &f.size);
  fuzz_demand(f.size == HEADER + 40);
  return &f;
}

/* Lets the header fit what follows it. */
static void mend(uint8_t *file, size_t size) {
  if (size <= HEADER)
    return;
  uint64_t n = size - HEADER;
  uint64_t sum =
      hash_long(hash_bytes(HASH_SEED, file + AT_MATRICES, 4), file + HEADER, size - HEADER);
  memcpy(file + AT_BYTES, &n, sizeof n);
  memcpy(file + AT_CHECKSUM, &sum, sizeof sum);
}

/* The driver gets all that follows a header, or nothing. */
static void check_given(const uint8_t *file, size_t size, bool unchanged) {
  if (driver.size)
    fuzz_demand(size == HEADER + driver.size &&
                memcmp(driver.bytes, file + HEADER, driver.size) == 0);
  else
    fuzz_demand(!unchanged);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  const kept_file *f = kept();
  size_t n = size ? size - 1 : 0;
  uint32_t matrices, again;
  if (size == 0 || n > sizeof driver.bytes / 2)
    return 0;
  bool raw = bytes[0] != 'e' && bytes[0] != 'm';
  uint8_t *file = raw ? fuzz_edit(bytes + 1, n, NULL, 0, &n)
                      : fuzz_edit(f->bytes, f->size, bytes + 1, size - 1, &n);
  if (bytes[0] == 'm')
    mend(file, n);
  fuzz_put(f->name, file, n);
  run(&matrices, false);
  check_given(file, n, n == f->size && memcmp(file, f->bytes, n) == 0);
  free(file);
  run(&matrices, true);
  n = driver.size;
  run(&again, false);
  fuzz_demand(driver.size == n && again == matrices);
  return 0;
}
