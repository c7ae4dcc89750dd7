/* See borders.h. */
#include "support/borders.h"

#include "device/cpu/order.h"
#include "device/vulkan/emit_borders.h"
#include "ir/dtype.h"
#include "support/test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TEXT = 2000, MOST_BORDERS = 24 };

/* Of the CPU device, whose constants stand beside their code, but for ORDER_MANY and ORDER_CHUNK: scan.c, scatter.c, attention.h and
 * attention.c. Products, rows and points have powers of two. Sorts take a share of a row for "the first few". */
enum {
  CPU_SCAN_BLOCK = 2064,
  CPU_SCAN_LANES = 512,
  CPU_SCATTER_LIST = 1024,
  CPU_SCATTER_COLUMNS = 256,
  CPU_ATTENTION_KEYS = 96,
  CPU_ATTENTION_CHUNK = 480,
  CPU_SHARE = 8
};

/* What a size is of, beside a border's own number: `powers`: every power of two up to there is a border as well, as where threads and
 * points are dealt out; `most`: no larger ones. */
typedef struct kernel_border {
  const char *name;
  const char *graph; /* "$": the size */
  bool fixed;        /* it is an attribute, which no symbol can be */
  int64_t powers, most;
  int64_t at[MOST_BORDERS]; /* 0: the end */
} kernel_border;

/* Whole numbers below the one at the end of an input's name, or 4. */
#define IN(i, name, dtype, shape) \
  "%" #i " = input() name=\"" name "\" dtype=" dtype " shape=" shape "\n"
#define X(shape)   IN(1, "x", "f32", shape)
#define OUT1(i)    "output \"y\" %" #i "\n"
#define OUT2(i, j) OUT1(i) "output \"z\" %" #j "\n"

/* Sizes of shared memory that targets have: blocks and tiles of half the size. */
#define ORDER_BORDERS                                                                            \
  ORDER_BLOCK_LEAST, ORDER_FEW, ORDER_BLOCK / 2, ORDER_BLOCK, 2 * ORDER_BLOCK,                   \
      ORDER_WAYS *ORDER_BLOCK, 2 * ORDER_WAYS *ORDER_BLOCK, ORDER_WAYS *ORDER_WAYS *ORDER_BLOCK, \
      ORDER_CHUNK, ORDER_MANY, 99999

/* Threads of a workgroup of cores: 128 or 256. */
#define TILES_OF(each)  (128 * (each)), (256 * (each))
#define CHUNKS_OF(each) TILES_OF(each), TILES_OF((each)*SCAN_TILES)

