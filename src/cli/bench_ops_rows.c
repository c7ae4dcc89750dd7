/* What `sinew bench ops` measures when it is given no lines. See bench_ops.h. Convolutions are those of the reference workloads
 * in training, matmuls what the models of language and speech are made of. */
#include "cli/bench_ops.h"

/* All three directions; of a network's first convolution there is no gradient for the image. */
#define CONV_FIRST(shape) "conv forward " shape, "conv grad-weight " shape
#define CONV(shape)       "conv forward " shape, "conv grad-input " shape, "conv grad-weight " shape

static const char *const lines[] = {
    "matmul NN 512 512 512", "matmul NN 1024 1024 1024", "matmul NN 2048 2048 2048",
    "matmul NN 4096 4096 4096", "matmul NT 1024 1024 1024", "matmul TN 1024 1024 1024",
    "matmul NN 1024 1024 1024 bf16", "matmul NN 1024 1024 1024 weights",
    /* skinny, batched, odd */
    "matmul NN 4096 4096 16", "matmul NN 16 4096 4096", "matmul NN 4096 16 4096",
    "matmul NN 64 64 64 256", "matmul NN 197 197 64 12", "matmul NN 1 4096 4096 weights",
    "matmul NT 1 4096 4096 weights", "matmul NT 1 4096 4096 bf16 weights",
    "matmul NT 4 4096 4096 bf16 weights", "matmul NN 999 1001 1003",
    /* SmolLM2-135M */
    "matmul NT 128 576 576", "matmul NT 128 192 576", "matmul NT 128 1536 576",
    "matmul NT 128 576 1536", "matmul NT 128 49152 576", "matmul TN 49152 576 128",
    "matmul NN 128 576 49152", "matmul TN 576 1536 128", "matmul NN 128 1536 576",
    "matmul TN 1536 576 128", "matmul NN 128 576 1536", "matmul TN 576 576 128",
    "matmul NN 128 576 576", "matmul TN 192 576 128", "matmul NN 128 576 192",
    "matmul NT 1 576 576", "matmul NT 1 192 576", "matmul NT 1 1536 576", "matmul NT 1 576 1536",
    "matmul NT 1 49152 576",
    /* Whisper-tiny */
    "matmul NT 1500 384 384", "matmul NT 1500 1536 384", "matmul NT 1500 384 1536",
    "matmul NN 1500 1536 384", "matmul TN 384 1536 1500", "matmul NN 1500 384 1536",
    "matmul TN 1536 384 1500", "matmul NN 1500 384 384", "matmul TN 384 384 1500",
    /* SmolVLA */
    "matmul NT 50 720 32", "matmul NT 1 720 1440", "matmul NT 16 720 320", "matmul NT 50 960 720",
    "matmul NT 50 320 720", "matmul NT 50 720 960", "matmul NT 50 2048 720",
    "matmul NT 50 720 2048", "matmul NT 16 320 720", "matmul NT 50 32 720", "matmul NT 1 720 32",
    "matmul NT 1 720 320", "matmul NT 1 960 720", "matmul NT 1 320 720", "matmul NT 1 720 960",
    "matmul NT 1 2048 720", "matmul NT 1 720 2048", "matmul NT 1 32 720",
    /* ResNet-50 */
    "matmul NT 4 1000 2048", "matmul NN 4 2048 1000", "matmul TN 1000 2048 4",
    "matmul NT 1 1000 2048",
    /* ResNet-50 */
    CONV_FIRST("4 3 224 224 64 7 7 2 3"), CONV("4 64 56 56 64 1 1 1 0"),
    CONV("4 64 56 56 64 3 3 1 1"), CONV("4 64 56 56 256 1 1 1 0"), CONV("4 256 56 56 64 1 1 1 0"),
    CONV("4 256 56 56 128 1 1 1 0"), CONV("4 128 56 56 128 3 3 2 1"),
    CONV("4 128 28 28 512 1 1 1 0"), CONV("4 256 56 56 512 1 1 2 0"),
    CONV("4 512 28 28 128 1 1 1 0"), CONV("4 128 28 28 128 3 3 1 1"),
    CONV("4 512 28 28 256 1 1 1 0"), CONV("4 256 28 28 256 3 3 2 1"),
    CONV("4 256 14 14 1024 1 1 1 0"), CONV("4 512 28 28 1024 1 1 2 0"),
    CONV("4 1024 14 14 256 1 1 1 0"), CONV("4 256 14 14 256 3 3 1 1"),
    CONV("4 1024 14 14 512 1 1 1 0"), CONV("4 512 14 14 512 3 3 2 1"),
    CONV("4 512 7 7 2048 1 1 1 0"), CONV("4 1024 14 14 2048 1 1 2 0"),
    CONV("4 2048 7 7 512 1 1 1 0"), CONV("4 512 7 7 512 3 3 1 1"),
    /* StableDiffusion */
    CONV_FIRST("2 4 32 32 64 3 3 1 1"), CONV("2 64 32 32 64 3 3 1 1"),
    CONV("2 64 32 32 64 3 3 2 1"), CONV("2 64 16 16 128 3 3 1 1"), CONV("2 128 16 16 128 3 3 1 1"),
    CONV("2 64 16 16 128 1 1 1 0"), CONV("2 128 16 16 128 3 3 2 1"), CONV("2 128 8 8 256 3 3 1 1"),
    CONV("2 256 8 8 256 3 3 1 1"), CONV("2 128 8 8 256 1 1 1 0"), CONV("2 512 8 8 256 3 3 1 1"),
    CONV("2 512 8 8 256 1 1 1 0"), CONV("2 384 16 16 128 3 3 1 1"), CONV("2 384 16 16 128 1 1 1 0"),
    CONV("2 192 32 32 64 3 3 1 1"), CONV("2 192 32 32 64 1 1 1 0"), CONV("2 64 32 32 4 3 3 1 1"),
    /* Whisper-tiny */
    CONV("1 80 1 3000 384 1 3 1 1"), CONV("1 384 1 3000 384 1 3 2 1"),
    /* depthwise */
    "conv forward 4 128 56 56 128 3 3 1 1 128",
    /* attention: forward, backward, decoding */
    "attention 1 8 8 128 128 64", "attention causal 1 8 8 128 128 64",
    "attention backward 1 8 8 128 128 64", "attention backward causal 1 8 8 128 128 64",
    "attention 1 8 8 512 512 64", "attention causal 1 8 8 512 512 64",
    "attention backward 1 8 8 512 512 64", "attention backward causal 1 8 8 512 512 64",
    "attention 1 8 8 1024 1024 64", "attention causal 1 8 8 1024 1024 64",
    "attention backward 1 8 8 1024 1024 64", "attention backward causal 1 8 8 1024 1024 64",
    "attention 1 8 8 2048 2048 64", "attention causal 1 8 8 2048 2048 64",
    "attention backward 1 8 8 2048 2048 64", "attention backward causal 1 8 8 2048 2048 64",
    "attention causal 1 9 3 128 128 64", "attention backward causal 1 9 3 128 128 64",
    "attention 1 9 3 1 512 64", "attention 1 32 8 1 4096 128",
    /* pointwise */
    "add 65536", "add 1000000", "add 30000000", "exp 30000000", "normal 10000000",
    "bias_gelu 128 3072", "bias_gelu 8192 3072", "bias_gelu backward 8192 3072",
    "silu_mul 128 1536", "silu_mul 8192 1536", "silu_mul backward 8192 1536", "adam 10000000",
    /* norms, softmax, losses */
    "layer_norm 128 576", "layer_norm 16384 1024", "layer_norm backward 16384 1024",
    "rms_norm 128 576", "rms_norm 16384 1024", "rms_norm backward 16384 1024", "softmax 128 1024",
    "softmax 16384 1024", "softmax backward 16384 1024", "cross_entropy 128 49152",
    "cross_entropy backward 128 49152", "batch_norm 4 64 112 112", "batch_norm 4 256 56 56",
    /* reductions */
    "sum all 4096 4096", "sum rows 4096 4096", "sum columns 4096 4096", "sum columns 16384 64",
    "argmax 128 49152", "max_pool 4 64 112 112 3 2 1",
    /* moves */
    "transpose 4096 4096", "transpose 1000 1000", "heads_first 8 1024 16 64", "concat 4096 2048",
    "gather 49152 576 8192", "gather backward 49152 576 128", "scatter_add 49152 576 128",
    "gather backward 49152 576 8192", "scatter_add 100000 1 1000000",
    /* scans and choices */
    "cumsum rows 4096 4096", "cumsum columns 4096 4096", "cumsum rows 1 4000000", "sort 1024 1024",
    "sort 1 1000000", "topk 128 49152 8", "topk 1 49152 50", "sample 1 49152 50",
    "sample 1 49152 0", "permutation 1000000", NULL};

