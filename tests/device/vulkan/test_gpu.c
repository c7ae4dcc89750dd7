/* GPUs below the device: the list, memory and copies, pipelines and the file of what was compiled, failures of every call. */
#include "device/vulkan/gpu.h"

#include "device/vulkan/kernel.h"
#include "support/files.h"
#include "support/test.h"
#include "support/vulkan_case.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A context and the first GPU. */
typedef struct rig {
  sn_ctx *ctx;
  gpu *g;
} rig;

static bool rig_start(rig *r) {
  *r = (rig){0};
  return vulkan_ready() && CHECK(sn_ctx_create(NULL, &r->ctx) == SN_OK) &&
         (gpu_get(r->ctx, 0, &r->g) == SN_OK || FAIL("%s", sn_ctx_message(r->ctx)));
}

static void rig_end(rig *r) {
  gpu_put(r->g);
  sn_ctx_destroy(r->ctx);
  vulkan_check();
}

TEST(list) {
  if (!vulkan_ready())
    return;
  CHECK_EQ_STR(gpu_at(0)->name, "vulkan");
  CHECK(gpu_at(0)->memory > 0 && *gpu_at(0)->description);
  CHECK(gpu_at(-1) == NULL && gpu_at(gpu_count()) == NULL);
  for (int i = 1; i < gpu_count(); i++) /* software comes last */
    CHECK(!gpu_is_software(gpu_at(i - 1)) || gpu_is_software(gpu_at(i)));
  sn_ctx *ctx;
  gpu *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  CHECK_EQ_INT(gpu_get(ctx, GPU_MOST, &g), SN_ERR_NOT_FOUND);
  CHECK(g == NULL);
  sn_ctx_destroy(ctx);
  vulkan_check();
}

TEST(one_for_all) {
  rig r;
  if (!rig_start(&r))
    return;
  gpu *same;
  CHECK(gpu_get(r.ctx, 0, &same) == SN_OK && same == r.g);
  CHECK(r.g->target.subgroup >= 1 && r.g->target.max_threads >= 128);
  CHECK(r.g->target.shared_bytes >= 16384 && r.g->target.block_bytes >= 16384);
  gpu_put(same);
  rig_end(&r);
}

TEST(units) {
  static const struct {
    const char *asked;
    int units; /* 0: as if nobody asked */
  } cases[] = {{"132", 132}, {"1", 1}, {"0", 0}, {"-3", 0}, {"many", 0}, {"99999999999", 0}};
  rig r;
  if (!rig_start(&r))
    return;
  int usual = r.g->target.units;
  CHECK(usual > 1);
  rig_end(&r);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    setenv("SINEW_VULKAN_UNITS", cases[i].asked, 1);
    if (rig_start(&r))
      CHECK_EQ_INT(r.g->target.units, cases[i].units ? cases[i].units : usual);
    rig_end(&r);
  }
  unsetenv("SINEW_VULKAN_UNITS");
}

/* The layer is on: it sees an error that is planted. */
TEST(validation_sees_errors) {
  rig r;
  if (!rig_start(&r))
    return;
  if (!gpu_validates()) { /* it was asked not to */
    rig_end(&r);
    SKIP("no validation layer");
  }
  int before = gpu_complaints();
  vk_buffer_create_info info = {.type = VK_BUFFER_CREATE_INFO, .size = 16};
  vk_handle buffer = 0;
  if (r.g->vk.CreateBuffer(r.g->device, &info, NULL, &buffer) == 0) /* no usage */
    r.g->vk.DestroyBuffer(r.g->device, buffer, NULL);
  CHECK(gpu_complaints() > before);
  CHECK_STR_HAS(gpu_complaint(), "usage");
  vk_handle semaphore; /* waiting fails with what it says */
  REQUIRE(gpu_semaphore(r.g, r.ctx, &semaphore) == SN_OK);
  CHECK(gpu_submit(r.g, r.ctx, 0, NULL, semaphore, 1) == SN_OK);
  CHECK_EQ_INT(gpu_wait(r.g, r.ctx, semaphore, 1), SN_ERR_INTERNAL);
  CHECK_STR_HAS(sn_ctx_message(r.ctx), "usage");
  gpu_forget_complaints();
  CHECK(gpu_wait(r.g, r.ctx, semaphore, 1) == SN_OK);
  r.g->vk.DestroySemaphore(r.g->device, semaphore, NULL);
  rig_end(&r);
}