static const kernel_border kernels[] = {
    /* orders */
    {.name = "sort",
     .graph = X("[2, $]") "%2 = sort(%1) axis=1 descending=true\n" OUT2(2, 3),
     .at = {ORDER_BORDERS}},
    {.name = "sort across",
     .graph = X("[$, 3]") "%2 = sort(%1) axis=0 descending=false\n" OUT2(2, 3),
     .most = 3 * ORDER_BLOCK,
     .at = {ORDER_BORDERS}},
    {.name = "top-k of many",
     .graph = X("[2, $]") "%2 = topk(%1) k=1 axis=1 largest=true\n" OUT2(2, 3),
     .at = {2, ORDER_BORDERS}},
    {.name = "top-k of 512",
     .graph = X("[$]") "%2 = topk(%1) k=512 axis=0 largest=false\n" OUT2(2, 3),
     .at = {ORDER_FEW + 1, ORDER_BLOCK / 2, ORDER_BLOCK, 2 * ORDER_BLOCK, 4 * ORDER_BLOCK,
            ORDER_BLOCK *ORDER_BLOCK / ORDER_FEW, 99999}},
    {.name = "top-k of 513",
     .graph = X("[$]") "%2 = topk(%1) k=513 axis=0 largest=true\n" OUT2(2, 3),
     .at = {ORDER_FEW + 2, ORDER_BLOCK / 2, ORDER_BLOCK, 4 * ORDER_BLOCK, 99999}},
    {.name = "top-k in a block",
     .graph = X("[2, 2048]") "%2 = topk(%1) k=$ axis=1 largest=true\n" OUT2(2, 3),
     .fixed = true,
     .at = {1, ORDER_BLOCK / CPU_SHARE, ORDER_FEW, 544, ORDER_BLOCK / 2, 1365, ORDER_BLOCK - 1}},
    {.name = "top-k in blocks",
     .graph = X("[2, 2049]") "%2 = topk(%1) k=$ axis=1 largest=false\n" OUT2(2, 3),
     .fixed = true,
     .at = {1, ORDER_BLOCK / CPU_SHARE, ORDER_FEW, ORDER_BLOCK / 2, ORDER_BLOCK}},
    {.name = "permutation",
     .graph = IN(1, "key9", "i32", "[3]") "%2 = permutation(%1) n=$ stream=3\n" OUT1(2),
     .fixed = true,
     .at = {1, ORDER_BORDERS}},
    /* samples */
    {.name = "sample",
     .graph =
         X("[2, $]") IN(2, "key9", "i32",
                        "[3]") "%3 = sample(%1, %2, none) temperature=0.8 top_k=0 top_p=1 min_p=0 "
                               "repetition_penalty=1 stream=1\n" OUT1(3),
     .at = {2, TILES_OF(SAMPLE_EACH), TILES_OF(4 * SAMPLE_EACH), 99999}},
    {.name = "best sample",
     .graph =
         X("[3, $]") IN(2, "key9", "i32", "[3]") "%3 = sample(%1, %2, none) temperature=0 top_k=0 "
                                                 "top_p=1 min_p=0 repetition_penalty=1 "
                                                 "stream=1\n" OUT1(3),
     .at = {2, TILES_OF(SAMPLE_EACH), 99999}},
    {.name = "sample of the first",
     .graph =
         X("[2, 3000]") IN(2, "key9", "i32", "[3]") "%3 = sample(%1, %2, none) temperature=1 "
                                                    "top_k=$ top_p=1 min_p=0 repetition_penalty=1 "
                                                    "stream=1\n" OUT1(3),
     .fixed = true,
     .at = {2, 3000 / CPU_SHARE, ORDER_FEW, ORDER_BLOCK, 2999}},
    {.name = "sample of top-p",
     .graph = X("[2, $]") IN(2, "key9", "i32", "[3]")
         IN(3, "seen50", "i32",
            "[2, 5]") "%4 = sample(%1, %2, %3) temperature=1 top_k=0 top_p=0.8 min_p=0.01 "
                      "repetition_penalty=1.5 stream=1\n" OUT1(4),
     .at = {60, ORDER_FEW, ORDER_BLOCK, TILES_OF(SAMPLE_EACH), ORDER_WAYS *ORDER_BLOCK, 99999}},
    /* scans */
    {.name = "cumsum",
     .graph = X("[2, $]") "%2 = cumsum(%1) axis=1 exclusive=false reverse=false\n" OUT1(2),
     .at = {1, SCAN_SHORT, CHUNKS_OF(SCAN_EACH), 2 * 256 * SCAN_EACH *SCAN_TILES, CPU_SCAN_BLOCK,
            99999}},
    {.name = "cumsum of columns",
     .graph = X("[1, $, 40]") "%2 = cumsum(%1) axis=1 exclusive=true reverse=true\n" OUT1(2),
     .most = 5000,
     .at = {1, SCAN_SHORT, CHUNKS_OF(SCAN_EACH / SCAN_LANES), 2048}},
    {.name = "columns of cumsum",
     .graph = X("[2, 300, $]") "%2 = cumsum(%1) axis=1 exclusive=false reverse=true\n" OUT1(2),
     .at = {1, SCAN_LANES_LEAST, SCAN_LANES, 2 * SCAN_LANES, CPU_SCAN_LANES}},
    {.name = "cumprod",
     .graph = IN(1, "near one", "f32", "[$, 2]") "%2 = cumprod(%1) axis=0 exclusive=false "
                                                 "reverse=false\n" OUT1(2),
     .most = 3000,
     .at = {1, SCAN_SHORT, TILES_OF(SCAN_EACH)}},
    /* scatters */
    {.name = "scatter_add",
     .graph = X("[50, 3]") IN(2, "at50", "i32", "[$]")
         IN(3, "v", "f32", "[$, 3]") "%4 = scatter_add(%1, %2, %3)\n" OUT1(4),
     .most = 5000,
     .at = {1, SCATTER_CHUNK, SCATTER_FEW, 3 * SCATTER_CHUNK, CPU_SCATTER_LIST, ORDER_BLOCK}},
    {.name = "scatter_set",
     .graph = X("[700]") IN(2, "at700", "i32", "[$]")
         IN(3, "v", "f32", "[$]") "%4 = scatter_set(%1, %2, %3)\n" OUT1(4),
     .at = {1, SCATTER_FEW, ORDER_BORDERS}},
    {.name = "scatter_add of one",
     .graph = IN(1, "x", "i32", "[3]") IN(2, "at2", "i32", "[$]")
         IN(3, "v9", "i32", "[$]") "%4 = scatter_add(%1, %2, %3)\n" OUT1(4),
     .at = {1, SCATTER_CHUNK, SCATTER_FEW, 3 * SCATTER_CHUNK, ORDER_BLOCK, 4 * ORDER_BLOCK, 99999}},
    {.name = "scatter_along_add",
     .graph = X("[2, 7, 3]") IN(2, "at7", "i32", "[2, $, 3]")
         IN(3, "v", "f32", "[2, $, 3]") "%4 = scatter_along_add(%1, %2, %3) axis=1\n" OUT1(4),
     .most = 5000,
     .at = {1, SCATTER_CHUNK, SCATTER_FEW, ORDER_BLOCK}},
    {.name = "scatter_along_set",
     .graph = X("[2, 90]") IN(2, "at90", "i32", "[2, $]")
         IN(3, "v", "f32", "[2, $]") "%4 = scatter_along_set(%1, %2, %3) axis=1\n" OUT1(4),
     .most = 5000,
     .at = {1, SCATTER_FEW, ORDER_BLOCK}},
    {.name = "columns of scatter",
     .graph = X("[9, $]") IN(2, "at9", "i32", "[150]")
         IN(3, "v", "f32", "[150, $]") "%4 = scatter_add(%1, %2, %3)\n" OUT1(4),
     .at = {1, 4, CPU_SCATTER_COLUMNS}},
    {.name = "rows of scatter",
     .graph = X("[$, 3]") IN(2, "at1", "i32", "[200]")
         IN(3, "v", "f32", "[200, 3]") "%4 = scatter_add(%1, %2, %3)\n" OUT1(4),
     .fixed = true,
     .at = {2, 128, 99999}},
    /* reductions and rows: a row, a few, many; columns */
    {.name = "sum",
     .graph = X("[$]") "%2 = sum(%1) axes=[0] keepdims=false\n" OUT1(2),
     .powers = 65536,
     .at = {9, 12, 99999}},
    {.name = "max of rows",
     .graph = X("[3, $]") "%2 = max(%1) axes=[1] keepdims=true\n" OUT1(2),
     .powers = 65536,
     .at = {9, 12, 99999}},
    {.name = "argmax",
     .graph = X("[2, $]") "%2 = argmax(%1) axis=1 keepdims=false\n" OUT1(2),
     .powers = 65536,
     .at = {9, 12, 99999}},
    {.name = "softmax",
     .graph = X("[3, $]") "%2 = softmax(%1) axis=1\n" OUT1(2),
     .powers = 65536,
     .at = {9, 12, 99999}},
    {.name = "softmax of many rows",
     .graph = X("[600, $]") "%2 = softmax(%1) axis=1\n" OUT1(2),
     .powers = 64,
     .at = {9, 12}},
    {.name = "layer_norm",
     .graph = X("[2, $]") IN(2, "w", "f32", "[$]")
         IN(3, "b", "f32", "[$]") "%4 = layer_norm(%1, %2, %3) axes=1 eps=1e-05\n" OUT1(4),
     .powers = 65536,
     .at = {9, 12, 99999}},
    {.name = "rms_norm in fours",
     .graph = X("[3, $, 4]")
         IN(2, "w", "f32", "[$, 4]") "%3 = rms_norm(%1, %2, none) axes=2 eps=1e-05\n" OUT1(3),
     .powers = 4096},
    {.name = "cross_entropy",
     .graph = X("[3, $]")
         IN(2, "at2", "i32",
            "[3]") "%3 = cross_entropy(%1, %2) ignore_index=-100 reduction=mean\n" OUT1(3),
     .most = 99999,
     .at = {3, 64, 512, 2048, 8192, 99999}},
    {.name = "sum of columns",
     .graph = X("[$, 40]") "%2 = sum(%1) axes=[0] keepdims=false\n" OUT1(2),
     .powers = 16384,
     .at = {9, 12, 10000}},
    {.name = "columns of sum",
     .graph = X("[70, $]") "%2 = sum(%1) axes=[0] keepdims=false\n" OUT1(2),
     .powers = 4096},
    {.name = "max of three columns",
     .graph = X("[$, 3]") "%2 = max(%1) axes=[0] keepdims=false\n" OUT1(2),
     .powers = 16384,
     .at = {9, 12}},
    {.name = "points",
     .graph = X("[3, $]") IN(2, "b", "f32", "[$]") "%3 = add(%1, %2)\n" OUT1(3),
     .powers = 65536,
     .at = {99999}},
    {.name = "pool",
     .graph =
         X("[2, 3, $, 7]") "%2 = pool(%1) kind=max kernel=[3, 3] stride=[2, 2] pad_before=[1, 1] "
                           "pad_after=[1, 1] dilation=[1, 1] ceil_mode=false "
                           "count_include_pad=false\n" OUT1(2),
     .powers = 128,
     .most = 1000},
    /* products */
    {.name = "rows of matmul",
     .graph = X("[$, 70]") IN(2, "b", "f32", "[70, 33]") "%3 = matmul(%1, %2)\n" OUT1(3),
     .powers = 256},
    {.name = "columns of matmul",
     .graph = X("[33, 70]") IN(2, "b", "f32", "[70, $]") "%3 = matmul(%1, %2)\n" OUT1(3),
     .powers = 256},
    {.name = "k of matmul",
     .graph = X("[10, $]") IN(2, "b", "f32", "[$, 9]") "%3 = matmul(%1, %2)\n" OUT1(3),
     .powers = 65536,
     .at = {99999}},
    {.name = "k of one row",
     .graph = X("[1, $]") IN(2, "b", "f32", "[$, 5]") "%3 = matmul(%1, %2)\n" OUT1(3),
     .powers = 65536,
     .at = {99999}},
    {.name = "columns of one row",
     .graph = X("[1, 40]") IN(2, "b", "f32", "[40, $]") "%3 = matmul(%1, %2)\n" OUT1(3),
     .powers = 8192,
     .at = {99999}},
    {.name = "conv",
     .graph = X("[1, $, 5, 6]") IN(
         2, "w", "f32",
         "[9, $, 3, 3]") "%3 = conv(%1, %2, none) stride=[1, 1] pad_before=[1, 1] pad_after=[1, 1] "
                         "dilation=[1, 1] groups=1\n" OUT1(3),
     .fixed = true,
     .powers = 64},
    {.name = "image of conv",
     .graph = X("[1, 4, $, 6]") IN(
         2, "w", "f32",
         "[5, 4, 3, 3]") "%3 = conv(%1, %2, none) stride=[2, 1] pad_before=[1, 1] pad_after=[1, 1] "
                         "dilation=[1, 1] groups=1\n" OUT1(3),
     .powers = 64},
    /* attention */
    {.name = "queries",
     .graph = X("[1, 2, $, 8]") IN(2, "k", "f32", "[1, 1, 80, 8]")
         IN(3, "v", "f32", "[1, 1, 80, 6]") "%4 = attention(%1, %2, %3, none, none, none, none) "
                                            "scale=0.3 causal=end window=0 softcap=0 "
                                            "layout=bhsd\n" OUT1(4),
     .most = 300,
     .at = {1, FORWARD_FEW / 2, FORWARD_FEW, ATTENTION_ROWS_FEW, ATTENTION_FEW / 2, ATTENTION_FEW,
            2 * ATTENTION_ROWS}},
    {.name = "keys",
     .graph = X("[1, 2, 3, 8]") IN(2, "k", "f32", "[1, 2, $, 8]")
         IN(3, "v", "f32", "[1, 2, $, 8]") "%4 = attention(%1, %2, %3, none, none, none, none) "
                                           "scale=0.3 causal=none window=0 softcap=0 "
                                           "layout=bhsd\n" OUT1(4),
     .powers = 16384,
     .at = {CPU_ATTENTION_KEYS, CPU_ATTENTION_CHUNK, 2 * CPU_ATTENTION_CHUNK}},
    {.name = "keys of many",
     .graph = X("[1, 1, 70, 8]") IN(2, "k", "f32", "[1, 1, $, 8]")
         IN(3, "v", "f32", "[1, 1, $, 8]") "%4 = attention(%1, %2, %3, none, none, none, none) "
                                           "scale=0.3 causal=none window=0 softcap=0 "
                                           "layout=bhsd\n" OUT1(4),
     .powers = 1024},
    {.name = "width of attention",
     .graph = X("[1, 1, 3, $]") IN(2, "k", "f32", "[1, 1, 70, $]")
         IN(3, "v", "f32", "[1, 1, 70, $]") "%4 = attention(%1, %2, %3, none, none, none, none) "
                                            "scale=0.1 causal=none window=0 softcap=0 "
                                            "layout=bhsd\n" OUT1(4),
     .fixed = true,
     .powers = 512},
    {.name = "gradient of attention",
     .graph = X("[1, 2, $, 8]") IN(2, "k", "f32", "[1, 1, $, 8]") IN(3, "v", "f32", "[1, 1, $, 8]")
         IN(4, "w", "f32", "[1, 2, $, 8]")
             IN(5, "l", "f32", "[1, 2, $]") "%6 = attention_grad(%1, %2, %3, none, none, none, "
                                            "none, %5, %4, %4, none) scale=0.3 "
                                            "causal=end window=0 softcap=0 layout=bhsd\n" OUT2(
                                                6, 7) "output \"u\" %8\n",
     .powers = 256},
};

