/* The text form of graphs: what is printed parses to the same graph, bad text is refused with its place,
 * good text may leave out what can be known. */
#include "ir/dim.h"
#include "ops/table.h"
#include "support/test.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

static sn_ctx *ctx;
static sn_graph *g;

static bool start(void) {
  g = NULL;
  return CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK);
}

static void end(void) {
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* Prints, parses, prints: the same text. Returns the text, to be freed. */
static char *round_trip(const sn_graph *graph) {
  char *once = NULL, *twice = NULL;
  sn_graph *again = NULL;
  if (CHECK(sn_graph_print(graph, &once) == SN_OK)) {
    if (sn_graph_parse(ctx, once, &again) != SN_OK)
      FAIL("%s\n%s", sn_ctx_message(ctx), once);
    else if (CHECK(sn_graph_print(again, &twice) == SN_OK)) {
      CHECK_EQ_STR(once, twice);
      CHECK(sn_graph_verify(again) == SN_OK);
      CHECK_EQ_UINT(again->n_nodes, graph->n_nodes);
    }
  }
  sn_text_free(ctx, twice);
  sn_graph_destroy(again);
  return once;
}

/* --- good text --- */

TEST(a_whole_graph) {
  if (start()) {
    sn_dim n = sn_symbol(g, "tokens", 2048);
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(n, 4));
    sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(4, 4), SN_INIT_NORMAL, 0.02);
    sn_scope_push(g, "layers.0");
    sn_value y = sn_label(g, sn_matmul(g, x, w, false, true), "q");
    sn_value p = sn_recompute(g, sn_softmax(g, y, -1));
    sn_scope_pop(g);
    sn_value half = sn_slice(g, p, 0, sn_dim_div(g, sn_dim_add(g, n, 1), 2), SN_END, 1);
    float numbers[] = {1.5f, -2};
    sn_value c = sn_constant_bytes(g, SN_F32, SN_SHAPE(1, 2), numbers);
    sn_value both[] = {c, c};
    sn_value bias = sn_reshape(g, sn_concat(g, both, 2, 1), SN_SHAPE(-1));
    sn_output(g, "y", sn_layer_norm(g, half, SN_NONE, bias, 1, 1e-5));
    sn_output(g, "sorted", sn_value_result(g, sn_sort(g, p, 1, true), 1));
    sn_assign(g, w, sn_neg(g, w));
    char *printed = round_trip(g);
    CHECK_EQ_STR(
        printed,
        "symbol tokens 2048\n"
        "%1 = input() name=\"x\" dtype=f32 shape=[tokens, 4] : f32[tokens, 4]\n"
        "%2 = state() name=\"w\" dtype=f32 shape=[4, 4] init=normal scale=0.02 : f32[4, 4]\n"
        "scope \"layers.0\"\n"
        "%3 = matmul(%1, %2) trans_a=false trans_b=true : f32[tokens, 4]\n"
        "label %3 \"layers.0.q\"\n"
        "%4 = softmax(%3) axis=-1 : f32[tokens, 4]\n"
        "recompute %4\n"
        "scope \"\"\n"
        "%5 = slice(%4) axis=0 start=((tokens+1)/2) stop=4611686018427387903 step=1 : "
        "f32[tokens-((tokens+1)/2), 4]\n"
        "%6 = constant() dtype=f32 shape=[1, 2] data=0x0000c03f000000c0 : f32[1, 2]\n"
        "%7 = concat(%6, %6) axis=1 : f32[1, 4]\n"
        "%8 = reshape(%7) shape=[-1] : f32[4]\n"
        "%9 = layer_norm(%5, none, %8) axes=1 eps=1.0000000000000001e-05 : "
        "f32[tokens-((tokens+1)/2), 4]\n"
        "%10 = sort(%4) axis=1 descending=true : f32[tokens, 4], i32[tokens, 4]\n"
        "%12 = neg(%2) : f32[4, 4]\n"
        "output \"y\" %9\n"
        "output \"sorted\" %11\n"
        "assign %2 %12\n");
    sn_text_free(ctx, printed);
  }
  end();
}

TEST(odd_strings_survive) {
  static const char *const names[] = {"\"quoted\"", "back\\slash", "tab\there", "line\nbreak",
                                      "\x01\x7f",   "ümlaut …",    "#comment",  " blanks ",
                                      "%1",         "\\x41",       "\xff\xfe"};
  if (start()) {
    for (size_t i = 0; i < COUNT_OF(names); i++) {
      sn_scope_push(g, names[i]);
      sn_value x = sn_input(g, names[i], SN_F32, SN_SHAPE(2));
      sn_label(g, x, names[i]);
      sn_output(g, names[i], x);
      sn_scope_pop(g);
    }
    char *printed = round_trip(g);
    CHECK_STR_HAS(printed, "name=\"\\\"quoted\\\"\"");
    CHECK_STR_HAS(printed, "name=\"line\\x0abreak\"");
    CHECK_STR_HAS(printed, "name=\"\\x01\\x7f\"");
    CHECK_STR_HAS(printed, "label %2 \"back\\\\slash.back\\\\slash\"");
    sn_text_free(ctx, printed);
  }
  end();
}

