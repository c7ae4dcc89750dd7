/* See vm_validate.h. */
#include "support/vm_validate.h"

#include "device/vulkan/spirv_numbers.h"
#include "support/radv.h"
#include "support/spirv_vm.h"
#include "support/test.h"
#include "support/vm_older.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

enum { JOBS = 2, NOT_INSTALLED = 127, COMPLAINT = 1200, FROM = 100, PATH = 600 };

/* One spirv-val at work. */
typedef struct job {
  pid_t child; /* 0: none */
  uint64_t hash;
  char from[FROM];
  char module[PATH], said[PATH]; /* files */
} job;

static struct {
  uint64_t *seen; /* hashes, a table that is probed; 0: free */
  size_t room;
  int different, matrices, validated, refused, missing;
  struct radv *amd; /* NULL: shaders do not go there */
  int compiled;
  job jobs[JOBS];
  char complaint[COMPLAINT]; /* the first few */
} all;

bool shader_has_matrices(const shader *s) {
  for (size_t i = 5; i < s->n_words && s->words[i] >> 16; i += s->words[i] >> 16)
    if ((s->words[i] & 0xffff) == SPV_TypeCooperativeMatrixKHR)
      return true;
  return false;
}

/* --- each once --- */

static bool put(uint64_t *table, size_t room, uint64_t hash) {
  size_t at = hash & (room - 1);
  while (table[at] && table[at] != hash)
    at = (at + 1) & (room - 1);
  bool fresh = table[at] == 0;
  table[at] = hash;
  return fresh;
}

static void widen(void) {
  size_t room = all.room ? 2 * all.room : 1024;
  uint64_t *wider = calloc(room, sizeof *wider);
  if (!wider)
    abort();
  for (size_t i = 0; i < all.room; i++)
    if (all.seen[i])
      put(wider, room, all.seen[i]);
  free(all.seen);
  all.seen = wider;
  all.room = room;
}

static bool is_fresh(uint64_t hash) {
  if (2 * (size_t)(all.different + 1) > all.room)
    widen();
  bool fresh = put(all.seen, all.room, hash ? hash : 1);
  all.different += fresh;
  return fresh;
}

/* --- who says what --- */

static void complain(const char *who, const char *from, uint64_t hash, const char *what) {
  size_t used = strlen(all.complaint);
  snprintf(all.complaint + used, sizeof all.complaint - used,
           "%s, of a shader of %s (%016llx): %s\n", who, from, (unsigned long long)hash, what);
}

static void read_said(const job *j, char *out, size_t size) {
  FILE *f = fopen(j->said, "rb");
  size_t n = f ? fread(out, 1, size - 1, f) : 0;
  out[n] = '\0';
  if (f)
    fclose(f);
}

static void finish(job *j) {
  int status = 0;
  char said[400];
  if (!j->child)
    return;
  while (waitpid(j->child, &status, 0) < 0 && errno == EINTR) {
  }
  j->child = 0;
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  all.validated += code == 0;
  all.missing += code == NOT_INSTALLED; /* found out only in the child */
  if (code == 0 || code == NOT_INSTALLED)
    return;
  all.refused++;
  read_said(j, said, sizeof said);
  complain("spirv-val", j->from, j->hash, said);
}

/* What it says goes to a file; a missing one is told from one that complains. */
static void spawn(job *j) {
  char *const args[] = {"spirv-val", "--target-env", "vulkan1.2", j->module, NULL};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, j->said, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  int result = posix_spawnp(&j->child, args[0], &files, NULL, args, environ);
  posix_spawn_file_actions_destroy(&files);
  if (result != 0 && result != ENOENT)
    abort();
  all.missing += result == ENOENT;
  j->child = result == 0 ? j->child : 0;
}

static void start(job *j, const shader *s, const uint32_t *words, size_t n, const char *from) {
  finish(j);
  if (!j->module[0]) {
    char name[40];
    snprintf(name, sizeof name, "validated-%d", (int)(j - all.jobs));
    snprintf(j->module, sizeof j->module, "%s.spv", test_scratch(name));
    snprintf(j->said, sizeof j->said, "%s.txt", test_scratch(name));
  }
  FILE *f = fopen(j->module, "wb");
  if (!f || fwrite(words, sizeof *words, n, f) != n)
    abort();
  fclose(f);
  j->hash = s->hash;
  snprintf(j->from, sizeof j->from, "%s", from);
  spawn(j);
}

/* Something that spirv-val does not know yet. */
static bool is_new(const shader *s) {
  enum { CAPABILITY_BF16 = 5116 };
  for (size_t i = 5; i < s->n_words && (s->words[i] & 0xffff) == SPV_Capability; i += 2)
    if (s->words[i + 1] == CAPABILITY_BF16)
      return true;
  return shader_has_matrices(s);
}

