/* An inspection as one HTML file that needs nothing else: tiles, pictures, tables. */
#include "cli/inspect_pictures.h"

#include <stdlib.h>

static void heading(FILE *out, const char *title, const char *explanation) {
  fprintf(out, "<section><h2>%s</h2><p>%s</p>\n", title, explanation);
}

static void tile(FILE *out, const char *value, const char *what) {
  fprintf(out, "<div class=\"tile\"><b>%s</b><span>%s</span></div>\n", value, what);
}

static void tiles(FILE *out, const sn_inspection *i) {
  char a[96], b[REPORT_NUMBER], c[REPORT_NUMBER];
  fputs("<div class=\"tiles\">\n", out);
  snprintf(a, sizeof a, "%lld → %lld", (long long)i->nodes_before, (long long)i->nodes_optimised);
  tile(out, a, "nodes, given and optimised");
  snprintf(a, sizeof a, "%d", i->steps);
  tile(out, a, "steps a run");
  snprintf(a, sizeof a, "%lld / %lld", (long long)i->launches, (long long)i->barriers);
  tile(out, a, "launches / barriers");
  tile(out, report_bytes((double)i->peak_bytes, b), "arena");
  double bound = (double)i->lower_bound_bytes;
  snprintf(a, sizeof a, "%.3f ×", bound > 0 ? (double)i->peak_bytes / bound : 1);
  tile(out, a, "of the lower bound");
  tile(out, report_bytes((double)i->state_bytes, b), "state");
  tile(out, report_flops(i->flops, c), "arithmetic a run");
  snprintf(a, sizeof a, "%.0f ms", 1e3 * i->compile_s);
  tile(out, a, "to compile");
  fputs("</div>\n", out);
}

static void legend(FILE *out, const sn_inspection *i) {
  fputs("<div class=\"legend\">", out);
  for (int k = 0; k < i->n_archetypes; k++)
    fprintf(out,
            "<span><svg viewBox=\"0 0 12 12\"><rect class=\"%s\" width=\"12\" height=\"12\" "
            "rx=\"2\"/></svg>%s (%.0f)</span>",
            report_archetype_class(i->archetypes[k].name), i->archetypes[k].name,
            i->archetypes[k].value);
  fputs("</div>\n", out);
}

/* A bar of `share` of the cell's width. */
static void bar(FILE *out, const char *class, double share) {
  fprintf(
      out,
      "<svg viewBox=\"0 0 220 12\" preserveAspectRatio=\"none\"><rect class=\"%s\" width=\"%.2f\" "
      "height=\"12\" rx=\"1\"/></svg>",
      class, 220 * share);
}

static double part(double x, double all) { return all > 0 ? x / all : 0; }

static void costly_row(FILE *out, const sn_inspection *i, int k, double most) {
  char a[REPORT_NUMBER], b[REPORT_NUMBER];
  const sn_step *s = &i->step_list[k];
  const char *class = report_archetype_class(s->archetype);
  double flops = part(s->flops, i->flops), bytes = part(s->bytes, i->bytes);
  fprintf(out, "<tr><td class=\"n\">%d</td><td class=\"name\" title=\"", k);
  report_html_text(out, s->name);
  fputs("\">", out);
  report_html_text(out, s->name);
  fprintf(out, "</td><td>%s</td><td class=\"n\">%s</td><td>", s->archetype,
          report_flops(s->flops, a));
  bar(out, class, part(flops, most));
  fprintf(out, "</td><td class=\"n\">%.1f %%</td><td class=\"n\">%s</td><td>", 100 * flops,
          report_bytes(s->bytes, b));
  bar(out, class, part(bytes, most));
  fprintf(out, "</td><td class=\"n\">%.1f %%</td></tr>\n", 100 * bytes);
}

static void costliest(FILE *out, const sn_inspection *i) {
  enum { MOST = 20 };
  int steps[MOST], n = inspect_costliest(i, steps, MOST);
  double most = 0;
  for (int k = 0; k < n; k++) {
    double flops = part(i->step_list[steps[k]].flops, i->flops);
    double bytes = part(i->step_list[steps[k]].bytes, i->bytes);
    most = flops > most ? flops : most;
    most = bytes > most ? bytes : most;
  }
  heading(out, "Costliest steps",
          "By their share of all arithmetic or of all memory traffic, whichever is larger.");
  fputs("<table><tr><th class=\"n\">step</th><th>what</th><th>archetype</th><th class=\"n\">"
        "arithmetic</th><th></th><th></th><th class=\"n\">traffic</th><th></th><th></th></tr>\n",
        out);
  for (int k = 0; k < n; k++)
    costly_row(out, i, steps[k], most);
  fputs("</table></section>\n", out);
}

/* --- the graph before and after --- */

static int64_t most_of(const sn_op_count *o) {
  int64_t most = o->given > o->optimised ? o->given : o->optimised;
  return most > o->lowered ? most : o->lowered;
}

