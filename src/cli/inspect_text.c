/* An inspection as text and as JSON. The names of the JSON are documented in docs/inspect.md. */
#include "cli/inspect.h"

#include <stdlib.h>

/* --- the costliest steps --- */

typedef struct cost {
  int step;
  double share;
} cost;

static int by_share(const void *a, const void *b) {
  const cost *x = a, *y = b;
  if (x->share != y->share)
    return x->share < y->share ? 1 : -1;
  return x->step - y->step;
}

static double share_of(const sn_inspection *i, const sn_step *s) {
  double flops = i->flops > 0 ? s->flops / i->flops : 0;
  double bytes = i->bytes > 0 ? s->bytes / i->bytes : 0;
  return flops > bytes ? flops : bytes;
}

int inspect_costliest(const sn_inspection *i, int *out, int capacity) {
  int n = i->steps;
  cost *all = calloc((size_t)n + 1, sizeof *all);
  if (!all)
    return 0;
  for (int k = 0; k < n; k++)
    all[k] = (cost){i->prepare_steps + k, share_of(i, &i->step_list[i->prepare_steps + k])};
  qsort(all, (size_t)n, sizeof *all, by_share);
  int kept = n < capacity ? n : capacity;
  for (int k = 0; k < kept; k++)
    out[k] = all[k].step;
  free(all);
  return kept;
}

/* --- text --- */

static void text_graph(FILE *out, const sn_inspection *i) {
  fprintf(out, "graph       %lld nodes as given, %lld optimised, %lld lowered; %lld layer%s\n",
          (long long)i->nodes_before, (long long)i->nodes_optimised, (long long)i->nodes_after,
          (long long)i->layers, report_plural(i->layers));
  fprintf(out, "e-graph     %s after %lld iteration%s: %lld classes, %lld nodes, %.3f s\n",
          i->egraph.stop, (long long)i->egraph.iterations, report_plural(i->egraph.iterations),
          (long long)i->egraph.classes, (long long)i->egraph.nodes, i->egraph.seconds);
  fprintf(out, "            modelled cost %.4g ms as given, %.4g ms now%s\n",
          1e3 * i->egraph.cost_before, 1e3 * i->egraph.cost_after,
          i->egraph.kept_input ? " (nothing cheaper was found)" : "");
  fputs("rules      ", out);
  int shown = 0;
  for (int k = 0; k < i->n_rules; k++)
    if (i->rules[k].value > 0)
      fprintf(out, "%s %s %.0f", shown++ ? "," : "", i->rules[k].name, i->rules[k].value);
  fputs(shown ? "\n" : " none applied\n", out);
}

static void text_plan(FILE *out, const sn_inspection *i) {
  fprintf(out, "plan        %d step%s, %lld launch%s, %lld barrier%s", i->steps,
          report_plural(i->steps), (long long)i->launches, i->launches == 1 ? "" : "es",
          (long long)i->barriers, report_plural(i->barriers));
  if (i->layers)
    fprintf(out, " (a layer: %.3g steps, %.3g launches)", i->steps_per_layer,
            i->launches_per_layer);
  fputs("\nsteps      ", out);
  for (int k = 0; k < i->n_archetypes; k++)
    fprintf(out, "%s %.0f %s", k ? "," : "", i->archetypes[k].value, i->archetypes[k].name);
  if (i->prepare_steps)
    fprintf(out, "; and %d that run%s when state changes", i->prepare_steps,
            i->prepare_steps == 1 ? "s" : "");
  fputc('\n', out);
}

static void text_memory(FILE *out, const sn_inspection *i) {
  char a[REPORT_NUMBER], b[REPORT_NUMBER], c[REPORT_NUMBER], d[REPORT_NUMBER];
  double bound = (double)i->lower_bound_bytes;
  fprintf(out, "memory      arena %s, lower bound %s (%.3f x)\n",
          report_bytes((double)i->peak_bytes, a), report_bytes(bound, b),
          bound > 0 ? (double)i->peak_bytes / bound : 1);
  fprintf(out, "            state %s, inputs %s, outputs %s, prepared %s\n",
          report_bytes((double)i->state_bytes, a), report_bytes((double)i->input_bytes, b),
          report_bytes((double)i->output_bytes, c), report_bytes((double)i->prepare_bytes, d));
  fprintf(out, "work        %s, %s moved by the steps\n", report_flops(i->flops, a),
          report_bytes(i->bytes, b));
}

void inspect_text(FILE *out, const inspect_report *r) {
  enum { MOST = 12 };
  const sn_inspection *i = r->i;
  char a[REPORT_NUMBER], b[REPORT_NUMBER];
  int costly[MOST], n = inspect_costliest(i, costly, MOST);
  fprintf(out, "%s, %s, compiled for %s in %.3f s\n\n", r->subject, r->purpose, i->device,
          i->compile_s);
  text_graph(out, i);
  text_plan(out, i);
  text_memory(out, i);
  fputs("time       ", out);
  for (int k = 0; k < i->n_phases; k++)
    fprintf(out, "%s %s %.3f s", k ? "," : "", i->phases[k].name, i->phases[k].value);
  fputs("\n\ncostliest steps\n", out);
  for (int k = 0; k < n; k++) {
    const sn_step *s = &i->step_list[costly[k]];
    fprintf(out, "%6d  %-14s %12s %11s  %s\n", costly[k], s->archetype, report_flops(s->flops, a),
            report_bytes(s->bytes, b), s->name);
  }
}

