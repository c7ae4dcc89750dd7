/* Symbolic sizes: what inference says about many ops, and that a run with symbols bound equals the run of
 * the same graph with numbers in their place.
 *
 * A row is a graph in the text form over the symbols S and T; stated types are what inference must say.
 * The fixed graph is the same text with the symbols' values written for their names. */
#include "ir/dim.h"
#include "ops/table.h"
#include "support/graph_run.h"
#include "support/test.h"

#include <stdio.h>

#define SYMBOLS "symbol S 9\nsymbol T 6\n"
#define X       "%1 = input() name=\"x\" shape=[S, 4]\n"
#define Y       "%2 = input() name=\"y\" shape=[T, 4]\n"
#define IMAGE   "%1 = input() name=\"x\" shape=[T, 2, S, 5]\n"
#define HEADS \
  "%1 = input() name=\"q\" shape=[T, 2, S, 4]\n%2 = input() name=\"k\" shape=[T, 1, S+1, 4]\n"

static const struct {
  const char *name, *source;
  int64_t least, least_t; /* of S and T */
} rows[] = {
    {"broadcast",
     X Y "%3 = input() name=\"z\" shape=[T, 1, 4]\n"
         "%4 = add(%1, %3) : f32[T, S, 4]\noutput \"a\" %4\n"
         "%5 = input() name=\"c\" shape=[S, 1]\n%6 = input() name=\"r\" shape=[T]\n"
         "%7 = mul(%5, %6) : f32[S, T]\noutput \"b\" %7\n"
         "%8 = gt(%7, %5) : bool[S, T]\n%9 = where(%8, %7, %6) : f32[S, T]\n"
         "output \"c\" %9\n",
     0, 0},
    {"matmul",
     X Y "%3 = matmul(%1, %2) trans_b=true : f32[S, T]\n"
         "%4 = matmul(%3, %1) trans_a=true : f32[T, 4]\n"
         "%5 = input() name=\"z\" shape=[3, T, S]\n%6 = matmul(%5, %1) : f32[3, T, 4]\n"
         "output \"a\" %3\noutput \"b\" %4\noutput \"c\" %6\n",
     0, 0},
    {"reshape",
     X "%2 = reshape(%1) shape=[-1] : f32[4*S]\n"
       "%3 = reshape(%2) shape=[2, S, -1] : f32[2, S, 2]\n"
       "%4 = input() name=\"z\" shape=[S+1, T, 6]\n"
       "%5 = reshape(%4) shape=[-1, 3*T] : f32[2*S+2, 3*T]\n"
       "%6 = reshape(%4) shape=[S+1, -1] : f32[S+1, 6*T]\n"
       "%7 = reshape(%4) shape=[S*T+T, 6] : f32[S*T+T, 6]\n"
       "output \"a\" %3\noutput \"b\" %5\noutput \"c\" %6\noutput \"d\" %7\n",
     1, 1},
    {"move",
     X Y "%3 = transpose(%1) perm=[1, 0] : f32[4, S]\n"
         "%4 = reshape(%2) shape=[T, 1, 4]\n%5 = expand(%4) shape=[-1, S, 4] : f32[T, S, 4]\n"
         "%6 = flip(%5) axes=[0, 1] : f32[T, S, 4]\n%7 = tile(%3) repeats=[1, 3] : f32[4, 3*S]\n"
         "%8 = tril(%5) diagonal=1 : f32[T, S, 4]\n%9 = stack(%8, %6) axis=1 : f32[T, 2, S, 4]\n"
         "output \"a\" %7\noutput \"b\" %9\n",
     0, 0},
    {"concat",
     X Y "%3 = concat(%1, %2, %1) axis=0 : f32[2*S+T, 4]\n"
         "%4 = slice(%3) axis=0 start=S stop=S+T step=1 : f32[T, 4]\n"
         "%5 = pad(%3) before=[1, 0] after=[2, 0] : f32[2*S+T+3, 4]\n"
         "output \"a\" %3\noutput \"b\" %4\noutput \"c\" %5\n",
     0, 0},
    {"slice",
     X "%2 = slice(%1) axis=0 start=1 stop=4611686018427387903 step=1 : f32[S-1, 4]\n"
       "%3 = slice(%1) axis=0 start=-2 stop=4611686018427387903 step=1 : f32[2, 4]\n"
       "%4 = slice(%1) axis=0 start=0 stop=S step=2 : f32[((S+1)/2), 4]\n"
       "%5 = slice(%1) axis=0 start=-1 stop=4611686018427387903 step=-3 : f32[((S+2)/3), 4]\n"
       "%6 = slice(%1) axis=0 start=S/2 stop=S step=1 : f32[S-(S/2), 4]\n"
       "output \"a\" %2\noutput \"b\" %3\noutput \"c\" %4\noutput \"d\" %5\noutput \"e\" %6\n",
     2, 0},
    {"reduce",
     X "%2 = sum(%1) axes=[0] : f32[4]\n%3 = sum(%1) axes=[1] keepdims=true : f32[S, 1]\n"
       "%4 = max(%1) axes=[-1] : f32[S]\n%5 = argmax(%1) axis=1 : i32[S]\n"
       "%6 = cumsum(%1) axis=0 : f32[S, 4]\n%7 = logsumexp(%1) axes=[] : f32[]\n"
       "%8 = mean(%6) axes=[1] : f32[S]\noutput \"a\" %2\noutput \"b\" %3\noutput \"c\" %4\n"
       "output \"d\" %5\noutput \"e\" %6\noutput \"f\" %7\noutput \"g\" %8\n",
     1, 0},
    {"norm",
     X "%2 = softmax(%1) axis=0 : f32[S, 4]\n%3 = layer_norm(%2, none, none) axes=1 eps=1e-5\n"
       "%4 = rms_norm(%1, none, none) axes=1 eps=1e-5 : f32[S, 4]\n"
       "%5 = group_norm(%1, none, none) groups=2 eps=1e-5 : f32[S, 4]\n"
       "%6 = l2_normalize(%1) axis=0 eps=1e-5\n%7 = log_softmax(%6) axis=1\n"
       "output \"a\" %3\noutput \"b\" %4\noutput \"c\" %5\noutput \"d\" %7\n",
     1, 0},
    {"index",
     X "%2 = arange() dtype=i32 n=T start=0 step=0 : i32[T]\n"
       "%3 = gather(%1, %2) : f32[T, 4]\n%4 = one_hot(%2) n=S dtype=f32 : f32[T, S]\n"
       "%5 = index_select(%1, %2) axis=0 : f32[T, 4]\n"
       "%6 = scatter_add(%1, %2, %3) : f32[S, 4]\n%7 = eye() n=S m=T : f32[S, T]\n"
       "%8 = full() shape=[S, T] value=2 : f32[S, T]\n%9 = add(%7, %8)\n"
       "%10 = arange() dtype=i32 n=S-1 start=1 step=1 : i32[S-1]\n"
       "%11 = gather(%1, %10) : f32[S-1, 4]\n"
       "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %6\noutput \"d\" %9\noutput \"e\" %11\n",
     1, 0},
    {"run-time start",
     X "%2 = full() dtype=i32 shape=[] value=1\n"
       "%3 = slice_at(%1, %2) axis=0 size=S-1 : f32[S-1, 4]\n"
       "%4 = update_slice(%1, %3, %2) axis=0 : f32[S, 4]\n"
       "%5 = input() name=\"z\" shape=[1, 4]\n"
       "%6 = update_slice(%4, %5, %2) axis=0 : f32[S, 4]\noutput \"a\" %6\n",
     2, 0},
    {"choose",
     X "%2 = sort(%1) axis=0 descending=true : f32[S, 4], i32[S, 4]\n"
       "%4 = topk(%1) k=2 axis=1 largest=true : f32[S, 2], i32[S, 2]\n"
       "output \"a\" %2\noutput \"b\" %3\noutput \"c\" %4\noutput \"d\" %5\n",
     0, 0},
    {"loss",
     X "%2 = arange() dtype=i32 n=S start=1 step=0 : i32[S]\n"
       "%3 = cross_entropy(%1, %2) ignore_index=-100 smoothing=0.1 reduction=none : f32[S]\n"
       "%4 = cross_entropy(%1, %2) ignore_index=-100 reduction=mean : f32[]\n"
       "%5 = mse(%1, %1) reduction=none : f32[S, 4]\noutput \"a\" %3\noutput \"b\" %4\n"
       "output \"c\" %5\n",
     0, 0},
    {"attention",
     HEADS "%3 = attention(%1, %2, %2, none, none, none, none) scale=0.5 causal=end "
           ": f32[T, 2, S, 4], f32[T, 2, S]\n"
           "%5 = arange() dtype=i32 n=S start=0 step=1\n"
           "%6 = rope(%1, %5) seq_axis=2 dims=4 base=100 factor=1 attention_factor=1 "
           ": f32[T, 2, S, 4]\n"
           "output \"a\" %3\noutput \"b\" %4\noutput \"c\" %6\n",
     0, 0},
    {"convolution",
     IMAGE
     "%2 = input() name=\"w\" shape=[3, 2, 3, 2]\n"
     "%3 = conv(%1, %2, none) stride=[2, 1] pad_before=[1, 0] pad_after=[1, 0] dilation=[1, 1] "
     "groups=1 : f32[T, 3, ((S+1)/2), 4]\n"
     "%4 = pool(%3) kind=max kernel=[2, 2] stride=[2, 2] pad_before=[1, 0] pad_after=[0, 0] "
     "dilation=[1, 1] : f32[T, 3, ((S+3)/4), 2]\n"
     "%5 = im2col(%1) kernel=[2, 1] stride=[2, 1] pad_before=[1, 0] pad_after=[0, 0] "
     "dilation=[1, 1] : f32[T, 4, 5*((S+1)/2)]\n"
     "output \"a\" %3\noutput \"b\" %4\noutput \"c\" %5\n",
     1, 0},
    {"upsample",
     "%1 = input() name=\"x\" shape=[S, T, 2, 3]\n"
     "%2 = upsample_nearest(%1) size=[4, 5] : f32[S, T, 4, 5]\n"
     "%3 = upsample_linear(%1) size=[3, 7] align_corners=true : f32[S, T, 3, 7]\n"
     "output \"a\" %2\noutput \"b\" %3\n",
     0, 0},
};