/* Nothing is taken from under a GPU that computes because the layer has found something before. */
TEST(what_validation_says_is_said_in_the_end) {
  enum { BYTES = 32 << 20, FILLS = 8 };
  rig r;
  gpu_block b;
  vk_handle pool = 0, commands, semaphore;
  if (!rig_start(&r))
    return;
  if (!gpu_validates()) {
    rig_end(&r);
    SKIP("no validation layer");
  }
  vk_pool_create_info info = {.type = VK_COMMAND_POOL_CREATE_INFO, .family = r.g->family};
  vk_begin_info begin = {.type = VK_COMMAND_BUFFER_BEGIN_INFO};
  REQUIRE(gpu_block_create(r.g, r.ctx, MEMORY_DEVICE, "a test", BYTES, &b) == SN_OK &&
          gpu_semaphore(r.g, r.ctx, &semaphore) == SN_OK &&
          r.g->vk.CreateCommandPool(r.g->device, &info, NULL, &pool) == 0);
  vk_commands_allocate_info one = {.type = VK_COMMAND_BUFFER_ALLOCATE_INFO, .pool = pool, .n = 1};
  REQUIRE(r.g->vk.AllocateCommandBuffers(r.g->device, &one, &commands) == 0 &&
          r.g->vk.BeginCommandBuffer(commands, &begin) == 0);
  for (int i = 0; i < FILLS; i++)
    r.g->vk.CmdFillBuffer(commands, b.buffer, 0, BYTES, (uint32_t)i);
  REQUIRE(r.g->vk.EndCommandBuffer(commands) == 0);
  vk_buffer_create_info wrong = {.type = VK_BUFFER_CREATE_INFO, .size = 16}; /* no usage */
  vk_handle buffer;
  if (r.g->vk.CreateBuffer(r.g->device, &wrong, NULL, &buffer) == 0)
    r.g->vk.DestroyBuffer(r.g->device, buffer, NULL);
  CHECK(gpu_submit(r.g, r.ctx, 1, &commands, semaphore, 1) == SN_OK);
  CHECK_EQ_INT(gpu_wait(r.g, r.ctx, semaphore, 1), SN_ERR_INTERNAL);
  uint64_t reached = 0;
  CHECK(r.g->vk.GetSemaphoreCounterValue(r.g->device, semaphore, &reached) == 0 && reached == 1);
  gpu_forget_complaints();
  r.g->vk.DeviceWaitIdle(r.g->device);
  r.g->vk.DestroyCommandPool(r.g->device, pool, NULL);
  r.g->vk.DestroySemaphore(r.g->device, semaphore, NULL);
  gpu_block_destroy(r.g, &b);
  rig_end(&r);
}

/* --- memory --- */

