/* See vulkan.h. */
#include "spike/vulkan.h"

#include "spike/vulkan_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* X(where it is found: 0 nowhere, 1 instance, 2 device; name; result; arguments) */
#define VK_CALLS(X)                                                                                \
  X(0, EnumerateInstanceLayerProperties, int, (uint32_t *, vk_layer_properties *))                 \
  X(0, CreateInstance, int, (const vk_instance_create_info *, const void *, vk_handle *))          \
  X(1, DestroyInstance, void, (vk_handle, const void *))                                           \
  X(1, EnumeratePhysicalDevices, int, (vk_handle, uint32_t *, vk_handle *))                        \
  X(1, GetPhysicalDeviceProperties, void, (vk_handle, vk_properties *))                            \
  X(1, GetPhysicalDeviceFeatures2, void, (vk_handle, vk_features2 *))                              \
  X(1, GetPhysicalDeviceQueueFamilyProperties, void, (vk_handle, uint32_t *, vk_queue_family *))   \
  X(1, GetPhysicalDeviceMemoryProperties, void, (vk_handle, vk_memory_properties *))               \
  X(1, CreateDevice, int, (vk_handle, const vk_device_create_info *, const void *, vk_handle *))   \
  X(1, GetDeviceProcAddr, void *, (vk_handle, const char *))                                       \
  X(2, DestroyDevice, void, (vk_handle, const void *))                                             \
  X(2, GetDeviceQueue, void, (vk_handle, uint32_t, uint32_t, vk_handle *))                         \
  X(2, CreateBuffer, int, (vk_handle, const vk_buffer_create_info *, const void *, vk_handle *))   \
  X(2, DestroyBuffer, void, (vk_handle, vk_handle, const void *))                                  \
  X(2, GetBufferMemoryRequirements, void, (vk_handle, vk_handle, vk_requirements *))               \
  X(2, AllocateMemory, int, (vk_handle, const vk_allocate_info *, const void *, vk_handle *))      \
  X(2, FreeMemory, void, (vk_handle, vk_handle, const void *))                                     \
  X(2, BindBufferMemory, int, (vk_handle, vk_handle, vk_handle, uint64_t))                         \
  X(2, MapMemory, int, (vk_handle, vk_handle, uint64_t, uint64_t, uint32_t, void **))              \
  X(2, GetBufferDeviceAddress, uint64_t, (vk_handle, const vk_address_info *))                     \
  X(2, CreateShaderModule, int,                                                                    \
    (vk_handle, const vk_module_create_info *, const void *, vk_handle *))                         \
  X(2, DestroyShaderModule, void, (vk_handle, vk_handle, const void *))                            \
  X(2, CreatePipelineLayout, int,                                                                  \
    (vk_handle, const vk_layout_create_info *, const void *, vk_handle *))                         \
  X(2, DestroyPipelineLayout, void, (vk_handle, vk_handle, const void *))                          \
  X(2, CreateComputePipelines, int,                                                                \
    (vk_handle, vk_handle, uint32_t, const vk_pipeline_create_info *, const void *, vk_handle *))  \
  X(2, DestroyPipeline, void, (vk_handle, vk_handle, const void *))                                \
  X(2, CreateCommandPool, int,                                                                     \
    (vk_handle, const vk_pool_create_info *, const void *, vk_handle *))                           \
  X(2, DestroyCommandPool, void, (vk_handle, vk_handle, const void *))                             \
  X(2, ResetCommandPool, int, (vk_handle, vk_handle, uint32_t))                                    \
  X(2, AllocateCommandBuffers, int, (vk_handle, const vk_commands_allocate_info *, vk_handle *))   \
  X(2, BeginCommandBuffer, int, (vk_handle, const vk_begin_info *))                                \
  X(2, EndCommandBuffer, int, (vk_handle))                                                         \
  X(2, CmdBindPipeline, void, (vk_handle, uint32_t, vk_handle))                                    \
  X(2, CmdPushConstants, void, (vk_handle, vk_handle, uint32_t, uint32_t, uint32_t, const void *)) \
  X(2, CmdDispatch, void, (vk_handle, uint32_t, uint32_t, uint32_t))                               \
  X(2, CmdPipelineBarrier, void,                                                                   \
    (vk_handle, uint32_t, uint32_t, uint32_t, uint32_t, const vk_memory_barrier *, uint32_t,       \
     const void *, uint32_t, const void *))                                                        \
  X(2, QueueSubmit, int, (vk_handle, uint32_t, const vk_submit_info *, vk_handle))                 \
  X(2, QueueWaitIdle, int, (vk_handle))