/* By the interpreter's own check, too, which knows them as they are. */
static void start_matrices(job *j, const shader *s, const char *from) {
  vm *v = vm_create(32);
  size_t n;
  uint32_t *older = older_matrices(s->words, s->n_words, &n);
  all.matrices++;
  if (!vm_load(v, s->words, s->n_words))
    complain("the interpreter", from, s->hash, vm_finding(v));
  vm_destroy(v);
  if (!older) {
    all.refused++;
    complain("nobody", from, s->hash, "it cannot be said with the matrices that spirv-val knows");
  } else if (all.missing == 0)
    start(j, s, older, n, from);
  free(older);
}

/* In Vulkan's memory model an access of memory that others see says so, and so does a barrier that is to order it: nobody else would notice.
 * known: by id, storage of pointers and of their types, numbers of constants. */
static void check_marks(const shader *s, const char *from) {
  enum { VULKAN = 3, ACQUIRE_RELEASE = 0x8, AVAILABLE_AND_VISIBLE = 0x6000 };
  const uint32_t *w = s->words;
  uint32_t *known = calloc(w[3], sizeof *known);
  bool vulkan = false;
  if (!known)
    abort();
  for (size_t i = 5; i < s->n_words && w[i] >> 16; i += w[i] >> 16) {
    uint32_t op = w[i] & 0xffff, n = w[i] >> 16, at = 0, mark = 0;
    if (op == SPV_MemoryModel)
      vulkan = w[i + 2] == VULKAN;
    else if (op == SPV_TypePointer)
      known[w[i + 1]] = w[i + 2];
    else if (op == SPV_Constant)
      known[w[i + 2]] = w[i + 3];
    else if (op == SPV_Variable || op == SPV_AccessChain || op == SPV_ConvertUToPtr)
      known[w[i + 2]] = known[w[i + 1]];
    else if (op == SPV_Load || op == SPV_Store) {
      at = known[w[i + (op == SPV_Load ? 3 : 1)]];
      mark = n > (op == SPV_Load ? 4 : 3) ? w[i + (op == SPV_Load ? 4 : 3)] : 0;
    } else if (op == SPV_ControlBarrier && vulkan &&
               (known[w[i + 3]] & (ACQUIRE_RELEASE | AVAILABLE_AND_VISIBLE)) == ACQUIRE_RELEASE)
      complain("the check of marks", from, s->hash, "a barrier makes nothing visible");
    if (vulkan && (at == SPV_Workgroup || at == SPV_PhysicalBuffer) && !(mark & SPV_NON_PRIVATE))
      complain("the check of marks", from, s->hash, "an access of shared memory is private");
  }
  free(known);
}

bool vm_validate_for_amd(void) {
  char why[300];
  all.amd = radv_open(why, sizeof why);
  return all.amd != NULL;
}

/* Its GPUs have subgroups of 32 and 64. */
static void compile_for_amd(const shader *s, const char *from) {
  radv_code code;
  if (!all.amd || (s->subgroup != 0 && s->subgroup < 32))
    return;
  all.compiled++;
  if (!radv_compile(all.amd, s, 64, &code))
    complain("AMD's compiler", from, s->hash, "refused");
}

void vm_validate(const shader *s, const char *from) {
  job *j = &all.jobs[all.different % JOBS];
  if (!is_fresh(s->hash))
    return;
  check_marks(s, from);
  if (is_new(s)) {
    start_matrices(j, s, from);
    return;
  }
  compile_for_amd(s, from);
  if (all.missing == 0)
    start(j, s, s->words, s->n_words, from);
}

bool vm_validate_take(char *out, size_t size) {
  for (int i = 0; i < JOBS; i++)
    finish(&all.jobs[i]);
  snprintf(out, size, "%s", all.complaint);
  all.complaint[0] = '\0';
  return all.missing == 0;
}

/* --- the last test --- */

static void every_shader_is_valid(void) {
  char complaint[COMPLAINT];
  bool there = vm_validate_take(complaint, sizeof complaint);
  CHECK_EQ_STR(complaint, "");
  printf(
      "%d different shaders: %d through spirv-val, %d have matrices or bf16 and went through the "
      "interpreter's check, too; %d through AMD's compiler\n",
      all.different, all.validated, all.matrices, all.compiled);
  if (!there)
    test_skip("no spirv-val");
  else
    CHECK_EQ_INT(all.validated + all.refused, all.different);
  free(all.seen);
  all.seen = NULL;
  all.room = 0;
  all.different = all.matrices = all.validated = all.refused = all.compiled = 0;
}

__attribute__((constructor)) static void register_last(void) {
  static test_case self = {"every_shader_is_valid", __FILE__, TEST_LAST, false,
                           every_shader_is_valid,   false,    NULL};
  test_register_(&self);
}
