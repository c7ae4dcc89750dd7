/* Writes what the Vulkan device makes of the reference workloads, without a GPU, as files that `diff -r` compares: so that
 * a change of the device can show that it changed nothing, or what.
 *
 *   dump_launches FOLDER [PART]      PART: of a name such as "ResNet-50/training/fast"; FOLDER must not be there
 *
 * For each workload, form and precision, as a large GPU with matrices gets them:
 *   FOLDER/<workload>/<form>/<precision>/plan.txt      the program
 *   FOLDER/<workload>/<form>/<precision>/launches.txt  each step's launches: shader, parts, slots, workgroups
 *   FOLDER/<workload>/<form>/<precision>/order.txt     the order in which the GPU gets them, and what waits
 *   FOLDER/shaders/<hash>.spv                          each shader once */
#include "cli/subject.h"
#include "compile/compile.h"
#include "support/launch_order.h"
#include "support/launches_same.h"

#include <stdlib.h>
#include <sys/stat.h>

static const gpu_target large = LARGE_GPU;

static const struct {
  const char *name;
  subject_form form;
} forms[] = {
    {"inference", SUBJECT_INFERENCE}, {"latency", SUBJECT_LATENCY}, {"training", SUBJECT_BACKWARD}};

static const struct {
  const char *name;
  sn_precision precision;
  int channels_last; /* as the device asks for it */
} precisions[] = {{"exact", SN_PRECISION_EXACT, 0}, {"fast", SN_PRECISION_FAST, 16}};

typedef struct dump {
  const char *folder;
  char *name; /* of the program at hand: workload/form/precision */
  const program *program;
  step_launches *made;
} dump;

static void fail(const char *what) {
  fprintf(stderr, "dump_launches: %s\n", what);
  exit(1);
}

static FILE *open_file(const char *folder, const char *name, const char *file) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
  FILE *out = fopen(path, "wb");
  if (!out)
    fail(path);
  return out;
}

/* FOLDER and the folders of a name within it. */
static void make_folders(const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/", folder, name);
  for (char *end = path + strlen(folder); *end; end++)
    if (*end == '/') {
      *end = '\0';
      (void)mkdir(path, 0777);
      *end = '/';
    }
}

/* --- text --- */

static void print_amount(FILE *out, const amount *a) {
  fprintf(out, "(");
  for (int i = 0; i < a->n; i++)
    if (dim_is_number(a->dims[i]))
      fprintf(out, "%s%lld", i ? "*" : "", (long long)a->dims[i]);
    else
      fprintf(out, "%ss%lld", i ? "*" : "", (long long)(DIM_HANDLES - a->dims[i]));
  fprintf(out, ")/%d", a->tile);
}

static void print_slot(FILE *out, const slot *s) {
  static const char *const kinds[] = {"amount", "inverse", "address", "scratch",
                                      "kept",   "number",  "zeros",   "failures"};
  fprintf(out, "      %s", kinds[s->kind]);
  if (s->kind == SLOT_ADDRESS)
    fprintf(out, " %%%u", s->value);
  else if (s->kind == SLOT_AMOUNT || s->kind == SLOT_INVERSE)
    print_amount(out, &s->of);
  else
    fprintf(out, " %lld", (long long)s->byte);
  fprintf(out, "\n");
}

static void print_part(FILE *out, const launch_part *p) {
  fprintf(out, "    part, groups");
  for (int i = 0; i < p->n_grid; i++)
    print_amount(out, &p->grid[i]);
  if (p->when.n > 0) {
    fprintf(out, " where %lld <= ", (long long)p->least);
    print_amount(out, &p->when);
    fprintf(out, " <= %lld", (long long)p->most);
  }
  fprintf(out, "\n");
  for (int i = 0; i < p->n_slots; i++)
    print_slot(out, &p->slots[i]);
}

static uint64_t hash_of(const shader *s) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < s->n_words; i++)
    h = (h ^ s->words[i]) * UINT64_C(1099511628211);
  return h;
}

static void print_launch(FILE *out, const launch *l) {
  const shader *s = l->code;
  fprintf(out, "  launch %016llx words %zu threads %d%s subgroup %d%s%s\n",
          (unsigned long long)hash_of(s), s->n_words, s->threads, s->merged ? " merged" : "",
          s->subgroup, l->after ? " after" : "", l->kept ? " kept" : "");
  for (int i = 0; i < l->n_parts; i++)
    print_part(out, &l->parts[i]);
}

