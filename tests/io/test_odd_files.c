/* What lies where a file is expected and is none: a pipe, a device that never ends, a folder, a link to itself, a file that may
 * not be read. Nothing waits, nothing reads for ever, and the message names the path. And links that are right. */
#include "support/files.h"
#include "support/test.h"

#include <sinew/sinew.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE(a) (sizeof(a) / sizeof *(a))

static const char *const odd_names[] = {"pipe", "device", "folder", "loop", "closed"};

/* Puts the k-th of them at the path; false where it is none for this user. */
static bool put_odd(size_t k, const char *path) {
  switch (k) {
  case 0: return CHECK_EQ_INT(mkfifo(path, 0600), 0);
  case 1: files_link("/dev/zero", path); return true;
  case 2: return CHECK_EQ_INT(mkdir(path, 0700), 0);
  case 3: files_link(path, path); return true;
  default: files_put(path, "", 0); return CHECK_EQ_INT(chmod(path, 0), 0) && geteuid() != 0;
  }
}

static void remove_odd(const char *path) {
  if (unlink(path) != 0)
    CHECK_EQ_INT(rmdir(path), 0);
}

/* Whoever opens something, given the folder and the path in it. */
typedef struct opener {
  const char *name, *file;
  sn_status (*open)(sn_ctx *ctx, const char *folder, const char *path);
} opener;

static sn_status open_json(sn_ctx *ctx, const char *folder, const char *path) {
  sn_json_doc *doc = NULL;
  (void)folder;
  sn_status status = sn_json_parse_file(ctx, path, &doc);
  sn_json_destroy(doc);
  return status;
}

static sn_status open_tensors(sn_ctx *ctx, const char *folder, const char *path) {
  sn_safetensors *file = NULL;
  (void)folder;
  sn_status status = sn_safetensors_open(ctx, path, &file);
  sn_safetensors_close(file);
  return status;
}

static sn_status open_weights(sn_ctx *ctx, const char *folder, const char *path) {
  sn_safetensors *file = NULL;
  (void)path;
  sn_status status = sn_safetensors_open_model(ctx, folder, &file);
  sn_safetensors_close(file);
  return status;
}

static sn_status open_shard(sn_ctx *ctx, const char *folder, const char *path) {
  char index[1024];
  snprintf(index, sizeof index, "%s", files_in(folder, "model.safetensors.index.json"));
  files_put_text(index, "{\"weight_map\":{\"w\":\"part\"}}");
  sn_status status = open_weights(ctx, folder, path);
  CHECK_EQ_INT(unlink(index), 0);
  return status;
}

static sn_status open_model(sn_ctx *ctx, const char *folder, const char *path) {
  sn_model *model = NULL;
  (void)path;
  sn_status status = sn_model_open(ctx, folder, &model);
  sn_model_destroy(model);
  return status;
}

static sn_status load_store(sn_ctx *ctx, const char *folder, const char *path) {
  sn_store *store;
  (void)folder;
  SN_TRY(sn_store_create(ctx, &store));
  sn_status status = sn_store_load(store, path);
  sn_store_destroy(store);
  return status;
}

TEST_WALK(odd_files_are_errors_at_once) {
  static const opener openers[] = {{"json", "some.json", open_json},
                                   {"safetensors", "some.safetensors", open_tensors},
                                   {"weights of a model", "model.safetensors", open_weights},
                                   {"index", "model.safetensors.index.json", open_weights},
                                   {"shard", "part", open_shard},
                                   {"model", "config.json", open_model},
                                   {"checkpoint", "run.safetensors", load_store}};
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("odd");
  for (size_t i = 0; i < SIZE(openers); i++)
    for (size_t k = 0; k < SIZE(odd_names); k++) {
      char path[1024];
      if (!test_begin("%s, %s", openers[i].name, odd_names[k]))
        continue;
      snprintf(path, sizeof path, "%s", files_in(folder, openers[i].file));
      if (put_odd(k, path)) {
        CHECK_EQ_INT(openers[i].open(ctx, folder, path), SN_ERR_IO);
        CHECK_STR_HAS(sn_ctx_message(ctx), openers[i].file);
      }
      remove_odd(path);
      test_end();
    }
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
}

/* A folder of links to files elsewhere, as the cache of Hugging Face has them; and what an index may not say. */
TEST(links_in_a_folder_are_followed_and_paths_in_an_index_are_not) {
  static const float w[2] = {3, 4};
  static const char *const paths[] = {"../blobs/w", "/etc/hostname", "..", ".",
                                      "sub/w",      "sub\\\\w",      ""};
  const sn_safetensors_item item = {"w", {SN_F32, SN_SHAPE(2)}, w};
  const char *blobs = files_new_folder("blobs"), *folder = files_new_folder("snapshot");
  sn_safetensors *file;
  sn_ctx *ctx;
  float got[2];
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  CHECK_EQ_INT(sn_safetensors_write(ctx, files_in(blobs, "w"), &item, 1, NULL, 0), SN_OK);
  files_put_text(files_in(blobs, "index"), "{\"weight_map\":{\"w\":\"part\"}}");
  files_link("../blobs/w", files_in(folder, "part"));
  files_link("../blobs/index", files_in(folder, "model.safetensors.index.json"));
  if (CHECK_EQ_INT(sn_safetensors_open_model(ctx, folder, &file), SN_OK)) {
    CHECK_EQ_INT(sn_safetensors_read(file, 0, SN_F32, got, 2), SN_OK);
    CHECK(got[0] == 3 && got[1] == 4);
    sn_safetensors_close(file);
  }
  CHECK_EQ_INT(unlink(files_in(folder, "model.safetensors.index.json")), 0);
  for (size_t i = 0; i < SIZE(paths); i++) {
    char index[256];
    snprintf(index, sizeof index, "{\"weight_map\":{\"w\":\"%s\"}}", paths[i]);
    files_put_text(files_in(folder, "model.safetensors.index.json"), index);
    CHECK_EQ_INT(sn_safetensors_open_model(ctx, folder, &file), SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(ctx), "expected the name of a file in the same folder");
  }
  files_remove_folder(folder);
  files_remove_folder(blobs);
  sn_ctx_destroy(ctx);
}