/* The text with numbers for S and T; a symbol's name stands alone or before an operator. */
static void fix(const char *source, int64_t s, int64_t t, char *out, size_t size) {
  size_t n = 0;
  for (const char *at = source; *at && n + 8 < size; at++) {
    if (*at == 'S' || *at == 'T')
      n += (size_t)snprintf(out + n, size - n, "%lld", (long long)(*at == 'S' ? s : t));
    else
      out[n++] = *at;
  }
  out[n] = '\0';
}

static bool load(graph_run *r, const char *head, const char *source) {
  char whole[4000];
  if (!graph_run_start(r))
    return false;
  sn_graph_destroy(r->g);
  r->g = NULL;
  snprintf(whole, sizeof whole, "%s%s", head, source);
  return graph_parse(r->ctx, op_table_get(), whole, &r->g) == SN_OK ||
         FAIL("%s\n%s", sn_ctx_message(r->ctx), whole);
}

static void compare(size_t i, graph_run *symbolic, int64_t s, int64_t t) {
  static char source[4000];
  graph_run fixed;
  fix(rows[i].source, s, t, source, sizeof source);
  if (load(&fixed, "", source) && graph_run_execute(symbolic, (int64_t[]){s, t}) &&
      graph_run_execute(&fixed, NULL))
    for (int k = 0; k < fixed.g->n_outputs; k++)
      ref_tensor_near(rows[i].name, &symbolic->out[k], &fixed.out[k], 1e-12);
  if (test_failed())
    FAIL("with S = %lld and T = %lld", (long long)s, (long long)t);
  graph_run_end(&fixed);
}

