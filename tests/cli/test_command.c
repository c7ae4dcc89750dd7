/* The built command, as a user runs it: help, wrong usage, devices, generate, check. */
#include "cli/cli.h"
#include "support/command.h"
#include "support/files.h"
#include "support/model_folder.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINEW(...) command_run(command_sinew(), __VA_ARGS__, (char *)NULL)

/* Runs, checks the exit code and that stdout or stderr has a part. */
static void check_run(command_result r, int code, const char *out, const char *err) {
  if (r.code != code)
    FAIL("exit %d, expected %d\n%s%s", r.code, code, r.out, r.err);
  if (out)
    CHECK_STR_HAS(r.out, out);
  if (err)
    CHECK_STR_HAS(r.err, err);
  if (code != 0)
    CHECK(r.err[0] != '\0' || r.out[0] != '\0');
  command_free(&r);
}

TEST(version_and_overview) {
  check_run(SINEW("--version"), 0, "sinew " SN_VERSION "\n", NULL);
  check_run(SINEW("help"), 0, "usage: sinew COMMAND", NULL);
  check_run(SINEW("--help"), 0, "usage: sinew COMMAND", NULL);
  check_run(SINEW("-h"), 0, "usage: sinew COMMAND", NULL);
  check_run(command_run(command_sinew(), (char *)NULL), 2, NULL, "usage: sinew COMMAND");
}

/* Every command that the overview lists explains itself, in both ways of asking. */
TEST(every_command_has_help) {
  command_result all = SINEW("help");
  int n = 0;
  for (char *line = strtok(all.out, "\n"); line; line = strtok(NULL, "\n")) {
    char name[32], usage[64];
    if (strncmp(line, "  ", 2) != 0 || sscanf(line, "%31s", name) != 1 || name[0] == '-')
      continue;
    n++;
    snprintf(usage, sizeof usage, "usage: sinew %s", name);
    command_result a = SINEW("help", name), b = SINEW(name, "--help");
    CHECK_EQ_INT(a.code, 0);
    CHECK_EQ_INT(b.code, 0);
    CHECK_STR_HAS(a.out, usage);
    CHECK_EQ_STR(a.out, b.out);
    command_free(&a);
    command_free(&b);
  }
  CHECK(n >= 5);
  command_free(&all);
}

/* Also after other arguments, right or wrong. */
TEST(help_is_asked_for_anywhere) {
  check_run(SINEW("generate", "dir", "--ids", "1", "--help"), 0, "usage: sinew generate", NULL);
  check_run(SINEW("check", "-h", "dir", "--loud"), 0, "usage: sinew check", NULL);
}

/* The demo looks at where its results go before it trains. */
TEST(demo_refuses) {
  const char *folder = files_new_folder("demo");
  char file[512];
  snprintf(file, sizeof file, "%s", files_in(folder, "file"));
  files_put_text(file, "");
  check_run(SINEW("demo", "--out", file), 1, "", "is not a folder");
  check_run(SINEW("demo", "--out", files_in(file, "below")), 1, "", "cannot make the folder");
  if (files_count("/proc/self") > 0)
    check_run(SINEW("demo", "--out", "/proc/self"), 1, "", "cannot write into");
  check_run(SINEW("demo", "--seconds", "0"), 2, "", "--seconds must be above 0");
  files_remove_folder(folder);
}

/* Help comes from the table that parsing reads, and shows all of it. */
TEST(help_lists_every_option) {
  static const cli_command *const commands[] = {
      &cli_demo, &cli_generate, &cli_check, &cli_workload, &cli_inspect, &cli_bench, &cli_run};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    command_result r = SINEW("help", commands[i]->name);
    CHECK_STR_HAS(r.out, commands[i]->summary);
    for (const cli_option *o = commands[i]->options; o->help; o++) {
      char left[80];
      snprintf(left, sizeof left, "\n  %s%s%s ", o->name ? o->name : "",
               o->name && o->value ? " " : "", o->value ? o->value : "");
      CHECK_STR_HAS(r.out, left);
      CHECK_STR_HAS(r.out, o->help);
    }
    command_free(&r);
  }
}

