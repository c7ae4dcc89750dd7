/* What the reports of inspect and bench share: numbers and text in JSON and HTML, the page, its styles. See subject.h. */
#include "cli/subject.h"

#include <math.h>
#include <string.h>

void report_json_string(FILE *out, const char *text) {
  fputc('"', out);
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\')
      fprintf(out, "\\%c", *c);
    else if ((unsigned char)*c < 0x20)
      fprintf(out, "\\u%04x", (unsigned)(unsigned char)*c);
    else
      fputc(*c, out);
  }
  fputc('"', out);
}

void report_html_text(FILE *out, const char *text) {
  for (const char *c = text; *c; c++)
    switch (*c) {
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '&': fputs("&amp;", out); break;
    case '"': fputs("&quot;", out); break;
    default: fputc(*c, out);
    }
}

void report_json_number(FILE *out, double x) {
  if (fabs(x) < 0x1p53 && x == floor(x))
    fprintf(out, "%.0f", x);
  else if (isfinite(x))
    fprintf(out, "%.9g", x);
  else
    fputs("null", out);
}

static const char *scaled(double x, double base, const char *const *units, int n,
                          char out[REPORT_NUMBER]) {
  int i = 0;
  for (; i + 1 < n && fabs(x) >= base; i++)
    x /= base;
  int digits = i == 0 || fabs(x) >= 100 ? 0 : fabs(x) >= 10 ? 1 : 2;
  snprintf(out, REPORT_NUMBER, "%.*f %s", digits, x, units[i]);
  return out;
}

const char *report_bytes(double bytes, char out[REPORT_NUMBER]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(bytes, 1024, units, 5, out);
}

const char *report_flops(double flops, char out[REPORT_NUMBER]) {
  static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  return scaled(flops, 1000, units, 6, out);
}

const char *report_plural(int64_t n) { return n == 1 ? "" : "s"; }

const char *report_archetype_class(const char *archetype) {
  static const char *const names[][2] = {
      {"pointwise", "c1"},      {"row", "c2"},     {"matmul", "c3"}, {"attention", "c4"},
      {"attention_grad", "c5"}, {"scatter", "c6"}, {"scan", "c7"},   {"sort", "c8"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], archetype) == 0)
      return names[i][1];
  return "c0";
}

/* Colours are told apart in light and in dark, also by those who see red and green alike; names stand beside them. */
static const char style[] =
    ":root{--bg:#f7f7f5;--card:#fff;--ink:#1d1f22;--soft:#62666d;--line:#dfe0e3;--grid:#ececee;"
    "--k0:#9a9ca3;--k1:#e69f00;--k2:#119c7a;--k3:#2f76c8;--k4:#8656c9;--k5:#d4499a;--k6:#c2491d;"
    "--k7:#6f8f1f;--k8:#3aa6c9}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#15171a;--card:#1d2024;--ink:#e8e9eb;--soft:"
    "#9ba0a8;--line:#33373d;--grid:#292d32;--k0:#7d818a;--k1:#f0b429;--k2:#2fc39b;--k3:#5b9dea;"
    "--k4:#ab82ea;--k5:#ea6fb8;--k6:#ec7446;--k7:#9cc13f;--k8:#62c6e6}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 "
    "system-ui,sans-serif}main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:26px;margin:0}h2{font-size:17px;margin:0 0 2px}p{margin:0 0 12px;color:var(--"
    "soft);max-width:80ch}section{background:var(--card);border:1px solid var(--line);"
    "border-radius:10px;padding:18px 20px;margin-top:18px;overflow-x:auto}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(124px,1fr));gap:12px;margin-"
    "top:18px}.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:"
    "12px 14px}.tile b{display:block;font-size:22px;font-weight:600}.tile span{color:var(--soft);"
    "font-size:13px}\n"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font:12px system-ui,sans-"
    "serif}svg .axis{stroke:var(--line)}svg .grid{stroke:var(--grid)}svg .live{fill:none;stroke:"
    "var(--ink);stroke-width:1.4}svg .bar{stroke:none}svg .box{stroke:var(--card);stroke-width:.6}"
    "svg .box:hover,svg .bar:hover{filter:brightness(1.25)}svg .frame{fill:var(--grid)}\n"
    ".c0{fill:var(--k0)}.c1{fill:var(--k1)}.c2{fill:var(--k2)}.c3{fill:var(--k3)}.c4{fill:var(--k4)"
    "}.c5{fill:var(--k5)}.c6{fill:var(--k6)}.c7{fill:var(--k7)}.c8{fill:var(--k8)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:6px 16px;margin:8px 0 4px;font-size:13px;color:var(--"
    "soft)}.legend svg{display:inline-block;width:12px;height:12px;margin-right:6px;vertical-align:"
    "-1px}\n"
    "table{border-collapse:collapse;width:100%;font-size:13.5px}th{text-align:left;font-weight:600;"
    "color:var(--soft);border-bottom:1px solid var(--line);padding:4px 10px 4px 0}td{padding:3px "
    "10px 3px 0;border-bottom:1px solid var(--grid);vertical-align:middle}td.n,th.n{text-align:"
    "right;font-variant-numeric:tabular-nums;white-space:nowrap}td.name{max-width:400px;overflow:"
    "hidden;text-overflow:ellipsis;white-space:nowrap}td svg{width:130px;height:12px}\n"
    ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(380px,1fr));gap:18px}.two "
    "section{margin-top:18px}\n";

void report_html_begin(FILE *out, const char *title) {
  fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
        out);
  report_html_text(out, title);
  fprintf(out, "</title>\n<style>\n%s</style></head>\n<body><main>\n", style);
}

void report_html_end(FILE *out) { fputs("</main></body></html>\n", out); }
