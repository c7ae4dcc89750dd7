/* What loading takes: hardly more than the store holds afterwards, counted in the allocator and as the process's own peak. The
 * files are of zeros that take no room on the disk. */
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 16, SHARDS = 8 };

/* Times the bytes that the store holds. Sanitizers keep books of their own beside the process's memory. */
static const double MOST = 1.05;
#if defined(__SANITIZE_THREAD__) /* four bytes for each */
static const double MOST_OF_PROCESS = 5 * 1.05;
#elif defined(__SANITIZE_ADDRESS__)
static const double MOST_OF_PROCESS = 3;
#else
static const double MOST_OF_PROCESS = 1.05;
#endif

/* One file with `n` tensors "t<first>" and so on, of `elements` each. */
static void write_zeros(const char *path, const char *dtype, int first, int n, int64_t elements) {
  char header[8 + 4096] = "";
  int64_t each = elements * (strcmp(dtype, "F32") == 0 ? 4 : 2);
  size_t used = 0;
  for (int i = 0; i < n; i++)
    used += (size_t)snprintf(header + 8 + used, sizeof header - 8 - used,
                             "%c\"t%d\":{\"dtype\":\"%s\",\"shape\":[%lld],"
                             "\"data_offsets\":[%lld,%lld]}",
                             i ? ',' : '{', first + i, dtype, (long long)elements,
                             (long long)(i * each), (long long)((i + 1) * each));
  header[8 + used++] = '}';
  memcpy(header, &(uint64_t){used}, 8);
  files_put(path, header, 8 + used);
  files_extend(path, 8 + used + (size_t)(n * each));
}

/* A folder with one file or SHARDS of them, and an index. */
static const char *write_model(const char *dtype, int shards, int64_t elements) {
  char name[64], index[4096] = "{\"weight_map\":{";
  snprintf(name, sizeof name, "%s_%d_%lld", dtype, shards, (long long)elements);
  const char *folder = files_new_folder(name);
  size_t used = strlen(index);
  int each = TENSORS / shards;
  for (int i = 0; i < shards; i++) {
    snprintf(name, sizeof name, shards == 1 ? "model.safetensors" : "part-%d.safetensors", i);
    write_zeros(files_in(folder, name), dtype, i * each, each, elements);
    for (int k = 0; k < each; k++)
      used += (size_t)snprintf(index + used, sizeof index - used, "%s\"t%d\":\"%s\"",
                               i + k ? "," : "", i * each + k, name);
  }
  snprintf(index + used, sizeof index - used, "}}");
  if (shards > 1)
    files_put_text(files_in(folder, "model.safetensors.index.json"), index);
  return folder;
}

static size_t bytes_held(sn_store *store) {
  size_t sum = 0;
  sn_entry e;
  for (int i = 0; i < sn_store_count(store); i++)
    if (CHECK(sn_store_at(store, i, &e) == SN_OK))
      sum += e.size;
  return sum;
}

static sn_type f32_of(int64_t elements) { return (sn_type){SN_F32, SN_SHAPE(elements)}; }

static const char *name_of(int i) {
  static char names[TENSORS][8];
  snprintf(names[i], sizeof names[i], "t%d", i);
  return names[i];
}

/* Ways to load a folder into a store; entries are f32, or as the file has them for checkpoints. */
static sn_status load_checkpoint(sn_store *store, const char *folder, int64_t elements) {
  (void)elements;
  return sn_store_load(store, files_in(folder, "model.safetensors"));
}

static sn_status load_over(sn_store *store, const char *folder, int64_t elements) {
  SN_TRY(load_checkpoint(store, folder, elements));
  return load_checkpoint(store, folder, elements);
}

static sn_status load_weights(sn_store *store, const char *folder, int64_t elements) {
  const char *names[TENSORS];
  sn_safetensors *file;
  for (int i = 0; i < TENSORS; i++)
    SN_TRY(sn_store_add(store, names[i] = name_of(i), f32_of(elements), NULL));
  SN_TRY(sn_safetensors_open_model(sn_store_ctx(store), folder, &file));
  sn_status status = sn_store_load_weights(store, names, TENSORS, file);
  sn_safetensors_close(file);
  return status;
}

static sn_status load_tensors(sn_store *store, const char *folder, int64_t elements) {
  sn_store_source sources[TENSORS];
  sn_safetensors *file;
  SN_TRY(sn_safetensors_open_model(sn_store_ctx(store), folder, &file));
  for (int i = 0; i < TENSORS; i++)
    sources[i] = (sn_store_source){name_of(i), f32_of(elements), (size_t)i};
  sn_status status = sn_store_load_tensors(store, sources, TENSORS, file);
  sn_safetensors_close(file);
  return status;
}

typedef struct way {
  const char *name;
  sn_status (*load)(sn_store *store, const char *folder, int64_t elements);
  bool sharded; /* can load shards */
} way;

static const way ways[] = {{"checkpoint", load_checkpoint, false},
                           {"checkpoint over another", load_over, false},
                           {"weights", load_weights, true},
                           {"tensors", load_tensors, true}};

static void check_counted(const way *w, const char *folder, int64_t elements) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  sn_store *store;
  REQUIRE(ctx && sn_store_create(ctx, &store) == SN_OK);
  if (!CHECK_EQ_INT(w->load(store, folder, elements), SN_OK))
    FAIL("%s", sn_ctx_message(ctx));
  CHECK_EQ_INT(sn_store_count(store), TENSORS);
  size_t held = bytes_held(store);
  if ((double)heap.peak > MOST * (double)held)
    FAIL("%zu bytes at most for %zu that are held: %.3f times", heap.peak, held,
         (double)heap.peak / (double)held);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

