/* Pipelines of a GPU: one for each shader, whoever uses it. See gpu.h.
 *
 * Those that nobody uses any more stay for a while, since the next session is often like the last. What the driver compiled is
 * kept in a file as well (pipeline_cache.c). One thread at a time is in here, with helpers of its own for compiling. */
#include "base/team.h"
#include "device/vulkan/pipelines.h"

#include <stdlib.h>

enum { IDLE_MOST = 256, MAKERS_MOST = 16 };

struct gpu_pipeline {
  uint64_t hash;
  size_t n_words;
  uint32_t *words;
  int subgroup;
  vk_handle handle; /* 0: not made yet */
  int refs;
  int result; /* of making it */
  gpu_pipeline *next;
};

vk_handle gpu_set_layout(const gpu *g) { return g->pipelines->set_layout; }
vk_handle gpu_layout(const gpu *g) { return g->pipelines->layout; }
vk_handle gpu_pipeline_handle(const gpu_pipeline *p) { return p->handle; }

/* --- making the frame --- */

static int create_layouts(gpu *g, gpu_pipelines *p) {
  vk_set_binding binding = {.kind = VK_UNIFORM_DYNAMIC, .n = 1, .stages = VK_STAGE_COMPUTE};
  vk_set_layout_create_info set = {
      .type = VK_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .n = 1, .bindings = &binding};
  int result = VK_CALL(g, CreateDescriptorSetLayout, g->device, &set, NULL, &p->set_layout);
  if (result != 0) {
    p->set_layout = 0;
    return result;
  }
  vk_layout_create_info layout = {
      .type = VK_PIPELINE_LAYOUT_CREATE_INFO, .n_sets = 1, .sets = &p->set_layout};
  result = VK_CALL(g, CreatePipelineLayout, g->device, &layout, NULL, &p->layout);
  p->layout = result == 0 ? p->layout : 0;
  return result;
}

sn_status gpu_pipelines_create(gpu *g, sn_ctx *ctx) {
  gpu_pipelines *p = g->pipelines = calloc(1, sizeof *p);
  if (!p)
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes", sizeof *p);
  pthread_mutex_init(&p->lock, NULL);
  int result = create_layouts(g, p);
  if (result != 0)
    return gpu_fail(g, ctx, result, "making layouts");
  return pipeline_cache_load(g, ctx);
}

static void destroy_one(gpu *g, gpu_pipeline *p) {
  if (p->handle)
    g->vk.DestroyPipeline(g->device, p->handle, NULL);
  free(p->words);
  free(p);
}

/* Mesa frees pipelines with the submission that follows, so there is an empty one. */
static void let_go(gpu *g) {
  vk_submit_info nothing = {.type = VK_SUBMIT_INFO};
  if (!atomic_load(&g->lost) && g->vk.QueueSubmit(g->queue, 1, &nothing, 0) == 0)
    g->vk.DeviceWaitIdle(g->device);
}

void gpu_pipelines_save(gpu *g) {
  gpu_pipelines *p = g->pipelines;
  if (p->made > p->saved)
    pipeline_cache_save(g);
  p->saved = p->made;
}

void gpu_pipelines_destroy(gpu *g) {
  gpu_pipelines *p = g->pipelines;
  if (!p)
    return;
  while (p->list) {
    gpu_pipeline *next = p->list->next;
    destroy_one(g, p->list);
    p->list = next;
  }
  if (p->cache)
    g->vk.DestroyPipelineCache(g->device, p->cache, NULL);
  if (p->layout)
    g->vk.DestroyPipelineLayout(g->device, p->layout, NULL);
  if (p->set_layout)
    g->vk.DestroyDescriptorSetLayout(g->device, p->set_layout, NULL);
  let_go(g);
  pthread_mutex_destroy(&p->lock);
  free(p);
  g->pipelines = NULL;
}

/* --- making pipelines --- */

static int make_from(gpu *g, gpu_pipeline *p, vk_handle module) {
  vk_required_subgroup size = {.type = VK_REQUIRED_SUBGROUP_SIZE_INFO,
                               .size = (uint32_t)p->subgroup};
  bool choice = p->subgroup && g->limits.subgroup_least <= p->subgroup &&
                p->subgroup <= g->limits.subgroup_most;
  vk_pipeline_create_info info = {.type = VK_COMPUTE_PIPELINE_CREATE_INFO,
                                  .stage = {.type = VK_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                            .next = choice ? &size : NULL,
                                            .stage = VK_STAGE_COMPUTE,
                                            .module = module,
                                            .entry = "main"},
                                  .layout = g->pipelines->layout};
  return VK_CALL(g, CreateComputePipelines, g->device, g->pipelines->cache, 1, &info, NULL,
                 &p->handle);
}

