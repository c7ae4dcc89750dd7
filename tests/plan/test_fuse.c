/* What fusion makes of graphs without assigns: steps, parts, accumulators, phases, what is stored and what is not. States and
 * sections: test_fuse_states.c. The facts are explained in plan_facts.h. */
#include "support/plan_facts.h"
#include "support/test.h"

#define MATMUL(id, a, b) "%" id " = matmul(%" a ", %" b ") trans_a=false trans_b=false\n"
#define OUT(name, id)    "output \"" name "\" %" id "\n"
#define CONV_2D          "stride=[2, 2] pad_before=[1, 1] pad_after=[1, 1] dilation=[1, 1] groups="
#define SWIGLU                         \
  IN("1", "x", "f32", "[16, 8]")       \
  STATE("2", "gate", "f32", "[8, 24]") \
  STATE("3", "up", "f32", "[8, 24]")   \
  MATMUL("4", "1", "2") MATMUL("5", "1", "3") "%6 = silu(%4)\n%7 = mul(%6, %5)\n"

static const plan_case contractions[] = {
    {"bias and gelu are the epilogue",
     IN("1", "x", "f32", "[8, 4]") STATE("2", "w", "f32", "[4, 6]") STATE("3", "b", "f32", "[6]")
         MATMUL("4", "1", "2") "%5 = add(%4, %3)\n%6 = gelu(%5)\n" OUT("y", "6"),
     "main matmul(1)",
     {0},
     false},
    {"a residual is one more load of the epilogue",
     IN("1", "x", "f32", "[8, 4]") STATE("2", "w", "f32", "[4, 4]")
         MATMUL("4", "1", "2") "%5 = add(%4, %1)\n" OUT("y", "5"),
     "main matmul(1)",
     {0},
     false},
    {"an epilogue that is read twice is stored once",
     IN("1", "x", "f32", "[8, 4]") STATE("2", "w", "f32", "[4, 4]")
         MATMUL("4", "1", "2") "%5 = relu(%4)\n" OUT("y", "5") OUT("again", "5"),
     "main matmul(1) pointwise",
     {0},
     false},
    {"swiglu has two accumulators", SWIGLU OUT("y", "7"), "main matmul(1+1)", {0}, false},
    {"swiglu with gradients keeps both factors",
     SWIGLU "%8 = sum(%7) axes=[] keepdims=false\n" OUT("loss", "8"),
     "main matmul(1+1) row/1 matmul(1)*2; commit pointwise*2; arena 6; in place 2",
     {0},
     true},
    {"q, k and v are three parts",
     IN("1", "x", "f32", "[16, 8]") STATE("2", "q", "f32", "[8, 8]")
         STATE("3", "k", "f32", "[8, 4]") STATE("4", "v", "f32", "[8, 2]") MATMUL("5", "1", "2")
             MATMUL("6", "1", "3") MATMUL("7", "1", "4") OUT("q", "5") OUT("k", "6") OUT("v", "7"),
     "main matmul(1)*3",
     {0},
     false},
    {"equal sizes are two parts as well",
     IN("1", "x", "f32", "[16, 8]") STATE("2", "k", "f32", "[8, 4]")
         STATE("3", "v", "f32", "[8, 4]") MATMUL("5", "1", "2") MATMUL("6", "1", "3") OUT("k", "5")
             OUT("v", "6"),
     "main matmul(1)*2",
     {0},
     false},
    {"a sum of contractions is one accumulator",
     IN("1", "x", "f32", "[16, 8]") IN("2", "y", "f32", "[16, 6]") STATE("3", "v", "f32", "[8, 4]")
         STATE("4", "w", "f32", "[6, 4]") MATMUL("5", "1", "3")
             MATMUL("6", "2", "4") "%7 = add(%5, %6)\n" OUT("y", "7"),
     "main matmul(2)",
     {0},
     false},
    {"of three",
     IN("1", "x", "f32", "[16, 8]") STATE("2", "u", "f32", "[8, 4]")
         STATE("3", "v", "f32", "[8, 4]") STATE("4", "w", "f32", "[8, 4]") MATMUL("5", "1", "2")
             MATMUL("6", "1", "3")
                 MATMUL("7", "1", "4") "%8 = add(%5, %6)\n%9 = add(%8, %7)\n" OUT("y", "9"),
     "main matmul(3)",
     {0},
     false},
    {"halves",
     IN("1", "x", "f16", "[8, 4]") STATE("2", "w", "f16", "[4, 6]")
         MATMUL("3", "1", "2") "%4 = relu(%3)\n" OUT("y", "4"),
     "main matmul(1)",
     {0},
     false},
    {"weights that are widened are operands as they are",
     IN("1", "x", "f32", "[8, 4]")
         STATE("2", "w", "bf16", "[4, 6]") "%3 = cast(%2) dtype=f32\n" MATMUL("4", "1", "3")
             OUT("y", "4"),
     "main matmul(1)",
     {0},
     false},
    {"transposed operands are read as they lie",
     IN("1", "x", "f32", "[4, 8]") STATE(
         "2", "w", "f32",
         "[6, 4]") "%3 = transpose(%1) perm=[1, 0]\n%4 = transpose(%2) perm=[1, 0]\n" MATMUL("5",
                                                                                             "3",
                                                                                             "4")
         OUT("y", "5"),
     "main matmul(1)",
     {0},
     false},
    {"an operand that is computed is stored first",
     IN("1", "x", "f32", "[8, 4]")
         STATE("2", "w", "f32", "[4, 6]") "%3 = exp(%1)\n" MATMUL("4", "3", "2") OUT("y", "4"),
     "main pointwise matmul(1); arena 1",
     {0},
     false},
    {"an outer product",
     IN("1", "x", "f32", "[8, 1]") IN("2", "w", "f32", "[1, 6]") MATMUL("4", "1", "2")
         OUT("y", "4"),
     "main matmul(1)",
     {0},
     false},
    {"over nothing",
     IN("1", "x", "f32", "[8, 0]") IN("2", "w", "f32", "[0, 6]") MATMUL("4", "1", "2")
         OUT("y", "4"),
     "main matmul(1)",
     {0},
     false},
    {"a dot product",
     IN("1", "x", "f32", "[1, 9]") IN("2", "w", "f32", "[9, 1]") MATMUL("4", "1", "2")
         OUT("y", "4"),
     "main matmul(1)",
     {0},
     false},
    {"convolution, batch norm and relu",
     IN("1", "x", "f32", "[2, 4, 9, 9]") STATE("2", "w", "f32", "[6, 4, 3, 3]") STATE("3", "scale",
                                                                                      "f32", "[6]")
         STATE("4", "bias", "f32", "[6]") STATE("5", "mean", "f32", "[6]") STATE(
             "6", "var", "f32",
             "[6]") "%10 = tanh(%1)\n%7 = conv(%10, %2, none) " CONV_2D "1\n"
                    "%8 = batch_norm(%7, %3, %4, %5, %6) eps=1e-5\n%9 = relu(%8)\n" OUT("y", "9"),
     "prepare pointwise; main pointwise matmul(1); arena 1; prepared 1",
     {0},
     false},
    {"groups and strides",
     IN("1", "x", "f32", "[2, 4, 9, 9]") STATE(
         "2", "w", "f32", "[6, 2, 3, 3]") "%7 = conv(%1, %2, none) " CONV_2D "2\n" OUT("y", "7"),
     "main matmul(1)",
     {0},
     false},
    {"depthwise",
     IN("1", "x", "f32", "[2, 4, 9, 9]") STATE(
         "2", "w", "f32", "[4, 1, 3, 3]") "%7 = conv(%1, %2, none) " CONV_2D "4\n" OUT("y", "7"),
     "main matmul(1)",
     {0},
     false},
};

