/* What GPUs have to show before they are used: which may be chosen for somebody who did not ask for one, and why none; whether
 * cooperative matrices are right; whether launches wait for each other. See device/devices.h and device.h. */
#include "device/devices.h"
#include "device/vulkan/device.h"
#include "device/vulkan/self_test_matrix.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* --- whether to look for one at all --- */

/* Loading Vulkan's drivers takes about 0.1 s, most of it in those that bring LLVM, and on many machines there is nothing but
 * software. A driver in the kernel shows its GPUs as files, so where none of those is there, neither is a GPU. */
#ifdef __linux__
static bool is_there(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

/* Those of the kernel's own drivers, which Mesa uses. A display without a GPU has only a "card". */
static bool has_render_node(void) {
  DIR *folder = opendir("/dev/dri");
  bool found = false;
  for (const struct dirent *e; folder && !found && (e = readdir(folder));)
    found = strncmp(e->d_name, "renderD", 7) == 0;
  if (folder)
    closedir(folder);
  return found;
}

static bool has_hardware(void) {
  /* NVIDIA, its boards, Windows below Linux, ARM, Qualcomm, Imagination, Vivante */
  static const char *const files[] = {"/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/nvgpu",
                                      "/dev/dxg",       "/dev/mali0",      "/dev/kgsl-3d0",
                                      "/dev/pvrsrvkm",  "/dev/galcore"};
  bool found = has_render_node();
  for (size_t i = 0; i < COUNT_OF(files) && !found; i++)
    found = is_there(files[i]);
  return found;
}
#else
static bool has_hardware(void) { return true; }
#endif

/* Whoever names drivers wants them to be looked at. */
static bool has_named_drivers(void) {
  return getenv("VK_ICD_FILENAMES") || getenv("VK_DRIVER_FILES") || getenv("VK_ADD_DRIVER_FILES");
}

/* --- choosing --- */

/* What a test plants at "proof": a driver of software is taken for hardware, and then fails. */
enum { AS_HARDWARE = 1, AS_WRONG };

const device *vulkan_device_proved(device_choice *out_why) {
  int planted = gpu_fault("proof") ? gpu_fault_result() : 0;
  *out_why = (device_choice){.has_hardware = planted || has_hardware()};
  bool look = out_why->has_hardware || has_named_drivers();
  const device *d = look ? vulkan_device_at(0) : NULL;
  char *why = out_why->why;
  const size_t size = sizeof out_why->why;
  if (!look)
    snprintf(why, size, "this machine has no GPU");
  else if (!d)
    snprintf(why, size, "%s", vulkan_why_none());
  else if (gpu_is_software(gpu_at(0)) && !planted)
    snprintf(why, size, "no driver of a GPU: Vulkan has %.200s", d->description);
  else if (planted == AS_WRONG || !vulkan_self_test(d))
    snprintf(why, size, "%.200s failed its self-test", d->description);
  return *why ? NULL : d;
}

/* --- matrices --- */

static sn_status run_trial(const device *d, sn_ctx *ctx, matrix_trial *t,
                           sn_status (*make)(emitter *e, const part *p), bool chains) {
  const hand_made hand = {make, t, chains};
  const void *inputs[] = {t->x};
  void *outputs[] = {t->y};
  device_run run = {.inputs = inputs, .outputs = outputs};
  device_plan *dp = NULL;
  sn_status status = vulkan_lower(d, ctx, &t->program, &(device_options){0}, &hand, &dp);
  if (status == SN_OK)
    status = d->run(dp, &run);
  d->destroy(dp);
  return status;
}

/* Untested: it could not be run to its end, which says nothing of matrices. */
static matrix_proof try_matrices(const device *d, sn_ctx *ctx, const gpu_target *target,
                                 sn_dtype half) {
  matrix_trial t;
  if (gpu_fault("matrices"))
    return MATRIX_WRONG;
  bool ran = matrix_trial_create(&t, ctx, target, half) &&
             run_trial(d, ctx, &t, matrix_trial_emit, false) == SN_OK;
  matrix_proof proof = !ran                        ? MATRIX_UNTESTED
                       : matrix_trial_is_right(&t) ? MATRIX_RIGHT
                                                   : MATRIX_WRONG;
  matrix_trial_free(&t, ctx);
  return proof;
}

/* By a program of its own: a driver on which this is otherwise, or does not run, may have matrices all the same. */
static matrix_proof try_places(const device *d, sn_ctx *ctx, const gpu_target *target,
                               sn_dtype half) {
  matrix_trial t;
  if (gpu_fault("places"))
    return (matrix_proof)gpu_fault_result();
  bool fits = places_trial_create(&t, ctx, target, half);
  bool ran = fits && run_trial(d, ctx, &t, places_trial_emit, false) == SN_OK;
  matrix_proof proof = ran && places_trial_is_right(&t) ? MATRIX_RIGHT
                       : ran || !fits                   ? MATRIX_WRONG
                                                        : MATRIX_UNTESTED;
  matrix_trial_free(&t, ctx);
  return proof;
}

/* What is not known yet of matrices of this kind. */
static void prove(const device *d, gpu *g, sn_dtype half) {
  sn_ctx *ctx; /* of its own: a test that fails is no message for whoever compiles */
  pthread_mutex_lock(&g->proof);
  bool places = gpu_places_proof(g, half) == MATRIX_UNTESTED;
  bool known = gpu_matrix_proof(g, half) != MATRIX_UNTESTED;
  if ((!known || places) && sn_ctx_create(NULL, &ctx) == SN_OK) {
    if (!known)
      gpu_matrix_note(g, half, try_matrices(d, ctx, &g->target, half));
    if (places && gpu_matrix_proof(g, half) == MATRIX_RIGHT)
      gpu_places_note(g, half, try_places(d, ctx, &g->target, half));
    sn_ctx_destroy(ctx);
  }
  pthread_mutex_unlock(&g->proof);
}

void vulkan_prove_matrices(const device *d, gpu *g, gpu_target *target) {
  if (target->f16)
    prove(d, g, SN_F16);
  if (target->bf16)
    prove(d, g, SN_BF16);
  target->f16 = target->f16 && gpu_matrix_proof(g, SN_F16) == MATRIX_RIGHT;
  target->bf16 = target->bf16 && gpu_matrix_proof(g, SN_BF16) == MATRIX_RIGHT;
  target->places = target->f16 && gpu_places_proof(g, SN_F16) == MATRIX_RIGHT;
  target->bf16_places = target->bf16 && gpu_places_proof(g, SN_BF16) == MATRIX_RIGHT;
}

/* --- launches that wait by themselves --- */

/* Twice, with other numbers: what the first run left is not what the second wants. Untested: it could not be run to its end, which says
 * nothing of waiting, unless a launch waited in vain. */
static matrix_proof try_chain(const device *d, sn_ctx *ctx, const gpu_target *target) {
  matrix_proof proof = MATRIX_RIGHT;
  for (int i = 0; i < 2 && proof == MATRIX_RIGHT; i++) {
    matrix_trial t;
    bool made = chain_trial_create(&t, ctx, target, i * 104729);
    sn_status status = made ? run_trial(d, ctx, &t, chain_trial_emit, true) : SN_ERR_NO_MEMORY;
    bool right = status == SN_OK && chain_trial_is_right(&t);
    if (!right)
      proof = status == SN_OK || status == SN_ERR_STATE ? MATRIX_WRONG : MATRIX_UNTESTED;
    matrix_trial_free(&t, ctx);
  }
  return proof;
}

void vulkan_prove_chain(const device *d, gpu *g, gpu_target *target) {
  sn_ctx *ctx;
  if (!target->chains)
    return;
  pthread_mutex_lock(&g->proof);
  if (atomic_load(&g->chain) == MATRIX_UNTESTED && sn_ctx_create(NULL, &ctx) == SN_OK) {
    atomic_store(&g->chain, try_chain(d, ctx, &g->target));
    sn_ctx_destroy(ctx);
  }
  pthread_mutex_unlock(&g->proof);
  target->chains = atomic_load(&g->chain) == MATRIX_RIGHT;
}

/* --- what is told of a GPU --- */

static const char *proof_text(const gpu *g, sn_dtype half) {
  static const char *const texts[] = {"could not be tested, not used", "tested",
                                      "computed wrongly in a test, not used"};
  return texts[gpu_matrix_proof(g, half)];
}

static const char *chain_text(const gpu *g) {
  static const char *const texts[] = {"at barriers: waiting by themselves could not be tested",
                                      "by themselves",
                                      "at barriers: they failed a test of waiting by themselves"};
  return texts[atomic_load(&g->chain)];
}

static void describe(const device *d, gpu *g, char *out, size_t size) {
  const int *n = g->target.matrix;
  gpu_target t = g->target;
  vulkan_prove_matrices(d, g, &t);
  if (!g->target.f16)
    snprintf(out, size, "no matrix units");
  else if (!g->target.bf16 || strcmp(proof_text(g, SN_F16), proof_text(g, SN_BF16)) == 0)
    snprintf(out, size, "matrices %d x %d x %d of %s: %s", n[0], n[1], n[2],
             g->target.bf16 ? "f16 and bf16" : "f16", proof_text(g, SN_F16));
  else
    snprintf(out, size, "matrices %d x %d x %d of f16: %s; of bf16: %s", n[0], n[1], n[2],
             proof_text(g, SN_F16), proof_text(g, SN_BF16));
  size_t used = strlen(out);
  if (t.places)
    snprintf(out + used, size - used, "; elements in registers");
  used = strlen(out);
  vulkan_prove_chain(d, g, &t);
  if (g->target.chains)
    snprintf(out + used, size - used, "; launches wait %s", chain_text(g));
}

const char *vulkan_note(const device *d) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char notes[GPU_MOST][300];
  char *note = notes[vulkan_index(d)];
  gpu *g;
  sn_ctx *ctx;
  pthread_mutex_lock(&lock);
  if (!*note && sn_ctx_create(NULL, &ctx) == SN_OK) {
    if (gpu_get(ctx, vulkan_index(d), &g) == SN_OK) {
      describe(d, g, note, sizeof notes[0]);
      gpu_put(g);
    } else
      snprintf(note, sizeof notes[0], "cannot be opened: %.200s", sn_ctx_message(ctx));
    sn_ctx_destroy(ctx);
  }
  pthread_mutex_unlock(&lock);
  return note;
}