TEST(odd_numbers_survive) {
  static const double numbers[] = {
      0.1, -0.0, 1e-310, 1.7976931348623157e308, INFINITY, -INFINITY, NAN, 1.0 / 3, 123456789.0};
  if (start()) {
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
      sn_full(g, SN_F32, SN_SHAPE(1), numbers[i]);
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(2, 2));
    sn_tril(g, x, INT64_MIN);
    sn_tril(g, x, INT64_MAX);
    char *printed = round_trip(g);
    CHECK_STR_HAS(printed, "value=0.10000000000000001");
    CHECK_STR_HAS(printed, "value=-0 ");
    CHECK_STR_HAS(printed, "value=-inf");
    CHECK_STR_HAS(printed, "value=nan");
    CHECK_STR_HAS(printed, "diagonal=-9223372036854775808");
    sn_text_free(ctx, printed);
  }
  end();
}

/* Numbers have a point, whatever the locale. */
TEST(the_locale_does_not_matter) {
  static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
  bool found = false;
  for (size_t i = 0; i < COUNT_OF(commas) && !found; i++)
    found = setlocale(LC_NUMERIC, commas[i]) != NULL;
  if (start()) {
    sn_full(g, SN_F32, SN_SHAPE(1), 0.5);
    char *printed = round_trip(g);
    CHECK_STR_HAS(printed, "value=0.5 ");
    sn_text_free(ctx, printed);
  }
  end();
  setlocale(LC_NUMERIC, "C");
}

/* Words that are left out, ids in any order, blank lines and comments. */
TEST(text_may_be_short) {
  static const char source[] = "# a graph\n"
                               "\n"
                               "  %70 = input() shape=[2, 3] name=\"x\"   # dtype f32\n"
                               "%8=sum( %70 )keepdims=true\n"
                               "%9 = barrier(%8, none)\n"
                               "output \"y\" %9";
  if (start()) {
    sn_graph *read = NULL;
    char *printed = NULL;
    sn_status status = sn_graph_parse(ctx, source, &read);
    if (status != SN_OK)
      FAIL("%s", sn_ctx_message(ctx));
    else if (CHECK(sn_graph_print(read, &printed) == SN_OK))
      CHECK_EQ_STR(printed, "%1 = input() name=\"x\" dtype=f32 shape=[2, 3] : f32[2, 3]\n"
                            "%2 = sum(%1) axes=[] keepdims=true : f32[1, 1]\n"
                            "%3 = barrier(%2, none) id=0 : f32[1, 1]\n"
                            "output \"y\" %3\n");
    sn_text_free(ctx, printed);
    sn_graph_destroy(read);
  }
  end();
}

TEST(nothing_is_a_graph) {
  if (start()) {
    sn_graph *read = NULL;
    char *printed = NULL;
    CHECK(sn_graph_parse(ctx, "", &read) == SN_OK);
    CHECK(sn_graph_print(read, &printed) == SN_OK);
    CHECK_EQ_STR(printed, "");
    sn_text_free(ctx, printed);
    sn_graph_destroy(read);
  }
  end();
}

/* Ids that name the same value are one value. */
TEST(equal_lines_are_one_node) {
  if (start()) {
    sn_graph *read = NULL;
    CHECK(sn_graph_parse(ctx,
                         "%1 = input() name=\"x\" shape=[2]\n%2 = neg(%1)\n%3 = neg(%1)\n"
                         "%4 = add(%2, %3)\n",
                         &read) == SN_OK);
    if (read)
      CHECK_EQ_UINT(read->n_nodes, 3);
    sn_graph_destroy(read);
  }
  end();
}

TEST(long_lists_survive) {
  if (start()) {
    enum { LONG = 5000 };
    static sn_value list[LONG];
    for (int i = 0; i < LONG; i++)
      list[i] = sn_full(g, SN_I32, SN_SHAPE(1), i % 100);
    sn_output(g, "y", sn_concat(g, list, LONG, 0));
    sn_text_free(ctx, round_trip(g));
  }
  end();
}

/* --- bad text --- */

#define X "%1 = input() name=\"x\" dtype=f32 shape=[2, 3]\n"