static void make(gpu *g, gpu_pipeline *p) {
  vk_handle module;
  vk_module_create_info code = {.type = VK_SHADER_MODULE_CREATE_INFO,
                                .size = p->n_words * sizeof *p->words,
                                .words = p->words};
  p->result = VK_CALL(g, CreateShaderModule, g->device, &code, NULL, &module);
  if (p->result != 0)
    return;
  p->result = make_from(g, p, module);
  p->handle = p->result == 0 ? p->handle : 0;
  g->vk.DestroyShaderModule(g->device, module, NULL);
}

/* Pipelines to make, shared out among threads. */
typedef struct making {
  gpu *g;
  gpu_pipeline *const *all;
  int n;
  atomic_int next;
} making;

static void *make_some(void *user) {
  making *m = user;
  for (int i; (i = atomic_fetch_add(&m->next, 1)) < m->n;)
    if (!m->all[i]->handle)
      make(m->g, m->all[i]);
  return NULL;
}

/* All that have no handle yet; each is in the list once. */
static void make_all(gpu *g, int n, gpu_pipeline *const *all) {
  making m = {.g = g, .all = all, .n = n};
  pthread_t threads[MAKERS_MOST];
  int missing = 0, started = 0;
  for (int i = 0; i < n; i++)
    missing += !all[i]->handle;
  int wanted = (int)min_i64(min_i64(missing, team_cores()), MAKERS_MOST) - 1;
  while (started < wanted && pthread_create(&threads[started], NULL, make_some, &m) == 0)
    started++;
  (void)make_some(&m);
  for (int i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  g->pipelines->made += missing;
}

/* --- finding them --- */

static bool serves(const gpu_pipeline *p, const shader *s) {
  return p->hash == s->hash && p->n_words == s->n_words && p->subgroup == s->subgroup &&
         memcmp(p->words, s->words, s->n_words * sizeof *s->words) == 0;
}

static gpu_pipeline *add(gpu_pipelines *all, const shader *s) {
  size_t size = s->n_words * sizeof *s->words;
  gpu_pipeline *p = calloc(1, sizeof *p);
  uint32_t *words = malloc(size ? size : 1);
  if (!p || !words) {
    free(p);
    free(words);
    return NULL;
  }
  memcpy(words, s->words, size);
  *p = (gpu_pipeline){.hash = s->hash,
                      .n_words = s->n_words,
                      .words = words,
                      .subgroup = s->subgroup,
                      .next = all->list};
  all->list = p;
  return p;
}

static gpu_pipeline *find_or_add(gpu_pipelines *all, const shader *s) {
  gpu_pipeline *p = all->list;
  while (p && !serves(p, s))
    p = p->next;
  p = p ? p : add(all, s);
  if (p)
    p->refs++;
  return p;
}

/* Without the unused ones that could not be made, and without the oldest of the unused where they are many. */
static void drop_idle(gpu *g) {
  int idle = 0;
  for (gpu_pipeline **at = &g->pipelines->list; *at;) {
    gpu_pipeline *p = *at;
    idle += p->refs == 0;
    if (p->refs == 0 && (!p->handle || idle > IDLE_MOST)) {
      *at = p->next;
      destroy_one(g, p);
    } else
      at = &p->next;
  }
}

static sn_status get_locked(gpu *g, sn_ctx *ctx, int n, const shader *const *shaders,
                            gpu_pipeline **out) {
  sn_status status = SN_OK;
  int found = 0;
  for (; found < n && (out[found] = find_or_add(g->pipelines, shaders[found])); found++) {
  }
  if (found < n)
    status = diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: no room for a shader");
  else
    make_all(g, n, out);
  for (int i = 0; i < found && status == SN_OK; i++)
    if (!out[i]->handle)
      status = gpu_fail(g, ctx, out[i]->result, "compiling a shader");
  if (status == SN_OK)
    return SN_OK;
  for (int i = 0; i < found; i++)
    out[i]->refs--;
  drop_idle(g);
  return status;
}

sn_status gpu_pipelines_get(gpu *g, sn_ctx *ctx, int n, const shader *const *shaders,
                            gpu_pipeline **out) {
  SN_TRY(gpu_check(g, ctx));
  pthread_mutex_lock(&g->pipelines->lock);
  sn_status status = get_locked(g, ctx, n, shaders, out);
  pthread_mutex_unlock(&g->pipelines->lock);
  return status;
}

void gpu_pipelines_put(gpu *g, int n, gpu_pipeline *const *pipelines) {
  pthread_mutex_lock(&g->pipelines->lock);
  for (int i = 0; i < n; i++)
    pipelines[i]->refs--;
  drop_idle(g);
  pthread_mutex_unlock(&g->pipelines->lock);
}