static const plan_case rows[] = {
    {"softmax is one step of three phases",
     IN("1", "x", "f32", "[8, 32]") "%2 = softmax(%1) axis=1\n" OUT("y", "2"),
     "main row/3",
     {0},
     false},
    {"along another axis",
     IN("1", "x", "f32", "[8, 32, 3]") "%2 = softmax(%1) axis=1\n" OUT("y", "2"),
     "main row/3",
     {0},
     false},
    {"in halves",
     IN("1", "x", "bf16", "[8, 32]") "%2 = softmax(%1) axis=1\n" OUT("y", "2"),
     "main row/3",
     {0},
     false},
    {"layer norm with its residual",
     IN("1", "x", "f32", "[8, 32]") IN("2", "r", "f32", "[8, 32]") STATE("3", "w", "f32", "[32]")
         STATE("4", "b", "f32", "[32]") "%5 = add(%1, %2)\n"
                                        "%6 = layer_norm(%5, %3, %4) axes=1 eps=1e-5\n" OUT(
                                            "y", "6") OUT("sum", "5"),
     "main pointwise row/3",
     {0},
     false},
    {"rms norm",
     IN("1", "x", "f32", "[8, 32]") STATE(
         "3", "w", "f32", "[32]") "%6 = rms_norm(%1, %3, none) axes=1 eps=1e-5\n" OUT("y", "6"),
     "main row/2",
     {0},
     false},
    {"rows that are gathered are normed where they lie",
     STATE("1", "table", "f32", "[20, 32]") IN(
         "2", "ids", "i32", "[8]") "%3 = gather(%1, %2)\n"
                                   "%6 = rms_norm(%3, none, none) axes=1 eps=1e-5\n" OUT("y", "6"),
     "main pointwise row/2",
     {0},
     false},
    {"a loss",
     IN("1", "x", "f32", "[8, 32]")
         IN("2", "labels", "i32", "[8]") "%3 = cross_entropy(%1, %2) ignore_index=-100 smoothing=0 "
                                         "reduction=mean\n" OUT("loss", "3"),
     "main row/2|row/1 pointwise row/1; arena 2",
     {0},
     false},
    {"the mean of all",
     IN("1", "x", "f32", "[8, 32]") "%2 = mean(%1) axes=[] keepdims=false\n" OUT("y", "2"),
     "main row/1",
     {0},
     false},
    {"max pooling",
     IN("1", "x", "f32",
        "[2, 3, 8, 8]") "%2 = pool(%1) kind=max kernel=[3, 3] stride=[2, 2] pad_before=[1, 1] "
                        "pad_after=[1, 1] dilation=[1, 1] ceil_mode=false "
                        "count_include_pad=false\n" OUT("y", "2"),
     "main row/1",
     {0},
     false},
    {"global pooling",
     IN("1", "x", "f32", "[2, 3, 8, 8]") "%2 = mean(%1) axes=[2, 3] keepdims=false\n" OUT("y", "2"),
     "main row/1",
     {0},
     false},
    {"two reductions of one argument are one step",
     IN("1", "x", "f32", "[8, 32]") "%2 = sum(%1) axes=[1] keepdims=false\n%3 = max(%1) axes=[1] "
                                    "keepdims=false\n" OUT("a", "2") OUT("b", "3"),
     "main row/1",
     {0},
     false},
    {"rows of no elements",
     IN("1", "x", "f32", "[8, 0]") "%2 = softmax(%1) axis=1\n" OUT("y", "2"),
     "main pointwise row/2; arena 1",
     {0},
     false},
    {"no rows",
     IN("1", "x", "f32", "[0, 8]") "%2 = softmax(%1) axis=1\n" OUT("y", "2"),
     "main row/3",
     {0},
     false},
};

