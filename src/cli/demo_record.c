/* What a demo leaves behind beside the weights: loss.csv, loss.svg, config.json. Each file is written
 * under another name first and then renamed, so that none is ever half there. */
#include "cli/cli.h"
#include "cli/demo.h"
#include "cli/stories.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool demo_record_add(demo_record *r, demo_point point) {
  if (r->n == r->capacity) {
    size_t wider = r->capacity ? r->capacity * 2 : 256;
    demo_point *points = realloc(r->points, wider * sizeof *points);
    if (!points)
      return false;
    r->points = points;
    r->capacity = wider;
  }
  r->points[r->n++] = point;
  return true;
}

void demo_record_free(demo_record *r) {
  free(r->points);
  *r = (demo_record){0};
}

bool demo_path(sn_ctx *ctx, const char *folder, const char *name, char *out, size_t size) {
  int n = snprintf(out, size, "%s/%s", folder, name);
  if (n >= 0 && (size_t)n < size)
    return true;
  (void)sn_ctx_fail(ctx, SN_ERR_INVALID, "the path of %s is too long", name);
  return false;
}

/* --- files --- */

typedef struct new_file {
  char path[4096], temporary[4128];
  FILE *out;
} new_file;

static sn_status io_error(sn_ctx *ctx, const char *path) {
  return sn_ctx_fail(ctx, SN_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

static sn_status file_begin(sn_ctx *ctx, const char *folder, const char *name, new_file *f) {
  if (!demo_path(ctx, folder, name, f->path, sizeof f->path))
    return SN_ERR_INVALID;
  snprintf(f->temporary, sizeof f->temporary, "%s.tmp", f->path);
  f->out = fopen(f->temporary, "w");
  return f->out ? SN_OK : io_error(ctx, f->path);
}

static sn_status file_end(sn_ctx *ctx, new_file *f) {
  bool ok = fflush(f->out) == 0 && !ferror(f->out) && fsync(fileno(f->out)) == 0;
  ok = fclose(f->out) == 0 && ok;
  ok = ok && rename(f->temporary, f->path) == 0;
  if (ok)
    return SN_OK;
  sn_status status = io_error(ctx, f->path);
  (void)unlink(f->temporary);
  return status;
}

/* --- loss.csv --- */

static sn_status write_csv(sn_ctx *ctx, const demo_record *r, const char *folder) {
  new_file f;
  sn_status status = file_begin(ctx, folder, "loss.csv", &f);
  if (status != SN_OK)
    return status;
  fprintf(f.out, "step,loss,heldout\n");
  for (size_t i = 0; i < r->n; i++) {
    const demo_point *p = &r->points[i];
    fprintf(f.out, "%lld,%.6f,", (long long)p->step, p->loss);
    if (!isnan(p->heldout))
      fprintf(f.out, "%.6f", p->heldout);
    fputc('\n', f.out);
  }
  return file_end(ctx, &f);
}

sn_status demo_record_read(sn_ctx *ctx, const char *folder, int64_t last_step, demo_record *r) {
  enum { MOST_BYTES = 1 << 28 };
  char path[4096], *text, *line;
  if (!demo_path(ctx, folder, "loss.csv", path, sizeof path))
    return SN_ERR_INVALID;
  SN_TRY(cli_read_text(ctx, path, MOST_BYTES, &text));
  for (char *rest = text; (line = cli_next_line(&rest)) != NULL;) {
    long long step;
    double loss, heldout = NAN;
    if (sscanf(line, "%lld,%lf,%lf", &step, &loss, &heldout) >= 2 && step <= last_step)
      if (!demo_record_add(r, (demo_point){step, loss, heldout}))
        break;
  }
  free(text);
  return SN_OK;
}

/* --- loss.svg --- */

enum { W = 760, H = 420, LEFT = 60, RIGHT = 20, TOP = 46, BOTTOM = 50 };

typedef struct chart {
  FILE *out;
  double steps, top; /* ranges of the axes, both from 0 */
} chart;

static double x_of(const chart *c, double step) {
  return LEFT + (W - LEFT - RIGHT) * step / c->steps;
}
static double y_of(const chart *c, double loss) {
  return H - BOTTOM - (H - TOP - BOTTOM) * fmin(loss, c->top) / c->top;
}

static void draw_axes(const chart *c) {
  fprintf(c->out, "<g stroke='#ddd' fill='#555' font-size='12'>\n");
  for (int i = 0; i <= (int)c->top; i++)
    fprintf(c->out,
            "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f'/><text x='%d' y='%.1f' stroke='none' "
            "text-anchor='end'>%d</text>\n",
            LEFT, W - RIGHT, y_of(c, i), y_of(c, i), LEFT - 8, y_of(c, i) + 4, i);
  for (int i = 0; i <= 4; i++)
    fprintf(c->out, "<text x='%.1f' y='%d' stroke='none' text-anchor='middle'>%.0f</text>\n",
            x_of(c, c->steps * i / 4), H - BOTTOM + 18, c->steps * i / 4);
  fprintf(c->out, "<text x='%d' y='%d' stroke='none' text-anchor='middle'>step</text></g>\n",
          (W + LEFT - RIGHT) / 2, H - 12);
}

static void draw_curve(const chart *c, const demo_record *r, bool heldout, const char *style) {
  fprintf(c->out, "<polyline fill='none' %s points='", style);
  for (size_t i = 0; i < r->n; i++) {
    double y = heldout ? r->points[i].heldout : r->points[i].loss;
    if (!isnan(y))
      fprintf(c->out, "%.1f,%.1f ", x_of(c, (double)r->points[i].step), y_of(c, y));
  }
  fprintf(c->out, "'/>\n");
}

static void draw_legend(const chart *c, double entropy) {
  double y = y_of(c, entropy);
  fprintf(c->out,
          "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#999' stroke-dasharray='5 4'/>"
          "<text x='%d' y='%.1f' fill='#777' font-size='12' text-anchor='end'>bigram entropy "
          "%.2f</text>\n",
          LEFT, W - RIGHT, y, y, W - RIGHT, y - 6, entropy);
  fprintf(c->out,
          "<g font-size='13'><text x='%d' y='26' font-size='16' fill='#222'>Loss, nats a token"
          "</text><text x='%d' y='26' fill='#7aa6d8'>training</text>"
          "<text x='%d' y='26' fill='#d1495b'>held-out</text></g>\n",
          LEFT, W - 190, W - 100);
}

static sn_status write_svg(sn_ctx *ctx, const demo_record *r, const char *folder, double entropy) {
  new_file f;
  sn_status status = file_begin(ctx, folder, "loss.svg", &f);
  if (status != SN_OK)
    return status;
  chart c = {f.out, 1, 1};
  for (size_t i = 0; i < r->n; i++) {
    c.steps = fmax(c.steps, (double)r->points[i].step);
    c.top = fmax(c.top, ceil(r->points[i].loss));
  }
  fprintf(c.out,
          "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
          "font-family='sans-serif'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
          W, H, W, H);
  draw_axes(&c);
  draw_curve(&c, r, false, "stroke='#7aa6d8' stroke-width='1.2'");
  draw_curve(&c, r, true, "stroke='#d1495b' stroke-width='2.4'");
  draw_legend(&c, entropy);
  fprintf(c.out, "</svg>\n");
  return file_end(ctx, &f);
}

sn_status demo_record_write(sn_ctx *ctx, const demo_record *r, const char *folder, double entropy) {
  sn_status status = write_csv(ctx, r, folder);
  return status == SN_OK ? write_svg(ctx, r, folder, entropy) : status;
}

/* --- config.json --- */

static void write_word(FILE *out, const char *word) {
  fputc('"', out);
  for (; *word; word++) {
    if (*word == '"' || *word == '\\')
      fputc('\\', out);
    fputc(*word, out);
  }
  fputc('"', out);
}

sn_status demo_write_config(sn_ctx *ctx, const sn_model_config *c, const char *folder) {
  static const char *const activations[] = {[SN_ACT_SILU] = "silu",
                                            [SN_ACT_GELU] = "gelu",
                                            [SN_ACT_GELU_TANH] = "gelu_new",
                                            [SN_ACT_RELU] = "relu"};
  new_file f;
  sn_status status = file_begin(ctx, folder, "config.json", &f);
  if (status != SN_OK)
    return status;
  fprintf(f.out,
          "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n"
          "  \"dtype\": \"float32\",\n  \"vocab_size\": %lld,\n  \"n_embd\": %lld,\n"
          "  \"n_layer\": %lld,\n  \"n_head\": %lld,\n  \"n_inner\": %lld,\n"
          "  \"n_positions\": %lld,\n  \"layer_norm_epsilon\": %g,\n"
          "  \"activation_function\": \"%s\",\n  \"initializer_range\": %g,\n"
          "  \"bos_token_id\": %d,\n  \"eos_token_id\": %d,\n  \"tie_word_embeddings\": %s,\n",
          (long long)c->vocab, (long long)c->hidden, (long long)c->layers, (long long)c->heads,
          (long long)c->inner, (long long)c->max_length, c->norm_eps, activations[c->activation],
          c->init_scale, STORIES_END, STORIES_END, c->tied ? "true" : "false");
  fprintf(f.out, "  \"sinew_vocabulary\": [");
  for (int32_t i = 0; i < stories_vocab_size(); i++) {
    fputs(i ? ", " : "", f.out);
    write_word(f.out, stories_word(i));
  }
  fprintf(f.out, "]\n}\n");
  return file_end(ctx, &f);
}
