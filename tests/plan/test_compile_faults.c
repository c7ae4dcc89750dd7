/* Allocation failures while a graph is compiled: each allocation fails once, in turn, alone or with all that follow. Compiling
 * says so, gives nothing, leaks nothing, and works when tried again. */
#include "compile/compile.h"
#include "support/fault.h"
#include "support/test.h"
#include "support/train_graph.h"

typedef struct subject {
  const char *name;
  const char *source; /* NULL: a small transformer with its training step */
  bool optimised;     /* the e-graph too */
  bool no_fusion;
  int stride; /* every so many allocations fail: for those that take many */
} subject;

static const char *const cache_source =
    "symbol n 5\n"
    "%1 = state() name=\"cache\" dtype=f32 shape=[2, 2, 8, 4] init=zeros scale=0\n"
    "%2 = input() name=\"k\" dtype=f32 shape=[2, 2, n, 4]\n"
    "%3 = input() name=\"at\" dtype=i32 shape=[]\n"
    "%4 = update_slice(%1, %2, %3) axis=2\n"
    "%5 = arange() dtype=i32 n=n start=0 step=1\n"
    "%6 = rope(%2, %5) seq_axis=2 dims=4 base=100 layout=half scaling=default factor=1 low=1 "
    "high=1 "
    "original_length=1 attention_factor=0 inverse=false rounding=f32\n"
    "%7 = attention(%6, %4, %4, none, none, none, none) scale=0.5 softcap=0 causal=none window=0 "
    "layout=bhsd\n"
    "output \"y\" %7\n"
    "output \"again\" %7\n"
    "assign %1 %4\n";

static const char *const image_source =
    "%1 = input() name=\"x\" dtype=f16 shape=[2, 4, 9, 9]\n"
    "%2 = state() name=\"w\" dtype=f32 shape=[6, 2, 3, 3] init=normal scale=1\n"
    "%3 = state() name=\"b\" dtype=f32 shape=[6] init=zeros scale=0\n"
    "%4 = cast(%1) dtype=f32\n"
    "%5 = conv(%4, %2, %3) stride=[2, 1] pad_before=[1, 1] pad_after=[1, 0] dilation=[1, 2] "
    "groups=2\n"
    "%6 = relu(%5)\n"
    "%7 = pool(%6) kind=max kernel=[3, 3] stride=[2, 2] pad_before=[1, 1] pad_after=[1, 1] "
    "dilation=[1, 1] ceil_mode=false count_include_pad=false\n"
    "%8 = softmax(%7) axis=1\n"
    "output \"y\" %8\n"
    "output \"x again\" %1\n";

static const char *const cores_source =
    "%1 = input() name=\"x\" dtype=f32 shape=[5, 4]\n"
    "%2 = input() name=\"index\" dtype=i32 shape=[3]\n"
    "%3 = gather(%1, %2)\n"
    "%4 = scatter_add(%1, %2, %3)\n"
    "%5 = transpose(%4) perm=[1, 0]\n"
    "%6 = sort(%5) axis=0 descending=true\n"
    "%8 = cumsum(%6) axis=1 exclusive=false reverse=true\n"
    "%9 = topk(%8) k=2 axis=1 largest=true\n"
    "%11 = pad(%9) before=[0, 1] after=[1, 0] mode=constant value=3\n"
    "%12 = state() name=\"a\" dtype=f32 shape=[5, 4] init=zeros scale=0\n"
    "%13 = state() name=\"b\" dtype=f32 shape=[5, 4] init=zeros scale=0\n"
    "%14 = flip(%12) axes=[0]\n"
    "%15 = state() name=\"c\" dtype=f32 shape=[5, 4] init=zeros scale=0\n"
    "%16 = exp(%15)\n"
    "output \"y\" %11\n"
    "output \"z\" %16\n"
    "assign %12 %13\n"
    "assign %13 %14\n";

static const subject subjects[] = {
    {"cache", cache_source, false, false, 1},    {"image", image_source, false, false, 1},
    {"cores", cores_source, false, false, 1},    {"cores unfused", cores_source, false, true, 1},
    {"optimised", image_source, true, false, 3}, {"training", NULL, false, false, 7},
};

static sn_status build(sn_ctx *ctx, const subject *s, sn_graph **out) {
  train_graph_options o = train_graph_tiny(SN_MODEL_LLAMA, 1);
  o.recompute = true;
  o.dropout = 0.1;
  return s->source ? sn_graph_parse(ctx, s->source, out) : train_graph_build(ctx, &o, out);
}

/* One compilation with allocation `at` (from here on) failing; whether one failed. */
static bool compile_failing(fault_heap *heap, const sn_graph *g, const subject *s, int64_t at,
                            bool persistent) {
  compile_options o = {
      .no_opt = !s->optimised, .no_fusion = s->no_fusion, .channels_last = !s->optimised};
  compiled c;
  int64_t blocks = heap->blocks, failed = heap->failed;
  size_t bytes = heap->bytes;
  heap->fail_at = heap->count + at;
  heap->persistent = persistent;
  sn_status status = compile_graph(g, &o, &c);
  heap->fail_at = 0;
  bool missed = heap->failed > failed;
  /* One alone may be made up for, where a message has a shorter form. */
  bool clean =
      CHECK(status == (missed ? SN_ERR_NO_MEMORY : SN_OK) || (status == SN_OK && !persistent));
  clean &= CHECK((status == SN_OK) == (c.program != NULL));
  if (status != SN_OK)
    clean &= CHECK(!c.lowered && !c.optimised);
  compile_destroy(&c);
  clean &= CHECK_EQ_INT(heap->blocks, blocks);
  clean &= CHECK_EQ_UINT(heap->bytes, bytes);
  clean &= CHECK_EQ_INT(heap->bad_sizes, 0);
  if (!clean)
    FAIL("%s: with allocation %lld failing: %s", s->name, (long long)at, sn_ctx_message(g->ctx));
  return missed;
}

static void sweep(const subject *s, bool persistent) {
  fault_heap heap = {.fail_at = 0};
  sn_ctx *ctx = fault_ctx(&heap);
  sn_graph *g = NULL;
  REQUIRE(ctx);
  if (build(ctx, s, &g) != SN_OK)
    FAIL("%s: %s", s->name, sn_ctx_message(ctx));
  else {
    int64_t at = 1, most = 0;
    for (; compile_failing(&heap, g, s, at, persistent) && !test_failed(); at += s->stride)
      most = at;
    CHECK(most > 20);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
}

TEST_WALK(every_allocation_may_fail) {
  for (size_t k = 0; k < COUNT_OF(subjects); k++)
    if (test_begin("%s", subjects[k].name)) {
      sweep(&subjects[k], false);
      test_end();
    }
}

TEST_WALK(all_allocations_may_fail_from_one_on) {
  for (size_t k = 0; k < COUNT_OF(subjects); k++)
    if (test_begin("%s", subjects[k].name)) {
      sweep(&subjects[k], true);
      test_end();
    }
}