static int by_most(const void *a, const void *b) {
  int64_t x = most_of(a), y = most_of(b);
  return (x < y) - (x > y);
}

static void op_row(FILE *out, const sn_op_count *o, double most) {
  const int64_t n[] = {o->given, o->optimised, o->lowered};
  static const char *const class[] = {"c0", "c3", "c2"};
  fprintf(out, "<tr><td>%s</td>", o->name);
  for (int k = 0; k < 3; k++) {
    fprintf(out, "<td class=\"n\">%lld</td><td>", (long long)n[k]);
    bar(out, class[k], part((double)n[k], most));
    fputs("</td>", out);
  }
  fputs("</tr>\n", out);
}

static void graph(FILE *out, const sn_inspection *i) {
  size_t size = (size_t)i->n_ops * sizeof *i->ops;
  sn_op_count *sorted = malloc(size + 1);
  if (!sorted)
    return;
  for (int k = 0; k < i->n_ops; k++)
    sorted[k] = i->ops[k];
  qsort(sorted, (size_t)i->n_ops, sizeof *sorted, by_most);
  heading(out, "The graph before and after",
          "Nodes by op: as built, behind the e-graph, and lowered to what plans are made of.");
  fprintf(out,
          "<table><tr><th>op</th><th class=\"n\">given</th><th></th><th class=\"n\">optimised</th>"
          "<th></th><th class=\"n\">lowered</th><th></th></tr>\n<tr><td><b>all</b></td><td "
          "class=\"n\"><b>%lld</b></td><td></td><td class=\"n\"><b>%lld</b></td><td></td><td "
          "class=\"n\"><b>%lld</b></td><td></td></tr>\n",
          (long long)i->nodes_before, (long long)i->nodes_optimised, (long long)i->nodes_after);
  for (int k = 0; k < i->n_ops; k++)
    op_row(out, &sorted[k], (double)most_of(&sorted[0]));
  fputs("</table></section>\n", out);
  free(sorted);
}

/* --- the compiler's own work --- */

static void phases(FILE *out, const sn_inspection *i) {
  heading(out, "Compile time", "Seconds in each pass.");
  fputs("<table>\n", out);
  for (int k = 0; k < i->n_phases; k++) {
    fprintf(out, "<tr><td>%s</td><td class=\"n\">%.1f ms</td><td>", i->phases[k].name,
            1e3 * i->phases[k].value);
    bar(out, "c3", part(i->phases[k].value, i->compile_s));
    fputs("</td></tr>\n", out);
  }
  fputs("</table></section>\n", out);
}

static void rules(FILE *out, const sn_inspection *i) {
  double most = 0;
  int fired = 0;
  for (int k = 0; k < i->n_rules; k++)
    most = i->rules[k].value > most ? i->rules[k].value : most;
  heading(out, "Rewrites", "How often a rule told the e-graph something new.");
  fprintf(
      out,
      "<p>It stopped at: %s, after %lld iteration%s, with %lld classes and %lld nodes. Modelled "
      "cost: %.4g ms as given, %.4g ms now.</p><table>\n",
      i->egraph.stop, (long long)i->egraph.iterations, report_plural(i->egraph.iterations),
      (long long)i->egraph.classes, (long long)i->egraph.nodes, 1e3 * i->egraph.cost_before,
      1e3 * i->egraph.cost_after);
  for (int k = 0; k < i->n_rules; k++) {
    if (i->rules[k].value <= 0)
      continue;
    fired++;
    fputs("<tr><td>", out);
    report_html_text(out, i->rules[k].name);
    fprintf(out, "</td><td class=\"n\">%.0f</td><td>", i->rules[k].value);
    bar(out, "c4", part(i->rules[k].value, most));
    fputs("</td></tr>\n", out);
  }
  fputs(fired ? "</table></section>\n" : "<tr><td>none applied</td></tr></table></section>\n", out);
}

void inspect_html(FILE *out, const inspect_report *r) {
  const sn_inspection *i = r->i;
  report_html_begin(out, r->subject);
  fputs("<h1>", out);
  report_html_text(out, r->subject);
  fprintf(out, "</h1><p>%s, compiled for %s. Point at anything for its name and numbers.</p>\n",
          r->purpose, i->device);
  tiles(out, i);
  heading(
      out, "The arena over the schedule",
      "Each box is a value: the steps it lives through, and where it lies. Coloured by the step "
      "that makes it. The line is what is alive at a step, the dashes the most of it: no "
      "placement can do with less.");
  legend(out, i);
  picture_arena(out, i);
  fputs("</section>\n", out);
  heading(out, "Barrier groups", "Steps in order; those in one frame may run at the same time.");
  fprintf(out, "<p>%d groups of %d steps.</p>\n", picture_group_count(i), i->n_listed);
  legend(out, i);
  picture_groups(out, i);
  fputs("</section>\n", out);
  costliest(out, i);
  graph(out, i);
  fputs("<div class=\"two\">", out);
  phases(out, i);
  rules(out, i);
  fputs("</div>\n", out);
  report_html_end(out);
}