static const plan_case loops[] = {
    {"a chain is one step",
     IN("1", "x", "f32", "[8, 32]") "%2 = exp(%1)\n%3 = sin(%2)\n%4 = mul(%3, %1)\n" OUT("y", "4"),
     "main pointwise",
     {0},
     false},
    {"without fusion each is a step",
     IN("1", "x", "f32", "[8, 32]") "%2 = exp(%1)\n%3 = sin(%2)\n%4 = mul(%3, %1)\n" OUT("y", "4"),
     "main pointwise pointwise pointwise; arena 2",
     {.no_fusion = true},
     false},
    {"independent ones are parts of one step",
     IN("1", "x", "f32", "[8, 32]")
         IN("2", "z", "f32", "[5]") "%3 = exp(%1)\n%4 = sin(%2)\n" OUT("y", "3") OUT("w", "4"),
     "main pointwise*2",
     {0},
     false},
    {"the angles of rope depend on positions",
     IN("1", "x", "f32", "[2, 4, 6, 8]") IN(
         "2", "at", "i32", "[6]") "%3 = rope(%1, %2) seq_axis=2 dims=8 base=10000 layout=half "
                                  "scaling=default factor=1 low=1 high=1 original_length=1 "
                                  "attention_factor=0 inverse=false rounding=f32\n" OUT("y", "3"),
     "prepare pointwise; main pointwise; prepared 1",
     {0},
     false},
    {"views cost nothing",
     IN("1", "x", "f32",
        "[4, 6]") "%2 = transpose(%1) perm=[1, 0]\n%3 = reshape(%2) shape=[2, 3, 4]\n%4 = "
                  "slice(%3) axis=1 start=0 stop=3 step=2\n%5 = flip(%4) axes=[2]\n%6 = expand(%5) "
                  "shape=[5, 2, 2, 4]\n%7 = exp(%6)\n" OUT("y", "7"),
     "main pointwise",
     {0},
     false},
    {"a view of what is computed",
     IN("1", "x", "f32", "[4, 6]") "%2 = exp(%1)\n%3 = transpose(%2) perm=[1, 0]\n" OUT("y", "3"),
     "main pointwise",
     {0},
     false},
    {"a view of a contraction is stored as it is wanted",
     IN("1", "x", "f32", "[8, 4]") STATE("2", "w", "f32", "[4, 6]") MATMUL(
         "3", "1",
         "2") "%4 = reshape(%3) shape=[8, 2, 3]\n%5 = transpose(%4) perm=[1, 0, 2]\n" OUT("y", "5"),
     "main matmul(1)",
     {0},
     false},
    {"an output that is a leaf",
     IN("1", "x", "f32", "[4, 6]") OUT("y", "1"),
     "main pointwise",
     {0},
     false},
    {"a view of a leaf",
     IN("1", "x", "f32", "[4, 6]") "%2 = reshape(%1) shape=[24]\n" OUT("y", "2"),
     "main pointwise",
     {0},
     false},
    {"one value, two names",
     IN("1", "x", "f32", "[4, 6]") "%2 = exp(%1)\n" OUT("y", "2") OUT("z", "2"),
     "main pointwise pointwise",
     {0},
     false},
    {"cheap values are computed again",
     IN("1", "x", "f32", "[64, 64]")
         IN("2", "w", "f32",
            "[64, 8]") "%3 = affine(%1) mul=2 add=1\n%4 = sum(%3) axes=[0] keepdims=false\n%5 = "
                       "sum(%3) axes=[1] keepdims=false\n" OUT("a", "4") OUT("b", "5"),
     "main row/1",
     {0},
     false},
    {"dear ones are stored",
     IN("1", "x", "f32",
        "[64]") "%2 = erf(%1)\n%3 = reshape(%2) shape=[64, 1]\n%4 = expand(%3) shape=[64, 512]\n%5 "
                "= reshape(%2) shape=[1, 64]\n%6 = expand(%5) shape=[512, 64]\n" OUT("a", "4")
                    OUT("b", "6"),
     "main pointwise pointwise*2; arena 1",
     {0},
     false},
    {"a scalar",
     IN("1", "x", "f32", "[]") "%2 = exp(%1)\n" OUT("y", "2"),
     "main pointwise",
     {0},
     false},
    {"nothing",
     IN("1", "x", "f32", "[3, 0]") "%2 = exp(%1)\n" OUT("y", "2"),
     "main pointwise",
     {0},
     false},
    {"made from nothing",
     "%1 = full() dtype=f32 shape=[4] value=3\n" OUT("y", "1"),
     "main pointwise",
     {0},
     false},
    {"dead code is gone",
     IN("1", "x", "f32", "[8, 8]") "%2 = exp(%1)\n" MATMUL("3", "2", "2") "%4 = sin(%1)\n" OUT("y",
                                                                                               "4"),
     "main pointwise",
     {0},
     false},
    {"a graph of nothing", IN("1", "x", "f32", "[8, 8]"), "", {0}, false},
    {"results that nobody reads are not stored",
     IN("1", "x", "f32", "[8, 8]") "%2 = topk(%1) k=2 axis=1 largest=true\n" OUT("y", "2"),
     "main sort",
     {0},
     false},
    {"checks of an index are a part of their own",
     STATE("1", "table", "f32", "[20, 32]")
         IN("2", "ids", "i32", "[8]") "%3 = gather(%1, %2)\n" OUT("y", "3"),
     "main pointwise*2",
     {0},
     false},
    {"two gathers by one index are checked once",
     STATE("1", "t", "f32", "[20, 32]") STATE("2", "u", "f32", "[20, 8]")
         IN("3", "ids", "i32", "[8]") "%4 = gather(%1, %3)\n%5 = gather(%2, %3)\n" OUT("y", "4")
             OUT("z", "5"),
     "main pointwise*3",
     {0},
     false},
    {"scatter into a copy",
     IN("1", "x", "f32", "[8, 4]") IN("2", "ids", "i32", "[3]")
         IN("3", "v", "f32", "[3, 4]") "%4 = scatter_add(%1, %2, %3)\n" OUT("y", "4"),
     "main pointwise pointwise scatter; in place 1",
     {0},
     false},
    {"scatter over what dies",
     IN("1", "x", "f32", "[8, 4]") IN("2", "ids", "i32", "[3]")
         IN("3", "v", "f32", "[3, 4]") "%5 = exp(%1)\n%4 = scatter_add(%5, %2, %3)\n" OUT("y", "4"),
     "main pointwise*2 scatter; in place 1",
     {0},
     false},
    {"scatter over what is read elsewhere",
     IN("1", "x", "f32", "[8, 4]") IN("2", "ids", "i32", "[3]")
         IN("3", "v", "f32", "[3, 4]") "%5 = exp(%1)\n%4 = scatter_add(%5, %2, %3)\n" OUT("y", "4")
             OUT("z", "5"),
     "main pointwise*2 pointwise scatter; in place 1",
     {0},
     false},
    {"cores",
     IN("1", "x", "f32", "[8, 4]") "%2 = cumsum(%1) axis=0 exclusive=false reverse=false\n%3 = "
                                   "sort(%2) axis=1 descending=false\n" OUT("y", "3") OUT("i", "4"),
     "main scan sort; arena 1",
     {0},
     false},
    {"a core's operand that strides cannot say is copied",
     IN("1", "x", "f32", "[8, 4]") "%2 = transpose(%1) perm=[1, 0]\n%3 = cumsum(%2) axis=0 "
                                   "exclusive=false reverse=false\n" OUT("y", "3"),
     "main pointwise scan; arena 1",
     {0},
     false},
    {"attention reads heads where they lie",
     IN("1", "q", "f32",
        "[2, 6, 16]") "%2 = reshape(%1) shape=[2, 6, 4, 4]\n%3 = transpose(%2) perm=[0, 2, 1, "
                      "3]\n%4 = attention(%3, %3, %3, none, none, none, none) scale=0.5 softcap=0 "
                      "causal=none window=0 layout=bhsd\n" OUT("y", "4"),
     "main attention",
     {0},
     false},
    {"dropout with gradients makes its mask anew",
     "%1 = state() name=\"key\" dtype=i32 shape=[3] init=zeros scale=0\n" IN(
         "2", "x", "f32", "[16, 8]") STATE("3", "w", "f32", "[8, 8]")
         MATMUL("4", "2", "3") "%5 = dropout(%4, %1) p=0.25 stream=0\n%6 = sqr(%5)\n%7 = sum(%6) "
                               "axes=[] keepdims=false\n" OUT("loss", "7"),
     "main matmul(1) row/1 matmul(1); commit pointwise; arena 3; in place 1",
     {0},
     true},
};