/* What drivers list, and what buffers can have of it. */
TEST(types_of_memory) {
  enum { L = 1, V = 2, C = 4, H = 8, AMD = 0x40 | 0x80 };
  static const struct {
    const char *of;
    uint32_t n, flags[8], buffers, type[MEMORY_KINDS];
    memory_kind without;
  } cases[] = {
      {"NVIDIA", 5, {0, L, V | C, V | C | H, L | V | C}, 0x1f, {1, 4, 3}, MEMORY_KINDS},
      {"NVIDIA, all of it seen", 4, {0, L, V | C | H, L | V | C}, 0xf, {1, 3, 2}, MEMORY_KINDS},
      {"AMD",
       6,
       {L, L | V | C, V | C, V | C | H, L | AMD, L | V | C | AMD},
       0x3f,
       {0, 1, 3},
       MEMORY_KINDS},
      {"AMD, no window", 3, {L, V | C, V | C | H}, 7, {0, 1, 2}, MEMORY_KINDS},
      {"Intel, integrated", 2, {L | V | C, L | V | C | H}, 3, {1, 0, 1}, MEMORY_KINDS},
      {"Intel, no shared cache", 2, {L | V | C, L | V | H}, 3, {1, 0, 0}, MEMORY_KINDS},
      {"Intel, compressed", 4, {L, L, V | C | H, L | V | C}, 0xe, {1, 3, 2}, MEMORY_KINDS},
      {"ARM", 1, {L | V | C}, 1, {0, 0, 0}, MEMORY_KINDS},
      {"ARM, cached", 2, {L | V | C, L | V | C | H}, 3, {1, 0, 1}, MEMORY_KINDS},
      {"software", 1, {L | V | C | H}, 1, {0, 0, 0}, MEMORY_KINDS},
      {"nothing coherent", 2, {L, V | H}, 3, {0}, MEMORY_SHARED},
      {"nothing of its own", 1, {V | C}, 1, {0}, MEMORY_DEVICE},
      {"nothing for buffers", 2, {L, L | V | C | H}, 0, {0}, MEMORY_DEVICE},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    vk_memory_properties m = {.n_types = cases[i].n};
    uint32_t of[MEMORY_KINDS], type[MEMORY_KINDS] = {0};
    for (uint32_t k = 0; k < cases[i].n; k++)
      m.types[k].flags = cases[i].flags[k];
    for (int k = 0; k < MEMORY_KINDS; k++)
      of[k] = cases[i].buffers;
    memory_kind without = gpu_choose_memory(&m, of, type);
    if (without != cases[i].without)
      FAIL("%s: there is none for kind %d", cases[i].of, (int)without);
    for (int k = 0; k < (int)cases[i].without; k++)
      if (type[k] != cases[i].type[k])
        FAIL("%s: type %u for kind %d", cases[i].of, type[k], k);
  }
}

TEST(subgroups_and_workgroups) {
  enum { RADV = 3, NVIDIA = 4, INTEL_MESA = 6 };
  CHECK_EQ_INT(gpu_choose_subgroup(NVIDIA, 32, 32, 32), 32);
  CHECK_EQ_INT(gpu_choose_subgroup(RADV, 64, 32, 64), 64);
  CHECK_EQ_INT(gpu_choose_subgroup(INTEL_MESA, 32, 8, 32), 16);
  CHECK_EQ_INT(gpu_choose_subgroup(INTEL_MESA, 32, 0, 0), 32);
  CHECK_EQ_INT(gpu_choose_threads(1024, 32, 0), 1024);
  CHECK_EQ_INT(gpu_choose_threads(1024, 16, 56), 512);
  CHECK_EQ_INT(gpu_choose_threads(384, 16, 0), 256);
  CHECK_EQ_INT(gpu_choose_threads(128, 64, UINT32_MAX), 128);
}

static void copy_there_and_back(rig *r, memory_kind kind, int64_t bytes) {
  gpu_block b;
  char *from = malloc((size_t)bytes), *to = calloc(1, (size_t)bytes);
  REQUIRE(from && to);
  for (int64_t i = 0; i < bytes; i++)
    from[i] = (char)(i * 7 + i / 251);
  if (CHECK(gpu_block_create(r->g, r->ctx, kind, "a test", bytes + 12, &b) == SN_OK)) {
    CHECK(b.address != 0 && b.address % 16 == 0);
    CHECK(gpu_write(r->g, r->ctx, &b, 4, from, bytes) == SN_OK);
    CHECK(gpu_write(r->g, r->ctx, &b, 8, from + 4, 3) == SN_OK);
    CHECK(gpu_read(r->g, r->ctx, &b, 4, to, bytes) == SN_OK);
    CHECK(memcmp(from, to, (size_t)bytes) == 0);
    CHECK(gpu_read(r->g, r->ctx, &b, 0, to, 0) == SN_OK);
    gpu_block_destroy(r->g, &b);
  }
  free(from);
  free(to);
}