/* --- numbers --- */

static double number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user;
  uint64_t h = hash_bytes(hash_string(HASH_SEED, name), &i, sizeof i) >> 20;
  size_t digits = strcspn(name, "0123456789");
  if (!dtype_is_float(dtype))
    return (double)(h % (uint64_t)(isdigit((unsigned char)name[digits]) ? atoi(name + digits) : 4));
  if (strcmp(name, "near one") == 0)
    return 1 + ((double)(h % 257) - 128) / 4096;
  return ((double)(h % 4099) - 2048) / 1024 + 1.0 / 8192;
}

/* --- graphs --- */

/* The text with its size, after the symbol's line where that has a maximum (0: none). */
static void write_text(const kernel_border *b, const char *size, int64_t most, char *out) {
  size_t n = most ? (size_t)snprintf(out, MOST_TEXT, "symbol n %lld\n", (long long)most) : 0;
  for (const char *p = b->graph; *p && n + 24 < MOST_TEXT; p++)
    n += (size_t)snprintf(out + n, MOST_TEXT - n, "%.*s", *p == '$' ? 20 : 1, *p == '$' ? size : p);
}

static void check_text(const char *source, const plan_numbers *n, int n_numbers,
                       border_check *check) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (sn_graph_parse(ctx, source, &g) == SN_OK)
    check(g, n, n_numbers);
  else
    FAIL("%s: %s", source, sn_ctx_message(ctx));
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static void check_border(const kernel_border *b, int64_t border, border_check *check) {
  enum { SIZES = 5, LONG_SUM = 10000 };
  const double long_tolerance = 1e-4; /* of products that all but cancel */
  const int64_t sizes[SIZES] = {1, 0, border + 1, border, border - 1};
  plan_numbers n[SIZES];
  char source[MOST_TEXT], size[24];
  for (int i = 0; i < SIZES; i++)
    n[i] = (plan_numbers){
        .bindings = &sizes[i], .fill = number, .tolerance = border > LONG_SUM ? long_tolerance : 0};
  for (int i = 2; i < SIZES; i++) {
    snprintf(size, sizeof size, "%lld", (long long)sizes[i]);
    write_text(b, size, 0, source);
    check_text(source, &n[i], 1, check);
  }
  write_text(b, "n", border + 1, source);
  if (!b->fixed)
    check_text(source, n, SIZES, check);
}