static const struct {
  const char *source, *message;
} bad[] = {
    /* lines */
    {"nonsense", "graph text 1:1: no directive 'nonsense'"},
    {"\n\n  !", "graph text 3:3: expected a node or a directive, got '!'"},
    {X "output \"y\" %1 more", "graph text 2:15: expected end of line, got 'more'"},
    {"\tsymbol n 5", "graph text 1:1: expected a node or a directive"},
    {"symbol n 5\r\n", "graph text 1:11: expected end of line"},
    /* nodes */
    {"%", "graph text 1:2: expected a whole number, got 'end of line'"},
    {"%0 = neg(%1)", "graph text 1:1: ids lie in 1 … 4194304, not 0"},
    {"%4194305 = neg(%1)", "ids lie in 1 … 4194304, not 4194305"},
    {"%-1 = neg(%1)", "ids lie in 1 … 4194304, not -1"},
    {"%1 neg(%1)", "graph text 1:4: expected '=', got 'neg(%1)'"},
    {"%1 = ", "graph text 1:6: expected an op, got 'end of line'"},
    {"%1 = nope()", "graph text 1:6: no op 'nope'"},
    {"%1 = neg", "graph text 1:9: expected '('"},
    {"%1 = neg(%2)", "graph text 1:10: %2 is used before it is defined"},
    {"%1 = neg(%1)", "graph text 1:10: %1 is used before it is defined"},
    {X "%2 = neg(%1", "graph text 2:12: expected ')'"},
    {X "%2 = neg(%1, %1)", "expected fewer arguments, got ', %1)'"},
    {X "%2 = add(%1 %1)", "graph text 2:13: expected ','"},
    {X "%2 = add(%1)", "graph text 2:6: add: expected 2 arguments, got 1"},
    {X "%2 = add(%1, none)", "graph text 2:6: add: b is missing"},
    {X "%2 = add(%1, nothing)", "graph text 2:14: expected a value or none, got 'nothing'"},
    {X "%2 = concat()", "graph text 2:6: concat: expected at least 1 arguments, got 0"},
    {X "%1 = neg(%1)", "%1 is defined twice"},
    {X "%2 = sort(%1)\n%3 = neg(%1)", "graph text 3:6: %3 is defined twice"},
    {X "%2 = softmax(%1) axis=2", "graph text 2:6: softmax: axis 2 is outside of rank 2"},
    {"scope \"a\"\n" X "%2 = softmax(%1) axis=2", "graph text 3:6: a: softmax: axis 2 is outside"},
    /* attributes */
    {X "%2 = softmax(%1) axes=2", "graph text 2:18: softmax has no attribute 'axes'"},
    {X "%2 = softmax(%1) axis", "graph text 2:22: expected '='"},
    {X "%2 = softmax(%1) axis=", "graph text 2:23: expected a whole number, got 'end of line'"},
    {X "%2 = softmax(%1) axis=x", "graph text 2:23: expected a whole number"},
    {X "%2 = softmax(%1) axis=1 axis=1", "graph text 2:25: attribute axis stands twice"},
    {X "%2 = softmax(%1) axis=9223372036854775808", "a number of at most 63 bits"},
    {X "%2 = softmax(%1) axis=-9223372036854775809", "a number of at most 63 bits"},
    {X "%2 = softmax(%1) axis=1.5", "graph text 2:24: expected end of line, got '.5'"},
    {X "%2 = affine(%1) mul=x", "graph text 2:21: expected a number"},
    {X "%2 = affine(%1) mul=1e", "expected a number"},
    {X "%2 = affine(%1) mul=0x10", "affine has no attribute 'x10'"},
    {X "%2 = affine(%1) mul=1,5", "expected end of line, got ',5'"},
    {X "%2 = sum(%1) axes=1", "graph text 2:19: expected '['"},
    {X "%2 = sum(%1) axes=[1", "expected ','"},
    {X "%2 = sum(%1) axes=[1,,2]", "expected a whole number"},
    {X "%2 = sum(%1) axes=[0,0,0,0,0,0,0,0,0]", "expected at most 8 numbers"},
    {X "%2 = sum(%1) keepdims=1", "expected true or false, got '1'"},
    {X "%2 = sum(%1) keepdims=yes", "graph text 2:23: expected true or false, got 'yes'"},
    {X "%2 = cast(%1) dtype=f99", "graph text 2:21: no dtype 'f99'"},
    {X "%2 = cast(%1) dtype=none", "no dtype 'none'"},
    {"%1 = state() name=\"w\" init=ones2", "graph text 1:28: init has no choice 'ones2'"},
    {"%1 = input() name=x", "graph text 1:19: expected '\"'"},
    {"%1 = input() name=\"x", "expected a closing '\"'"},
    {"%1 = input() name=\"x\ny\"", "expected a closing '\"'"},
    {"%1 = input() name=\"\\n\"", "expected an escape"},
    {"%1 = input() name=\"\\x0\"", "expected an escape"},
    {"%1 = input() name=\"\\x00\"", "expected an escape"},
    {"%1 = input() name=\"\\xAF\"", "expected an escape"},
    {"%1 = input() name=\"\"", "graph text 1:6: input: attribute name: a name must not be empty"},
    {"%1 = constant() data=00", "expected 0x and hexadecimal digits"},
    {"%1 = constant() shape=[1] data=0x000", "expected two digits a byte"},
    {"%1 = constant() shape=[1] data=0x0000", "constant: f32[1] has 4 bytes, got 2"},
    {X "%2 = barrier(%1, none) id=-2", "an identity must lie in 0"},
    {X "%2 = barrier(%1, none) id=2147483648", "an identity must lie in 0"},
    /* sizes */
    {"%1 = input() name=\"x\" shape=[n]", "graph text 1:30: no symbol 'n'"},
    {"%1 = input() name=\"x\" shape=[-2]", "input: dim 0 of [-2] is negative"},
    {"%1 = input() name=\"x\" shape=[2 3]", "expected ','"},
    {"%1 = input() name=\"x\" shape=[1,1,1,1,1,1,1,1,1]", "expected at most 8 dims"},
    {"%1 = input() name=\"x\" shape=[4/0]", "the divisor must be positive"},
    {"%1 = input() name=\"x\" shape=[99999999999999999]", "1:30: expected a size below 2^56"},
    {"%1 = input() name=\"x\" shape=[-9223372036854775808]", "expected a size below 2^56"},
    {X "%2 = neg(%1) : f32[-9223372036854775808]", "expected a size below 2^56"},
    {X "%2 = slice(%1) start=-4611686018427387905", "expected a size below 2^56"},
    {"symbol n 8\n%1 = input() name=\"x\" shape=[8/n]", "expected a whole number, got 'n]'"},
    {"symbol n 8\n%1 = input() name=\"x\" shape=[(n]", "expected ')'"},
    {"symbol n 8\n%1 = input() name=\"x\" shape=[n*n*n*n*n*n*n*n*n]", "size expression: too large"},
    {"%1 = input() name=\"x\" shape=[((((((((((((((((((((((((((((((((((((1",
     "expected less nesting"},
    {"symbol 5 n", "expected a symbol's name"},
    {"symbol n", "expected a whole number"},
    {"symbol n -1", "symbol \"n\": a maximum must not be negative, and be below 2^56"},
    {"symbol n 5\nsymbol n 6", "graph text 2:8: symbol \"n\": declared twice"},
    /* stated types */
    {X "%2 = neg(%1) : f16[2, 3]", "result 0 is stated as f16[2, 3] but is f32[2, 3]"},
    {X "%2 = neg(%1) : f32[3, 2]", "result 0 is stated as f32[3, 2] but is f32[2, 3]"},
    {X "%2 = neg(%1) :", "graph text 2:15: expected a dtype"},
    {X "%2 = sort(%1) : f32[2, 3]", "graph text 2:26: expected ','"},
    {X "%2 = sort(%1) : f32[2, 3], f32[2, 3]", "result 1 is stated as f32[2, 3] but is i32[2, 3]"},
    /* directives */
    {"scope x", "graph text 1:7: expected '\"'"},
    {"label %1 \"x\"", "graph text 1:7: %1 is used before it is defined"},
    {X "label %1", "expected '\"'"},
    {"recompute %3", "%3 is used before it is defined"},
    {"output y %1", "graph text 1:8: expected '\"'"},
    {X "output \"\" %1", "a name must have 1 to 512 bytes"},
    {X "output \"y\" %1\noutput \"y\" %1", "graph text 3:12: output \"y\" is declared twice"},
    {X "assign %1 %1", "assign: needs a state and a value"},
    {X "assign %1", "expected '%'"},
};

TEST(bad_text_is_refused_with_its_place) {
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    sn_graph *read = NULL;
    if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
      return;
    sn_status status = sn_graph_parse(ctx, bad[i].source, &read);
    if (!CHECK(status == SN_ERR_FORMAT || status == SN_ERR_INVALID) ||
        !CHECK_STR_HAS(sn_ctx_message(ctx), bad[i].message) ||
        !CHECK(strncmp(sn_ctx_message(ctx), "graph text ", 11) == 0))
      FAIL("row %d: %s", (int)i, bad[i].source);
    CHECK(read == NULL);
    sn_graph_destroy(read);
    sn_ctx_destroy(ctx);
  }
}
