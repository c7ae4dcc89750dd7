/* What the files of attention's gradient share. */
#ifndef SINEW_DEVICE_CPU_ATTENTION_GRAD_H
#define SINEW_DEVICE_CPU_ATTENTION_GRAD_H

#include "device/cpu/attention.h"

enum { DQ, DK, DV, DBIAS, DSINKS };

/* Scratch of a thread, and the piece that it works at. */
typedef struct grad_work {
  const attention *a;
  view lse, out, d_out, d_lse, to[CORE_OUTS];
  attention_block at;
  int64_t wide, wide_v;        /* of rows of d and of dv numbers */
  int64_t first, end;          /* the piece's keys */
  float *q, *go;               /* rows of q and d_out: [ATTENTION_ROWS][wide] */
  float *q_turned, *go_turned; /* [d or dv][lanes]; q in units of scores */
  float *keys, *values;        /* [ATTENTION_KEYS][wide], where they are not read in place */
  float *p, *ds,
      *slopes;    /* [ATTENTION_KEYS][lanes], or one row; slopes is one row where there is no cap */
  float *room;    /* ATTENTION_SCORE_ROOM; nothing without bias and mask */
  float *dq;      /* [d][lanes] */
  float *dk, *dv; /* [keys of the piece][wide] */
  float lse2[ATTENTION_ROWS], common[ATTENTION_ROWS]; /* by lane; lse in units of log 2 */
  /* Where the keys are cut: what each part gives for dq, [part][b][hq][sq][wide]; else NULL. */
  float *parts;
} grad_work;

/* lse of a row, and d_lse - d_out·out. go: d_out; room: for a row of dv. */
float attention_grad_row(const grad_work *w, attention_place at, const float *go, float *room,
                         float *common);
/* A row of dq that is done, [d]. */
void attention_grad_put(const grad_work *w, int64_t chunk, attention_place at, const float *dq);
/* All of the piece again, key by key, leaving out what is masked. */
void attention_grad_carefully(grad_work *w, int64_t chunk);

/* Sums over several heads and entries; each element is summed by one thread. */
void attention_grad_sinks(cpu_run *r, grad_work *w);
void attention_grad_bias(cpu_run *r, grad_work *w, float *dbias);

#endif
