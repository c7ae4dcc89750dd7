/* Measurements as a table, JSON, a profile and a trace. See bench.h. */
#include "cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the table --- */

/* A time, or that it was not measured. */
static void table_ms(FILE *out, int width, double ms) {
  if (isnan(ms))
    fprintf(out, "%*s ", width, "-");
  else
    fprintf(out, "%*.2f ", width, ms);
}

void bench_table(FILE *out, const bench_report *r) {
  char a[REPORT_NUMBER], b[REPORT_NUMBER];
  int threads = r->n > 0 ? r->results[0].form[0].stats.threads : 0;
  fprintf(out, "%s: %s; %d thread%s; median of %d\n", r->options->device, r->options->description,
          threads, report_plural(threads), r->options->repeat);
  fprintf(out, "%s%s\n", r->options->note, *r->options->note ? "\n" : "");
  fprintf(out, "%-16s %10s %13s %11s %12s %11s %11s  %s\n", "workload", "compile s", "inference ms",
          "latency ms", "training ms", "arena", "process", "loss");
  for (int i = 0; i < r->n; i++) {
    const bench_result *x = &r->results[i];
    fprintf(out, "%-16s %10.3f %13.2f ", x->name, x->form[0].compile_s, x->form[0].median_ms);
    table_ms(out, 11, x->form[1].median_ms);
    table_ms(out, 12, x->form[2].median_ms);
    fprintf(out, "%11s %11s  ", report_bytes((double)bench_last(x)->stats.arena_bytes, a),
            report_bytes((double)x->peak_bytes, b));
    if (isnan(x->loss))
      fputs("-\n", out);
    else
      fprintf(out, "%.7g\n", x->loss);
  }
}

void bench_counts(FILE *out, const bench_report *r) {
  char bytes[REPORT_NUMBER];
  if (r->n == 0 || r->results[0].form[0].stats.pipelines == 0)
    return;
  fprintf(out, "\n%-16s %-10s %6s %9s %9s %10s %8s %11s\n", "a run of", "", "steps", "launches",
          "barriers", "pipelines", "host us", "GPU memory");
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < r->results[i].n_forms; k++) {
      const bench_form *f = &r->results[i].form[k];
      fprintf(out, "%-16s %-10s %6lld %9lld %9lld %10lld %8.1f %11s\n", r->results[i].name, f->name,
              (long long)f->stats.steps, (long long)f->stats.launches, (long long)f->stats.barriers,
              (long long)f->stats.pipelines, 1e3 * f->host_ms,
              report_bytes((double)f->stats.device_bytes, bytes));
    }
}

/* --- JSON --- */

static void json_pair(FILE *out, const char *before, const char *key, double x) {
  fprintf(out, "%s\"%s\": ", before, key);
  report_json_number(out, x);
}

static void json_bytes(FILE *out, const char *before, const char *key, int64_t n) {
  fprintf(out, "%s\"%s\": %lld", before, key, (long long)n);
}

static void json_memory(FILE *out, const bench_result *x) {
  int64_t prepared = 0;
  for (int k = 0; k < x->n_forms; k++)
    if (x->form[k].stats.prepare_bytes > prepared)
      prepared = x->form[k].stats.prepare_bytes;
  json_bytes(out, "\"memory\": {", "peak_bytes", x->peak_bytes);
  json_bytes(out, ", ", "inference_arena_bytes", x->form[0].stats.arena_bytes);
  json_bytes(out, ", ", "training_arena_bytes", x->form[2].stats.arena_bytes);
  json_bytes(out, ", ", "prepare_bytes", prepared);
  json_bytes(out, ", ", "state_bytes", x->state_bytes);
  fputc('}', out);
}

