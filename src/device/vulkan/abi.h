/* The declarations of Vulkan's ABI that the device calls, written down here so that building Sinew needs no Vulkan
 * headers. Handles are 64-bit numbers (a pointer is as wide on every machine that this runs on). Lists of features and
 * long lists of properties are arrays of 32-bit words, with the places of those that are looked at. */
#ifndef SINEW_DEVICE_VULKAN_ABI_H
#define SINEW_DEVICE_VULKAN_ABI_H

#include <stddef.h>
#include <stdint.h>

#define VK_API_1_2 (UINT32_C(1) << 22 | UINT32_C(2) << 12)
#define VK_API_1_3 (UINT32_C(1) << 22 | UINT32_C(3) << 12)

typedef uint64_t vk_handle;

enum { /* results */
       VK_NOT_READY = 1,
       VK_TIMEOUT = 2,
       VK_INCOMPLETE = 5,
       VK_NO_HOST_MEMORY = -1,
       VK_NO_DEVICE_MEMORY = -2,
       VK_LOST = -4,
       VK_NO_LAYER = -6,
       VK_NO_EXTENSION = -7,
       VK_NO_FEATURE = -8,
       VK_INCOMPATIBLE_DRIVER = -9,
       VK_INVALID_HANDLE = -1000072003
};

enum { /* types of structures */
       VK_APPLICATION_INFO = 0,
       VK_INSTANCE_CREATE_INFO = 1,
       VK_DEVICE_QUEUE_CREATE_INFO = 2,
       VK_DEVICE_CREATE_INFO = 3,
       VK_SUBMIT_INFO = 4,
       VK_MEMORY_ALLOCATE_INFO = 5,
       VK_SEMAPHORE_CREATE_INFO = 9,
       VK_QUERY_POOL_CREATE_INFO = 11,
       VK_BUFFER_CREATE_INFO = 12,
       VK_SHADER_MODULE_CREATE_INFO = 16,
       VK_PIPELINE_CACHE_CREATE_INFO = 17,
       VK_PIPELINE_SHADER_STAGE_CREATE_INFO = 18,
       VK_COMPUTE_PIPELINE_CREATE_INFO = 29,
       VK_PIPELINE_LAYOUT_CREATE_INFO = 30,
       VK_DESCRIPTOR_SET_LAYOUT_CREATE_INFO = 32,
       VK_DESCRIPTOR_POOL_CREATE_INFO = 33,
       VK_DESCRIPTOR_SET_ALLOCATE_INFO = 34,
       VK_WRITE_DESCRIPTOR_SET = 35,
       VK_COMMAND_POOL_CREATE_INFO = 39,
       VK_COMMAND_BUFFER_ALLOCATE_INFO = 40,
       VK_COMMAND_BUFFER_BEGIN_INFO = 42,
       VK_MEMORY_BARRIER = 46,
       VK_VULKAN_11_FEATURES = 49,
       VK_VULKAN_11_PROPERTIES = 50,
       VK_VULKAN_12_FEATURES = 51,
       VK_VULKAN_12_PROPERTIES = 52,
       VK_VULKAN_13_PROPERTIES = 54,
       VK_FEATURES_2 = 1000059000,
       VK_PROPERTIES_2 = 1000059001,
       VK_MEMORY_PROPERTIES_2 = 1000059006,
       VK_MEMORY_ALLOCATE_FLAGS_INFO = 1000060000,
       VK_DEBUG_MESSENGER_CREATE_INFO = 1000128004,
       VK_BFLOAT16_FEATURES = 1000141000,
       VK_SM_PROPERTIES = 1000154001,
       VK_SEMAPHORE_TYPE_CREATE_INFO = 1000207002,
       VK_TIMELINE_SUBMIT_INFO = 1000207003,
       VK_SEMAPHORE_WAIT_INFO = 1000207004,
       VK_SUBGROUP_SIZE_PROPERTIES = 1000225000,
       VK_REQUIRED_SUBGROUP_SIZE_INFO = 1000225001,
       VK_SUBGROUP_SIZE_FEATURES = 1000225002,
       VK_MEMORY_BUDGET_PROPERTIES = 1000237000,
       VK_BUFFER_DEVICE_ADDRESS_INFO = 1000244001,
       VK_MATRIX_FEATURES = 1000506000,
       VK_MATRIX_PROPERTIES = 1000506001
};