TEST_WALK(the_allocator_counts_the_bytes_once) {
  static const char *const dtypes[] = {"F32", "BF16"};
  enum { ELEMENTS = 1 << 16 };
  for (int d = 0; d < 2; d++)
    for (int shards = 1; shards <= SHARDS; shards += SHARDS - 1) {
      const char *folder = write_model(dtypes[d], shards, ELEMENTS);
      for (size_t i = 0; i < COUNT_OF(ways); i++)
        if ((shards == 1 || ways[i].sharded) &&
            test_begin("%s, %s, %d", ways[i].name, dtypes[d], shards)) {
          check_counted(&ways[i], folder, ELEMENTS);
          test_end();
        }
      files_remove_folder(folder);
    }
}

/* Each tensor by itself would do, all of them would not: said before anything is asked for. */
TEST(more_than_there_is_is_refused_at_once) {
  enum { SMALL = 1 << 20 };
  const int64_t large = INT64_C(1) << 35;
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  sn_store *store;
  REQUIRE(ctx && sn_store_create(ctx, &store) == SN_OK);
  const char *folder = write_model("F32", 1, large);
  CHECK_EQ_INT(load_checkpoint(store, folder, large), SN_ERR_NO_MEMORY);
  CHECK_STR_HAS(sn_ctx_message(ctx), "loading needs 2.20 TB");
  CHECK_EQ_INT(sn_store_count(store), 0);
  CHECK(heap.peak < SMALL);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
  files_remove_folder(folder);
}

/* --- models --- */

TEST(a_model_takes_the_bytes_of_its_weights) {
  const char *folder = files_new_folder("model");
  sn_model_config config = tiny_config("llama");
  config.vocab = 100000;
  tiny_model t;
  REQUIRE(tiny_start(&t, &config));
  CHECK_EQ_INT(sn_store_save_weights(t.store, sn_model_weight_names(t.model),
                                     sn_model_weight_count(t.model),
                                     files_in(folder, "model.safetensors")),
               SN_OK);
  tiny_end(&t);
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  sn_model *model;
  sn_store *store;
  REQUIRE(ctx && sn_model_create(ctx, &config, &model) == SN_OK);
  REQUIRE(sn_store_create(ctx, &store) == SN_OK);
  CHECK_EQ_INT(sn_model_load(model, store, folder), SN_OK);
  size_t held = bytes_held(store);
  CHECK(held > 6000000 && (double)heap.peak <= MOST * (double)held);
  CHECK_EQ_INT(sn_model_load(model, store, folder), SN_OK);
  CHECK((double)heap.peak <= MOST * (double)held);
  sn_store_destroy(store);
  sn_model_destroy(model);
  sn_ctx_destroy(ctx);
  files_remove_folder(folder);
}

/* --- the process --- */

/* A number of kB from /proc/self/status. */
static size_t status_bytes(const char *key) {
  char line[256];
  long long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, key, strlen(key)) == 0)
      (void)!sscanf(line + strlen(key), ": %lld", &kib);
  if (f)
    fclose(f);
  return (size_t)kib * 1024;
}

/* A child loads and tells by how much its peak grew. */
static void check_process(const way *w, const char *folder, int64_t elements, size_t held) {
  int ends[2];
  size_t grown = 0;
  REQUIRE(pipe(ends) == 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    sn_ctx *ctx;
    sn_store *store;
    size_t before = status_bytes("VmRSS");
    bool ok = sn_ctx_create(NULL, &ctx) == SN_OK && sn_store_create(ctx, &store) == SN_OK &&
              w->load(store, folder, elements) == SN_OK && bytes_held(store) == held;
    grown = status_bytes("VmHWM") - before;
    ok = ok && write(ends[1], &grown, sizeof grown) == sizeof grown;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  close(ends[1]);
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_EQ_INT(status, 0);
  CHECK(read(ends[0], &grown, sizeof grown) == sizeof grown);
  close(ends[0]);
  CHECK(grown > held / 2);
  if ((double)grown > MOST_OF_PROCESS * (double)held)
    FAIL("the process grew by %zu bytes for %zu: %.3f times", grown, held,
         (double)grown / (double)held);
}

TEST(the_process_grows_by_what_the_store_holds) {
  if (status_bytes("VmHWM") == 0)
    SKIP("the system does not tell a process's peak");
  enum { ELEMENTS = 1 << 20 };
  const char *folder = write_model("F32", 1, ELEMENTS);
  check_process(&ways[0], folder, ELEMENTS, (size_t)TENSORS * ELEMENTS * 4);
  check_process(&ways[1], folder, ELEMENTS, (size_t)TENSORS * ELEMENTS * 4);
  files_remove_folder(folder);
  folder = write_model("BF16", SHARDS, ELEMENTS);
  check_process(&ways[2], folder, ELEMENTS, (size_t)TENSORS * ELEMENTS * 4);
  check_process(&ways[3], folder, ELEMENTS, (size_t)TENSORS * ELEMENTS * 4);
  files_remove_folder(folder);
  folder = write_model("BF16", 1, ELEMENTS);
  check_process(&ways[0], folder, ELEMENTS, (size_t)TENSORS * ELEMENTS * 2);
  files_remove_folder(folder);
}