TEST(wrong_usage) {
  check_run(SINEW("sing"), 2, NULL, "there is no command \"sing\"");
  check_run(SINEW("help", "sing"), 2, NULL,
            "there is no command \"sing\"; `sinew help` lists them");
  check_run(SINEW("check", "", "golden.json"), 2, NULL, "MODEL_DIR is empty");
  check_run(SINEW("check", "dir", "golden.json", "--device", "abacus"), 2, NULL, "abacus");
  check_run(SINEW("check", "dir", "golden.json", "--threads", "-1"), 2, NULL, "--threads");
  check_run(SINEW("--loud"), 2, NULL, "there is no command \"--loud\"");
  check_run(SINEW("devices", "all"), 2, NULL, "unexpected argument all");
  check_run(SINEW("devices", "--all"), 2, NULL, "unknown option --all");
  check_run(SINEW("generate"), 2, NULL, "missing: DIR");
  check_run(SINEW("check"), 2, NULL, "missing: MODEL_DIR");
  check_run(SINEW("check", "dir"), 2, NULL, "missing: GOLDEN.json");
  check_run(SINEW("check", "a", "b", "c"), 2, NULL, "unexpected argument c");
  check_run(SINEW("generate", "dir", "--ids"), 2, NULL, "a value is missing after --ids");
  check_run(SINEW("generate", "dir"), 2, NULL, "give either --prompt or --ids");
  check_run(SINEW("generate", "dir", "--ids", "1", "--prompt", "x"), 2, NULL, "give either");
}

/* Bad values of each kind; the folder is not looked at before they are. */
TEST(bad_values) {
  static const char *const numbers[] = {"-n", "--top-k", "--seed", "--temp", "--top-p"};
  static const char *const bad[] = {
      "", "x", "5x", "1e999999", "--", "0x", "9999999999999999999999x"};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
      check_run(SINEW("generate", "dir", "--ids", "1", numbers[i], bad[k]), 2, NULL, numbers[i]);
  check_run(SINEW("generate", "dir", "--ids", "1", "-n", "1.5"), 2, NULL,
            "-n: not a whole number: \"1.5\"");
  check_run(SINEW("generate", "dir", "--ids", "1", "-n", "99999999999999999999"), 2, NULL,
            "-n: out of range: \"99999999999999999999\"");
  check_run(SINEW("generate", "dir", "--ids", "1", "--top-p", "x"), 2, NULL,
            "--top-p: not a number: \"x\"");
  check_run(SINEW("generate", "dir", "--ids", "1", "--top-p", "1e999"), 2, NULL,
            "--top-p: out of range: \"1e999\"");
  check_run(SINEW("generate", "dir", "--ids", "1", "-n", "-1"), 2, NULL, "-n must not be negative");
  check_run(SINEW("generate", "dir", "--ids", "1", "--temp=-1"), 2, NULL, "--temp");
  check_run(SINEW("generate", "dir", "--ids", "1", "--temp", "nan"), 2, NULL, "--temp");
  check_run(SINEW("generate", "dir", "--ids", "1", "--temp", "inf"), 2, NULL, "--temp");
  check_run(SINEW("generate", "dir", "--ids", "1", "--top-p", "0"), 2, NULL, "--top-p");
  check_run(SINEW("generate", "dir", "--ids", "1", "--top-p", "1.1"), 2, NULL, "--top-p");
  check_run(SINEW("generate", "dir", "--ids", "1", "--top-k", "-1"), 2, NULL, "--top-k");
}

TEST(devices) {
  command_result r = SINEW("devices");
  CHECK_EQ_INT(r.code, 0);
  for (int i = 0; sn_device_name(i); i++)
    CHECK_STR_HAS(r.out, sn_device_name(i));
  CHECK_STR_HAS(r.out, "(auto)");
  command_free(&r);
}

/* --- generate --- */

/* A folder with a small model; the caller removes it. */
static const char *small_model(const char *name) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  const char *folder = files_new_folder(name);
  if (tiny_start(&t, &c)) {
    config_write(folder, config_llama, NULL);
    weights_write(folder, t.store, sn_model_weight_names(t.model), sn_model_weight_count(t.model));
    tiny_end(&t);
  }
  return folder;
}

