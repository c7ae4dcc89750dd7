/* Opening a GPU: features and limits, the device and its queue, submitting and waiting, errors. See gpu.h. */
#include "device/vulkan/gpu.h"

#include <stdio.h>
#include <stdlib.h>

/* --- what it can do --- */

/* Extensions that are used where they are there. */
enum {
  EXT_MATRIX,
  EXT_BFLOAT16,
  EXT_SUBGROUP_SIZE,
  EXT_BUDGET,
  EXT_PORTABILITY, /* must be, where it is there: Vulkan on top of something else */
  EXT_SM,          /* only asked about */
  EXTENSIONS
};
static const char *const extension_names[EXTENSIONS] = {
    "VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16",    "VK_EXT_subgroup_size_control",
    "VK_EXT_memory_budget",      "VK_KHR_portability_subset", "VK_NV_shader_sm_builtins"};

typedef struct opening {
  sn_ctx *ctx;
  const gpu_info *info;
  gpu *g;
  bool has[EXTENSIONS];
  vk_properties2 properties;
  vk_properties11 p11;
  vk_properties12 p12;
  vk_properties13 p13;
  vk_sm_properties sm;
  vk_subgroup_size_properties sizes;
  /* What is asked for at creation. */
  vk_features2 features;
  vk_features11 f11;
  vk_features12 f12;
  vk_features_few matrix, bfloat16, subgroup_size;
} opening;

static void chain(void *to, void *more) {
  vk_head *head = to, *link = more;
  link->next = head->next;
  head->next = link;
}

static sn_status find_extensions(opening *o) {
  const vk_instance_calls *in = loader_calls();
  uint32_t n = 0;
  in->EnumerateDeviceExtensionProperties(o->info->physical, NULL, &n, NULL);
  vk_extension_properties *list = calloc(n ? n : 1, sizeof *list);
  if (!list)
    return diag_fail(o->ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes",
                     n * sizeof *list);
  in->EnumerateDeviceExtensionProperties(o->info->physical, NULL, &n, list);
  for (uint32_t i = 0; i < n; i++)
    for (int e = 0; e < EXTENSIONS; e++)
      o->has[e] = o->has[e] || strcmp(list[i].name, extension_names[e]) == 0;
  free(list);
  return SN_OK;
}

static void find_properties(opening *o) {
  o->properties = (vk_properties2){.type = VK_PROPERTIES_2};
  o->p11 = (vk_properties11){.type = VK_VULKAN_11_PROPERTIES};
  o->p12 = (vk_properties12){.type = VK_VULKAN_12_PROPERTIES};
  o->p13 = (vk_properties13){.type = VK_VULKAN_13_PROPERTIES};
  o->sm = (vk_sm_properties){.type = VK_SM_PROPERTIES};
  o->sizes = (vk_subgroup_size_properties){.type = VK_SUBGROUP_SIZE_PROPERTIES};
  chain(&o->properties, &o->p11);
  chain(&o->properties, &o->p12);
  if (o->info->api >= VK_API_1_3)
    chain(&o->properties, &o->p13);
  if (o->has[EXT_SM])
    chain(&o->properties, &o->sm);
  if (o->has[EXT_SUBGROUP_SIZE])
    chain(&o->properties, &o->sizes);
  loader_calls()->GetPhysicalDeviceProperties2(o->info->physical, &o->properties);
}

static sn_status lacks(const opening *o, const char *feature) {
  return diag_fail(o->ctx, SN_ERR_UNSUPPORTED, "%s (%s): the driver lacks %s", o->info->name,
                   o->properties.core.name, feature);
}

/* In compute shaders; all kernels may use them. */
static bool has_subgroup_operations(const opening *o) {
  enum { VOTE = 0x2, ARITHMETIC = 0x4, SHUFFLE = 0x10, ALL = VOTE | ARITHMETIC | SHUFFLE };
  return (o->p11.subgroup_operations & ALL) == ALL && o->p11.subgroup_stages & VK_STAGE_COMPUTE;
}