typedef struct vk_calls {
#define X(from, name, result, arguments) result(*name) arguments;
  VK_CALLS(X)
#undef X
} vk_calls;

typedef void *get_proc(vk_handle, const char *);

/* Pipelines of the last shaders, so that one shader at many sizes is compiled once. */
enum { KEPT = 32 };
typedef struct kept_pipeline {
  vk_handle pipeline;
  uint32_t *words;
  size_t n_words;
} kept_pipeline;

struct gpu {
  void *library;
  get_proc *find;
  vk_calls vk;
  vk_handle instance, physical, device, queue, layout, pool, commands;
  uint32_t family;
  char name[256];
  bool validates;
  int complaints;
  char complaint[512];
  kept_pipeline kept[KEPT];
  int next_kept;
};

static bool fail(char *why, size_t size, const char *text) {
  snprintf(why, size, "%s", text);
  return false;
}

/* Functions of one level; the level's handle must exist. */
static bool load(gpu *g, int level) {
  bool all = true;
#define X(from, name, result, arguments)                                      \
  if ((from) == level) {                                                      \
    void *p = level == 2 ? g->vk.GetDeviceProcAddr(g->device, "vk" #name)     \
                         : g->find(level == 1 ? g->instance : 0, "vk" #name); \
    memcpy(&g->vk.name, &p, sizeof p);                                        \
    all = all && p;                                                           \
  }
  VK_CALLS(X)
#undef X
  return all;
}

static uint32_t complain(uint32_t severity, uint32_t kinds, const vk_debug_data *data, void *user) {
  gpu *g = user;
  (void)severity;
  (void)kinds;
  if (g->complaints++ == 0)
    snprintf(g->complaint, sizeof g->complaint, "%s", data->message);
  return 0;
}

static bool has_layer(gpu *g, const char *name) {
  vk_layer_properties layers[64];
  uint32_t n = 64;
  g->vk.EnumerateInstanceLayerProperties(&n, layers);
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(layers[i].name, name) == 0)
      return true;
  return false;
}

static bool open_instance(gpu *g, char *why, size_t size) {
  static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
  static const char *const extensions[] = {"VK_EXT_debug_utils"};
  g->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!g->library)
    return fail(why, size, "no Vulkan loader: libvulkan.so.1");
  void *find = dlsym(g->library, "vkGetInstanceProcAddr");
  memcpy(&g->find, &find, sizeof find);
  if (!find || !load(g, 0))
    return fail(why, size, "the Vulkan loader lacks functions");
  g->validates = has_layer(g, layers[0]);
  vk_application_info application = {
      .type = VK_APPLICATION_INFO, .application = "sinew", .api_version = VK_API_1_2};
  vk_debug_create_info debug = {.type = VK_DEBUG_MESSENGER_CREATE_INFO,
                                .severity = VK_SEVERITY_ERROR,
                                .kinds = VK_MESSAGE_VALIDATION,
                                .callback = complain,
                                .user = g};
  vk_instance_create_info info = {.type = VK_INSTANCE_CREATE_INFO,
                                  .next = g->validates ? &debug : NULL,
                                  .application = &application,
                                  .n_layers = g->validates,
                                  .layers = layers,
                                  .n_extensions = g->validates,
                                  .extensions = extensions};
  if (g->vk.CreateInstance(&info, NULL, &g->instance) != 0 || !load(g, 1))
    return fail(why, size, "no Vulkan driver");
  return true;
}