static int count_words(const char *s) {
  int n = 0;
  for (; *s; s++)
    n += !isspace((unsigned char)*s) && (s[1] == '\0' || isspace((unsigned char)s[1]));
  return n;
}

TEST(generate_ids) {
  const char *folder = small_model("generate");
  command_result a = SINEW("generate", folder, "--ids", "3,17,0", "-n", "9");
  command_result b = SINEW("generate", "--ids=3,17,0", "-n=9", folder, "--device", "auto");
  CHECK_EQ_INT(a.code, 0);
  CHECK_EQ_INT(count_words(a.out), 9);
  CHECK_EQ_STR(a.out, b.out);
  CHECK_EQ_STR(a.err, "");
  command_free(&a);
  command_free(&b);
  a = SINEW("generate", folder, "--ids", "3", "--temp", "20", "--seed", "5", "-n", "20");
  b = SINEW("generate", folder, "--ids", "3", "--temp", "20", "--seed", "5", "-n", "20");
  command_result c =
      SINEW("generate", folder, "--ids", "3", "--temp", "20", "--seed", "6", "-n", "20");
  CHECK_EQ_INT(a.code, 0);
  CHECK_EQ_STR(a.out, b.out);
  CHECK(strcmp(a.out, c.out) != 0);
  command_free(&a);
  command_free(&b);
  command_free(&c);
  a = SINEW("generate", folder, "--ids", "3", "-n", "0");
  CHECK_EQ_STR(a.out, "\n");
  CHECK_EQ_INT(a.code, 0);
  command_free(&a);
  files_remove_folder(folder);
}

/* It stops behind the token that ends a text, unless told otherwise. */
TEST(generate_to_the_end_of_text) {
  const char *folder = small_model("eos");
  char first[16];
  command_result all = SINEW("generate", folder, "--ids", "3,17,0", "-n", "9");
  snprintf(first, sizeof first, "%d", atoi(all.out));
  config_write(folder, config_llama, (config_key[]){{"eos_token_id", first}, {NULL, NULL}});
  command_result stopped = SINEW("generate", folder, "--ids", "3,17,0", "-n", "9");
  command_result ignored = SINEW("generate", folder, "--ids", "3,17,0", "-n", "9", "--ignore-eos");
  CHECK_EQ_INT(atoi(stopped.out), atoi(first));
  CHECK_EQ_INT(count_words(stopped.out), 1);
  CHECK_EQ_STR(ignored.out, all.out);
  command_free(&all);
  command_free(&stopped);
  command_free(&ignored);
  files_remove_folder(folder);
}

/* It stops where the model's sight ends, and says so. */
TEST(generate_to_the_end) {
  const char *folder = small_model("end");
  command_result r = SINEW("generate", folder, "--ids", "1,2", "-n", "1000");
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_INT(count_words(r.out), TINY_LENGTH - 2);
  CHECK_STR_HAS(r.err, "the model sees at most 32 tokens");
  command_free(&r);
  files_remove_folder(folder);
}

TEST(generate_refuses) {
  const char *folder = small_model("refuse");
  static const char *const lists[] = {"3,x", "3,,4", ",3", "3,", "1e3", "-1", "99999999999", "3 4"};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    check_run(SINEW("generate", folder, "--ids", lists[i]), 2, NULL,
              "--ids: expected whole numbers with commas between");
  check_run(SINEW("generate", folder, "--ids", ""), 1, NULL, "the prompt is empty");
  check_run(SINEW("generate", folder, "--ids", "29"), 1, NULL, "id 29 is outside of 0 … 28");
  check_run(SINEW("generate", folder, "--ids", "1", "--device", "abacus"), 2, NULL, "abacus");
  check_run(SINEW("generate", folder, "--ids", "1", "--plan-cache", files_in(folder, "no")), 1,
            NULL, "no: No such file or directory");
  check_run(SINEW("generate", folder, "--prompt", "Once"), 1, NULL, "no vocabulary");
  char many[200] = "1";
  for (int i = 1; i < TINY_LENGTH + 1; i++)
    strcat(many, ",1");
  check_run(SINEW("generate", folder, "--ids", many), 2, NULL, "more than 32 ids");
  check_run(SINEW("generate", files_in(folder, "nowhere"), "--ids", "1"), 1, NULL, "config.json");
  files_put_text(files_in(folder, "config.json"), "{\"model_type\": \"llama\"");
  check_run(SINEW("generate", folder, "--ids", "1"), 1, NULL, "config.json");
  files_remove_folder(folder);
}