static void json_counts(FILE *out, const bench_result *x) {
  fputs(",\n \"counts\": {", out);
  for (int k = 0; k < x->n_forms; k++) {
    const sn_session_stats *s = &x->form[k].stats;
    fprintf(out, "%s\"%s\": {\"steps\": %lld, \"launches\": %lld, \"barriers\": %lld",
            k ? ", " : "", x->form[k].name, (long long)s->steps, (long long)s->launches,
            (long long)s->barriers);
    json_bytes(out, ", ", "pipelines", s->pipelines);
    json_bytes(out, ", ", "device_bytes", s->device_bytes);
    json_pair(out, ", ", "host_us", 1e3 * x->form[k].host_ms);
    fputc('}', out);
  }
  fputc('}', out);
}

static void json_profile_form(FILE *out, const bench_options *o, const bench_form *f) {
  enum { MOST = 12 };
  bench_share shares[BENCH_SHARES];
  const bench_step *steps[MOST];
  int n_shares = bench_shares(o, f, shares), n_steps = bench_costliest(f, steps, MOST);
  fprintf(out, "\n  \"%s\": {\"archetypes\": {", f->name);
  for (int k = 0; k < n_shares; k++) {
    fprintf(out, "%s\"%s\": {\"steps\": %d", k ? ", " : "", shares[k].archetype, shares[k].steps);
    json_pair(out, ", ", "ms", 1e3 * shares[k].seconds);
    json_pair(out, ", ", "bound_ms", 1e3 * shares[k].bound);
    fputc('}', out);
  }
  fputs("}, \"costliest\": [", out);
  for (int k = 0; k < n_steps; k++) {
    fprintf(out, "%s\n   {\"name\": ", k ? "," : "");
    report_json_string(out, steps[k]->name);
    fprintf(out, ", \"phase\": \"%s\", \"archetype\": \"%s\"", steps[k]->phase,
            steps[k]->archetype);
    json_pair(out, ", ", "ms", 1e3 * steps[k]->seconds);
    json_pair(out, ", ", "bound_ms", 1e3 * bench_bound(o, steps[k]));
    json_pair(out, ", ", "flops", steps[k]->flops);
    json_pair(out, ", ", "bytes", steps[k]->bytes);
    fputc('}', out);
  }
  fputs("]}", out);
}

static void json_profile(FILE *out, const bench_options *o, const bench_result *x) {
  fputs(",\n \"profile\": {", out);
  for (int k = 0; k < x->n_forms; k++) {
    fputs(k ? "," : "", out);
    json_profile_form(out, o, &x->form[k]);
  }
  fputc('}', out);
}

static void json_result(FILE *out, const bench_report *r, const bench_result *x) {
  fputs("{\"framework\": \"sinew\", \"model\": ", out);
  report_json_string(out, x->name);
  fputs(", \"device\": ", out);
  report_json_string(out, r->options->description);
  fputs(", \"backend\": ", out);
  report_json_string(out, r->options->device);
  fprintf(out, ", \"version\": \"%s\", \"threads\": %d, \"repeat\": %d,\n", sn_version(),
          x->form[0].stats.threads, r->options->repeat);
  json_pair(out, " \"timings\": {", "compile_s", x->form[0].compile_s);
  json_pair(out, ", ", "inference_ms", x->form[0].median_ms);
  json_pair(out, ", ", "latency_ms", x->form[1].median_ms);
  json_pair(out, ", ", "training_ms", x->form[2].median_ms);
  json_pair(out, ", ", "inference_best_ms", x->form[0].best_ms);
  json_pair(out, ", ", "latency_best_ms", x->form[1].best_ms);
  json_pair(out, ", ", "training_best_ms", x->form[2].best_ms);
  json_pair(out, ", ", "training_compile_s", x->form[2].compile_s);
  json_pair(out, "},\n \"outputs\": {", "loss", x->loss);
  fputs(", \"logits_sample\": [", out);
  for (int k = 0; k < x->n_sample; k++) {
    fputs(k ? ", " : "", out);
    report_json_number(out, (double)x->sample[k]);
  }
  fputs("]},\n ", out);
  json_memory(out, x);
  json_counts(out, x);
  if (r->options->profile)
    json_profile(out, r->options, x);
  fputc('}', out);
}