static const char *const quick_lines[] = {"matmul NT 64 48 32",
                                          "matmul NN 8 16 8 3 bf16",
                                          "matmul NN 1 64 64 weights",
                                          "conv forward 1 4 8 8 6 3 3 2 1",
                                          "conv grad-input 1 4 8 8 6 3 3 2 1",
                                          "conv grad-weight 1 4 8 8 6 3 3 2 1",
                                          "conv forward 1 3 1 20 4 1 3 2 1",
                                          "attention causal 1 2 1 16 16 8",
                                          "attention backward 1 2 2 16 16 8",
                                          "attention 1 2 1 1 32 8",
                                          "add 1000",
                                          "exp 1000",
                                          "bias_gelu backward 8 16",
                                          "silu_mul 8 16",
                                          "adam 1000",
                                          "normal 1000",
                                          "layer_norm 8 16",
                                          "rms_norm backward 8 16",
                                          "softmax 8 16",
                                          "cross_entropy backward 8 50",
                                          "batch_norm 2 3 4 4",
                                          "max_pool 1 4 8 8 3 2 1",
                                          "sum all 16 16",
                                          "sum rows 16 16",
                                          "sum columns 16 16",
                                          "argmax 4 50",
                                          "transpose 16 20",
                                          "heads_first 2 4 2 8",
                                          "concat 4 8",
                                          "gather 20 8 5",
                                          "gather backward 20 8 5",
                                          "scatter_add 20 8 5",
                                          "cumsum rows 4 50",
                                          "sort 4 50",
                                          "topk 4 50 3",
                                          "sample 2 50 5",
                                          "permutation 100",
                                          NULL};

const char *ops_line(int index, bool quick) { return (quick ? quick_lines : lines)[index]; }
