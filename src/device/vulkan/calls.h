/* Vulkan's functions that the device calls, as tables of pointers. See loader.c.
 *
 * Calls that return a result go through VK_CALL, in which tests make them fail (gpu_fault). */
#ifndef SINEW_DEVICE_VULKAN_CALLS_H
#define SINEW_DEVICE_VULKAN_CALLS_H

#include "device/vulkan/abi.h"

/* Of the loader. */
#define VK_LOADER_CALLS(X)                                                      \
  X(EnumerateInstanceExtensionProperties, int,                                  \
    (const char *, uint32_t *, vk_extension_properties *))                      \
  X(EnumerateInstanceLayerProperties, int, (uint32_t *, vk_layer_properties *)) \
  X(CreateInstance, int, (const vk_instance_create_info *, const void *, vk_handle *))

/* Of an instance. */
#define VK_INSTANCE_CALLS(X)                                                                  \
  X(DestroyInstance, void, (vk_handle, const void *))                                         \
  X(EnumeratePhysicalDevices, int, (vk_handle, uint32_t *, vk_handle *))                      \
  X(EnumerateDeviceExtensionProperties, int,                                                  \
    (vk_handle, const char *, uint32_t *, vk_extension_properties *))                         \
  X(GetPhysicalDeviceProperties, void, (vk_handle, vk_properties *))                          \
  X(GetPhysicalDeviceProperties2, void, (vk_handle, vk_properties2 *))                        \
  X(GetPhysicalDeviceFeatures2, void, (vk_handle, vk_features2 *))                            \
  X(GetPhysicalDeviceQueueFamilyProperties, void, (vk_handle, uint32_t *, vk_queue_family *)) \
  X(GetPhysicalDeviceMemoryProperties2, void, (vk_handle, vk_memory_properties2 *))           \
  X(CreateDevice, int, (vk_handle, const vk_device_create_info *, const void *, vk_handle *)) \
  X(GetDeviceProcAddr, void *, (vk_handle, const char *))

