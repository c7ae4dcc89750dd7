/* What a driver has compiled and whether its matrices are right, kept from process to process: a file for each GPU in the folder that
 * SINEW_CACHE names, or in ~/.cache/sinew; no file when SINEW_CACHE is "off".
 *
 * The file is a header and the driver's own bytes. A driver is trusted with bytes that it wrote itself and with no others, so
 * the header says which driver that was, and a checksum that they are whole. Files that do not fit are as good as none. */
#include "base/file.h"
#include "device/vulkan/pipelines.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { CACHE_MOST = 256 << 20, CACHE_VERSION = 3, PATH = 1024 };
static const char MAGIC[8] = "SINEWVK";

typedef struct cache_header {
  char magic[8];
  uint32_t version, header_bytes;
  uint8_t driver[16], device[16];
  uint64_t bytes, checksum;
  uint32_t matrices, zero; /* gpu.matrices */
} cache_header;

/* Where it lies; false: nowhere. `make` makes the folder. */
static bool cache_path(const gpu *g, char path[PATH], bool make) {
  const char *asked = getenv("SINEW_CACHE"), *home = getenv("HOME");
  char folder[PATH - 64];
  int used = 0;
  if (asked && (!*asked || strcmp(asked, "off") == 0))
    return false;
  if (!asked && (!home || !*home))
    return false;
  if (!asked && make && (size_t)snprintf(folder, sizeof folder, "%s/.cache", home) < sizeof folder)
    (void)!mkdir(folder, 0777);
  used = asked ? snprintf(folder, sizeof folder, "%s", asked)
               : snprintf(folder, sizeof folder, "%s/.cache/sinew", home);
  if (used < 0 || (size_t)used >= sizeof folder)
    return false;
  if (make)
    (void)!mkdir(folder, 0777);
  uint64_t id = hash_bytes(hash_bytes(HASH_SEED, g->device_uuid, sizeof g->device_uuid),
                           g->driver_uuid, sizeof g->driver_uuid);
  snprintf(path, PATH, "%s/vulkan-%016llx", folder, (unsigned long long)id);
  return true;
}

static cache_header header_of(const gpu *g, uint32_t matrices, const void *bytes, size_t n) {
  cache_header h = {
      .version = CACHE_VERSION, .header_bytes = sizeof h, .bytes = n, .matrices = matrices};
  h.checksum = hash_long(hash_bytes(HASH_SEED, &matrices, sizeof matrices), bytes, n);
  memcpy(h.magic, MAGIC, sizeof h.magic);
  memcpy(h.driver, g->driver_uuid, sizeof h.driver);
  memcpy(h.device, g->device_uuid, sizeof h.device);
  return h;
}

static bool is_good(const gpu *g, const char *file, size_t size, cache_header *out) {
  if (size <= sizeof *out)
    return false;
  memcpy(out, file, sizeof *out);
  cache_header want = header_of(g, out->matrices, file + sizeof want, size - sizeof want);
  return memcmp(out, &want, sizeof want) == 0;
}

static int create(gpu *g, const void *bytes, size_t n) {
  vk_cache_create_info info = {.type = VK_PIPELINE_CACHE_CREATE_INFO, .size = n, .data = bytes};
  int result = VK_CALL(g, CreatePipelineCache, g->device, &info, NULL, &g->pipelines->cache);
  g->pipelines->cache = result == 0 ? g->pipelines->cache : 0;
  return result;
}

static void note_file(gpu *g, const cache_header *h) {
  g->pipelines->file.bytes = (size_t)h->bytes;
  g->pipelines->file.matrices = h->matrices;
}

sn_status pipeline_cache_load(gpu *g, sn_ctx *ctx) {
  char path[PATH];
  void *file = NULL;
  size_t size = 0;
  sn_ctx *own; /* so that a missing file leaves no message behind */
  if (cache_path(g, path, false) && sn_ctx_create(NULL, &own) == SN_OK) {
    sn_status status = file_read_all(own, path, CACHE_MOST, &file, &size);
    cache_header h;
    bool good = status == SN_OK && is_good(g, file, size, &h);
    if (good) {
      atomic_store(&g->matrices, h.matrices);
      note_file(g, &h);
      (void)create(g, (char *)file + sizeof h, size - sizeof h);
    }
    mem_free(own, file, size);
    sn_ctx_destroy(own);
  }
  if (g->pipelines->cache)
    return SN_OK;
  int result = create(g, NULL, 0);
  return result == 0 ? SN_OK : gpu_fail(g, ctx, result, "making a cache of pipelines");
}

static sn_status write(sn_ctx *ctx, const char *path, const cache_header *h, const void *bytes) {
  file_writer *w;
  SN_TRY(file_writer_create(ctx, path, &w));
  sn_status status = file_writer_write(w, h, sizeof *h);
  if (status == SN_OK)
    status = file_writer_write(w, bytes, (size_t)h->bytes);
  return file_writer_end(w, status);
}

/* Drivers' caches grow when something is compiled that they did not have. */
static bool is_new(const gpu *g, size_t bytes) {
  return bytes != g->pipelines->file.bytes ||
         atomic_load(&g->matrices) != g->pipelines->file.matrices;
}

void pipeline_cache_save(gpu *g) {
  char path[PATH];
  size_t n = 0;
  sn_ctx *ctx;
  if (!g->pipelines->cache || !cache_path(g, path, true) ||
      g->vk.GetPipelineCacheData(g->device, g->pipelines->cache, &n, NULL) != 0 || n == 0 ||
      !is_new(g, n))
    return;
  void *bytes = malloc(n);
  if (bytes && g->vk.GetPipelineCacheData(g->device, g->pipelines->cache, &n, bytes) == 0 &&
      sn_ctx_create(NULL, &ctx) == SN_OK) {
    cache_header h = header_of(g, atomic_load(&g->matrices), bytes, n);
    if (write(ctx, path, &h, bytes) == SN_OK)
      note_file(g, &h);
    sn_ctx_destroy(ctx);
  }
  free(bytes);
}