/* --- borders --- */

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int list_borders(const kernel_border *b, int64_t *out) {
  int n = 0;
  for (int64_t p = 2; p <= b->powers; p *= 2)
    out[n++] = p;
  for (int i = 0; i < MOST_BORDERS && b->at[i]; i++)
    if (!b->most || b->at[i] <= b->most)
      out[n++] = b->at[i];
  qsort(out, (size_t)n, sizeof *out, by_number);
  return n;
}

static void walk_borders(const kernel_border *b, int64_t from, int64_t to, border_check *check) {
  int64_t at[MOST_BORDERS + 32];
  int n = list_borders(b, at);
  for (int i = 0; i < n; i++) {
    bool again = i > 0 && at[i] == at[i - 1];
    if (again || at[i] < from || at[i] > to || !test_begin("%s/%lld", b->name, (long long)at[i]))
      continue;
    check_border(b, at[i], check);
    test_end();
  }
}

void borders_each(int64_t from, int64_t to, border_check *check) {
  for (size_t k = 0; k < COUNT_OF(kernels); k++)
    walk_borders(&kernels[k], from, to, check);
}

void borders_of(const char *kernel, int64_t from, int64_t to, border_check *check) {
  for (size_t k = 0; k < COUNT_OF(kernels); k++)
    if (strcmp(kernels[k].name, kernel) == 0)
      walk_borders(&kernels[k], from, to, check);
}