/* The software driver, or else the first. */
static bool choose_physical(gpu *g, char *why, size_t size) {
  vk_handle all[8];
  uint32_t n = 8;
  vk_properties p;
  if (g->vk.EnumeratePhysicalDevices(g->instance, &n, all) < 0 || n == 0)
    return fail(why, size, "no Vulkan driver");
  g->physical = all[0];
  for (uint32_t i = 0; i < n; i++) {
    g->vk.GetPhysicalDeviceProperties(all[i], &p);
    if (p.type == VK_TYPE_CPU)
      g->physical = all[i];
  }
  g->vk.GetPhysicalDeviceProperties(g->physical, &p);
  snprintf(g->name, sizeof g->name, "%.200s", p.name);
  if (p.api < VK_API_1_2)
    return fail(why, size, "the Vulkan driver is older than 1.2");
  vk_queue_family families[16];
  uint32_t n_families = 16;
  g->vk.GetPhysicalDeviceQueueFamilyProperties(g->physical, &n_families, families);
  for (g->family = 0; g->family < n_families; g->family++)
    if (families[g->family].flags & VK_QUEUE_COMPUTE)
      return true;
  return fail(why, size, "the Vulkan driver has no queue for compute");
}

static bool open_device(gpu *g, char *why, size_t size) {
  vk_features12 has12 = {.type = VK_VULKAN_12_FEATURES}, use12 = has12;
  vk_features11 has11 = {.type = VK_VULKAN_11_FEATURES, .next = &has12};
  vk_features11 use11 = {.type = VK_VULKAN_11_FEATURES, .next = &use12};
  vk_features2 has = {.type = VK_FEATURES_2, .next = &has11}, use = {VK_FEATURES_2, &use11, {0}};
  float priority = 1;
  g->vk.GetPhysicalDeviceFeatures2(g->physical, &has);
  if (!has.on[VK_INT64] || !has11.on[VK_11_STORAGE16] || !has12.on[VK_12_STORAGE8] ||
      !has12.on[VK_12_BUFFER_ADDRESS])
    return fail(why, size, "the Vulkan driver lacks 64-bit integers, small storage or addresses");
  use.on[VK_INT64] = use11.on[VK_11_STORAGE16] = 1;
  use12.on[VK_12_STORAGE8] = use12.on[VK_12_BUFFER_ADDRESS] = 1;
  vk_queue_create_info queue = {
      .type = VK_DEVICE_QUEUE_CREATE_INFO, .family = g->family, .n = 1, .priorities = &priority};
  vk_device_create_info info = {
      .type = VK_DEVICE_CREATE_INFO, .next = &use, .n_queues = 1, .queues = &queue};
  if (g->vk.CreateDevice(g->physical, &info, NULL, &g->device) != 0 || !load(g, 2))
    return fail(why, size, "the Vulkan driver gives no device");
  g->vk.GetDeviceQueue(g->device, g->family, 0, &g->queue);
  return true;
}

static bool open_commands(gpu *g, char *why, size_t size) {
  vk_push_range range = {VK_STAGE_COMPUTE, 0, 8};
  vk_layout_create_info layout = {
      .type = VK_PIPELINE_LAYOUT_CREATE_INFO, .n_ranges = 1, .ranges = &range};
  vk_pool_create_info pool = {.type = VK_COMMAND_POOL_CREATE_INFO, .family = g->family};
  vk_commands_allocate_info commands = {.type = VK_COMMAND_BUFFER_ALLOCATE_INFO, .n = 1};
  if (g->vk.CreatePipelineLayout(g->device, &layout, NULL, &g->layout) != 0 ||
      g->vk.CreateCommandPool(g->device, &pool, NULL, &g->pool) != 0)
    return fail(why, size, "the Vulkan driver has no memory");
  commands.pool = g->pool;
  return g->vk.AllocateCommandBuffers(g->device, &commands, &g->commands) == 0 ||
         fail(why, size, "the Vulkan driver has no memory");
}