/* One workload is an object, several are a list. */
void bench_json(FILE *out, const bench_report *r) {
  fputs(r->n == 1 ? "" : "[\n", out);
  for (int i = 0; i < r->n; i++) {
    fputs(i ? ",\n" : "", out);
    json_result(out, r, &r->results[i]);
  }
  fputs(r->n == 1 ? "\n" : "\n]\n", out);
}

/* --- the profile --- */

static int by_seconds(const void *a, const void *b) {
  double x = ((const bench_share *)a)->seconds, y = ((const bench_share *)b)->seconds;
  return (x < y) - (x > y);
}

/* Operations a second that a step may come to. */
static double peak_of(const bench_options *o, const bench_step *s) {
  bool products = strcmp(s->archetype, "matmul") == 0 || strncmp(s->archetype, "attention", 9) == 0;
  if (!products || o->precision == SN_PRECISION_EXACT || o->peak_matrix_flops <= 0)
    return o->peak_flops;
  double each = o->peak_matrix_flops / (o->precision == SN_PRECISION_FAST ? 3 : 1);
  return each > o->peak_flops ? each : o->peak_flops;
}

double bench_bound(const bench_options *o, const bench_step *s) {
  double compute = o->peak_flops > 0 ? s->flops / peak_of(o, s) : 0;
  double memory = o->peak_bytes > 0 ? s->bytes / o->peak_bytes : 0;
  double least = compute > memory ? compute : memory;
  return least < s->seconds ? least : s->seconds;
}

int bench_shares(const bench_options *o, const bench_form *f, bench_share out[BENCH_SHARES]) {
  int n = 0;
  for (int i = 0; i < f->n_steps; i++) {
    const bench_step *s = &f->steps[i];
    int k = 0;
    while (k < n && strcmp(out[k].archetype, s->archetype) != 0)
      k++;
    if (k == BENCH_SHARES)
      continue;
    if (k == n)
      out[n++] = (bench_share){.archetype = s->archetype};
    out[k].seconds += s->seconds;
    out[k].bound += bench_bound(o, s);
    out[k].steps++;
  }
  qsort(out, (size_t)n, sizeof *out, by_seconds);
  return n;
}

