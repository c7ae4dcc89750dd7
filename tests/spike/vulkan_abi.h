/* The few declarations of Vulkan's ABI that the spike calls, written down here so that building the tests needs no
 * Vulkan headers. Handles are 64-bit numbers (a pointer is as wide on every machine that this runs on). Feature
 * lists are arrays of 32-bit flags, with the places of those that are asked for. */
#ifndef SINEW_TESTS_SPIKE_VULKAN_ABI_H
#define SINEW_TESTS_SPIKE_VULKAN_ABI_H

#include <stdint.h>

#define VK_API_1_2 (UINT32_C(1) << 22 | UINT32_C(2) << 12)

typedef uint64_t vk_handle;

enum {
  VK_APPLICATION_INFO = 0,
  VK_INSTANCE_CREATE_INFO = 1,
  VK_DEVICE_QUEUE_CREATE_INFO = 2,
  VK_DEVICE_CREATE_INFO = 3,
  VK_SUBMIT_INFO = 4,
  VK_MEMORY_ALLOCATE_INFO = 5,
  VK_BUFFER_CREATE_INFO = 12,
  VK_SHADER_MODULE_CREATE_INFO = 16,
  VK_PIPELINE_SHADER_STAGE_CREATE_INFO = 18,
  VK_COMPUTE_PIPELINE_CREATE_INFO = 29,
  VK_PIPELINE_LAYOUT_CREATE_INFO = 30,
  VK_COMMAND_POOL_CREATE_INFO = 39,
  VK_COMMAND_BUFFER_ALLOCATE_INFO = 40,
  VK_COMMAND_BUFFER_BEGIN_INFO = 42,
  VK_MEMORY_BARRIER = 46,
  VK_VULKAN_11_FEATURES = 49,
  VK_VULKAN_12_FEATURES = 51,
  VK_FEATURES_2 = 1000059000,
  VK_MEMORY_ALLOCATE_FLAGS_INFO = 1000060000,
  VK_DEBUG_MESSENGER_CREATE_INFO = 1000128004,
  VK_BUFFER_DEVICE_ADDRESS_INFO = 1000244001
};

/* Places in the lists of features. */
enum {
  VK_INT64 = 40,
  VK_11_STORAGE16 = 0,
  VK_12_STORAGE8 = 2,
  VK_12_BUFFER_ADDRESS = 38,
  VK_FEATURES = 55,
  VK_11_FEATURES = 12,
  VK_12_FEATURES = 47
};

enum {
  VK_TYPE_CPU = 4,
  VK_QUEUE_COMPUTE = 2,
  VK_USAGE_STORAGE = 0x20,
  VK_USAGE_ADDRESS = 0x20000,
  VK_MEMORY_VISIBLE_COHERENT = 2 | 4,
  VK_ALLOCATE_ADDRESS = 2,
  VK_STAGE_COMPUTE = 0x20,
  VK_PIPELINE_STAGE_COMPUTE = 0x800,
  VK_PIPELINE_STAGE_HOST = 0x4000,
  VK_ACCESS_SHADER_WRITE = 0x40,
  VK_ACCESS_HOST_READ = 0x2000,
  VK_BIND_COMPUTE = 1,
  VK_SEVERITY_ERROR = 0x1000,
  VK_MESSAGE_VALIDATION = 2
};

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

typedef struct vk_properties {
  uint32_t api, driver, vendor, device, type;
  char name[256];
  uint8_t uuid[16];
  uint64_t limits[63];
  uint32_t sparse[5];
} vk_properties;

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

typedef struct vk_push_range {
  uint32_t stages, offset, size;
} vk_push_range;

typedef struct vk_layout_create_info {
  uint32_t type;
  const void *next;
  uint32_t flags, n_sets;
  const vk_handle *sets;
  uint32_t n_ranges;
  const vk_push_range *ranges;
} vk_layout_create_info;

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