/* What is there becomes what is asked for, less what is of no use here. */
static sn_status find_features(opening *o) {
  vk_features2 all = {.type = VK_FEATURES_2};
  o->f11 = (vk_features11){.type = VK_VULKAN_11_FEATURES};
  o->f12 = (vk_features12){.type = VK_VULKAN_12_FEATURES};
  o->matrix = (vk_features_few){.type = VK_MATRIX_FEATURES};
  o->bfloat16 = (vk_features_few){.type = VK_BFLOAT16_FEATURES};
  o->subgroup_size = (vk_features_few){.type = VK_SUBGROUP_SIZE_FEATURES};
  chain(&all, &o->f11);
  chain(&all, &o->f12);
  if (o->has[EXT_MATRIX])
    chain(&all, &o->matrix);
  if (o->has[EXT_BFLOAT16])
    chain(&all, &o->bfloat16);
  if (o->has[EXT_SUBGROUP_SIZE])
    chain(&all, &o->subgroup_size);
  loader_calls()->GetPhysicalDeviceFeatures2(o->info->physical, &all);
  const struct {
    bool there;
    const char *name;
  } needed[] = {{all.on[VK_INT64], "64-bit integers in shaders (shaderInt64)"},
                {o->f11.on[VK_11_STORAGE16], "16-bit storage (storageBuffer16BitAccess)"},
                {o->f12.on[VK_12_STORAGE8], "8-bit storage (storageBuffer8BitAccess)"},
                {o->f12.on[VK_12_BUFFER_ADDRESS], "buffer addresses (bufferDeviceAddress)"},
                {o->f12.on[VK_12_TIMELINE], "timeline semaphores (timelineSemaphore)"},
                {has_subgroup_operations(o), "votes, arithmetic and shuffles within subgroups"}};
  for (size_t i = 0; i < COUNT_OF(needed); i++)
    if (!needed[i].there || gpu_fault("feature"))
      return lacks(o, needed[i].name);
  vk_features2 use = {.type = VK_FEATURES_2};
  use.on[VK_INT64] = 1;
  use.on[VK_INT16] = all.on[VK_INT16];
  o->features = use;
  return SN_OK;
}

/* Of the long lists only what shaders use is switched on. */
static void choose_features(opening *o) {
  static const int use[] = {VK_12_STORAGE8,
                            VK_12_FLOAT16,
                            VK_12_INT8,
                            VK_12_TIMELINE,
                            VK_12_BUFFER_ADDRESS,
                            VK_12_MEMORY_MODEL,
                            VK_12_MEMORY_MODEL_DEVICE,
                            VK_12_MEMORY_MODEL_CHAINS};
  vk_features12 f12 = {.type = VK_VULKAN_12_FEATURES};
  for (size_t i = 0; i < COUNT_OF(use); i++)
    f12.on[use[i]] = o->f12.on[use[i]];
  o->f12 = f12;
  o->f11 = (vk_features11){.type = VK_VULKAN_11_FEATURES, .on = {[VK_11_STORAGE16] = 1}};
  o->matrix.on[1] = o->matrix.on[2] = 0;
  o->matrix.next = o->bfloat16.next = o->subgroup_size.next = NULL;
  chain(&o->features, &o->f11);
  chain(&o->features, &o->f12);
  if (o->has[EXT_MATRIX])
    chain(&o->features, &o->matrix);
  if (o->has[EXT_BFLOAT16])
    chain(&o->features, &o->bfloat16);
  if (o->has[EXT_SUBGROUP_SIZE])
    chain(&o->features, &o->subgroup_size);
}