/* Of a device. */
#define VK_DEVICE_CALLS(X)                                                                        \
  X(DestroyDevice, void, (vk_handle, const void *))                                               \
  X(DeviceWaitIdle, int, (vk_handle))                                                             \
  X(GetDeviceQueue, void, (vk_handle, uint32_t, uint32_t, vk_handle *))                           \
  X(CreateBuffer, int, (vk_handle, const vk_buffer_create_info *, const void *, vk_handle *))     \
  X(DestroyBuffer, void, (vk_handle, vk_handle, const void *))                                    \
  X(GetBufferMemoryRequirements, void, (vk_handle, vk_handle, vk_requirements *))                 \
  X(AllocateMemory, int, (vk_handle, const vk_allocate_info *, const void *, vk_handle *))        \
  X(FreeMemory, void, (vk_handle, vk_handle, const void *))                                       \
  X(BindBufferMemory, int, (vk_handle, vk_handle, vk_handle, uint64_t))                           \
  X(MapMemory, int, (vk_handle, vk_handle, uint64_t, uint64_t, uint32_t, void **))                \
  X(GetBufferDeviceAddress, uint64_t, (vk_handle, const vk_address_info *))                       \
  X(CreateShaderModule, int,                                                                      \
    (vk_handle, const vk_module_create_info *, const void *, vk_handle *))                        \
  X(DestroyShaderModule, void, (vk_handle, vk_handle, const void *))                              \
  X(CreateDescriptorSetLayout, int,                                                               \
    (vk_handle, const vk_set_layout_create_info *, const void *, vk_handle *))                    \
  X(DestroyDescriptorSetLayout, void, (vk_handle, vk_handle, const void *))                       \
  X(CreateDescriptorPool, int,                                                                    \
    (vk_handle, const vk_set_pool_create_info *, const void *, vk_handle *))                      \
  X(DestroyDescriptorPool, void, (vk_handle, vk_handle, const void *))                            \
  X(AllocateDescriptorSets, int, (vk_handle, const vk_set_allocate_info *, vk_handle *))          \
  X(UpdateDescriptorSets, void,                                                                   \
    (vk_handle, uint32_t, const vk_set_write *, uint32_t, const void *))                          \
  X(CreatePipelineLayout, int,                                                                    \
    (vk_handle, const vk_layout_create_info *, const void *, vk_handle *))                        \
  X(DestroyPipelineLayout, void, (vk_handle, vk_handle, const void *))                            \
  X(CreatePipelineCache, int,                                                                     \
    (vk_handle, const vk_cache_create_info *, const void *, vk_handle *))                         \
  X(DestroyPipelineCache, void, (vk_handle, vk_handle, const void *))                             \
  X(GetPipelineCacheData, int, (vk_handle, vk_handle, size_t *, void *))                          \
  X(CreateComputePipelines, int,                                                                  \
    (vk_handle, vk_handle, uint32_t, const vk_pipeline_create_info *, const void *, vk_handle *)) \
  X(DestroyPipeline, void, (vk_handle, vk_handle, const void *))                                  \
  X(CreateCommandPool, int, (vk_handle, const vk_pool_create_info *, const void *, vk_handle *))  \
  X(DestroyCommandPool, void, (vk_handle, vk_handle, const void *))                               \
  X(AllocateCommandBuffers, int, (vk_handle, const vk_commands_allocate_info *, vk_handle *))     \
  X(BeginCommandBuffer, int, (vk_handle, const vk_begin_info *))                                  \
  X(EndCommandBuffer, int, (vk_handle))                                                           \
  X(CmdBindPipeline, void, (vk_handle, uint32_t, vk_handle))                                      \
  X(CmdBindDescriptorSets, void,                                                                  \
    (vk_handle, uint32_t, vk_handle, uint32_t, uint32_t, const vk_handle *, uint32_t,             \
     const uint32_t *))                                                                           \
  X(CmdDispatch, void, (vk_handle, uint32_t, uint32_t, uint32_t))                                 \
  X(CmdDispatchIndirect, void, (vk_handle, vk_handle, uint64_t))                                  \
  X(CmdPipelineBarrier, void,                                                                     \
    (vk_handle, uint32_t, uint32_t, uint32_t, uint32_t, const vk_memory_barrier *, uint32_t,      \
     const void *, uint32_t, const void *))                                                       \
  X(CmdFillBuffer, void, (vk_handle, vk_handle, uint64_t, uint64_t, uint32_t))                    \
  X(CmdCopyBuffer, void, (vk_handle, vk_handle, vk_handle, uint32_t, const vk_buffer_copy *))     \
  X(CreateQueryPool, int,                                                                         \
    (vk_handle, const vk_query_pool_create_info *, const void *, vk_handle *))                    \
  X(DestroyQueryPool, void, (vk_handle, vk_handle, const void *))                                 \
  X(CmdResetQueryPool, void, (vk_handle, vk_handle, uint32_t, uint32_t))                          \
  X(CmdWriteTimestamp, void, (vk_handle, uint32_t, vk_handle, uint32_t))                          \
  X(GetQueryPoolResults, int,                                                                     \
    (vk_handle, vk_handle, uint32_t, uint32_t, size_t, void *, uint64_t, uint32_t))               \
  X(CreateSemaphore, int,                                                                         \
    (vk_handle, const vk_semaphore_create_info *, const void *, vk_handle *))                     \
  X(DestroySemaphore, void, (vk_handle, vk_handle, const void *))                                 \
  X(WaitSemaphores, int, (vk_handle, const vk_wait_info *, uint64_t))                             \
  X(GetSemaphoreCounterValue, int, (vk_handle, vk_handle, uint64_t *))                            \
  X(QueueSubmit, int, (vk_handle, uint32_t, const vk_submit_info *, vk_handle))

#define VK_POINTER(name, result, arguments) result(*name) arguments;
typedef struct vk_loader_calls {
  VK_LOADER_CALLS(VK_POINTER)
} vk_loader_calls;
typedef struct vk_instance_calls {
  VK_INSTANCE_CALLS(VK_POINTER)
} vk_instance_calls;
typedef struct vk_device_calls {
  VK_DEVICE_CALLS(VK_POINTER)
} vk_device_calls;
#undef VK_POINTER

/* g->vk.name(...), or the result that a test has planted for this call. */
#define VK_CALL(g, name, ...) (gpu_fault(#name) ? gpu_fault_result() : (g)->vk.name(__VA_ARGS__))
/* Tests: the n-th call of `name` (1: the next) gives `result` instead of being made; NULL: none any more. */
void gpu_fault_plant(const char *name, int n, int result);
int gpu_fault(const char *name);
int gpu_fault_result(void);

#endif
