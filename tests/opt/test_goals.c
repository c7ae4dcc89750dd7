/* start => goal: two outputs "a" and "b" of one graph, which the rules must prove equal, or must not. */
#include "ir/dim.h"
#include "opt/intake.h"
#include "opt/nary.h"
#include "opt/saturate.h"
#include "support/test.h"

#include <string.h>

#define X          "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n"
#define XY         X "%2 = input() name=\"y\" dtype=f32 shape=[4, 6]\n"
#define XYZ        XY "%3 = input() name=\"z\" dtype=f32 shape=[4, 6]\n"
#define ENDS(a, b) "output \"a\" %" #a "\noutput \"b\" %" #b "\n"

typedef struct goal {
  const char *name, *text;
} goal;

static const goal provable[] = {
    {"identity of chains",
     X "%4 = neg(%1)\n%5 = neg(%4)\n%6 = affine(%5) mul=1 add=0\n" ENDS(1, 6)},
    {"reshape there and back",
     X "%4 = reshape(%1) shape=[2, 12]\n%5 = reshape(%4) shape=[4, 6]\n" ENDS(1, 5)},
    {"transpose there and back", X "%4 = transpose(%1) perm=[1, 0]\n%5 = exp(%4)\n"
                                   "%6 = transpose(%5) perm=[-1, 0]\n%7 = exp(%1)\n" ENDS(6, 7)},
    {"spellings of one view",
     X "%4 = reshape(%1) shape=[-1]\n%5 = reshape(%1) shape=[24]\n" ENDS(4, 5)},
    {"transposes into matmul", XY "%4 = transpose(%2) perm=[1, 0]\n%5 = tanh(%4)\n"
                                  "%6 = matmul(%1, %5) trans_a=false trans_b=false\n%7 = tanh(%2)\n"
                                  "%8 = matmul(%1, %7) trans_a=false trans_b=true\n" ENDS(6, 8)},
    {"a scalar one",
     X "%4 = full() dtype=f32 shape=[] value=1\n%5 = mul(%4, %1)\n%6 = div(%5, %4)\n" ENDS(1, 6)},
    {"constants fold", "%1 = full() dtype=f32 shape=[1000, 1000] value=2\n%2 = sqr(%1)\n%3 = "
                       "affine(%2) mul=0.5 add=1\n"
                       "%4 = full() dtype=f32 shape=[1000, 1000] value=3\n" ENDS(3, 4)},
    {"arange folds",
     "%1 = arange() dtype=i32 n=3 start=0 step=1\n%2 = constant() dtype=i32 shape=[3] "
     "data=0x010000000200000003000000\n%3 = constant() dtype=i32 shape=[3] "
     "data=0x020000000400000006000000\n%4 = add(%2, %2)\n" ENDS(3, 4)},
    {"factoring", XYZ "%4 = mul(%1, %2)\n%5 = mul(%3, %1)\n%6 = add(%4, %5)\n%7 = add(%2, %3)\n%8 "
                      "= mul(%7, %1)\n" ENDS(6, 8)},
    {"silu by recip", X "%4 = sigmoid(%1)\n%5 = mul(%4, %1)\n%6 = silu(%1)\n" ENDS(5, 6)},
    {"softmax, then its log",
     X "%4 = max(%1) axes=[1] keepdims=true\n%5 = sub(%1, %4)\n%6 = exp(%5)\n%7 = sum(%6) "
       "axes=[-1] keepdims=true\n"
       "%8 = div(%6, %7)\n%9 = log(%8)\n%10 = log_softmax(%1) axis=1\n" ENDS(9, 10)},
    {"layer norm with weight and bias",
     X "%2 = input() name=\"w\" dtype=f32 shape=[6]\n%3 = input() name=\"b\" dtype=f32 shape=[6]\n"
       "%4 = mean(%1) axes=[-1] keepdims=true\n%5 = sub(%1, %4)\n%6 = sqr(%5)\n%7 = mean(%6) "
       "axes=[1] keepdims=true\n"
       "%8 = affine(%7) mul=1 add=0.001\n%9 = sqrt(%8)\n%10 = div(%5, %9)\n%11 = mul(%2, %10)\n%12 "
       "= add(%11, %3)\n"
       "%13 = layer_norm(%1, %2, %3) axes=1 eps=0.001\n" ENDS(12, 13)},
    {"gelu as people write it",
     X "%4 = full() dtype=f32 shape=[] value=1.4142135381698608\n%5 = div(%1, %4)\n%6 = erf(%5)\n"
       "%7 = full() dtype=f32 shape=[] value=1\n%8 = add(%7, %6)\n%9 = mul(%1, %8)\n"
       "%10 = full() dtype=f32 shape=[] value=0.5\n%11 = mul(%9, %10)\n%12 = gelu(%1)\n" ENDS(11,
                                                                                              12)},
    {"slices of slices",
     X "%4 = slice(%1) axis=1 start=1 stop=5 step=1\n%5 = slice(%4) axis=1 start=1 stop=3 step=1\n"
       "%6 = slice(%1) axis=1 start=2 stop=4 step=1\n" ENDS(5, 6)},
    {"integers cancel", "%1 = input() name=\"x\" dtype=i32 shape=[3]\n%2 = sub(%1, %1)\n"
                        "%3 = full() dtype=i32 shape=[3] value=0\n" ENDS(2, 3)},
    {"congruence", XY "%4 = neg(%1)\n%5 = neg(%4)\n%6 = pow(%5, %2)\n%7 = exp(%6)\n%8 = pow(%1, "
                      "%2)\n%9 = exp(%8)\n" ENDS(7, 9)},
    {"sums in any order",
     XYZ "%4 = add(%1, %2)\n%5 = add(%4, %3)\n%6 = add(%3, %2)\n%7 = add(%1, %6)\n" ENDS(5, 7)},
    {"differences too",
     XYZ "%4 = sub(%1, %2)\n%5 = sub(%4, %3)\n%6 = add(%3, %2)\n%7 = sub(%1, %6)\n" ENDS(5, 7)},
    {"products in any order",
     XYZ "%4 = mul(%1, %2)\n%5 = mul(%4, %3)\n%6 = mul(%3, %1)\n%7 = mul(%2, %6)\n" ENDS(5, 7)},
    {"quotients too", XYZ "%4 = div(%1, %2)\n%5 = mul(%4, %3)\n%6 = mul(%3, %1)\n%7 = "
                          "recip(%2)\n%8 = mul(%6, %7)\n" ENDS(5, 8)},
    {"coefficients add",
     X "%4 = affine(%1) mul=2 add=1\n%5 = add(%4, %1)\n%6 = affine(%1) mul=3 add=1\n" ENDS(5, 6)},
    {"a common scale", XY "%4 = affine(%1) mul=3 add=0\n%5 = affine(%2) mul=3 add=0\n%6 = add(%4, "
                          "%5)\n%7 = add(%1, %2)\n"
                          "%8 = affine(%7) mul=3 add=0\n" ENDS(6, 8)},
    {"scales leave products", XY "%4 = affine(%1) mul=3 add=0\n%5 = affine(%2) mul=2 add=0\n%6 = "
                                 "mul(%4, %5)\n%7 = mul(%1, %2)\n"
                                 "%8 = affine(%7) mul=6 add=0\n" ENDS(6, 8)},
};

