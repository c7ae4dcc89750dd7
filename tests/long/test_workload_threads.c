/* The five workloads give the same bits on 1, 2, 3 and 4 threads: output, loss and every gradient of one step with the
 * `live` parameters, and the output of the latency form; with each instruction set of this processor. */
#include "base/base.h"
#include "cli/cli.h"
#include "device/cpu/isa.h"
#include "support/test.h"

#include <sinew/sinew.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PARAMS = 300, MOST_THREADS = 4 };

typedef struct bench {
  sn_ctx *ctx;
  sn_graph *graph;
  sn_store *store;
  const sn_workload *workload;
  sn_workload_form form;
  int outputs;
} bench;

/* A failed call is a failed check, with the message. */
static bool went(const bench *b, sn_status status) {
  return status == SN_OK || FAIL("%s", sn_ctx_message(b->ctx));
}

static void add_gradients(bench *b, sn_value loss) {
  sn_value params[MOST_PARAMS], grads[MOST_PARAMS];
  int n = sn_workload_trainable(b->workload, b->graph, params, MOST_PARAMS);
  if (!CHECK(n < MOST_PARAMS))
    return;
  params[n] = loss;
  if (!went(b, cli_recognise(&b->graph, params, n + 1)) ||
      !went(b, sn_grad(b->graph, params[n], params, n, grads)))
    return;
  for (int i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "gradient %d", i);
    sn_output(b->graph, name, grads[i]);
  }
  b->outputs += n;
}

static bool bench_start(bench *b, const sn_workload *w, sn_workload_form form) {
  sn_workload_values v;
  *b = (bench){.workload = w, .form = form};
  if (!CHECK(sn_ctx_create(NULL, &b->ctx) == SN_OK) ||
      !CHECK(sn_graph_create(b->ctx, &b->graph) == SN_OK) ||
      !CHECK(sn_store_create(b->ctx, &b->store) == SN_OK) ||
      !went(b, sn_workload_build(w, b->graph, form, &v)) ||
      !went(b, sn_workload_fill(w, b->graph, SN_WORKLOAD_LIVE, b->store)))
    return false;
  sn_output(b->graph, "output", v.output);
  b->outputs = 1;
  if (form == SN_WORKLOAD_FULL) {
    sn_output(b->graph, "loss", v.loss);
    b->outputs++;
    add_gradients(b, v.loss);
  }
  return went(b, sn_graph_status(b->graph));
}

static void bench_end(bench *b) {
  sn_graph_destroy(b->graph);
  sn_store_destroy(b->store);
  sn_ctx_destroy(b->ctx);
}

static uint64_t hash_output(const bench *b, sn_session *s, int i, uint64_t hash) {
  sn_type type;
  size_t n = 4;
  if (!went(b, sn_session_output_type(s, i, &type)))
    return hash;
  for (int d = 0; d < type.shape.rank; d++)
    n *= (size_t)type.shape.dim[d];
  void *data = malloc(n);
  if (went(b, sn_session_read_at(s, i, data, n)))
    hash = hash_bytes(hash, data, n);
  free(data);
  return hash;
}

/* Of all outputs of a run on that many threads; 0 when it fails. */
static uint64_t hash_run(bench *b, int threads) {
  sn_session_options o = {.device = "cpu", .threads = threads};
  sn_session *s = NULL;
  uint64_t hash = 0;
  if (went(b, sn_session_create(b->graph, b->store, &o, &s)) &&
      went(b, sn_workload_write(b->workload, b->graph, b->form, s)) && went(b, sn_session_run(s))) {
    CHECK_EQ_INT(sn_session_get_stats(s).threads, threads);
    hash = HASH_SEED;
    for (int i = 0; i < b->outputs; i++)
      hash = hash_output(b, s, i, hash);
  }
  sn_session_destroy(s);
  return hash;
}

static void check_form(const sn_workload *w, sn_workload_form form) {
  bench b;
  if (bench_start(&b, w, form)) {
    uint64_t one = hash_run(&b, 1);
    CHECK(one != 0);
    for (int threads = 2; threads <= MOST_THREADS; threads++)
      CHECK_EQ_UINT(hash_run(&b, threads), one);
  }
  bench_end(&b);
}

TEST_WALK(same_bits_on_any_number_of_threads) {
  for (int k = 0; cpu_isa_at(k); k++)
    for (int i = 0; sn_workload_at(i); i++)
      if (test_begin("%s %s", cpu_isa_at(k)->name, sn_workload_name(sn_workload_at(i)))) {
        setenv("SINEW_CPU", cpu_isa_at(k)->name, 1);
        check_form(sn_workload_at(i), SN_WORKLOAD_FULL);
        check_form(sn_workload_at(i), SN_WORKLOAD_LATENCY);
        unsetenv("SINEW_CPU");
        test_end();
      }
}
