/* Graph text in, graph text out: what the optimiser makes of small graphs, with labels, scopes, dead inputs,
 * symbols, barriers and several results. */
#include "opt/opt.h"
#include "support/test.h"

typedef struct example {
  const char *name, *before, *after;
} example;

static const example examples[] = {
    {"labels, scopes and dead inputs stay",
     "symbol n 16\n"
     "%1 = input() name=\"x\" dtype=f32 shape=[n, 4]\n"
     "%2 = input() name=\"unused\" dtype=i32 shape=[]\n"
     "scope \"layer\"\n"
     "%3 = neg(%1)\n"
     "%4 = neg(%3)\n"
     "label %4 \"twice\"\n"
     "%5 = tanh(%4)\n"
     "label %5 \"layer.y\"\n"
     "output \"y\" %5\n",
     "symbol n 16\n"
     "%1 = input() name=\"x\" dtype=f32 shape=[n, 4] : f32[n, 4]\n"
     "label %1 \"twice\"\n"
     "%2 = input() name=\"unused\" dtype=i32 shape=[] : i32[]\n"
     "scope \"layer\"\n"
     "%3 = tanh(%1) : f32[n, 4]\n"
     "label %3 \"layer.y\"\n"
     "output \"y\" %3\n"},
    {"transposes into the matmul",
     "%1 = input() name=\"x\" dtype=f32 shape=[8, 4]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[6, 4] init=normal scale=1\n"
     "%3 = transpose(%2) perm=[1, 0]\n"
     "%4 = matmul(%1, %3) trans_a=false trans_b=false\n"
     "output \"y\" %4\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[8, 4] : f32[8, 4]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[6, 4] init=normal scale=1 : f32[6, 4]\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=true : f32[8, 6]\n"
     "output \"y\" %3\n"},
    {"a scale into a weight that stays",
     "%1 = input() name=\"x\" dtype=f32 shape=[8, 4]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[4, 6] init=normal scale=1\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=false\n"
     "%4 = affine(%3) mul=0.5 add=0\n"
     "output \"y\" %4\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[8, 4] : f32[8, 4]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[4, 6] init=normal scale=1 : f32[4, 6]\n"
     "%3 = affine(%2) mul=0.5 add=0 : f32[4, 6]\n"
     "%4 = matmul(%1, %3) trans_a=false trans_b=false : f32[8, 6]\n"
     "output \"y\" %4\n"},
    {"not into one that is assigned",
     "%1 = input() name=\"x\" dtype=f32 shape=[8, 4]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[4, 6] init=normal scale=1\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=false\n"
     "%4 = affine(%3) mul=0.5 add=0\n"
     "%5 = tanh(%2)\n"
     "output \"y\" %4\n"
     "assign %2 %5\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[8, 4] : f32[8, 4]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[4, 6] init=normal scale=1 : f32[4, 6]\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=false : f32[8, 6]\n"
     "%4 = affine(%3) mul=0.5 add=0 : f32[8, 6]\n"
     "%5 = tanh(%2) : f32[4, 6]\n"
     "output \"y\" %4\n"
     "assign %2 %5\n"},
    {"factoring halves the matmuls",
     "%1 = input() name=\"x\" dtype=f32 shape=[64, 64]\n"
     "%2 = input() name=\"v\" dtype=f32 shape=[64, 64]\n"
     "%3 = input() name=\"w\" dtype=f32 shape=[64, 64]\n"
     "%4 = matmul(%1, %2) trans_a=false trans_b=false\n"
     "%5 = matmul(%1, %3) trans_a=false trans_b=false\n"
     "%6 = add(%4, %5)\n"
     "output \"y\" %6\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[64, 64] : f32[64, 64]\n"
     "%2 = input() name=\"v\" dtype=f32 shape=[64, 64] : f32[64, 64]\n"
     "%3 = input() name=\"w\" dtype=f32 shape=[64, 64] : f32[64, 64]\n"
     "%4 = add(%2, %3) : f32[64, 64]\n"
     "%5 = matmul(%1, %4) trans_a=false trans_b=false : f32[64, 64]\n"
     "output \"y\" %5\n"},
    {"scalars are worked on as scalars",
     "%1 = input() name=\"x\" dtype=f32 shape=[64, 64]\n"
     "%2 = input() name=\"a\" dtype=f32 shape=[]\n"
     "%3 = input() name=\"b\" dtype=f32 shape=[]\n"
     "%4 = div(%1, %2)\n"
     "%5 = mul(%4, %3)\n"
     "output \"y\" %5\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[64, 64] : f32[64, 64]\n"
     "%2 = input() name=\"a\" dtype=f32 shape=[] : f32[]\n"
     "%3 = input() name=\"b\" dtype=f32 shape=[] : f32[]\n"
     "%4 = div(%3, %2) : f32[]\n"
     "%5 = mul(%1, %4) : f32[64, 64]\n"
     "output \"y\" %5\n"},
    {"nothing crosses a barrier",
     "%1 = input() name=\"x\" dtype=f32 shape=[4]\n"
     "%2 = exp(%1)\n"
     "%3 = barrier(%1, %2) id=5\n"
     "%4 = exp(%3)\n"
     "%5 = add(%2, %4)\n"
     "output \"y\" %5\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[4] : f32[4]\n"
     "%2 = exp(%1) : f32[4]\n"
     "%3 = barrier(%1, %2) id=5 : f32[4]\n"
     "%4 = exp(%3) : f32[4]\n"
     "%5 = add(%2, %4) : f32[4]\n"
     "output \"y\" %5\n"},
    {"several results",
     "%1 = input() name=\"x\" dtype=f32 shape=[8]\n"
     "%2 = reshape(%1) shape=[-1]\n"
     "%3 = topk(%2) k=2 axis=0 largest=true\n"
     "output \"values\" %3\n"
     "output \"indices\" %4\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[8] : f32[8]\n"
     "%2 = topk(%1) k=2 axis=0 largest=true : f32[2], i32[2]\n"
     "output \"values\" %2\n"
     "output \"indices\" %3\n"},
    {"equal values are one, though two readers then share it",
     "%1 = input() name=\"x\" dtype=f32 shape=[1024, 1024]\n"
     "%2 = neg(%1)\n"
     "%3 = neg(%2)\n"
     "%4 = exp(%3)\n"
     "%5 = exp(%1)\n"
     "%6 = sum(%4) axes=[] keepdims=false\n"
     "%7 = max(%5) axes=[] keepdims=false\n"
     "output \"sum\" %6\n"
     "output \"max\" %7\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[1024, 1024] : f32[1024, 1024]\n"
     "%2 = exp(%1) : f32[1024, 1024]\n"
     "%3 = sum(%2) axes=[] keepdims=false : f32[]\n"
     "%4 = max(%2) axes=[] keepdims=false : f32[]\n"
     "output \"sum\" %3\n"
     "output \"max\" %4\n"},
    {"the last row alone, in the scope of what it is made from",
     "symbol n 64\n"
     "%1 = input() name=\"x\" dtype=f32 shape=[1, n, 512]\n"
     "%2 = state() name=\"v\" dtype=f32 shape=[512, 512] init=normal scale=1\n"
     "%3 = state() name=\"w\" dtype=f32 shape=[4096, 512] init=normal scale=1\n"
     "scope \"layer\"\n"
     "%4 = softmax(%1) axis=1\n"
     "%5 = matmul(%4, %2) trans_a=false trans_b=false\n"
     "%6 = add(%4, %5)\n"
     "scope \"\"\n"
     "%7 = matmul(%6, %3) trans_a=false trans_b=true\n"
     "%8 = slice(%7) axis=1 start=n-1 stop=n step=1\n"
     "output \"y\" %8\n",
     "symbol n 64\n"
     "%1 = input() name=\"x\" dtype=f32 shape=[1, n, 512] : f32[1, n, 512]\n"
     "%2 = state() name=\"v\" dtype=f32 shape=[512, 512] init=normal scale=1 : f32[512, 512]\n"
     "%3 = state() name=\"w\" dtype=f32 shape=[4096, 512] init=normal scale=1 : f32[4096, 512]\n"
     "scope \"layer\"\n"
     "%4 = softmax(%1) axis=1 : f32[1, n, 512]\n"
     "%5 = slice(%4) axis=1 start=n-1 stop=n step=1 : f32[1, 1, 512]\n"
     "%6 = matmul(%5, %2) trans_a=false trans_b=false : f32[1, 1, 512]\n"
     "%7 = add(%5, %6) : f32[1, 1, 512]\n"
     "scope \"\"\n"
     "%8 = matmul(%7, %3) trans_a=false trans_b=true : f32[1, 1, 4096]\n"
     "output \"y\" %8\n"},
    {"attention, its mask known",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 256, 64]\n"
     "%2 = input() name=\"k\" dtype=f32 shape=[2, 4, 256, 64]\n"
     "%3 = input() name=\"v\" dtype=f32 shape=[2, 4, 256, 64]\n"
     "%4 = transpose(%2) perm=[0, 1, 3, 2]\n"
     "%5 = matmul(%1, %4) trans_a=false trans_b=false\n"
     "%6 = affine(%5) mul=0.125 add=0\n"
     "%7 = full() dtype=bool shape=[256, 256] value=1\n"
     "%8 = tril(%7) diagonal=0\n"
     "%9 = full() dtype=f32 shape=[] value=-inf\n"
     "%10 = where(%8, %6, %9)\n"
     "%11 = softmax(%10) axis=-1\n"
     "%12 = matmul(%11, %3) trans_a=false trans_b=false\n"
     "output \"y\" %12\n",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 256, 64] : f32[2, 4, 256, 64]\n"
     "%2 = input() name=\"k\" dtype=f32 shape=[2, 4, 256, 64] : f32[2, 4, 256, 64]\n"
     "%3 = input() name=\"v\" dtype=f32 shape=[2, 4, 256, 64] : f32[2, 4, 256, 64]\n"
     "%4 = attention(%1, %2, %3, none, none, none, none) scale=0.125 softcap=0 causal=end window=0 "
     "layout=bhsd : f32[2, 4, 256, 64], f32[2, 4, 256]\n"
     "output \"y\" %4\n"},
    {"weights that are read stay weights",
     "%1 = input() name=\"q\" dtype=f32 shape=[1, 1, 4, 8]\n"
     "%2 = matmul(%1, %1) trans_a=false trans_b=true\n"
     "%3 = softmax(%2) axis=-1\n"
     "%4 = matmul(%3, %1) trans_a=false trans_b=false\n"
     "output \"y\" %4\n"
     "output \"weights\" %3\n",
     "%1 = input() name=\"q\" dtype=f32 shape=[1, 1, 4, 8] : f32[1, 1, 4, 8]\n"
     "%2 = matmul(%1, %1) trans_a=false trans_b=true : f32[1, 1, 4, 4]\n"
     "%3 = softmax(%2) axis=-1 : f32[1, 1, 4, 4]\n"
     "%4 = matmul(%3, %1) trans_a=false trans_b=false : f32[1, 1, 4, 8]\n"
     "output \"y\" %4\n"
     "output \"weights\" %3\n"},
    {"parts of one product stay one product",
     "%1 = input() name=\"x\" dtype=f32 shape=[64, 64]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[64, 128] init=normal scale=1\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=false\n"
     "%4 = slice(%3) axis=1 start=0 stop=64 step=1\n"
     "%5 = slice(%3) axis=1 start=64 stop=128 step=1\n"
     "%6 = mul(%4, %5)\n"
     "output \"y\" %6\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[64, 64] : f32[64, 64]\n"
     "%2 = state() name=\"w\" dtype=f32 shape=[64, 128] init=normal scale=1 : f32[64, 128]\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=false : f32[64, 128]\n"
     "%4 = slice(%3) axis=1 start=0 stop=64 step=1 : f32[64, 64]\n"
     "%5 = slice(%3) axis=1 start=64 stop=128 step=1 : f32[64, 64]\n"
     "%6 = mul(%4, %5) : f32[64, 64]\n"
     "output \"y\" %6\n"},
    {"one output under two names",
     "%1 = input() name=\"x\" dtype=f32 shape=[8]\n"
     "%2 = full() dtype=f32 shape=[] value=0\n"
     "%3 = add(%1, %2)\n"
     "output \"a\" %1\n"
     "output \"b\" %3\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[8] : f32[8]\n"
     "output \"a\" %1\n"
     "output \"b\" %1\n"},
};

TEST_WALK(text) {
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    const example *x = &examples[i];
    sn_ctx *ctx = NULL;
    sn_graph *g = NULL, *out = NULL;
    char *text = NULL;
    if (!test_begin("%s", x->name))
      continue;
    if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
      if (sn_graph_parse(ctx, x->before, &g) != SN_OK ||
          opt_run(g, &OPT_OPTIONS_INIT, &out, NULL) != SN_OK || sn_graph_print(out, &text) != SN_OK)
        FAIL("%s", sn_ctx_message(ctx));
      else
        CHECK_EQ_STR(text, x->after);
      sn_text_free(ctx, text);
      sn_graph_destroy(g);
      sn_graph_destroy(out);
      sn_ctx_destroy(ctx);
    }
    test_end();
  }
}