static const goal not_provable[] = {
    {"x - x = 0", X "%4 = sub(%1, %1)\n%5 = full() dtype=f32 shape=[4, 6] value=0\n" ENDS(4, 5)},
    {"x / x = 1", X "%4 = div(%1, %1)\n%5 = full() dtype=f32 shape=[4, 6] value=1\n" ENDS(4, 5)},
    {"0 * x = 0", X "%4 = full() dtype=f32 shape=[] value=0\n%5 = mul(%1, %4)\n%6 = full() "
                    "dtype=f32 shape=[4, 6] value=0\n" ENDS(5, 6)},
    {"(x + y) - y = x", XY "%4 = add(%1, %2)\n%5 = sub(%4, %2)\n" ENDS(5, 1)},
    {"(x + 1e8) - 1e8 = x",
     X "%4 = affine(%1) mul=1 add=1e8\n%5 = affine(%4) mul=1 add=-1e8\n" ENDS(5, 1)},
    {"(x + y) - (y + z) = x - z",
     XYZ "%4 = add(%1, %2)\n%5 = add(%2, %3)\n%6 = sub(%4, %5)\n%7 = sub(%1, %3)\n" ENDS(6, 7)},
    {"sqrt(x)^2 = x", X "%4 = sqrt(%1)\n%5 = sqr(%4)\n" ENDS(5, 1)},
    {"log(exp(x)) = x", X "%4 = exp(%1)\n%5 = log(%4)\n" ENDS(5, 1)},
};

