/* Measurements as one HTML file: the table, where the time goes by archetype, and the costliest steps. */
#include "cli/bench.h"

#include <math.h>

/* A number with so many digits behind the point, or that it was not measured. */
static void cell(FILE *out, int digits, double x) {
  fputs("<td class=\"n\">", out);
  if (isnan(x))
    fputs("-", out);
  else
    fprintf(out, "%.*f", digits, x);
  fputs("</td>", out);
}

static void row(FILE *out, const bench_result *x) {
  char a[REPORT_NUMBER];
  fputs("<tr><td>", out);
  report_html_text(out, x->name);
  fputs("</td>", out);
  cell(out, 3, x->form[0].compile_s);
  for (int k = 0; k < BENCH_FORMS; k++)
    cell(out, 2, x->form[k].median_ms);
  fprintf(out, "<td class=\"n\">%s</td>",
          report_bytes((double)bench_last(x)->stats.arena_bytes, a));
  if (isnan(x->loss))
    fputs("<td class=\"n\">-</td></tr>\n", out);
  else
    fprintf(out, "<td class=\"n\">%.7g</td></tr>\n", x->loss);
}

/* One bar: the archetypes of a form, one behind the other. */
static void stack(FILE *out, const bench_options *o, const bench_form *f) {
  bench_share shares[BENCH_SHARES];
  int n = bench_shares(o, f, shares);
  double all = 0, x = 0;
  for (int k = 0; k < n; k++)
    all += shares[k].seconds;
  fprintf(out,
          "<tr><td>%s</td><td class=\"n\">%.2f ms</td><td style=\"width:75%%\"><svg "
          "style=\"width:100%%;height:22px\" viewBox=\"0 0 1000 22\" "
          "preserveAspectRatio=\"none\">",
          f->name, f->median_ms);
  for (int k = 0; k < n && all > 0; k++) {
    double width = 1000 * shares[k].seconds / all;
    fprintf(out,
            "<rect class=\"bar %s\" x=\"%.2f\" width=\"%.2f\" height=\"22\"><title>%s: %.3f ms, "
            "%.1f %%, "
            "%d steps</title></rect>",
            report_archetype_class(shares[k].archetype), x, width, shares[k].archetype,
            1e3 * shares[k].seconds, 100 * shares[k].seconds / all, shares[k].steps);
    x += width;
  }
  fputs("</svg></td></tr>\n", out);
}

static void legend(FILE *out, const bench_options *o, const bench_result *x) {
  bench_share shares[BENCH_SHARES];
  int n = bench_shares(o, bench_last(x), shares);
  fputs("<div class=\"legend\">", out);
  for (int k = 0; k < n; k++)
    fprintf(out,
            "<span><svg viewBox=\"0 0 12 12\"><rect class=\"%s\" width=\"12\" height=\"12\" "
            "rx=\"2\"/></svg>%s</span>",
            report_archetype_class(shares[k].archetype), shares[k].archetype);
  fputs("</div>\n", out);
}

static void costliest(FILE *out, const bench_form *f) {
  enum { MOST = 10 };
  char a[REPORT_NUMBER], b[REPORT_NUMBER];
  const bench_step *steps[MOST];
  int n = bench_costliest(f, steps, MOST);
  fprintf(out,
          "<table><tr><th>costliest steps of %s</th><th>archetype</th><th class=\"n\">time</th>"
          "<th class=\"n\">arithmetic</th><th class=\"n\">traffic</th></tr>\n",
          f->name);
  for (int i = 0; i < n; i++) {
    fputs("<tr><td class=\"name\">", out);
    report_html_text(out, steps[i]->name);
    fprintf(out,
            "</td><td>%s</td><td class=\"n\">%.3f ms</td><td class=\"n\">%s</td><td "
            "class=\"n\">%s</td></tr>\n",
            steps[i]->archetype, 1e3 * steps[i]->seconds, report_flops(steps[i]->flops, a),
            report_bytes(steps[i]->bytes, b));
  }
  fputs("</table>\n", out);
}

static void workload(FILE *out, const bench_options *o, const bench_result *x) {
  fputs("<section><h2>", out);
  report_html_text(out, x->name);
  fputs("</h2><p>Where the time goes. Point at a bar for its numbers.</p>\n", out);
  legend(out, o, x);
  fputs("<table>\n", out);
  for (int k = 0; k < x->n_forms; k++)
    stack(out, o, &x->form[k]);
  fputs("</table><p></p>\n", out);
  costliest(out, bench_last(x));
  fputs("</section>\n", out);
}

void bench_html(FILE *out, const bench_report *r) {
  report_html_begin(out, "sinew bench");
  fputs("<h1>sinew bench</h1><p>", out);
  report_html_text(out, r->options->device);
  fputs(": ", out);
  report_html_text(out, r->options->description);
  fprintf(out, "; median of %d runs. Steps were timed, which costs a little.</p>\n",
          r->options->repeat);
  fputs("<section><table><tr><th>workload</th><th class=\"n\">compile s</th><th "
        "class=\"n\">inference ms</th><th class=\"n\">latency ms</th><th class=\"n\">training "
        "ms</th><th class=\"n\">arena</th><th class=\"n\">loss</th></tr>\n",
        out);
  for (int i = 0; i < r->n; i++)
    row(out, &r->results[i]);
  fputs("</table></section>\n", out);
  for (int i = 0; i < r->n; i++)
    workload(out, r->options, &r->results[i]);
  report_html_end(out);
}
