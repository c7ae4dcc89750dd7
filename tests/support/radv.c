/* See radv.h. */
#include "support/radv.h"

#include "device/vulkan/gpu.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

/* VK_KHR_pipeline_executable_properties, which the device itself has no use for. */
enum {
  EXECUTABLE_FEATURES = 1000269000,
  EXECUTABLE_INFO = 1000269003,
  EXECUTABLE_STATISTIC = 1000269004,
  CAPTURE_STATISTICS = 0x40,
  NAME = 256,
  STATISTICS = 64
};
typedef struct executable_info {
  uint32_t type;
  const void *next;
  vk_handle pipeline;
  uint32_t index;
} executable_info;
typedef struct executable_statistic {
  uint32_t type;
  void *next;
  char name[NAME], description[NAME];
  uint32_t format;
  uint64_t value;
} executable_statistic;
typedef int get_statistics(vk_handle device, const executable_info *, uint32_t *n,
                           executable_statistic *);

struct radv {
  vk_handle device, layout;
  vk_device_calls vk;
  get_statistics *statistics;
};

static const char *const folders[] = {"/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d",
                                      "/etc/vulkan/icd.d"};

static bool choose_driver(void) {
  for (size_t i = 0; i < COUNT_OF(folders); i++) {
    char pattern[100];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/radeon_icd*.json", folders[i]);
    bool any = glob(pattern, 0, NULL, &found) == 0;
    if (any) {
      setenv("VK_DRIVER_FILES", found.gl_pathv[0], 1);
      setenv("VK_ICD_FILENAMES", found.gl_pathv[0], 1); /* for older loaders */
      setenv("RADV_FORCE_FAMILY", "navi21", 1);
      setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
      globfree(&found);
      return true;
    }
  }
  return false;
}

static bool create_device(struct radv *r) {
  static const char *const names[] = {"VK_KHR_pipeline_executable_properties",
                                      "VK_EXT_subgroup_size_control"};
  float priority = 1;
  vk_queue_create_info queue = {
      .type = VK_DEVICE_QUEUE_CREATE_INFO, .n = 1, .priorities = &priority};
  vk_features_few executables = {.type = EXECUTABLE_FEATURES, .on = {1}};
  vk_features_few sizes = {.type = VK_SUBGROUP_SIZE_FEATURES, .next = &executables, .on = {1}};
  vk_features12 f12 = {.type = VK_VULKAN_12_FEATURES, .next = &sizes};
  static const int use[] = {VK_12_STORAGE8,           VK_12_FLOAT16,        VK_12_INT8,
                            VK_12_TIMELINE,           VK_12_BUFFER_ADDRESS, VK_12_MEMORY_MODEL,
                            VK_12_MEMORY_MODEL_DEVICE};
  for (size_t i = 0; i < COUNT_OF(use); i++)
    f12.on[use[i]] = 1;
  vk_features11 f11 = {.type = VK_VULKAN_11_FEATURES, .next = &f12, .on = {[VK_11_STORAGE16] = 1}};
  vk_features2 features = {
      .type = VK_FEATURES_2, .next = &f11, .on = {[VK_INT64] = 1, [VK_INT16] = 1}};
  vk_device_create_info info = {.type = VK_DEVICE_CREATE_INFO,
                                .next = &features,
                                .n_queues = 1,
                                .queues = &queue,
                                .n_extensions = COUNT_OF(names),
                                .extensions = names};
  return loader_calls()->CreateDevice(gpu_at(0)->physical, &info, NULL, &r->device) == 0;
}

static bool load(struct radv *r) {
  bool all = true;
#define LOAD(name, result, arguments)                    \
  {                                                      \
    void *p = loader_device_call(r->device, "vk" #name); \
    memcpy(&r->vk.name, &p, sizeof p);                   \
    all = all && p;                                      \
  }
  VK_DEVICE_CALLS(LOAD)
#undef LOAD
  void *p = loader_device_call(r->device, "vkGetPipelineExecutableStatisticsKHR");
  memcpy(&r->statistics, &p, sizeof p);
  return all && p;
}

static bool create_layout(struct radv *r) {
  vk_handle set_layout;
  vk_set_binding binding = {.kind = VK_UNIFORM_DYNAMIC, .n = 1, .stages = VK_STAGE_COMPUTE};
  vk_set_layout_create_info set = {
      .type = VK_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .n = 1, .bindings = &binding};
  vk_layout_create_info layout = {
      .type = VK_PIPELINE_LAYOUT_CREATE_INFO, .n_sets = 1, .sets = &set_layout};
  return r->vk.CreateDescriptorSetLayout(r->device, &set, NULL, &set_layout) == 0 &&
         r->vk.CreatePipelineLayout(r->device, &layout, NULL, &r->layout) == 0;
}

struct radv *radv_open(char *out_why, size_t size) {
  static struct radv only;
  if (only.layout)
    return &only;
  if (!choose_driver() || gpu_count() == 0) {
    snprintf(out_why, size, "no RADV: %s", gpu_count() ? "it is not installed" : gpu_why_none());
    return NULL;
  }
  if (create_device(&only) && load(&only) && create_layout(&only))
    return &only;
  snprintf(out_why, size, "RADV without a GPU cannot be opened");
  return NULL;
}

static void read_code(struct radv *r, vk_handle pipeline, radv_code *out) {
  static executable_statistic list[STATISTICS];
  const struct {
    const char *name;
    int *to;
  } wanted[] = {
      {"VGPRs", &out->registers}, {"Spilled VGPRs", &out->spilled}, {"Code size", &out->bytes}};
  executable_info info = {.type = EXECUTABLE_INFO, .pipeline = pipeline};
  uint32_t n = STATISTICS;
  for (int i = 0; i < STATISTICS; i++)
    list[i] = (executable_statistic){.type = EXECUTABLE_STATISTIC};
  if (r->statistics(r->device, &info, &n, list) < 0)
    n = 0;
  *out = (radv_code){-1, -1, -1};
  for (uint32_t i = 0; i < n; i++)
    for (size_t k = 0; k < COUNT_OF(wanted); k++)
      if (strcmp(list[i].name, wanted[k].name) == 0)
        *wanted[k].to = (int)list[i].value;
}

bool radv_compile(struct radv *r, const shader *s, int subgroup, radv_code *out) {
  vk_handle module, pipeline;
  vk_required_subgroup required = {.type = VK_REQUIRED_SUBGROUP_SIZE_INFO,
                                   .size = (uint32_t)(s->subgroup ? s->subgroup : subgroup)};
  vk_module_create_info code = {.type = VK_SHADER_MODULE_CREATE_INFO,
                                .size = s->n_words * sizeof *s->words,
                                .words = s->words};
  if (r->vk.CreateShaderModule(r->device, &code, NULL, &module) != 0)
    return false;
  vk_pipeline_create_info info = {.type = VK_COMPUTE_PIPELINE_CREATE_INFO,
                                  .flags = CAPTURE_STATISTICS,
                                  .stage = {.type = VK_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                            .next = &required,
                                            .stage = VK_STAGE_COMPUTE,
                                            .module = module,
                                            .entry = "main"},
                                  .layout = r->layout};
  bool made = r->vk.CreateComputePipelines(r->device, 0, 1, &info, NULL, &pipeline) == 0;
  if (made) {
    read_code(r, pipeline, out);
    r->vk.DestroyPipeline(r->device, pipeline, NULL);
  }
  r->vk.DestroyShaderModule(r->device, module, NULL);
  return made;
}