/* A family for compute alone where there is one (it does not wait for a screen), else any that computes. */
static sn_status find_queue(opening *o) {
  vk_queue_family families[16];
  uint32_t n = COUNT_OF(families), best = n;
  loader_calls()->GetPhysicalDeviceQueueFamilyProperties(o->info->physical, &n, families);
  for (uint32_t i = 0; i < n; i++)
    if (families[i].flags & VK_QUEUE_COMPUTE &&
        (best >= n ||
         (families[best].flags & VK_QUEUE_GRAPHICS && !(families[i].flags & VK_QUEUE_GRAPHICS))))
      best = i;
  if (best >= n)
    return lacks(o, "a queue for compute");
  o->g->family = best;
  uint32_t bits = families[best].timestamp_bits;
  o->g->limits.timestamp_ns = bits > 0 ? (double)o->properties.core.limits.timestamp_ns : 0;
  o->g->limits.timestamp_mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
  return SN_OK;
}

/* --- limits --- */

/* A limit of 0 was not told. */
static int64_t limited(uint64_t bytes) {
  return bytes == 0 || bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

enum { NVIDIA = 4, INTEL = 5, INTEL_MESA = 6 }; /* drivers */

/* Intel's registers are as many for a subgroup of 32 as for one of 16: decision 24. */
int gpu_choose_subgroup(uint32_t driver, int usual, int least, int most) {
  enum { INTELS = 16 };
  bool intel = driver == INTEL || driver == INTEL_MESA;
  return intel && least <= INTELS && INTELS <= most ? INTELS : usual;
}

int gpu_choose_threads(int64_t most, int subgroup, int64_t subgroups) {
  int64_t all = subgroups > 0 ? min_i64(most, subgroup * subgroups) : most;
  int threads = 1;
  while (threads < 1 << 16 && 2 * threads <= all)
    threads *= 2;
  return threads;
}

/* Drivers that are known to begin workgroups in the order of launches (chain.c). SINEW_VULKAN_CHAIN: 0, none; 1, any. What others wrote is seen through
 * two steps, of the workgroup and of the device: VK_12_MEMORY_MODEL_CHAINS, switched on where it is there, and tested in any case. */
static bool may_chain(const opening *o) {
  const char *asked = getenv("SINEW_VULKAN_CHAIN");
  bool can = o->f12.on[VK_12_MEMORY_MODEL] && o->f12.on[VK_12_MEMORY_MODEL_DEVICE];
  return can && (asked ? *asked == '1' : o->p12.driver_id == NVIDIA);
}

/* Workgroups that are under way at once, or nearly. SINEW_VULKAN_UNITS, or what the driver tells, or what a card of today has. */
static int count_units(const opening *o) {
  enum { MOST = 4096, SOFTWARE = 4, USUAL = 32 };
  const char *asked = getenv("SINEW_VULKAN_UNITS");
  long n = asked ? strtol(asked, NULL, 10) : 0;
  if (n > 0 && n <= MOST)
    return (int)n;
  return o->has[EXT_SM] ? (int)o->sm.sms : gpu_is_software(o->info) ? SOFTWARE : USUAL;
}

static void note_limits(opening *o) {
  gpu *g = o->g;
  const vk_limits *l = &o->properties.core.limits;
  int64_t subgroups = 0;
  g->limits.allocation_bytes = limited(o->p11.allocation_bytes);
  g->limits.buffer_bytes = limited(o->p13.buffer_bytes);
  g->limits.uniform_alignment = max_i64(16, (int64_t)l->uniform_alignment);
  g->limits.uniform_range = l->uniform_range;
  memcpy(g->limits.group_counts, l->group_counts, sizeof l->group_counts);
  if (o->has[EXT_SUBGROUP_SIZE] && o->subgroup_size.on[0] && o->sizes.stages & VK_STAGE_COMPUTE) {
    g->limits.subgroup_least = (int)o->sizes.least;
    g->limits.subgroup_most = (int)o->sizes.most;
    subgroups = o->sizes.most_of_group;
  }
  memcpy(g->driver_uuid, o->p11.driver_uuid, sizeof g->driver_uuid);
  memcpy(g->device_uuid, o->properties.core.uuid, sizeof g->device_uuid);
  int subgroup = gpu_choose_subgroup(o->p12.driver_id, (int)o->p11.subgroup,
                                     g->limits.subgroup_least, g->limits.subgroup_most);
  int64_t threads = min_i64(l->group_threads, l->group_size[0]);
  g->target = (gpu_target){
      .subgroup = subgroup,
      .max_threads = gpu_choose_threads(threads, subgroup, subgroups),
      .shared_bytes = (int)min_i64(l->shared_bytes, INT32_MAX),
      .block_bytes = (int)min_i64(l->uniform_range, 65536),
      .units = count_units(o),
      .keeps_nan = o->p12.keeps_nan32 != 0,
      .chains = may_chain(o),
  };
}

/* --- the device --- */

static sn_status load_device(opening *o) {
  gpu *g = o->g;
  bool all = true;
#define LOAD(name, result, arguments)                    \
  {                                                      \
    void *p = loader_device_call(g->device, "vk" #name); \
    memcpy(&g->vk.name, &p, sizeof p);                   \
    all = all && p;                                      \
  }
  VK_DEVICE_CALLS(LOAD)
#undef LOAD
  return all ? SN_OK : lacks(o, "functions of Vulkan 1.2");
}

static sn_status create_device(opening *o) {
  gpu *g = o->g;
  const char *names[EXTENSIONS];
  uint32_t n = 0;
  float priority = 1;
  for (int e = 0; e < EXT_SM; e++)
    if (o->has[e])
      names[n++] = extension_names[e];
  vk_queue_create_info queue = {
      .type = VK_DEVICE_QUEUE_CREATE_INFO, .family = g->family, .n = 1, .priorities = &priority};
  vk_device_create_info info = {.type = VK_DEVICE_CREATE_INFO,
                                .next = &o->features,
                                .n_queues = 1,
                                .queues = &queue,
                                .n_extensions = n,
                                .extensions = names};
  int result = gpu_fault("CreateDevice")
                   ? gpu_fault_result()
                   : loader_calls()->CreateDevice(o->info->physical, &info, NULL, &g->device);
  if (result != 0) {
    g->device = 0;
    return gpu_fail(g, o->ctx, result, "opening the GPU");
  }
  SN_TRY(load_device(o));
  g->vk.GetDeviceQueue(g->device, g->family, 0, &g->queue);
  return SN_OK;
}

sn_status gpu_open(sn_ctx *ctx, gpu *g) {
  opening o = {.ctx = ctx, .info = g->info, .g = g};
  pthread_mutex_init(&g->submit, NULL);
  pthread_mutex_init(&g->proof, NULL);
  pthread_mutex_init(&g->chunks_lock, NULL);
  g->physical = o.info->physical;
  if (o.info->api < VK_API_1_2)
    return diag_fail(ctx, SN_ERR_UNSUPPORTED, "%s (%s): the driver is older than Vulkan 1.2",
                     o.info->name, o.info->description);
  SN_TRY(find_extensions(&o));
  find_properties(&o);
  SN_TRY(find_features(&o));
  choose_features(&o);
  SN_TRY(find_queue(&o));
  note_limits(&o);
  SN_TRY(create_device(&o));
  SN_TRY(gpu_find_memory(g, ctx));
  g->has_budget = o.has[EXT_BUDGET];
  bool matrices = o.matrix.on[0] && o.f12.on[VK_12_FLOAT16] && o.f12.on[VK_12_MEMORY_MODEL];
  gpu_find_matrices(g, matrices, o.bfloat16.on[0] && o.bfloat16.on[2]);
  SN_TRY(gpu_transfers_create(g, ctx));
  return gpu_pipelines_create(g, ctx);
}

void gpu_close(gpu *g) {
  if (g->device && g->vk.DestroyDevice) {
    gpu_idle(g);
    gpu_pipelines_destroy(g);
    gpu_transfers_destroy(g);
    g->vk.DestroyDevice(g->device, NULL);
  }
  pthread_mutex_destroy(&g->submit);
  pthread_mutex_destroy(&g->proof);
  pthread_mutex_destroy(&g->chunks_lock);
}