TEST(copies) {
  rig r;
  if (!rig_start(&r))
    return;
  for (int kind = 0; kind < MEMORY_KINDS; kind++) {
    copy_there_and_back(&r, (memory_kind)kind, 16);
    copy_there_and_back(&r, (memory_kind)kind, (9 << 20) + 20); /* more than staging memory */
  }
  rig_end(&r);
}

/* As on a GPU whose memory the host does not see. */
TEST(copies_by_staging) {
  rig r;
  if (!vulkan_ready())
    return;
  setenv("SINEW_VULKAN_DISCRETE", "1", 1);
  gpu_close_unused();
  if (rig_start(&r)) {
    gpu_block b;
    CHECK(gpu_block_create(r.g, r.ctx, MEMORY_DEVICE, "a test", 64, &b) == SN_OK);
    CHECK(b.data == NULL);
    gpu_block_destroy(r.g, &b);
    copy_there_and_back(&r, MEMORY_DEVICE, 20);
    copy_there_and_back(&r, MEMORY_DEVICE, (9 << 20) + 20);
    rig_end(&r);
  }
  unsetenv("SINEW_VULKAN_DISCRETE");
}

TEST(too_much_memory) {
  rig r;
  if (!rig_start(&r))
    return;
  gpu_block b;
  int64_t used = atomic_load(&r.g->used);
  CHECK_EQ_INT(gpu_block_create(r.g, r.ctx, MEMORY_DEVICE, "the arena", INT64_C(1) << 50, &b),
               SN_ERR_NO_MEMORY);
  CHECK_STR_HAS(sn_ctx_message(r.ctx), "the arena needs");
  CHECK_STR_HAS(sn_ctx_message(r.ctx), "1125899906842624 bytes");
  CHECK_STR_HAS(sn_ctx_message(r.ctx), "are available");
  CHECK(b.buffer == 0);
  CHECK_EQ_INT(atomic_load(&r.g->used), used);
  rig_end(&r);
}

/* --- pipelines --- */

static const sn_dim thousand = 1000;

/* A shader that stores a number: value[i] = x for i below 1000. */
static const shader *make_shader(rig *r, arena *memory, struct shader_table *table, float x) {
  static program_value values[2] = {{.bytes = 0}, {.bytes = 4000, .type = {.dtype = SN_F32}}};
  static const program p = {.values = values, .n_values = 2};
  emit_env env = {
      .ctx = r->ctx, .memory = memory, .program = &p, .target = &r->g->target, .shaders = table};
  kernel *k = kernel_open(&env, 64, false);
  kernel_made made;
  amount grid = {1, 64, &thousand};
  if (!CHECK(k != NULL))
    return NULL;
  k_store(k, k_address(k, 1), k->local, k_f32(k, x));
  kernel_grid(k, 1, &grid);
  return CHECK(kernel_close(k, &made) == SN_OK) ? made.code : NULL;
}

TEST(pipelines_are_shared) {
  rig r;
  if (!rig_start(&r))
    return;
  arena memory;
  struct shader_table one = {0}, two = {0};
  arena_init(&memory, r.ctx);
  const shader *s[4];
  gpu_pipeline *p[4], *q[1];
  for (int i = 0; i < 4; i++)
    REQUIRE((s[i] = make_shader(&r, &memory, &one, (float)i)));
  CHECK(gpu_pipelines_get(r.g, r.ctx, 4, s, p) == SN_OK);
  for (int i = 1; i < 4; i++)
    CHECK(p[i] != p[0] && gpu_pipeline_handle(p[i]) != gpu_pipeline_handle(p[0]));
  const shader *again = make_shader(&r, &memory, &two, 2);
  CHECK(again != s[2]);
  CHECK(gpu_pipelines_get(r.g, r.ctx, 1, &again, q) == SN_OK && q[0] == p[2]);
  gpu_pipelines_put(r.g, 1, q);
  gpu_pipelines_put(r.g, 4, p);
  arena_clear(&memory);
  rig_end(&r);
}