enum { /* places in the lists of features, and their lengths */
       VK_INT64 = 40,
       VK_INT16 = 41,
       VK_FEATURES = 55,
       VK_11_STORAGE16 = 0,
       VK_11_FEATURES = 12,
       VK_12_STORAGE8 = 2,
       VK_12_FLOAT16 = 7,
       VK_12_INT8 = 8,
       VK_12_TIMELINE = 37,
       VK_12_BUFFER_ADDRESS = 38,
       VK_12_MEMORY_MODEL = 41,
       VK_12_MEMORY_MODEL_DEVICE = 42,
       VK_12_MEMORY_MODEL_CHAINS = 43,
       VK_12_FEATURES = 47
};

enum { /* kinds of physical devices */
       VK_TYPE_OTHER = 0,
       VK_TYPE_INTEGRATED = 1,
       VK_TYPE_DISCRETE = 2,
       VK_TYPE_VIRTUAL = 3,
       VK_TYPE_CPU = 4
};

enum {
  VK_QUEUE_GRAPHICS = 1,
  VK_QUEUE_COMPUTE = 2,
  VK_HEAP_DEVICE_LOCAL = 1,
  VK_MEMORY_DEVICE_LOCAL = 1,
  VK_MEMORY_VISIBLE = 2,
  VK_MEMORY_COHERENT = 4,
  VK_MEMORY_CACHED = 8,
  VK_USAGE_TRANSFER_FROM = 1,
  VK_USAGE_TRANSFER_TO = 2,
  VK_USAGE_UNIFORM = 0x10,
  VK_USAGE_STORAGE = 0x20,
  VK_USAGE_INDIRECT = 0x100,
  VK_USAGE_ADDRESS = 0x20000,
  VK_ALLOCATE_ADDRESS = 2,
  VK_STAGE_COMPUTE = 0x20,
  VK_PIPELINE_STAGE_INDIRECT = 2,
  VK_PIPELINE_STAGE_COMPUTE = 0x800,
  VK_PIPELINE_STAGE_TRANSFER = 0x1000,
  VK_PIPELINE_STAGE_BOTTOM = 0x2000,
  VK_PIPELINE_STAGE_HOST = 0x4000,
  VK_ACCESS_INDIRECT_READ = 1,
  VK_ACCESS_UNIFORM_READ = 8,
  VK_ACCESS_SHADER_READ = 0x20,
  VK_ACCESS_SHADER_WRITE = 0x40,
  VK_ACCESS_TRANSFER_READ = 0x800,
  VK_ACCESS_TRANSFER_WRITE = 0x1000,
  VK_ACCESS_HOST_READ = 0x2000,
  VK_ACCESS_HOST_WRITE = 0x4000,
  VK_BIND_COMPUTE = 1,
  VK_POOL_RESET_EACH = 2,
  VK_UNIFORM_DYNAMIC = 8,
  VK_SEMAPHORE_TIMELINE = 1,
  VK_QUERY_TIMESTAMP = 2,
  VK_QUERY_64_WAIT = 1 | 2,
  VK_SEVERITY_WARNING = 0x100,
  VK_SEVERITY_ERROR = 0x1000,
  VK_MESSAGE_VALIDATION = 2,
  VK_MATRIX_F16 = 0,
  VK_MATRIX_F32 = 1,
  VK_MATRIX_BF16 = 1000141000,
  VK_SCOPE_SUBGROUP = 3
};

/* What all structures that are passed in begin with. */
typedef struct vk_head {
  uint32_t type;
  void *next;
} vk_head;

typedef struct vk_application_info {
  uint32_t type;
  const void *next;
  const char *application;
  uint32_t application_version;
  const char *engine;
  uint32_t engine_version, api_version;
} vk_application_info;

typedef struct vk_instance_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
  const vk_application_info *application;
  uint32_t n_layers;
  const char *const *layers;
  uint32_t n_extensions;
  const char *const *extensions;
} vk_instance_create_info;

typedef struct vk_layer_properties {
  char name[256];
  uint32_t spec, version;
  char description[256];
} vk_layer_properties;

