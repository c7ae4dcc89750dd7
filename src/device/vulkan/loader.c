/* Vulkan's loader and the list of GPUs; see gpu.h. The library is found at run time, so that Sinew builds and runs without
 * Vulkan. Everything here is behind one lock, taken by the functions of gpu.h. */
#include "device/vulkan/gpu.h"

#include "base/stale.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *get_proc(vk_handle, const char *);

static struct {
  pthread_mutex_t lock;
  bool tried;
  char why[256]; /* there is no GPU */
  void *library;
  get_proc *find;
  vk_loader_calls vk;
  vk_instance_calls in;
  vk_handle instance;
  bool validates;
  int n;
  gpu_info infos[GPU_MOST];
  gpu *open[GPU_MOST];
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- what validation says --- */

static struct {
  atomic_int n;
  pthread_mutex_t lock;
  char first[1024];
} complaints = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t complain(uint32_t severity, uint32_t kinds, const vk_debug_data *data, void *user) {
  (void)severity;
  (void)kinds;
  (void)user;
  pthread_mutex_lock(&complaints.lock);
  if (atomic_fetch_add(&complaints.n, 1) == 0)
    snprintf(complaints.first, sizeof complaints.first, "%s", data->message);
  pthread_mutex_unlock(&complaints.lock);
  return 0;
}

int gpu_complaints(void) { return atomic_load(&complaints.n); }
const char *gpu_complaint(void) { return complaints.first; }
void gpu_forget_complaints(void) { atomic_store(&complaints.n, 0); }
bool gpu_validates(void) { return loader.validates; }

/* --- faults, for tests --- */

static struct {
  atomic_int left; /* calls until it strikes; 0: never */
  const char *name;
  int result;
} fault;

void gpu_fault_plant(const char *name, int n, int result) {
  fault.name = name;
  fault.result = result;
  atomic_store(&fault.left, name ? n : 0);
}

int gpu_fault(const char *name) {
  return atomic_load_explicit(&fault.left, memory_order_relaxed) > 0 &&
         strcmp(name, fault.name) == 0 && atomic_fetch_sub(&fault.left, 1) == 1;
}

int gpu_fault_result(void) { return fault.result; }

/* --- opening --- */

static bool give_up(const char *why) {
  snprintf(loader.why, sizeof loader.why, "%s", why);
  return false;
}

static bool load_instance(void) {
  bool all = true;
#define LOAD(name, result, arguments)                   \
  {                                                     \
    void *p = loader.find(loader.instance, "vk" #name); \
    memcpy(&loader.in.name, &p, sizeof p);              \
    all = all && p;                                     \
  }
  VK_INSTANCE_CALLS(LOAD)
#undef LOAD
  return all || give_up("the Vulkan loader lacks functions");
}

static bool open_library(void) {
  static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                      "libMoltenVK.dylib"};
  if (STALE_CHECKED) /* what a driver writes, the memory sanitizer takes for stale */
    return give_up("this build checks memory, and knows nothing of drivers");
  if (gpu_fault("dlopen"))
    return give_up("no Vulkan loader: libvulkan.so.1 is not installed");
  for (size_t i = 0; i < COUNT_OF(names) && !loader.library; i++)
    loader.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!loader.library)
    return give_up("no Vulkan loader: libvulkan.so.1 is not installed");
  bool all = true;
  void *find = dlsym(loader.library, "vkGetInstanceProcAddr");
  memcpy(&loader.find, &find, sizeof find);
#define LOAD(name, result, arguments)                   \
  {                                                     \
    void *p = find ? loader.find(0, "vk" #name) : NULL; \
    memcpy(&loader.vk.name, &p, sizeof p);              \
    all = all && p;                                     \
  }
  VK_LOADER_CALLS(LOAD)
#undef LOAD
  return all || give_up("the Vulkan loader lacks functions");
}

static const char LAYER[] = "VK_LAYER_KHRONOS_validation";

static const char PORTABILITY[] = "VK_KHR_portability_enumeration";

/* Whether something of that name is in a list of properties, which begin with their names. */
static bool names(const char *name, const void *list, uint32_t n, size_t each) {
  for (uint32_t i = 0; list && i < n; i++)
    if (strcmp((const char *)list + i * each, name) == 0)
      return true;
  return false;
}

static bool has_layer(void) {
  uint32_t n = 0;
  loader.vk.EnumerateInstanceLayerProperties(&n, NULL);
  vk_layer_properties *list = calloc(n ? n : 1, sizeof *list);
  bool found = list && loader.vk.EnumerateInstanceLayerProperties(&n, list) >= 0 &&
               names(LAYER, list, n, sizeof *list);
  free(list);
  return found;
}

/* Without it a loader tells nothing of drivers on top of something else, such as MoltenVK. */
static bool has_portability(void) {
  uint32_t n = 0;
  loader.vk.EnumerateInstanceExtensionProperties(NULL, &n, NULL);
  vk_extension_properties *list = calloc(n ? n : 1, sizeof *list);
  bool found = list && loader.vk.EnumerateInstanceExtensionProperties(NULL, &n, list) >= 0 &&
               names(PORTABILITY, list, n, sizeof *list);
  free(list);
  return found;
}

/* Messages that come while the instance is made need the structure behind its own, later ones a messenger. It is left to
 * the end of the process, as the instance is. */
static void listen(const vk_debug_create_info *debug) {
  typedef int create_messenger(vk_handle, const vk_debug_create_info *, const void *, vk_handle *);
  create_messenger *create;
  vk_handle messenger;
  void *p = loader.find(loader.instance, "vkCreateDebugUtilsMessengerEXT");
  memcpy(&create, &p, sizeof p);
  if (p && create(loader.instance, debug, NULL, &messenger) == 0)
    loader.validates = true;
}

static bool open_instance(void) {
  static const char *const layers[] = {LAYER};
  enum { ENUMERATE_PORTABILITY = 1 };
  const char *extensions[2];
  uint32_t n = 0;
  const char *asked = getenv("SINEW_VULKAN_VALIDATE");
  bool validate = asked && strcmp(asked, "1") == 0;
  if (validate && !has_layer())
    return give_up(
        "SINEW_VULKAN_VALIDATE is set, but there is no layer VK_LAYER_KHRONOS_validation");
  bool portable = has_portability();
  if (validate)
    extensions[n++] = "VK_EXT_debug_utils";
  if (portable)
    extensions[n++] = PORTABILITY;
  vk_application_info application = {
      .type = VK_APPLICATION_INFO, .application = "sinew", .api_version = VK_API_1_3};
  vk_debug_create_info debug = {.type = VK_DEBUG_MESSENGER_CREATE_INFO,
                                .severity = VK_SEVERITY_ERROR | VK_SEVERITY_WARNING,
                                .kinds = VK_MESSAGE_VALIDATION,
                                .callback = complain};
  vk_instance_create_info info = {.type = VK_INSTANCE_CREATE_INFO,
                                  .next = validate ? &debug : NULL,
                                  .flags = portable ? ENUMERATE_PORTABILITY : 0,
                                  .application = &application,
                                  .n_layers = validate,
                                  .layers = layers,
                                  .n_extensions = n,
                                  .extensions = extensions};
  if (VK_CALL(&loader, CreateInstance, &info, NULL, &loader.instance) != 0) {
    loader.instance = 0;
    return give_up("no Vulkan driver: the loader is there, but it finds none");
  }
  if (!load_instance())
    return false;
  if (validate)
    listen(&debug);
  return true;
}

/* --- the list --- */

bool gpu_is_software(const gpu_info *info) { return info->kind == VK_TYPE_CPU; }

static int score(uint32_t kind) {
  return kind == VK_TYPE_DISCRETE     ? 4
         : kind == VK_TYPE_INTEGRATED ? 3
         : kind == VK_TYPE_VIRTUAL    ? 2
         : kind == VK_TYPE_CPU        ? 0
                                      : 1;
}

static int64_t memory_of(vk_handle physical) {
  vk_memory_properties2 m = {.type = VK_MEMORY_PROPERTIES_2};
  uint64_t most = 0;
  loader.in.GetPhysicalDeviceMemoryProperties2(physical, &m);
  for (uint32_t i = 0; i < m.core.n_heaps; i++)
    if (m.core.heaps[i].flags & VK_HEAP_DEVICE_LOCAL && m.core.heaps[i].size > most)
      most = m.core.heaps[i].size;
  return (int64_t)most;
}

static gpu_info info_of(vk_handle physical) {
  gpu_info info = {.physical = physical};
  vk_properties p;
  loader.in.GetPhysicalDeviceProperties(physical, &p);
  info.kind = p.kind;
  info.api = p.api;
  info.memory = memory_of(physical);
  vk_properties12 p12 = {.type = VK_VULKAN_12_PROPERTIES};
  vk_properties2 all = {.type = VK_PROPERTIES_2, .next = &p12};
  if (p.api >= VK_API_1_2)
    loader.in.GetPhysicalDeviceProperties2(physical, &all);
  snprintf(info.description, sizeof info.description, "%.200s, %.1f GB%s%.60s%s%.60s%s", p.name,
           1e-9 * (double)info.memory, *p12.driver_name ? ", " : "", p12.driver_name,
           *p12.driver_info ? " " : "", p12.driver_info,
           gpu_is_software(&info) ? " (software)" : "");
  return info;
}

/* Best first; of equal ones that which the loader names first. */
static void insert(gpu_info info) {
  int at = loader.n++;
  for (; at > 0 && score(loader.infos[at - 1].kind) < score(info.kind); at--)
    loader.infos[at] = loader.infos[at - 1];
  loader.infos[at] = info;
}

static bool list(void) {
  vk_handle all[GPU_MOST];
  uint32_t n = GPU_MOST;
  if (loader.in.EnumeratePhysicalDevices(loader.instance, &n, all) < 0 || n == 0)
    return give_up("no Vulkan driver: the loader is there, but it finds no device");
  for (uint32_t i = 0; i < n; i++)
    insert(info_of(all[i]));
  for (int i = 0; i < loader.n; i++)
    snprintf(loader.infos[i].name, sizeof loader.infos[i].name, i ? "vulkan:%d" : "vulkan", i);
  return true;
}

static void open_once(void) {
  if (loader.tried)
    return;
  loader.tried = true;
  if (sizeof(void *) != sizeof(vk_handle)) {
    (void)give_up("Vulkan is used on 64-bit machines only");
    return;
  }
  (void)(open_library() && open_instance() && list());
}

int gpu_count(void) {
  pthread_mutex_lock(&loader.lock);
  open_once();
  int n = loader.n;
  pthread_mutex_unlock(&loader.lock);
  return n;
}

const char *gpu_why_none(void) { return gpu_count() ? "" : loader.why; }
const gpu_info *gpu_at(int i) { return i >= 0 && i < gpu_count() ? &loader.infos[i] : NULL; }
const vk_instance_calls *loader_calls(void) { return &loader.in; }

void *loader_instance_call(const char *name) { return loader.find(loader.instance, name); }

void *loader_device_call(vk_handle device, const char *name) {
  return loader.in.GetDeviceProcAddr(device, name);
}

/* --- open ones --- */

/* A software driver's memory is the process's, and checked for leaks; that of hardware goes with the process. */
static void close_at_exit(const gpu *g) {
  static bool once;
  if (!once && gpu_is_software(g->info))
    once = atexit(gpu_close_unused) == 0;
}

static sn_status open_locked(sn_ctx *ctx, int index, gpu **out) {
  gpu *g = loader.open[index];
  if (g && !atomic_load(&g->lost)) {
    g->refs++;
    *out = g;
    return SN_OK;
  }
  g = calloc(1, sizeof *g);
  if (!g)
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes", sizeof *g);
  g->index = index;
  g->info = &loader.infos[index];
  g->refs = 1;
  sn_status status = gpu_open(ctx, g);
  if (status != SN_OK) {
    gpu_close(g);
    free(g);
    return status;
  }
  close_at_exit(g);
  *out = loader.open[index] = g;
  return SN_OK;
}

sn_status gpu_get(sn_ctx *ctx, int index, gpu **out) {
  *out = NULL;
  if (index < 0 || index >= gpu_count())
    return diag_fail(ctx, SN_ERR_NOT_FOUND, "no GPU %d: %s", index,
                     gpu_count() ? "there are fewer" : loader.why);
  pthread_mutex_lock(&loader.lock);
  sn_status status = open_locked(ctx, index, out);
  pthread_mutex_unlock(&loader.lock);
  return status;
}

static void close_one(gpu *g) {
  if (loader.open[g->index] == g)
    loader.open[g->index] = NULL;
  gpu_close(g);
  free(g);
}

void gpu_put(gpu *g) {
  if (!g)
    return;
  pthread_mutex_lock(&loader.lock);
  bool last = --g->refs == 0;
  if (last && atomic_load(&g->lost))
    close_one(g);
  else if (last)
    gpu_pipelines_save(g);
  pthread_mutex_unlock(&loader.lock);
}

void gpu_close_unused(void) {
  pthread_mutex_lock(&loader.lock);
  for (int i = 0; i < loader.n; i++)
    if (loader.open[i] && loader.open[i]->refs == 0)
      close_one(loader.open[i]);
  pthread_mutex_unlock(&loader.lock);
}