TEST_WALK(bound_symbols_are_numbers) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (!test_begin("%s", rows[i].name))
      continue;
    graph_run r;
    if (load(&r, SYMBOLS, rows[i].source)) {
      CHECK(r.g->n_outputs > 0);
      for (int64_t s = rows[i].least; s <= 9 && !test_failed(); s += s < 4 ? 1 : 5)
        for (int64_t t = rows[i].least_t; t <= 6 && !test_failed(); t += t < 2 ? 1 : 4)
          compare(i, &r, s, t);
    }
    graph_run_end(&r);
    test_end();
  }
}

/* --- what inference refuses --- */

static const struct {
  const char *source, *message;
} refused[] = {
    {X Y "%3 = add(%1, %2)", "shapes [S, 4] and [T, 4] do not broadcast"},
    {X Y "%3 = matmul(%1, %2)", "inner sizes differ: a is [S, 4], b is [T, 4]"},
    {X Y "%3 = concat(%1, %2) axis=1", "sizes must agree but for axis 1: f32[S, 4] and f32[T, 4]"},
    {X Y "%3 = stack(%1, %2)", "must be [S, 4] (as the first), got f32[T, 4]"},
    {X "%3 = reshape(%1) shape=[-1, 3]", "f32[S, 4] does not fit into [-1, 3]"},
    {X "%3 = reshape(%1) shape=[T, 4]", "f32[S, 4] does not fit into [T, 4]"},
    {X "%3 = reshape(%1) shape=[S, T, -1]", "does not fit"},
    {X "%3 = expand(%1) shape=[T, 4]", "f32[S, 4] does not expand to [T, 4]"},
    {X "%3 = slice(%1) axis=0 start=0 stop=S-20 step=1", "impossible size [S-20, 4]"},
    {X "%3 = slice_at(%1, %1) axis=0 size=2", "start must be i32"},
    {X "%2 = full() dtype=i32 shape=[] value=0\n%3 = slice_at(%1, %2) axis=0 size=10",
     "10 entries do not fit into the axis of f32[S, 4]"},
    {"%1 = state() name=\"w\" shape=[S]", "its shape must be numbers, got [S]"},
    {"%1 = arange() dtype=u8 n=S start=250 step=1", "258 is not a value of u8"},
    {"%1 = input() name=\"x\" shape=[1, 1, S]\n%2 = upsample_nearest(%1) size=[4]",
     "spatial sizes must be numbers"},
    {"%1 = input() name=\"x\" shape=[1, 1, S]\n"
     "%2 = im2col(%1) kernel=[20] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]",
     "does not fit into [S]"},
    {"%1 = input() name=\"x\" shape=[S*1000000000000, T*1000000000000]", "impossible size"},
};

TEST(sizes_that_can_never_fit_are_refused) {
  for (size_t i = 0; i < COUNT_OF(refused); i++) {
    sn_ctx *ctx;
    sn_graph *g = NULL;
    char source[2000];
    if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
      return;
    snprintf(source, sizeof source, "%s%s\n", SYMBOLS, refused[i].source);
    CHECK_EQ_INT(sn_graph_parse(ctx, source, &g), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(ctx), refused[i].message);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  }
}

TEST(bindings_are_checked) {
  graph_run r;
  if (load(&r, SYMBOLS, X "%2 = neg(%1)\noutput \"y\" %2\n")) {
    CHECK(graph_run_execute(&r, (int64_t[]){9, 6}));
    CHECK_EQ_INT(graph_run_status(&r, (int64_t[]){10, 0}), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(r.ctx), "symbol S: expected 0 … 9, got 10");
    CHECK_EQ_INT(graph_run_status(&r, (int64_t[]){9, -1}), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(r.ctx), "symbol T: expected 0 … 6, got -1");
  }
  graph_run_end(&r);
}