gpu *gpu_open(char *why, size_t size) {
  gpu *g = calloc(1, sizeof *g);
  if (g && open_instance(g, why, size) && choose_physical(g, why, size) &&
      open_device(g, why, size) && open_commands(g, why, size))
    return g;
  gpu_close(g);
  return NULL;
}

static void drop(gpu *g, kept_pipeline *k) {
  if (k->pipeline)
    g->vk.DestroyPipeline(g->device, k->pipeline, NULL);
  free(k->words);
  *k = (kept_pipeline){0};
}

/* Mesa frees pipelines with the submission that follows, so there is an empty one. */
void gpu_forget(gpu *g) {
  vk_submit_info nothing = {.type = VK_SUBMIT_INFO};
  for (int i = 0; i < KEPT; i++)
    drop(g, &g->kept[i]);
  if (g->queue && g->vk.QueueSubmit(g->queue, 1, &nothing, 0) == 0)
    g->vk.QueueWaitIdle(g->queue);
}

void gpu_close(gpu *g) {
  if (!g)
    return;
  gpu_forget(g);
  if (g->pool)
    g->vk.DestroyCommandPool(g->device, g->pool, NULL);
  if (g->layout)
    g->vk.DestroyPipelineLayout(g->device, g->layout, NULL);
  if (g->device)
    g->vk.DestroyDevice(g->device, NULL);
  if (g->instance)
    g->vk.DestroyInstance(g->instance, NULL);
  if (g->library)
    dlclose(g->library);
  free(g);
}

const char *gpu_name(const gpu *g) { return g->name; }
bool gpu_validates(const gpu *g) { return g->validates; }
int gpu_complaints(const gpu *g) { return g->complaints; }
const char *gpu_complaint(const gpu *g) { return g->complaint; }

/* A type of memory that the buffer can have and the host sees as it is. */
static uint32_t memory_type(gpu *g, uint32_t allowed) {
  vk_memory_properties m;
  uint32_t i = 0;
  g->vk.GetPhysicalDeviceMemoryProperties(g->physical, &m);
  while (i < m.n_types && (!(allowed >> i & 1) || (m.types[i].flags & VK_MEMORY_VISIBLE_COHERENT) !=
                                                      VK_MEMORY_VISIBLE_COHERENT))
    i++;
  return i;
}

bool gpu_buffer_create(gpu *g, size_t size, gpu_buffer *out) {
  *out = (gpu_buffer){.size = size};
  vk_buffer_create_info info = {.type = VK_BUFFER_CREATE_INFO,
                                .size = size < 4 ? 4 : size,
                                .usage = VK_USAGE_STORAGE | VK_USAGE_ADDRESS};
  vk_requirements needs;
  if (g->vk.CreateBuffer(g->device, &info, NULL, &out->buffer) != 0)
    return false;
  g->vk.GetBufferMemoryRequirements(g->device, out->buffer, &needs);
  vk_allocate_flags flags = {.type = VK_MEMORY_ALLOCATE_FLAGS_INFO, .flags = VK_ALLOCATE_ADDRESS};
  vk_allocate_info memory = {.type = VK_MEMORY_ALLOCATE_INFO,
                             .next = &flags,
                             .size = needs.size,
                             .memory_type = memory_type(g, needs.types)};
  if (g->vk.AllocateMemory(g->device, &memory, NULL, &out->memory) != 0 ||
      g->vk.BindBufferMemory(g->device, out->buffer, out->memory, 0) != 0 ||
      g->vk.MapMemory(g->device, out->memory, 0, UINT64_MAX, 0, &out->data) != 0) {
    gpu_buffer_destroy(g, out);
    return false;
  }
  memset(out->data, 0, size < 4 ? 4 : size);
  vk_address_info address = {.type = VK_BUFFER_DEVICE_ADDRESS_INFO, .buffer = out->buffer};
  out->address = g->vk.GetBufferDeviceAddress(g->device, &address);
  return true;
}