TEST(output_that_cannot_be_written) {
  FILE *full = fopen("/dev/full", "w");
  if (!full)
    SKIP("no /dev/full on this system");
  fclose(full);
  check_run(command_run("/bin/sh", "-c", "exec \"$0\" devices > /dev/full", command_sinew(),
                        (char *)NULL),
            1, NULL, "cannot write the output");
  command_result r = command_run("/bin/sh", "-c", "exec \"$0\" --version > /dev/full",
                                 command_sinew(), (char *)NULL);
  CHECK_EQ_INT(r.code, 1);
  command_free(&r);
}

/* --- against golden numbers --- */

typedef struct golden {
  const char *folder;
  char *text;
} golden;

enum { GOLDEN_MOST = 1 << 20 };

static bool golden_start(golden *g) {
  const char *path = test_shared("data/hf/llama/golden.json");
  *g = (golden){.folder = test_shared("data/hf/llama")};
  FILE *f = path ? fopen(path, "rb") : NULL;
  if (!f)
    return false;
  g->text = calloc(1, GOLDEN_MOST);
  CHECK(fread(g->text, 1, GOLDEN_MOST - 1, f) < GOLDEN_MOST - 1);
  fclose(f);
  return true;
}

TEST(greedy_as_golden) {
  golden g;
  sn_ctx *ctx;
  sn_json_doc *doc;
  if (!golden_start(&g))
    SKIP("no shared data: data/hf/llama");
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  REQUIRE(sn_json_parse(ctx, g.text, strlen(g.text), &doc) == SN_OK);
  const sn_json *sequence = sn_json_get(sn_json_root(doc), "greedy_from_8");
  char ids[200] = "", expected[400] = "";
  for (size_t i = 0; i < sn_json_size(sequence); i++) {
    int64_t id = -1;
    CHECK(sn_json_int(sn_json_at(sequence, i), &id));
    char *to = i < 8 ? ids : expected;
    sprintf(to + strlen(to), "%s%lld", *to ? (i < 8 ? "," : " ") : "", (long long)id);
  }
  strcat(expected, "\n");
  command_result r = SINEW("generate", g.folder, "--ids", ids, "-n", "24");
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_STR(r.out, expected);
  command_free(&r);
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  free(g.text);
}

/* The n-th number behind a key: of the object or array there, nested ones included. */
static char *number_at(char *text, const char *key, int n) {
  char *p = strstr(text, key);
  for (p = p ? p + strlen(key) : NULL; p && *p; p++) {
    if (*p == '"') /* a name */
      p = strchr(p + 1, '"');
    else if (isdigit((unsigned char)*p)) {
      if (n-- == 0)
        return p;
      while (strchr("0123456789.eE+-", p[1]) && p[1])
        p++;
    }
  }
  return NULL;
}

/* Moves a digit of that number: the one `place` behind the point, or the last before it for 0. */
static void perturb(char *text, const char *key, int n, int place) {
  char *p = number_at(text, key, n);
  REQUIRE(p != NULL);
  char *point = strpbrk(p, ".,]}");
  char *digit = place ? point + place : point - 1;
  if (CHECK(point && isdigit((unsigned char)*digit)))
    *digit = *digit < '5' ? (char)(*digit + 2) : (char)(*digit - 2);
}

static void check_golden(golden *g, int code, const char *out, const char *err) {
  const char *path = test_scratch("golden.json");
  files_put_text(path, g->text);
  check_run(SINEW("check", g->folder, path), code, out, err);
}