/* --- JSON --- */

static void json_int(FILE *out, const char *key, int64_t n) {
  fprintf(out, "\"%s\": %lld,\n", key, (long long)n);
}

static void json_number(FILE *out, const char *key, double x) {
  fprintf(out, "\"%s\": ", key);
  report_json_number(out, x);
  fputs(",\n", out);
}

static void json_numbers(FILE *out, const char *key, const sn_named_number *list, int n) {
  fprintf(out, "\"%s\": {", key);
  for (int k = 0; k < n; k++) {
    fputs(k ? ", " : "", out);
    report_json_string(out, list[k].name);
    fputs(": ", out);
    report_json_number(out, list[k].value);
  }
  fputs("},\n", out);
}

static void json_egraph(FILE *out, const sn_inspection *i) {
  fprintf(out,
          "\"egraph\": {\"classes\": %lld, \"nodes\": %lld, \"iterations\": %lld, \"matches\": "
          "%lld, \"stop\": \"%s\", \"seconds\": ",
          (long long)i->egraph.classes, (long long)i->egraph.nodes, (long long)i->egraph.iterations,
          (long long)i->egraph.matches, i->egraph.stop);
  report_json_number(out, i->egraph.seconds);
  fputs(", \"cost_before\": ", out);
  report_json_number(out, i->egraph.cost_before);
  fputs(", \"cost_after\": ", out);
  report_json_number(out, i->egraph.cost_after);
  fputs("},\n", out);
}

static void json_ops(FILE *out, const sn_inspection *i) {
  fputs("\"ops\": {", out);
  for (int k = 0; k < i->n_ops; k++)
    fprintf(out, "%s\n\"%s\": [%lld, %lld, %lld]", k ? "," : "", i->ops[k].name,
            (long long)i->ops[k].given, (long long)i->ops[k].optimised,
            (long long)i->ops[k].lowered);
  fputs("},\n", out);
}

static void json_steps(FILE *out, const sn_inspection *i) {
  fputs("\"step_list\": [", out);
  for (int k = 0; k < i->n_listed; k++) {
    const sn_step *s = &i->step_list[k];
    fprintf(out,
            "%s\n{\"step\": %d, \"phase\": \"%s\", \"archetype\": \"%s\", \"name\": ", k ? "," : "",
            k, s->phase, s->archetype);
    report_json_string(out, s->name);
    fprintf(out, ", \"parts\": %d, \"launches\": %d, \"barrier\": %s, \"flops\": ", s->parts,
            s->launches, s->barrier ? "true" : "false");
    report_json_number(out, s->flops);
    fputs(", \"bytes\": ", out);
    report_json_number(out, s->bytes);
    fputc('}', out);
  }
  fputs("],\n", out);
}

static void json_lifetimes(FILE *out, const sn_inspection *i) {
  fputs("\"lifetimes\": [", out);
  for (int k = 0; k < i->n_lifetimes; k++) {
    const sn_lifetime *l = &i->lifetimes[k];
    fprintf(out, "%s\n{\"value\": %u, \"name\": ", k ? "," : "", (unsigned)l->value);
    report_json_string(out, l->name);
    fprintf(out, ", \"bytes\": %lld, \"first\": %d, \"last\": %d, \"offset\": %lld}",
            (long long)l->bytes, l->first, l->last, (long long)l->offset);
  }
  fputs("]\n", out);
}

void inspect_json(FILE *out, const inspect_report *r) {
  const sn_inspection *i = r->i;
  fputs("{\n\"subject\": ", out);
  report_json_string(out, r->subject);
  fprintf(out, ",\n\"purpose\": \"%s\",\n\"device\": \"%s\",\n", r->purpose, i->device);
  json_int(out, "nodes_before", i->nodes_before);
  json_int(out, "nodes_optimised", i->nodes_optimised);
  json_int(out, "nodes_after", i->nodes_after);
  json_int(out, "layers", i->layers);
  json_int(out, "steps", i->steps);
  json_int(out, "prepare_steps", i->prepare_steps);
  json_int(out, "launches", i->launches);
  json_int(out, "barriers", i->barriers);
  json_number(out, "steps_per_layer", i->steps_per_layer);
  json_number(out, "launches_per_layer", i->launches_per_layer);
  json_int(out, "peak_bytes", i->peak_bytes);
  json_int(out, "lower_bound_bytes", i->lower_bound_bytes);
  json_int(out, "state_bytes", i->state_bytes);
  json_int(out, "input_bytes", i->input_bytes);
  json_int(out, "output_bytes", i->output_bytes);
  json_int(out, "constant_bytes", i->constant_bytes);
  json_int(out, "prepare_bytes", i->prepare_bytes);
  json_number(out, "compile_s", i->compile_s);
  json_numbers(out, "phases", i->phases, i->n_phases);
  json_egraph(out, i);
  json_numbers(out, "rules", i->rules, i->n_rules);
  json_numbers(out, "archetypes", i->archetypes, i->n_archetypes);
  json_ops(out, i);
  json_steps(out, i);
  json_lifetimes(out, i);
  fputs("}\n", out);
}
