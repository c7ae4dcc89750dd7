/* Rows of `sinew bench ops` as a table and as JSON. See bench_ops.h. */
#include "cli/bench_ops.h"

#include <string.h>

static double compute_s(const ops_row *r) {
  return r->peak_flops > 0 ? r->flops / r->peak_flops : 0;
}
static double memory_s(const ops_row *r) {
  return r->peak_bytes > 0 ? r->bytes / r->peak_bytes : 0;
}

bool ops_is_compute(const ops_row *row) { return compute_s(row) > memory_s(row); }

double ops_percent(const ops_row *row) {
  double least = ops_is_compute(row) ? compute_s(row) : memory_s(row);
  return row->median_s > 0 ? 100 * least / row->median_s : 0;
}

static const char *time_text(double s, char out[REPORT_NUMBER]) {
  if (s < 1e-3)
    snprintf(out, REPORT_NUMBER, "%.1f us", 1e6 * s);
  else
    snprintf(out, REPORT_NUMBER, "%.2f ms", 1e3 * s);
  return out;
}

static double per_s(double x, double s) { return s > 0 ? 1e-9 * x / s : 0; }

static void table_row(FILE *out, const ops_row *r) {
  char median[REPORT_NUMBER], best[REPORT_NUMBER];
  fprintf(out, "  %-46s %11s %11s %9.1f %8.1f %9.1f %7.1f %% %s\n", r->name,
          time_text(r->median_s, median), time_text(r->best_s, best), per_s(r->flops, r->median_s),
          per_s(r->bytes, r->median_s), 1e-9 * r->peak_bytes, ops_percent(r),
          ops_is_compute(r) ? "arithmetic" : "memory");
}

/* The row that is furthest from its bound, of a group or (NULL) of all. */
static const ops_row *slowest(const ops_row *rows, int n, const char *group) {
  const ops_row *least = NULL;
  for (int i = 0; i < n; i++)
    if ((!group || strcmp(rows[i].group, group) == 0) &&
        (!least || ops_percent(&rows[i]) < ops_percent(least)))
      least = &rows[i];
  return least;
}

static bool is_first_of_group(const ops_row *rows, int i) {
  for (int k = 0; k < i; k++)
    if (strcmp(rows[k].group, rows[i].group) == 0)
      return false;
  return true;
}

static void table_group(FILE *out, const ops_row *rows, int n, const char *group) {
  int many = 0;
  fprintf(out, "\n%s\n", group);
  for (int i = 0; i < n; i++)
    if (strcmp(rows[i].group, group) == 0) {
      table_row(out, &rows[i]);
      many++;
    }
  const ops_row *least = slowest(rows, n, group);
  if (many > 1)
    fprintf(out, "  furthest from its bound: %s, %.1f %%\n", least->name, ops_percent(least));
}

void ops_table(FILE *out, const ops_row *rows, int n) {
  double flops = 0, bytes = 0;
  for (int i = 0; i < n; i++) {
    flops = rows[i].peak_flops > flops ? rows[i].peak_flops : flops;
    if (rows[i].bytes > 1e8 && rows[i].peak_bytes > bytes)
      bytes = rows[i].peak_bytes;
  }
  fprintf(out, "%d thread%s; peaks, the highest of all rows: %.1f GFLOP/s", n ? rows[0].threads : 0,
          report_plural(n ? rows[0].threads : 0), 1e-9 * flops);
  if (bytes > 0)
    fprintf(out, ", %.1f GB/s beyond the caches", 1e-9 * bytes);
  fputs("\nGB/s: each value read or written once. Of bound: the time that peaks allow over the "
        "time taken.\n"
        "The peak of memory is what the best of copies and triads (reading, where nothing is "
        "written) of as\n"
        "many bytes reaches on as many threads; that of arithmetic, multiply-adds. Both are "
        "measured between the\n"
        "runs, medians of both; bytes that caches fetch of a line before they write to it do not "
        "count.",
        out);
  fprintf(out, "\n\n  %-46s %11s %11s %9s %8s %9s %9s %s\n", "", "median", "best", "GFLOP/s",
          "GB/s", "peak GB/s", "of bound", "bound by");
  for (int i = 0; i < n; i++)
    if (is_first_of_group(rows, i))
      table_group(out, rows, n, rows[i].group);
  if (n > 0)
    fprintf(out, "\nfurthest from its bound of all: %s, %.1f %%\n", slowest(rows, n, NULL)->name,
            ops_percent(slowest(rows, n, NULL)));
}

static void json_pair(FILE *out, const char *key, double x) {
  fprintf(out, ", \"%s\": ", key);
  report_json_number(out, x);
}

static void json_row(FILE *out, const ops_row *r) {
  const char *shape = r->name + strcspn(r->name, " ");
  fputs("{\"name\": ", out);
  report_json_string(out, r->name);
  fputs(", \"group\": ", out);
  report_json_string(out, r->group);
  fputs(", \"shape\": ", out);
  report_json_string(out, *shape ? shape + 1 : shape);
  fputs(", \"dtype\": ", out);
  report_json_string(out, r->dtype);
  json_pair(out, "threads", r->threads);
  json_pair(out, "runs", r->runs);
  json_pair(out, "flops", r->flops);
  json_pair(out, "bytes", r->bytes);
  json_pair(out, "seconds", r->median_s);
  json_pair(out, "best_seconds", r->best_s);
  json_pair(out, "gflops", per_s(r->flops, r->median_s));
  json_pair(out, "gbs", per_s(r->bytes, r->median_s));
  json_pair(out, "percent", ops_percent(r));
  fprintf(out, ", \"bound\": \"%s\"", ops_is_compute(r) ? "arithmetic" : "memory");
  json_pair(out, "peak_gflops", 1e-9 * r->peak_flops);
  json_pair(out, "peak_gbs", 1e-9 * r->peak_bytes);
  fputc('}', out);
}

void ops_json(FILE *out, const ops_row *rows, int n) {
  fputs("[", out);
  for (int i = 0; i < n; i++) {
    fputs(i ? ",\n " : "\n ", out);
    json_row(out, &rows[i]);
  }
  fputs("\n]\n", out);
}