static const goal never_provable[] = {
    {"two dropouts",
     X "%2 = input() name=\"k\" dtype=i32 shape=[3]\n%3 = dropout(%1, %2) p=0.5 stream=1\n"
       "%4 = dropout(%1, %2) p=0.5 stream=2\n" ENDS(3, 4)},
    {"two draws", "%1 = input() name=\"k\" dtype=i32 shape=[3]\n%2 = normal(%1) dtype=f32 "
                  "shape=[4] mean=0 std=1 stream=1\n"
                  "%3 = normal(%1) dtype=f32 shape=[4] mean=0 std=1 stream=2\n" ENDS(2, 3)},
    {"across a barrier", X "%4 = barrier(%1, none) id=1\n" ENDS(4, 1)},
    {"an op across a barrier",
     X "%4 = barrier(%1, none) id=1\n%5 = exp(%4)\n%6 = exp(%1)\n" ENDS(5, 6)},
    {"two barriers", X "%4 = barrier(%1, none) id=1\n%5 = barrier(%1, none) id=2\n" ENDS(4, 5)},
    {"two inputs", XY ENDS(1, 2)},
    {"two states", "%1 = state() name=\"v\" dtype=f32 shape=[2] init=zeros scale=0\n"
                   "%2 = state() name=\"w\" dtype=f32 shape=[2] init=zeros scale=0\n" ENDS(1, 2)},
    {"types differ", X "%4 = reshape(%1) shape=[6, 4]\n" ENDS(4, 1)},
    {"transpose is no reshape",
     X "%4 = transpose(%1) perm=[1, 0]\n%5 = reshape(%1) shape=[6, 4]\n" ENDS(4, 5)},
    {"a cast loses bits", X "%4 = cast(%1) dtype=bf16\n%5 = cast(%4) dtype=f32\n" ENDS(5, 1)},
    {"mean over one of two axes", X
     "%4 = sqr(%1)\n%5 = mean(%4) axes=[0] keepdims=true\n%6 = affine(%5) mul=1 add=0.001\n"
     "%7 = rsqrt(%6)\n%8 = mul(%1, %7)\n%9 = rms_norm(%1, none, none) axes=1 eps=0.001\n" ENDS(8,
                                                                                               9)},
    {"a reversed slice",
     X "%4 = slice(%1) axis=1 start=-1 stop=4611686018427387903 step=-1\n" ENDS(4, 1)},
    {"slices of two axes",
     X "%4 = slice(%1) axis=0 start=1 stop=3 step=1\n%5 = slice(%4) axis=1 start=1 stop=3 step=1\n"
       "%6 = slice(%1) axis=1 start=2 stop=4 step=1\n%7 = slice(%6) axis=0 start=0 stop=2 "
       "step=1\n" ENDS(5, 7)},
    {"slices with a step",
     X "%4 = slice(%1) axis=1 start=1 stop=6 step=2\n%5 = slice(%4) axis=1 start=1 stop=3 step=1\n"
       "%6 = slice(%1) axis=1 start=2 stop=4 step=1\n" ENDS(5, 6)},
    {"flips of two axes", X "%4 = flip(%1) axes=[0]\n%5 = flip(%4) axes=[1]\n" ENDS(5, 1)},
    {"two permutations", "%1 = input() name=\"x\" dtype=f32 shape=[2, 2, 2]\n%2 = input() "
                         "name=\"y\" dtype=f32 shape=[2, 2, 2]\n"
                         "%3 = transpose(%1) perm=[1, 0, 2]\n%4 = transpose(%2) perm=[0, 2, 1]\n%5 "
                         "= sub(%3, %4)\n%6 = sub(%1, %2)\n"
                         "%7 = transpose(%6) perm=[1, 0, 2]\n" ENDS(5, 7)},
    {"batches by another transpose",
     "%1 = input() name=\"x\" dtype=f32 shape=[2, 2, 2]\n%2 = input() name=\"y\" dtype=f32 "
     "shape=[2, 2]\n"
     "%3 = transpose(%1) perm=[1, 0, 2]\n%4 = matmul(%3, %2) trans_a=false trans_b=false\n"
     "%5 = matmul(%1, %2) trans_a=true trans_b=false\n" ENDS(4, 5)},
    {"a sum over one matrix",
     "%1 = input() name=\"x\" dtype=f32 shape=[2, 2, 2]\n%2 = input() name=\"y\" dtype=f32 "
     "shape=[2, 2, 2]\n"
     "%3 = matmul(%1, %2) trans_a=false trans_b=false\n%4 = sum(%3) axes=[0] keepdims=false\n"
     "%5 = reshape(%1) shape=[4, 2]\n%6 = reshape(%2) shape=[4, 2]\n%7 = matmul(%5, %6) "
     "trans_a=true trans_b=false\n" ENDS(4, 7)},
    {"matmuls of two kinds",
     "%1 = input() name=\"x\" dtype=f32 shape=[2, 2]\n%2 = input() name=\"y\" dtype=f32 shape=[2, "
     "2]\n"
     "%3 = input() name=\"z\" dtype=f32 shape=[2, 2]\n%4 = matmul(%1, %2) trans_a=false "
     "trans_b=false\n"
     "%5 = matmul(%1, %3) trans_a=false trans_b=true\n%6 = add(%4, %5)\n%7 = add(%2, %3)\n"
     "%8 = matmul(%1, %7) trans_a=false trans_b=false\n" ENDS(6, 8)},
    {"any affine of erf is no gelu", X "%4 = affine(%1) mul=0.5 add=0\n%5 = erf(%4)\n%6 = "
                                       "affine(%5) mul=0.5 add=0.5\n%7 = mul(%1, %6)\n"
                                       "%8 = gelu(%1)\n" ENDS(7, 8)},
    {"nor with another half",
     X "%4 = affine(%1) mul=0.70710678118654757 add=0\n%5 = erf(%4)\n%6 = affine(%5) mul=1 add=1\n"
       "%7 = mul(%1, %6)\n%8 = affine(%7) mul=0.25 add=0\n%9 = gelu(%1)\n" ENDS(8, 9)},
    {"softmax by another axis", X "%4 = max(%1) axes=[1] keepdims=true\n%5 = sub(%1, %4)\n%6 = "
                                  "exp(%5)\n%7 = sum(%6) axes=[0] keepdims=true\n"
                                  "%8 = div(%6, %7)\n%9 = softmax(%1) axis=1\n" ENDS(8, 9)},
    {"the centre of another axis",
     X "%4 = mean(%1) axes=[0] keepdims=true\n%5 = sub(%1, %4)\n%6 = sqr(%5)\n%7 = mean(%6) "
       "axes=[1] keepdims=true\n"
       "%8 = affine(%7) mul=1 add=0.001\n%9 = rsqrt(%8)\n%10 = mul(%5, %9)\n"
       "%11 = layer_norm(%1, none, none) axes=1 eps=0.001\n" ENDS(10, 11)},
    {"a sum over rows is none over batches",
     "%1 = input() name=\"x\" dtype=f32 shape=[2, 2, 2]\n%2 = input() name=\"y\" dtype=f32 "
     "shape=[2, 2, 2]\n"
     "%3 = matmul(%1, %2) trans_a=true trans_b=false\n%4 = sum(%3) axes=[1] keepdims=false\n"
     "%5 = reshape(%1) shape=[4, 2]\n%6 = reshape(%2) shape=[4, 2]\n%7 = matmul(%5, %6) "
     "trans_a=true trans_b=false\n" ENDS(4, 7)},
    {"gelu_tanh with another cube, half inside",
     X "%4 = sqr(%1)\n%5 = mul(%1, %4)\n%6 = affine(%5) mul=0.05 add=0\n%7 = add(%1, %6)\n%8 = "
       "affine(%7) mul=0.79788456080286541 add=0\n%9 = tanh(%8)\n"
       "%10 = affine(%9) mul=0.5 add=0.5\n%11 = mul(%1, %10)\n%12 = gelu_tanh(%1)\n" ENDS(11, 12)},
    {"gelu_tanh with another cube, half of x",
     X "%4 = sqr(%1)\n%5 = mul(%1, %4)\n%6 = affine(%5) mul=0.05 add=0\n%7 = add(%1, %6)\n%8 = "
       "affine(%7) mul=0.79788456080286541 add=0\n%9 = tanh(%8)\n"
       "%10 = affine(%9) mul=1 add=1\n%11 = affine(%1) mul=0.5 add=0\n%12 = mul(%11, %10)\n%13 = "
       "gelu_tanh(%1)\n" ENDS(12, 13)},
    {"gelu_tanh with another power",
     X "%4 = powf(%1) exponent=2\n%5 = affine(%4) mul=0.044715 add=0\n%6 = add(%1, %5)\n"
       "%7 = affine(%6) mul=0.79788456080286541 add=0\n%8 = tanh(%7)\n%9 = affine(%8) mul=1 add=1\n"
       "%10 = affine(%1) mul=0.5 add=0\n%11 = mul(%10, %9)\n%12 = gelu_tanh(%1)\n" ENDS(11, 12)},
    {"gelu_tanh nested, another number",
     X "%4 = sqr(%1)\n%5 = affine(%4) mul=0.04 add=0.8\n%6 = mul(%1, %5)\n%7 = tanh(%6)\n%8 = "
       "affine(%7) mul=0.5 add=0.5\n"
       "%9 = mul(%1, %8)\n%10 = gelu_tanh(%1)\n" ENDS(9, 10)},
    {"gelu_tanh nested, another half",
     X "%4 = sqr(%1)\n%5 = affine(%4) mul=0.035677408136300125 add=0.79788456080286541\n%6 = "
       "mul(%1, %5)\n%7 = tanh(%6)\n"
       "%8 = affine(%7) mul=1 add=1\n%9 = mul(%1, %8)\n%10 = affine(%9) mul=0.25 add=0\n%11 = "
       "gelu_tanh(%1)\n" ENDS(10, 11)},
    {"a log-sum-exp of everything", X "%4 = logsumexp(%1) axes=[] keepdims=true\n%5 = sub(%1, "
                                      "%4)\n%6 = log_softmax(%1) axis=0\n" ENDS(5, 6)},
    {"a cross-entropy of columns",
     XY "%4 = log_softmax(%1) axis=0\n%5 = mul(%2, %4)\n%6 = sum(%5) axes=[-1] keepdims=false\n%7 "
        "= mean(%6) axes=[] keepdims=false\n"
        "%8 = neg(%7)\n%9 = cross_entropy_dist(%1, %2) smoothing=0 reduction=mean\n" ENDS(8, 9)},
    {"integer quotients add",
     "%1 = input() name=\"x\" dtype=i32 shape=[4]\n%2 = input() name=\"y\" dtype=i32 shape=[4]\n"
     "%3 = input() name=\"z\" dtype=i32 shape=[4]\n%4 = div(%1, %3)\n%5 = div(%2, %3)\n%6 = "
     "add(%4, %5)\n"
     "%7 = add(%1, %2)\n%8 = div(%7, %3)\n" ENDS(6, 8)},
    {"x + y = y - x", XY "%4 = add(%1, %2)\n%5 = sub(%2, %1)\n" ENDS(4, 5)},
};