static int costlier(const void *a, const void *b) {
  const bench_step *x = *(const bench_step *const *)a, *y = *(const bench_step *const *)b;
  return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

int bench_costliest(const bench_form *f, const bench_step **out, int capacity) {
  const bench_step **order = calloc((size_t)f->n_steps + 1, sizeof *order);
  int n = f->n_steps < capacity ? f->n_steps : capacity;
  if (!order)
    return 0;
  for (int i = 0; i < f->n_steps; i++)
    order[i] = &f->steps[i];
  qsort(order, (size_t)f->n_steps, sizeof *order, costlier);
  for (int i = 0; i < n; i++)
    out[i] = order[i];
  free(order);
  return n;
}

static double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

static void profile_steps(FILE *out, const bench_options *o, const bench_form *f, double all) {
  enum { MOST = 12 };
  const bench_step *steps[MOST];
  int n = bench_costliest(f, steps, MOST);
  for (int i = 0; i < n; i++) {
    const bench_step *s = steps[i];
    double gflops = s->seconds > 0 ? 1e-9 * s->flops / s->seconds : 0;
    double gbytes = s->seconds > 0 ? 1e-9 * s->bytes / s->seconds : 0;
    fprintf(out, "  %9.3f ms %5.1f %%  %5.1f %%  %8.1f GFLOP/s %7.1f GB/s  %-14s %s\n",
            1e3 * s->seconds, percent(s->seconds, all), percent(bench_bound(o, s), s->seconds),
            gflops, gbytes, s->archetype, s->name);
  }
}

static void profile_shares(FILE *out, const bench_share *shares, int n, double all) {
  for (int k = 0; k < n; k++)
    fprintf(out, "  %9.3f ms %5.1f %%  %5.1f %%  %-14s %d steps; at its bound %.3f ms less\n",
            1e3 * shares[k].seconds, percent(shares[k].seconds, all),
            percent(shares[k].bound, shares[k].seconds), shares[k].archetype, shares[k].steps,
            1e3 * (shares[k].seconds - shares[k].bound));
}

static void profile_form(FILE *out, const bench_options *o, const char *workload,
                         const bench_form *f) {
  bench_share shares[BENCH_SHARES];
  double all = 0, bound = 0;
  int n = bench_shares(o, f, shares);
  for (int k = 0; k < n; k++) {
    all += shares[k].seconds;
    bound += shares[k].bound;
  }
  fprintf(out, "\n%s, %s: %.3f ms in %d steps of %.3f ms; bound %.3f ms\n", workload, f->name,
          1e3 * all, f->n_steps, f->median_ms, 1e3 * bound);
  fprintf(out, "  %12s %7s  %7s\n", "time", "of all", "bound");
  profile_shares(out, shares, n, all);
  fputs("  costliest\n", out);
  profile_steps(out, o, f, all);
}

static void profile_peaks(FILE *out, const bench_options *o) {
  if (o->peak_flops <= 0) {
    fputs("\nbound: not known for this device\n", out);
    return;
  }
  fprintf(out,
          "\nbound: what the least time is of the time taken, at %.1f GFLOP/s and %.1f GB/s as "
          "measured\n",
          1e-9 * o->peak_flops, 1e-9 * o->peak_bytes);
  if (o->peak_matrix_flops > 0)
    fprintf(out, "products of halves by matrices: %.1f GFLOP/s%s\n", 1e-9 * o->peak_matrix_flops,
            o->precision == SN_PRECISION_FAST    ? ", three for one of matmul and attention"
            : o->precision == SN_PRECISION_EXACT ? ", not used for exact ones"
                                                 : "");
  if (o->launch_s > 0)
    fprintf(out, "a step that does nothing: %.2f us\n", 1e6 * o->launch_s);
}

void bench_profile(FILE *out, const bench_report *r) {
  profile_peaks(out, r->options);
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < r->results[i].n_forms; k++)
      profile_form(out, r->options, r->results[i].name, &r->results[i].form[k]);
}

/* --- the trace --- */

static void trace_span(FILE *out, const bench_form *f, const sn_span *s, int process, double zero) {
  const bench_step *step = &f->steps[s->step];
  fputs(",\n{\"name\": ", out);
  report_json_string(out, *step->name ? step->name : step->archetype);
  fprintf(
      out,
      ", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"pid\": %d, \"tid\": %d, "
      "\"args\": {\"step\": %d, \"phase\": \"%s\", \"archetype\": \"%s\", \"bytes\": ",
      step->archetype, 1e6 * (s->begin_s - zero), 1e6 * (s->end_s - s->begin_s), process, s->thread,
      s->step, step->phase, step->archetype);
  report_json_number(out, step->bytes);
  fputs(", \"flops\": ", out);
  report_json_number(out, step->flops);
  fputs("}}", out);
}

void bench_trace(FILE *out, const bench_report *r) {
  fprintf(out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"name\": \"sinew\", \"ph\": "
               "\"M\", \"pid\": 0, \"args\": {}}");
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < r->results[i].n_forms; k++) {
      const bench_form *f = &r->results[i].form[k];
      int process = 1 + i * BENCH_FORMS + k;
      fprintf(
          out,
          ",\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"%s, "
          "%s\"}}",
          process, r->results[i].name, f->name);
      for (int s = 0; s < f->n_spans; s++)
        if (f->spans[s].step >= 0 && f->spans[s].step < f->n_steps)
          trace_span(out, f, &f->spans[s], process, f->spans[0].begin_s);
    }
  fputs("\n]}\n", out);
}
