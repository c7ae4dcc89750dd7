/* The two pictures of a plan: the arena over the schedule, and the steps between barriers. Inline SVG; a tooltip on each shape
 * says what it is. */
#include "cli/inspect_pictures.h"

#include <stdlib.h>

enum { LEFT = 74, WIDTH = 1100, HEIGHT = 430, TOP = 14, BOTTOM = 44 };

/* --- the arena --- */

typedef struct arena_view {
  FILE *out;
  const sn_inspection *i;
  double *live; /* bytes alive, by step */
  double most;  /* top of the axis */
} arena_view;

static double x_of(const arena_view *v, double step) {
  return LEFT + step * (WIDTH - LEFT - 10) / (v->i->n_listed > 0 ? v->i->n_listed : 1);
}

static double y_of(const arena_view *v, double bytes) {
  return TOP + (HEIGHT - TOP - BOTTOM) * (1 - bytes / v->most);
}

static void draw_axes(const arena_view *v) {
  char text[REPORT_NUMBER];
  for (int k = 0; k <= 4; k++) {
    double bytes = v->most * k / 4, y = y_of(v, bytes);
    fprintf(v->out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
            WIDTH - 10, y, y);
    fprintf(v->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 4,
            report_bytes(bytes, text));
  }
  int n = v->i->n_listed, apart = n > 10 ? n / 10 : 1;
  for (int k = 0; k < n; k += apart)
    fprintf(v->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>", x_of(v, k + 0.5),
            HEIGHT - BOTTOM + 18, k);
  fprintf(v->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n",
          (LEFT + WIDTH) / 2, HEIGHT - 6);
}

static const char *maker_class(const sn_inspection *i, const sn_lifetime *l) {
  bool made = l->first >= 0 && l->first < i->n_listed;
  return report_archetype_class(made ? i->step_list[l->first].archetype : "");
}

static void draw_lifetime(const arena_view *v, const sn_lifetime *l) {
  char text[REPORT_NUMBER];
  int first = l->first < 0 ? 0 : l->first;
  double x = x_of(v, first), width = x_of(v, l->last + 1) - x;
  double y = y_of(v, (double)(l->offset + l->bytes)), height = y_of(v, (double)l->offset) - y;
  fprintf(v->out,
          "<rect class=\"%s %s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>",
          height > 2.5 ? "box" : "bar", maker_class(v->i, l), x, y, width > 0.5 ? width : 0.5,
          height > 0.5 ? height : 0.5);
  report_html_text(v->out, l->name);
  fprintf(v->out, "\n%s at offset %lld\nsteps %d to %d</title></rect>\n",
          report_bytes((double)l->bytes, text), (long long)l->offset, l->first, l->last);
}

static void count_live(arena_view *v) {
  for (int k = 0; k < v->i->n_lifetimes; k++) {
    const sn_lifetime *l = &v->i->lifetimes[k];
    for (int s = l->first < 0 ? 0 : l->first; s <= l->last && s < v->i->n_listed; s++)
      v->live[s] += (double)l->bytes;
  }
}

static void draw_live(const arena_view *v) {
  char text[REPORT_NUMBER];
  double bound = (double)v->i->lower_bound_bytes, y = y_of(v, bound);
  fputs("<path class=\"live\" d=\"", v->out);
  for (int s = 0; s < v->i->n_listed; s++)
    fprintf(v->out, "%c%.2f %.2fH%.2f", s ? 'L' : 'M', x_of(v, s), y_of(v, v->live[s]),
            x_of(v, s + 1));
  fprintf(v->out,
          "\"/>\n<line class=\"live\" stroke-dasharray=\"5 4\" x1=\"%d\" x2=\"%d\" y1=\"%.2f\" "
          "y2=\"%.2f\"><title>lower bound: %s</title></line>\n",
          LEFT, WIDTH - 10, y, y, report_bytes(bound, text));
}

void picture_arena(FILE *out, const sn_inspection *i) {
  arena_view v = {.out = out, .i = i, .most = (double)i->peak_bytes * 1.04 + 1};
  v.live = calloc((size_t)i->n_listed + 1, sizeof *v.live);
  if (!v.live)
    return;
  count_live(&v);
  fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
  draw_axes(&v);
  for (int k = 0; k < i->n_lifetimes; k++)
    draw_lifetime(&v, &i->lifetimes[k]);
  draw_live(&v);
  fputs("</svg>\n", out);
  free(v.live);
}

/* --- barrier groups --- */

enum { BLOCK = 13, GAP = 6, LINE = 26 };

/* Whether step k begins a group. */
static bool begins(const sn_inspection *i, int k) {
  return k == 0 || i->step_list[k].barrier || k == i->prepare_steps;
}

static int group_end(const sn_inspection *i, int k) {
  do
    k++;
  while (k < i->n_listed && !begins(i, k));
  return k;
}

static void draw_block(FILE *out, const sn_inspection *i, int k, int x, int y) {
  char a[REPORT_NUMBER], b[REPORT_NUMBER];
  const sn_step *s = &i->step_list[k];
  fprintf(out,
          "<rect class=\"bar %s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"><title>",
          report_archetype_class(s->archetype), x, y, BLOCK - 2, BLOCK);
  fprintf(out, "step %d, %s: %s", k, s->phase, s->archetype);
  if (s->parts > 1)
    fprintf(out, " of %d parts", s->parts);
  fputc('\n', out);
  report_html_text(out, s->name);
  fprintf(out, "\n%s, %s</title></rect>\n", report_flops(s->flops, a), report_bytes(s->bytes, b));
}

/* Lays the groups out in lines; draws them where out is not NULL. Returns the height. */
static int lay_groups(FILE *out, const sn_inspection *i) {
  int x = 0, y = 4;
  for (int k = 0, end; k < i->n_listed; k = end) {
    end = group_end(i, k);
    int width = (end - k) * BLOCK + 4;
    if (x > 0 && x + width > WIDTH) {
      x = 0;
      y += LINE;
    }
    if (out)
      fprintf(out,
              "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n", x,
              y - 3, width, BLOCK + 6);
    for (int s = k; out && s < end; s++)
      draw_block(out, i, s, x + 3 + (s - k) * BLOCK, y);
    x += width + GAP;
  }
  return y + LINE;
}

void picture_groups(FILE *out, const sn_inspection *i) {
  fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, lay_groups(NULL, i));
  (void)lay_groups(out, i);
  fputs("</svg>\n", out);
}

int picture_group_count(const sn_inspection *i) {
  int n = 0;
  for (int k = 0; k < i->n_listed; k = group_end(i, k))
    n++;
  return n;
}