typedef struct vk_extension_properties {
  char name[256];
  uint32_t version;
} vk_extension_properties;

/* Of the callback's data only the message is read. */
typedef struct vk_debug_data {
  uint32_t type;
  const void *next;
  uint32_t flags;
  const char *id_name;
  int32_t id;
  const char *message;
} vk_debug_data;

typedef uint32_t vk_debug_callback(uint32_t severity, uint32_t kinds, const vk_debug_data *data,
                                   void *user);

typedef struct vk_debug_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, severity, kinds;
  vk_debug_callback *callback;
  void *user;
} vk_debug_create_info;

/* Of the limits, padding stands in for what is not looked at. */
typedef struct vk_limits {
  uint32_t before_uniform[6];
  uint32_t uniform_range; /* bytes of a uniform buffer that a shader can reach */
  uint32_t between[47];
  uint32_t shared_bytes, group_counts[3], group_threads, group_size[3];
  uint32_t before_alignment[18];
  uint64_t uniform_alignment;
  uint32_t before_period[24];
  float timestamp_ns;
  uint32_t after_period[19];
} vk_limits;

typedef struct vk_properties {
  uint32_t api, driver, vendor, device, kind;
  char name[256];
  uint8_t uuid[16];
  vk_limits limits;
  uint32_t sparse[6];
} vk_properties;

typedef struct vk_properties2 {
  uint32_t type;
  void *next;
  vk_properties core;
} vk_properties2;
typedef struct vk_properties11 {
  uint32_t type;
  void *next;
  uint8_t device_uuid[16], driver_uuid[16];
  uint32_t before_subgroup[4];
  uint32_t subgroup, subgroup_stages, subgroup_operations;
  uint32_t before_size[6];
  uint64_t allocation_bytes;
} vk_properties11;
typedef struct vk_properties12 {
  uint32_t type;
  void *next;
  uint32_t driver_id;
  char driver_name[256], driver_info[256];
  uint32_t before_nan[4];
  uint32_t keeps_nan32;
  uint32_t rest[46];
} vk_properties12;
typedef struct vk_properties13 {
  uint32_t type;
  void *next;
  uint32_t before_size[48];
  uint64_t buffer_bytes;
} vk_properties13;
typedef struct vk_sm_properties {
  uint32_t type;
  void *next;
  uint32_t sms, warps;
} vk_sm_properties;
typedef struct vk_subgroup_size_properties {
  uint32_t type;
  void *next;
  uint32_t least, most, most_of_group, stages;
} vk_subgroup_size_properties;
typedef struct vk_matrix_properties {
  uint32_t type;
  void *next;
  uint32_t m, n, k, a, b, c, result, saturating, scope;
} vk_matrix_properties;

typedef struct vk_features2 {
  uint32_t type;
  void *next;
  uint32_t on[VK_FEATURES];
} vk_features2;
typedef struct vk_features11 {
  uint32_t type;
  void *next;
  uint32_t on[VK_11_FEATURES];
} vk_features11;
typedef struct vk_features12 {
  uint32_t type;
  void *next;
  uint32_t on[VK_12_FEATURES];
} vk_features12;
typedef struct vk_features_few { /* extensions of two or three flags */
  uint32_t type;
  void *next;
  uint32_t on[3];
} vk_features_few;

typedef struct vk_queue_family {
  uint32_t flags, count, timestamp_bits, granularity[3];
} vk_queue_family;

typedef struct vk_memory_properties {
  uint32_t n_types;
  struct {
    uint32_t flags, heap;
  } types[32];
  uint32_t n_heaps;
  struct {
    uint64_t size;
    uint32_t flags;
  } heaps[16];
} vk_memory_properties;
typedef struct vk_memory_properties2 {
  uint32_t type;
  void *next;
  vk_memory_properties core;
} vk_memory_properties2;
typedef struct vk_memory_budget {
  uint32_t type;
  void *next;
  uint64_t budget[16], usage[16];
} vk_memory_budget;

typedef struct vk_queue_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, family, n;
  const float *priorities;
} vk_queue_create_info;

typedef struct vk_device_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, n_queues;
  const vk_queue_create_info *queues;
  uint32_t n_layers;
  const char *const *layers;
  uint32_t n_extensions;
  const char *const *extensions;
  const void *features;
} vk_device_create_info;

