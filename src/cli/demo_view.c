/* The live view: a progress bar on a terminal, a line every few seconds elsewhere. All on stderr. */
#include "cli/demo.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 24 };

double demo_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void demo_view_start(demo_view *v) {
  v->live = isatty(STDERR_FILENO);
  v->started = demo_clock();
  v->last = -INFINITY;
}

static void draw_bar(int64_t done, int64_t total) {
  int full = total > 0 ? (int)(WIDTH * done / total) : 0;
  fputc('[', stderr);
  for (int i = 0; i < WIDTH; i++)
    fputs(i < full ? "█" : "·", stderr);
  fputc(']', stderr);
}

void demo_view_show(demo_view *v, const demo_progress *p, bool last) {
  double now = demo_clock();
  if (!last && now - v->last < (v->live ? 0.1 : 5))
    return;
  v->last = now;
  if (v->live)
    fputs("\r\033[K", stderr);
  draw_bar(p->step, p->total);
  fprintf(stderr, " step %lld/%lld  loss %.3f", (long long)p->step, (long long)p->total, p->loss);
  if (!isnan(p->heldout))
    fprintf(stderr, "  held-out %.3f", p->heldout);
  fprintf(stderr, "  %.0f tokens/s  %.0f s left", p->tokens_per_second, fmax(0, p->seconds_left));
  if (!v->live || last)
    fputc('\n', stderr);
  fflush(stderr);
}

void demo_view_break(demo_view *v) {
  if (v->live)
    fputs("\r\033[K", stderr);
  fflush(stderr);
}