void gpu_buffer_destroy(gpu *g, gpu_buffer *b) {
  if (b->buffer)
    g->vk.DestroyBuffer(g->device, b->buffer, NULL);
  if (b->memory)
    g->vk.FreeMemory(g->device, b->memory, NULL);
  *b = (gpu_buffer){0};
}

static bool create_pipeline(gpu *g, const gpu_job *job, vk_handle *out) {
  vk_handle module;
  vk_module_create_info code = {.type = VK_SHADER_MODULE_CREATE_INFO,
                                .size = job->n_words * sizeof *job->words,
                                .words = job->words};
  if (g->vk.CreateShaderModule(g->device, &code, NULL, &module) != 0)
    return false;
  vk_pipeline_create_info info = {.type = VK_COMPUTE_PIPELINE_CREATE_INFO,
                                  .stage = {.type = VK_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                            .stage = VK_STAGE_COMPUTE,
                                            .module = module,
                                            .entry = "main"},
                                  .layout = g->layout};
  int result = g->vk.CreateComputePipelines(g->device, 0, 1, &info, NULL, out);
  g->vk.DestroyShaderModule(g->device, module, NULL);
  return result == 0;
}

/* The pipeline of a shader; 0: the driver refuses. */
static vk_handle pipeline_of(gpu *g, const gpu_job *job) {
  size_t size = job->n_words * sizeof *job->words;
  for (int i = 0; i < KEPT; i++)
    if (g->kept[i].n_words == job->n_words && memcmp(g->kept[i].words, job->words, size) == 0)
      return g->kept[i].pipeline;
  kept_pipeline *k = &g->kept[g->next_kept];
  g->next_kept = (g->next_kept + 1) % KEPT;
  drop(g, k);
  k->words = malloc(size);
  if (!k->words || !create_pipeline(g, job, &k->pipeline))
    return 0;
  memcpy(k->words, job->words, size);
  k->n_words = job->n_words;
  return k->pipeline;
}

static bool record(gpu *g, const gpu_job *job, vk_handle pipeline) {
  vk_begin_info begin = {.type = VK_COMMAND_BUFFER_BEGIN_INFO};
  vk_memory_barrier barrier = {VK_MEMORY_BARRIER, NULL, VK_ACCESS_SHADER_WRITE,
                               VK_ACCESS_HOST_READ};
  if (g->vk.ResetCommandPool(g->device, g->pool, 0) != 0 ||
      g->vk.BeginCommandBuffer(g->commands, &begin) != 0)
    return false;
  g->vk.CmdBindPipeline(g->commands, VK_BIND_COMPUTE, pipeline);
  g->vk.CmdPushConstants(g->commands, g->layout, VK_STAGE_COMPUTE, 0, 8, &job->parameters);
  g->vk.CmdDispatch(g->commands, job->groups, 1, 1);
  g->vk.CmdPipelineBarrier(g->commands, VK_PIPELINE_STAGE_COMPUTE, VK_PIPELINE_STAGE_HOST, 0, 1,
                           &barrier, 0, NULL, 0, NULL);
  return g->vk.EndCommandBuffer(g->commands) == 0;
}

bool gpu_run(gpu *g, const gpu_job *job, double *out_seconds) {
  vk_handle pipeline = pipeline_of(g, job);
  bool ok = pipeline && record(g, job, pipeline);
  for (int i = 0; i < job->repeat && ok; i++) {
    struct timespec from, to;
    vk_submit_info submit = {.type = VK_SUBMIT_INFO, .n_commands = 1, .commands = &g->commands};
    clock_gettime(CLOCK_MONOTONIC, &from);
    ok = g->vk.QueueSubmit(g->queue, 1, &submit, 0) == 0 && g->vk.QueueWaitIdle(g->queue) == 0;
    clock_gettime(CLOCK_MONOTONIC, &to);
    *out_seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  }
  return ok;
}
