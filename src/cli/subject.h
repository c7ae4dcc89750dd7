/* What inspect and bench look at: a reference workload or a model folder, built into a graph for one purpose. */
#ifndef SINEW_CLI_SUBJECT_H
#define SINEW_CLI_SUBJECT_H

#include "cli/cli.h"

typedef enum subject_form {
  SUBJECT_INFERENCE, /* output "output" */
  SUBJECT_LATENCY,   /* the same on the smallest input */
  SUBJECT_BACKWARD,  /* outputs "output", "loss" and all gradients */
  SUBJECT_TRAINING   /* a step of plain SGD: output "loss", parameters assigned */
} subject_form;

/* One of workload and model is NULL. *out_graph is NULL after a failure. */
sn_status subject_build(sn_ctx *ctx, const sn_workload *workload, const sn_model *model,
                        subject_form form, sn_graph **out_graph) SN_MUST_USE;

/* --- writing (report.c) --- */

/* Text as a JSON string, quotes included; text within HTML. */
void report_json_string(FILE *out, const char *text);
void report_html_text(FILE *out, const char *text);
/* A number as JSON, whole ones exactly, null where it is not finite. */
void report_json_number(FILE *out, double x);
/* "12.3 MiB", "1.2 GFLOP": into a buffer that is returned. */
enum { REPORT_NUMBER = 32 };
const char *report_bytes(double bytes, char out[REPORT_NUMBER]);
const char *report_flops(double flops, char out[REPORT_NUMBER]);
/* The begin and end of an HTML page with the styles that all reports share. */
void report_html_begin(FILE *out, const char *title);
void report_html_end(FILE *out);
/* "s" unless there is one. */
const char *report_plural(int64_t n);
/* The CSS class that colours an archetype. */
const char *report_archetype_class(const char *archetype);

#endif