TEST(pipelines_fail_well) {
  rig r;
  if (!rig_start(&r))
    return;
  arena memory;
  struct shader_table table = {0};
  arena_init(&memory, r.ctx);
  const shader *s[3];
  gpu_pipeline *p[3];
  for (int i = 0; i < 3; i++)
    REQUIRE((s[i] = make_shader(&r, &memory, &table, (float)(10 + i))));
  gpu_fault_plant("CreateComputePipelines", 2, VK_NO_DEVICE_MEMORY);
  CHECK_EQ_INT(gpu_pipelines_get(r.g, r.ctx, 3, s, p), SN_ERR_NO_MEMORY);
  CHECK_STR_HAS(sn_ctx_message(r.ctx), "compiling a shader");
  gpu_fault_plant("CreateShaderModule", 1, VK_NO_HOST_MEMORY);
  CHECK_EQ_INT(gpu_pipelines_get(r.g, r.ctx, 3, s, p), SN_ERR_NO_MEMORY);
  gpu_fault_plant(NULL, 0, 0);
  CHECK_EQ_INT(gpu_pipelines_get(r.g, r.ctx, 3, s, p), SN_OK);
  gpu_pipelines_put(r.g, 3, p);
  arena_clear(&memory);
  rig_end(&r);
}

/* --- the file --- */

/* Compiles something, so that there is something to keep, and closes the GPU. */
static void compile_one(float x) {
  rig r;
  arena memory;
  struct shader_table table = {0};
  gpu_pipeline *p[1];
  if (!rig_start(&r))
    return;
  arena_init(&memory, r.ctx);
  const shader *s = make_shader(&r, &memory, &table, x);
  if (s && CHECK(gpu_pipelines_get(r.g, r.ctx, 1, &s, p) == SN_OK))
    gpu_pipelines_put(r.g, 1, p);
  arena_clear(&memory);
  rig_end(&r);
}

static long size_of(const char *path) {
  FILE *f = fopen(path, "rb");
  long size = -1;
  if (f && fseek(f, 0, SEEK_END) == 0)
    size = ftell(f);
  if (f)
    fclose(f);
  return size;
}

/* Another one once it was written anew. */
static ino_t number_of(const char *path) {
  struct stat info;
  return CHECK(stat(path, &info) == 0) ? info.st_ino : 0;
}

static void change_byte(const char *path, long at) {
  FILE *f = fopen(path, "r+b");
  REQUIRE(f != NULL);
  fseek(f, at, SEEK_SET);
  int c = fgetc(f);
  fseek(f, at, SEEK_SET);
  fputc(c ^ 1, f);
  fclose(f);
}

static void cut_short(const char *path) {
  FILE *f = fopen(path, "wb");
  REQUIRE(f != NULL);
  fputs("SINEWVK", f);
  fclose(f);
}

/* The only file in a folder. */
static bool find_file(const char *folder, char *path, size_t size) {
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') {
      snprintf(path, size, "%s/%s", folder, e->d_name);
      n++;
    }
  if (d)
    closedir(d);
  return CHECK_EQ_INT(n, 1);
}

TEST(what_was_compiled_is_kept) {
  if (!vulkan_ready())
    return;
  const char *folder = test_scratch("cache");
  char path[600];
  gpu_close_unused();
  setenv("SINEW_CACHE", folder, 1);
  compile_one(100);
  REQUIRE(find_file(folder, path, sizeof path));
  long size = size_of(path);
  CHECK(size > 64);
  ino_t file = number_of(path);
  compile_one(100); /* read again; nothing is new, so that it is not written */
  CHECK(number_of(path) == file);
  /* Damaged, cut off, or of another driver: as good as none, and replaced. */
  for (long at = 0; at < 64; at += 9) {
    change_byte(path, at);
    compile_one(100);
    CHECK_EQ_INT(size_of(path), size);
  }
  cut_short(path);
  compile_one(100);
  CHECK_EQ_INT(size_of(path), size);
  /* What is no file is neither read nor waited for, and stays. */
  CHECK(remove(path) == 0 && mkfifo(path, 0600) == 0);
  compile_one(100);
  CHECK(remove(path) == 0 && mkdir(path, 0700) == 0);
  compile_one(100);
  CHECK_EQ_INT(remove(path), 0);
  files_link("/dev/zero", path);
  compile_one(100);
  CHECK_EQ_INT(remove(path), 0);
  setenv("SINEW_CACHE", "/no/such/folder", 1);
  compile_one(100);
  setenv("SINEW_CACHE", "off", 1);
}