TEST(check_passes) {
  golden g;
  if (!golden_start(&g))
    SKIP("no shared data: data/hf/llama");
  command_result r = SINEW("check", g.folder, test_shared("data/hf/llama/golden.json"));
  CHECK_EQ_INT(r.code, 0);
  CHECK(strstr(r.out, "FAIL") == NULL);
  static const char *const lines[] = {"loss", "logits", "gradients", "greedy", "cache"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[32];
    snprintf(line, sizeof line, "ok   %s", lines[i]);
    CHECK_STR_HAS(r.out, line);
  }
  command_free(&r);
  free(g.text);
}

/* One number of the golden file changed a little: noticed, and where. */
TEST_WALK(check_notices) {
  static const struct {
    const char *name, *key;
    int n, place;
    const char *out;
  } rows[] = {{"loss", "\"loss\"", 0, 4, "FAIL loss"},
              {"second_logit", "\"logits_last\"", 1, 3, "FAIL logits"},
              {"logit_of_the_second_row", "\"logits_last\"", 500, 3, "FAIL logits"},
              {"logit_in_the_middle", "\"logits_mid\"", 319, 3, "FAIL logits"},
              {"norm_of_the_logits", "\"logits_l2\"", 0, 1, "FAIL logits"},
              {"first_gradient", "\"grad_l2\"", 0, 2, "FAIL gradients"},
              {"last_gradient", "\"grad_l2\"", 28, 2, "FAIL gradients"},
              {"first_greedy_token", "\"greedy_from_8\"", 8, 0, "FAIL greedy"},
              {"last_greedy_token", "\"greedy_from_8\"", 31, 0, "FAIL greedy"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    golden g;
    if (!test_begin("%s", rows[i].name))
      continue;
    if (golden_start(&g)) {
      perturb(g.text, rows[i].key, rows[i].n, rows[i].place);
      check_golden(&g, 1, rows[i].out, NULL);
      free(g.text);
    } else {
      test_skip("no shared data: data/hf/llama");
    }
    test_end();
  }
}

/* Golden files that are not what they should be. */
TEST_WALK(check_refuses) {
  static const struct {
    const char *name, *old, *new, *err;
  } rows[] = {{"no_loss", "\"loss\"", "\"lost\"", "\"loss\" is missing, or is not a number"},
              {"no_ids", "\"input_ids\"", "\"input\"", "\"input_ids\""},
              {"no_labels", "\"labels\"", "\"label\"", "\"labels\""},
              {"no_last", "\"logits_last\"", "\"logits_first\"", "\"logits_last\""},
              {"no_gradients", "\"grad_l2\"", "\"grad\"",
               "\"grad_l2\" is missing, or is not one number for each weight"},
              {"unknown_gradient", "\"model.norm.weight\"", "\"model.form.weight\"",
               "has no \"model.norm.weight\""},
              {"no_greedy", "\"greedy_from_8\"", "\"greedy\"", "\"greedy_from_8\""},
              {"broken", "\"loss\":", "\"loss\"", "golden.json"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    golden g;
    if (!test_begin("%s", rows[i].name))
      continue;
    if (golden_start(&g)) {
      char *at = strstr(g.text, rows[i].old);
      size_t old = strlen(rows[i].old), new = strlen(rows[i].new);
      if (CHECK(at != NULL)) {
        memmove(at + new, at + old, strlen(at + old) + 1);
        memcpy(at, rows[i].new, new);
        check_golden(&g, 1, NULL, rows[i].err);
      }
      free(g.text);
    } else {
      test_skip("no shared data: data/hf/llama");
    }
    test_end();
  }
}

/* A continuation of another prompt is not what the row says. */
TEST(check_refuses_another_prompt) {
  golden g;
  if (!golden_start(&g))
    SKIP("no shared data: data/hf/llama");
  perturb(g.text, "\"greedy_from_8\"", 2, 0);
  check_golden(&g, 1, NULL, "\"greedy_from_8\"");
  free(g.text);
}

TEST(check_refuses_folders) {
  check_run(SINEW("check", "/nowhere", "/nowhere/golden.json"), 1, NULL, "/nowhere/config.json");
  const char *folder = small_model("check");
  check_run(SINEW("check", folder, files_in(folder, "golden.json")), 1, NULL, "golden.json");
  files_remove_folder(folder);
}