/* Whether "a" and "b" end in one class. */
static bool proves(const goal *q, bool fast_math) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *dims = NULL;
  egraph e;
  rule_set set;
  opt_report report = {0};
  opt_options o = {.fast_math = fast_math, .max_matches = 100000};
  bool live[64], equal = false;
  class_id of[64] = {0};
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  if (sn_graph_parse(ctx, q->text, &g) != SN_OK)
    FAIL("%s: %s", q->name, sn_ctx_message(ctx));
  else if (CHECK(graph_create(ctx, g->table, &dims) == SN_OK &&
                 egraph_init(&e, dims, g->table) == SN_OK)) {
    graph_mark_live(g, live);
    if (rule_set_init(&set, ctx, &e.memory, g->table, &o, -1) != SN_OK ||
        opt_intake(&e, g, live, of) != SN_OK || opt_normalise(&e, live, of, fast_math) != SN_OK ||
        opt_saturate(&e, &set, &o, &report) != SN_OK)
      FAIL("%s: %s", q->name, sn_ctx_message(ctx));
    CHECK(report.stop == OPT_FIXPOINT);
    equal =
        egraph_find(&e, of[g->outputs[0].value.id]) == egraph_find(&e, of[g->outputs[1].value.id]);
    egraph_end(&e);
  }
  sn_graph_destroy(g);
  sn_graph_destroy(dims);
  sn_ctx_destroy(ctx);
  return equal;
}

static void check_all(const goal *list, size_t n, bool fast_math, bool expected) {
  for (size_t i = 0; i < n; i++) {
    if (!test_begin("%s", list[i].name))
      continue;
    if (proves(&list[i], fast_math) != expected)
      FAIL("%s", expected ? "is not proved" : "is proved");
    test_end();
  }
}

TEST_WALK(proved) { check_all(provable, COUNT_OF(provable), false, true); }
TEST_WALK(not_proved) { check_all(not_provable, COUNT_OF(not_provable), false, false); }
TEST_WALK(fast_math_proves) { check_all(not_provable, COUNT_OF(not_provable), true, true); }
TEST_WALK(never_proved) { check_all(never_provable, COUNT_OF(never_provable), true, false); }