typedef struct vk_buffer_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
  uint64_t size;
  uint32_t usage, sharing, n_families;
  const uint32_t *families;
} vk_buffer_create_info;

typedef struct vk_requirements {
  uint64_t size, alignment;
  uint32_t types;
} vk_requirements;

typedef struct vk_allocate_flags {
  uint32_t type;
  const void *next;
  uint32_t flags, mask;
} vk_allocate_flags;

typedef struct vk_allocate_info {
  uint32_t type;
  const void *next;
  uint64_t size;
  uint32_t memory_type;
} vk_allocate_info;

typedef struct vk_address_info {
  uint32_t type;
  const void *next;
  vk_handle buffer;
} vk_address_info;

typedef struct vk_module_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
  size_t size;
  const uint32_t *words;
} vk_module_create_info;

typedef struct vk_set_binding {
  uint32_t binding, kind, n, stages;
  const void *samplers;
} vk_set_binding;
typedef struct vk_set_layout_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, n;
  const vk_set_binding *bindings;
} vk_set_layout_create_info;
typedef struct vk_pool_size {
  uint32_t kind, n;
} vk_pool_size;
typedef struct vk_set_pool_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, sets, n;
  const vk_pool_size *sizes;
} vk_set_pool_create_info;
typedef struct vk_set_allocate_info {
  uint32_t type;
  const void *next;
  vk_handle pool;
  uint32_t n;
  const vk_handle *layouts;
} vk_set_allocate_info;
typedef struct vk_set_buffer {
  vk_handle buffer;
  uint64_t offset, range;
} vk_set_buffer;
typedef struct vk_set_write {
  uint32_t type;
  const void *next;
  vk_handle set;
  uint32_t binding, element, n, kind;
  const void *images;
  const vk_set_buffer *buffers;
  const void *texels;
} vk_set_write;

typedef struct vk_layout_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, n_sets;
  const vk_handle *sets;
  uint32_t n_ranges;
  const void *ranges;
} vk_layout_create_info;

typedef struct vk_required_subgroup {
  uint32_t type;
  const void *next;
  uint32_t size;
} vk_required_subgroup;

typedef struct vk_stage_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, stage;
  vk_handle module;
  const char *entry;
  const void *specialization;
} vk_stage_create_info;

typedef struct vk_pipeline_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
  vk_stage_create_info stage;
  vk_handle layout, base;
  int32_t base_index;
} vk_pipeline_create_info;

typedef struct vk_cache_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
  size_t size;
  const void *data;
} vk_cache_create_info;

typedef struct vk_pool_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, family;
} vk_pool_create_info;

typedef struct vk_commands_allocate_info {
  uint32_t type;
  const void *next;
  vk_handle pool;
  uint32_t level, n;
} vk_commands_allocate_info;

typedef struct vk_begin_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
  const void *inheritance;
} vk_begin_info;

typedef struct vk_memory_barrier {
  uint32_t type;
  const void *next;
  uint32_t from, to;
} vk_memory_barrier;

typedef struct vk_buffer_copy {
  uint64_t from, to, size;
} vk_buffer_copy;

typedef struct vk_semaphore_type {
  uint32_t type;
  const void *next;
  uint32_t kind;
  uint64_t initial;
} vk_semaphore_type;
typedef struct vk_semaphore_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags;
} vk_semaphore_create_info;
typedef struct vk_wait_info {
  uint32_t type;
  const void *next;
  uint32_t flags, n;
  const vk_handle *semaphores;
  const uint64_t *values;
} vk_wait_info;
typedef struct vk_timeline_submit {
  uint32_t type;
  const void *next;
  uint32_t n_waits;
  const uint64_t *waits;
  uint32_t n_signals;
  const uint64_t *signals;
} vk_timeline_submit;

typedef struct vk_query_pool_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, kind, n, statistics;
} vk_query_pool_create_info;

typedef struct vk_submit_info {
  uint32_t type;
  const void *next;
  uint32_t n_waits;
  const vk_handle *waits;
  const uint32_t *wait_stages;
  uint32_t n_commands;
  const vk_handle *commands;
  uint32_t n_signals;
  const vk_handle *signals;
} vk_submit_info;

#endif