/* --- failures --- */

TEST(opening_fails_well) {
  static const struct {
    const char *call;
    int result;
    sn_status status;
    const char *says;
  } cases[] = {
      {"feature", 0, SN_ERR_UNSUPPORTED, "lacks 64-bit integers"},
      {"CreateDevice", VK_NO_FEATURE, SN_ERR_UNSUPPORTED, "opening the GPU"},
      {"CreateDevice", VK_NO_DEVICE_MEMORY, SN_ERR_NO_MEMORY, "opening the GPU"},
      {"CreateCommandPool", VK_NO_HOST_MEMORY, SN_ERR_NO_MEMORY, "commands"},
      {"AllocateCommandBuffers", VK_NO_HOST_MEMORY, SN_ERR_NO_MEMORY, "commands"},
      {"CreateSemaphore", VK_NO_HOST_MEMORY, SN_ERR_NO_MEMORY, "semaphore"},
      {"CreateDescriptorSetLayout", VK_NO_HOST_MEMORY, SN_ERR_NO_MEMORY, "layouts"},
      {"CreatePipelineLayout", VK_NO_HOST_MEMORY, SN_ERR_NO_MEMORY, "layouts"},
      {"CreatePipelineCache", VK_NO_HOST_MEMORY, SN_ERR_NO_MEMORY, "cache"},
  };
  if (!vulkan_ready())
    return;
  gpu_close_unused();
  sn_ctx *ctx;
  gpu *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    gpu_fault_plant(cases[i].call, 1, cases[i].result);
    CHECK_EQ_INT(gpu_get(ctx, 0, &g), cases[i].status);
    CHECK_STR_HAS(sn_ctx_message(ctx), cases[i].says);
    CHECK(g == NULL);
  }
  gpu_fault_plant(NULL, 0, 0);
  CHECK(gpu_get(ctx, 0, &g) == SN_OK);
  gpu_put(g);
  sn_ctx_destroy(ctx);
  vulkan_check();
}

TEST(memory_fails_well) {
  static const char *const calls[] = {"CreateBuffer", "AllocateMemory", "BindBufferMemory",
                                      "MapMemory"};
  rig r;
  if (!rig_start(&r))
    return;
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    gpu_block b;
    gpu_fault_plant(calls[i], 1, VK_NO_DEVICE_MEMORY);
    CHECK_EQ_INT(gpu_block_create(r.g, r.ctx, MEMORY_HOST, "a test", 100, &b), SN_ERR_NO_MEMORY);
    CHECK_STR_HAS(sn_ctx_message(r.ctx), "a test, 100 bytes");
    CHECK_STR_HAS(sn_ctx_message(r.ctx), "no memory left");
    CHECK(b.buffer == 0 && b.memory == 0);
  }
  gpu_fault_plant(NULL, 0, 0);
  rig_end(&r);
}

/* Whoever has it gets errors from then on; others get another one. */
TEST(a_lost_gpu) {
  rig r, other;
  if (!rig_start(&r))
    return;
  CHECK(gpu_check(r.g, r.ctx) == SN_OK);
  CHECK_EQ_INT(gpu_fail(r.g, r.ctx, VK_LOST, "testing"), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(r.ctx), "testing: the GPU was lost");
  CHECK_EQ_INT(gpu_check(r.g, r.ctx), SN_ERR_STATE);
  gpu_block b;
  CHECK_EQ_INT(gpu_block_create(r.g, r.ctx, MEMORY_HOST, "a test", 100, &b), SN_ERR_STATE);
  if (rig_start(&other)) {
    CHECK(other.g != r.g);
    CHECK(gpu_check(other.g, other.ctx) == SN_OK);
    copy_there_and_back(&other, MEMORY_DEVICE, 100);
    rig_end(&other);
  }
  rig_end(&r);
}