static void write_launches(const dump *d) {
  FILE *out = open_file(d->folder, d->name, "launches.txt");
  for (int i = 0; i < program_steps(d->program); i++) {
    fprintf(out, "step %d %s, scratch %lld\n", i, d->program->steps[i].name,
            (long long)d->made[i].scratch_bytes);
    for (int k = 0; k < d->made[i].n; k++)
      print_launch(out, &d->made[i].launches[k]);
  }
  fclose(out);
}

static void write_shaders(const dump *d, const struct shader_table *shaders) {
  for (int i = 0; i < shaders->n; i++) {
    char name[32];
    snprintf(name, sizeof name, "%016llx.spv", (unsigned long long)hash_of(shaders->at[i]));
    FILE *out = open_file(d->folder, "shaders", name);
    if (fwrite(shaders->at[i]->words, sizeof(uint32_t), shaders->at[i]->n_words, out) !=
        shaders->at[i]->n_words)
      fail("a shader could not be written");
    fclose(out);
  }
}

static void write_order(const dump *d, arena *memory) {
  static const char *const sections[] = {"prepare", "main", "commit"};
  launch_order order;
  if (launch_order_find(memory, d->program, d->made, &order) != SN_OK)
    fail("the order of launches could not be found");
  FILE *out = open_file(d->folder, d->name, "order.txt");
  fprintf(out, "scratch %lld\n", (long long)order.scratch_bytes);
  for (int s = 0; s < ORDER_SECTIONS; s++)
    for (int i = 0; i < order.n[s]; i++) {
      const ordered_launch *l = &order.at[s][i];
      fprintf(out, "%s step %d %016llx scratch at %lld%s\n", sections[s], l->step,
              (unsigned long long)hash_of(l->of->code), (long long)l->scratch_at,
              l->begins ? " waits" : "");
    }
  fclose(out);
}

static void write_plan(const dump *d, sn_ctx *ctx) {
  text t;
  text_init(&t, ctx);
  program_print(d->program, &t);
  FILE *out = open_file(d->folder, d->name, "plan.txt");
  if (fwrite(t.data, 1, t.size, out) != t.size)
    fail("a plan could not be written");
  fclose(out);
  text_free(&t);
}

/* --- programs --- */

static void dump_program(dump *d, sn_ctx *ctx, sn_precision precision) {
  emit_env env = {.target = &large, .precision = precision};
  arena memory;
  arena_init(&memory, ctx);
  make_folders(d->folder, d->name);
  d->made = arena_array(&memory, (size_t)program_steps(d->program), sizeof *d->made);
  if (!d->made || launches_emit(&env, ctx, &memory, d->program, true, d->made, NULL) != SN_OK)
    fail(sn_ctx_message(ctx));
  write_plan(d, ctx);
  write_launches(d);
  write_shaders(d, env.shaders);
  write_order(d, &memory);
  arena_clear(&memory);
}

static void dump_form(dump *d, const sn_workload *w, subject_form form, int precision) {
  compile_options options = {.channels_last = precisions[precision].channels_last};
  sn_ctx *ctx;
  sn_graph *g;
  compiled c;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    fail("no memory");
  if (subject_build(ctx, w, NULL, form, &g) != SN_OK || compile_graph(g, &options, &c) != SN_OK)
    fail(sn_ctx_message(ctx));
  d->program = c.program;
  dump_program(d, ctx, precisions[precision].precision);
  compile_destroy(&c);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  char name[256];
  dump d = {.folder = argc > 1 ? argv[1] : NULL, .name = name};
  if (argc < 2 || argc > 3)
    fail("usage: dump_launches FOLDER [PART]");
  if (mkdir(d.folder, 0777) != 0)
    fail("the folder is there already, or cannot be made");
  make_folders(d.folder, "shaders");
  for (int i = 0; sn_workload_at(i); i++)
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
      for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; p++) {
        const sn_workload *w = sn_workload_at(i);
        snprintf(name, sizeof name, "%s/%s/%s", sn_workload_name(w), forms[f].name,
                 precisions[p].name);
        if (argc == 3 && !strstr(name, argv[2]))
          continue;
        printf("%s\n", name);
        dump_form(&d, w, forms[f].form, (int)p);
      }
  return 0;
}