static void check_all(const plan_case *cases, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (test_begin("%s", cases[k].name)) {
      plan_case_check(&cases[k]);
      test_end();
    }
}

TEST_WALK(contractions) { check_all(contractions, COUNT_OF(contractions)); }
TEST_WALK(rows) { check_all(rows, COUNT_OF(rows)); }
TEST_WALK(loops) { check_all(loops, COUNT_OF(loops)); }

/* Rotated, an element is read where it lies and beside it. */
TEST(rope_loads_its_argument_twice) {
  static const char *const source = IN("1", "x", "f32", "[2, 4, 6, 8]")
      IN("2", "at", "i32",
         "[6]") "%3 = rope(%1, %2) seq_axis=2 dims=8 base=10000 layout=half scaling=default "
                "factor=1 low=1 "
                "high=1 original_length=1 attention_factor=0 inverse=false rounding=f32\n" OUT("y",
                                                                                               "3");
  sn_ctx *ctx;
  sn_graph *g = NULL, *lowered = NULL;
  program *p = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_parse(ctx, source, &g) == SN_OK && plan_lower(g, &lowered) == SN_OK &&
            plan_fuse(lowered, NULL, &p) == SN_OK && p->n_main == 1)) {
    const loop_part *l = &p->steps[p->n_prepare].parts[0].u.loop;
    int loads = 0;
    for (int k = 0; k < l->code.n; k++)
      loads += l->code.code[k].op == REGION_LOAD && l->code.code[k].at.value == p->inputs[0].value;
    CHECK_EQ_INT(loads, 2);
    CHECK_EQ_INT(l->n_phases, 1);
  }
  program_destroy(p);
  sn_graph_destroy(lowered);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}
