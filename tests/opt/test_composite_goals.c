/* start => goal for composites: what is attention, a norm, a loss, and what only looks like it; and what is known before gradients
 * only. All sizes of attention are 4 or 2, so that most mistakes would have the right types. */
#include "ir/dim.h"
#include "opt/intake.h"
#include "opt/nary.h"
#include "opt/saturate.h"
#include "support/test.h"

#include <string.h>

#define QKV                                                 \
  "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 4, 4]\n"  \
  "%2 = input() name=\"k\" dtype=f32 shape=[2, 4, 4, 4]\n"  \
  "%3 = input() name=\"v\" dtype=f32 shape=[2, 4, 4, 4]\n"  \
  "%4 = input() name=\"c\" dtype=bool shape=[2, 1, 4, 4]\n" \
  "%5 = input() name=\"b\" dtype=f32 shape=[4, 4, 4]\n"     \
  "%6 = full() dtype=f32 shape=[] value=-inf\n"             \
  "%7 = full() dtype=f32 shape=[] value=-1e9\n"             \
  "%8 = full() dtype=f32 shape=[] value=0\n"                \
  "%9 = full() dtype=bool shape=[4, 4] value=1\n"           \
  "%10 = matmul(%1, %2) trans_a=false trans_b=true\n"       \
  "%11 = affine(%10) mul=0.5 add=0\n"
#define MATMUL     " trans_a=false trans_b=false\n"
#define PLAIN      "scale=0.5 softcap=0 causal=none window=0 layout=bhsd\n"
#define ENDS(a, b) "output \"a\" %" #a "\noutput \"b\" %" #b "\n"
/* softmax(%s) v as %30, against the op as %31. */
#define AGAINST(s, op)                                           \
  "%29 = softmax(%" #s ") axis=-1\n%30 = matmul(%29, %3)" MATMUL \
  "%31 = attention(%1, %2, %3, " op ENDS(30, 31)
#define CAUSAL(text, s, op) QKV text "%20 = where(%" #s ", %11, %6)\n" AGAINST(20, op)
#define AT                                                                               \
  "%12 = arange() dtype=i32 n=4 start=0 step=1\n%13 = reshape(%12) shape=[4, 1]\n%14 = " \
  "reshape(%12) shape=[1, 4]\n"
#define MASK_END "none, none, none, none) scale=0.5 softcap=0 causal=end window=0 layout=bhsd\n"
#define NO_MASK  "none, none, none, none) " PLAIN
/* Sizes that do not fold: the mask %m, and causal attention. */
#define SYMBOLIC(text, m)                                                                      \
  "symbol s 64\n%1 = input() name=\"q\" dtype=f32 shape=[2, 4, s, 8]\n%2 = full() dtype=f32 "  \
  "shape=[] value=-inf\n%3 = full() dtype=bool shape=[s, s] value=1\n" text                    \
  "%20 = matmul(%1, %1) trans_a=false trans_b=true\n%21 = where(%" #m                          \
  ", %20, %2)\n%22 = softmax(%21) axis=-1\n%23 = matmul(%22, %1)" MATMUL                       \
  "%24 = attention(%1, %1, %1, none, none, none, none) scale=1 softcap=0 causal=end window=0 " \
  "layout=bhsd\n" ENDS(23, 24)
/* Attention of n queries and m keys with a mask %m or bias, against one that is causal. */
#define SIZES(n, m, text, given, causal)                                                          \
  "%1 = input() name=\"q\" dtype=f32 shape=[1, 2, " #n ", 4]\n%2 = input() name=\"k\" dtype=f32 " \
  "shape=[1, 2, " #m ", 4]\n" text "%20 = attention(%1, %2, %2, " given " window=0 layout=bhsd\n" \
  "%22 = attention(%1, %2, %2, none, none, none, none) scale=1 softcap=0 causal=" causal          \
  " window=0 layout=bhsd\n" ENDS(20, 22)
#define FREE "scale=1 softcap=0 causal=none"
#define MATRICES                                                                          \
  "%1 = input() name=\"x\" dtype=f32 shape=[4, 4, 4]\n%2 = input() name=\"y\" dtype=f32 " \
  "shape=[4, "                                                                            \
  "4, 4]\n"
#define REVERSED " start=-1 stop=4611686018427387903 step=-1\n"

/* %7 is a convolution; of 3 images its result has as many elements as there are weights. %8 is a norm behind it with given
 * statistics, %16 the convolution with these in its weights. */
#define VECTOR(i, name, t) "%" #i " = input() name=\"" name "\" dtype=" t " shape=[4]\n"
#define ONE_STEP           " stride=[1] pad_before=[0] pad_after=[0] dilation=[1] groups=1\n"
#define CONV(images, t, bias)                                                                 \
  "%1 = input() name=\"x\" dtype=" t " shape=[" images ", 4, 6]\n"                            \
  "%2 = input() name=\"w\" dtype=" t " shape=[4, 4, 3]\n" VECTOR(3, "g", t) VECTOR(4, "b", t) \
      VECTOR(6, "v", t) VECTOR(17, "bias", t) "%7 = conv(%1, %2, " bias ")" ONE_STEP
#define NORM "%8 = batch_norm(%7, %3, %4, %5, %6) eps=0.01\n"
#define FACTOR                                                                  \
  "%9 = affine(%6) mul=1 add=0.01\n%10 = rsqrt(%9)\n%11 = mul(%3, %10)\n%12 = " \
  "reshape(%11) shape=[4, 1, 1]\n%13 = mul(%2, %12)\n"
#define FOLDED \
  FACTOR "%14 = mul(%5, %11)\n%15 = sub(%4, %14)\n%16 = conv(%1, %13, %15)" ONE_STEP ENDS(8, 16)
#define CENTRED FACTOR "%16 = conv(%1, %13, %4)" ONE_STEP ENDS(8, 16)
#define MEAN    VECTOR(5, "m", "f32")
#define ZERO    "%5 = full() dtype=f32 shape=[4] value=0\n"

typedef struct goal {
  const char *name, *text;
} goal;

static const goal provable[] = {
    {"causal by not triu, symbolic",
     SYMBOLIC("%4 = triu(%3) diagonal=1\n%5 = logical_not(%4)\n", 5)},
    {"causal by positions, symbolic",
     SYMBOLIC("%4 = arange() dtype=i32 n=s start=0 step=1\n%5 = reshape(%4) shape=[s, 1]\n%6 = "
              "expand(%5) shape=[s, s]\n%7 = le(%4, %6)\n",
              7)},
    {"causal to the end of more keys",
     SIZES(2, 4, "%3 = full() dtype=bool shape=[2, 4] value=1\n%4 = tril(%3) diagonal=2\n",
           "%4, none, none, none) " FREE, "end")},
    {"causal from the start of more keys",
     SIZES(2, 4, "%3 = full() dtype=bool shape=[2, 4] value=1\n%4 = tril(%3) diagonal=0\n",
           "%4, none, none, none) " FREE, "start")},
    {"scaled", QKV AGAINST(11, NO_MASK)},
    {"not scaled", QKV AGAINST(10, "none, none, none, none) scale=1 softcap=0 causal=none window=0 "
                                   "layout=bhsd\n")},
    {"a divisor",
     QKV "%12 = full() dtype=f32 shape=[] value=2\n%13 = div(%10, %12)\n" AGAINST(13, NO_MASK)},
    {"scale of q", QKV
     "%12 = affine(%1) mul=0.5 add=0\n%13 = matmul(%12, %2) trans_a=false trans_b=true\n" AGAINST(
         13, NO_MASK)},
    {"scales of both",
     QKV "%12 = affine(%1) mul=2 add=0\n%14 = affine(%2) mul=0.25 add=0\n%13 = matmul(%12, %14) "
         "trans_a=false trans_b=true\n" AGAINST(13, NO_MASK)},
    {"k transposed", QKV "%12 = transpose(%2) perm=[0, 1, 3, 2]\n%13 = matmul(%1, %12)" MATMUL
                         "%14 = affine(%13) mul=0.5 add=0\n" AGAINST(14, NO_MASK)},
    {"k moved", "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 4, 4]\n"
                "%2 = input() name=\"k\" dtype=f32 shape=[2, 4, 4, 4]\n"
                "%3 = transpose(%2) perm=[0, 2, 3, 1]\n%4 = transpose(%2) perm=[0, 2, 1, 3]\n"
                "%5 = matmul(%1, %3)" MATMUL "%6 = softmax(%5) axis=3\n%7 = matmul(%6, %4)" MATMUL
                "%8 = attention(%1, %4, %4, none, none, none, none) scale=1 softcap=0 causal=none "
                "window=0 layout=bhsd\n" ENDS(7, 8)},
    {"softmax written out", QKV
     "%12 = max(%11) axes=[3] keepdims=true\n%13 = stop_gradient(%12)\n%14 = sub(%11, %13)\n%15 "
     "= exp(%14)\n%16 = sum(%15) axes=[-1] keepdims=true\n%17 = div(%15, %16)\n%18 = "
     "matmul(%17, %3)" MATMUL "%19 = attention(%1, %2, %3, " NO_MASK ENDS(18, 19)},
    {"bias", QKV "%12 = add(%5, %11)\n" AGAINST(12, "none, %5, none, none) " PLAIN)},
    {"mask", QKV "%12 = where(%4, %11, %6)\n" AGAINST(12, "%4, none, none, none) " PLAIN)},
    {"mask the other way round", QKV "%12 = where(%4, %6, %11)\n%13 = logical_not(%4)\n" AGAINST(
                                     12, "%13, none, none, none) " PLAIN)},
    {"mask and bias", QKV
     "%12 = add(%11, %5)\n%13 = where(%4, %12, %6)\n" AGAINST(13, "%4, %5, none, none) " PLAIN)},
    {"softcap", QKV "%12 = affine(%11) mul=0.2 add=0\n%13 = tanh(%12)\n%14 = affine(%13) mul=5 "
                    "add=0\n" AGAINST(14, "none, none, none, none) scale=0.5 softcap=5 causal=none "
                                          "window=0 layout=bhsd\n")},
    {"a mask as a bias", QKV
     "%12 = where(%4, %8, %6)\n%13 = add(%11, %12)\n" AGAINST(13, "%4, none, none, none) " PLAIN)},
    {"causal by tril", CAUSAL("%12 = tril(%9) diagonal=0\n", 12, MASK_END)},
    {"causal by not triu",
     CAUSAL("%12 = triu(%9) diagonal=1\n%13 = logical_not(%12)\n", 13, MASK_END)},
    {"causal by positions", CAUSAL(AT "%15 = ge(%13, %12)\n", 15, MASK_END)},
    {"causal by positions, turned", CAUSAL(AT "%15 = le(%14, %13)\n", 15, MASK_END)},
    {"causal by what is hidden",
     CAUSAL(AT "%15 = lt(%13, %14)\n%16 = logical_not(%15)\n", 16, MASK_END)},
    {"causal by a shift",
     CAUSAL(AT "%15 = full() dtype=i32 shape=[] value=1\n%16 = add(%13, %15)\n%17 = lt(%14, %16)\n",
            17, MASK_END)},
    {"causal with a low number",
     QKV "%12 = tril(%9) diagonal=0\n%13 = where(%12, %11, %7)\n" AGAINST(13, MASK_END)},
    {"causal as a bias", QKV "%12 = full() dtype=f32 shape=[4, 4] value=-1e9\n%13 = triu(%12) "
                             "diagonal=1\n%14 = add(%11, %13)\n" AGAINST(14, MASK_END)},
    {"causal, too large to fold",
     "symbol s 4096\n%1 = input() name=\"q\" dtype=f32 shape=[2, 4, s, 8]\n"
     "%2 = input() name=\"k\" dtype=f32 shape=[2, 4, s, 8]\n"
     "%3 = full() dtype=f32 shape=[s, s] value=1\n%4 = tril(%3) diagonal=0\n%5 = full() dtype=f32 "
     "shape=[] value=0\n%6 = eq(%4, %5)\n%7 = full() dtype=f32 shape=[] value=-inf\n"
     "%8 = matmul(%1, %2) trans_a=false trans_b=true\n%9 = where(%6, %7, %8)\n%10 = softmax(%9) "
     "axis=-1\n%11 = matmul(%10, %2)" MATMUL
     "%12 = attention(%1, %2, %2, none, none, none, none) scale=1 softcap=0 causal=end window=0 "
     "layout=bhsd\n" ENDS(11, 12)},
    {"one head",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 4]\n%2 = input() name=\"c\" dtype=bool "
     "shape=[2, 4, 4]\n%3 = full() dtype=f32 shape=[] value=-inf\n"
     "%4 = matmul(%1, %1) trans_a=false trans_b=true\n%5 = affine(%4) mul=0.5 add=0\n%6 = "
     "where(%2, "
     "%5, %3)\n%7 = softmax(%6) axis=-1\n%8 = matmul(%7, %1)" MATMUL
     "%9 = reshape(%1) shape=[2, 1, 4, 4]\n%10 = reshape(%2) shape=[2, 1, 4, 4]\n"
     "%11 = attention(%9, %9, %9, %10, none, none, none) " PLAIN
     "%13 = reshape(%11) shape=[2, 4, 4]\n" ENDS(8, 13)},
    {"heads repeated",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 3, 5]\n%2 = input() name=\"k\" dtype=f32 "
     "shape=[2, 2, 3, 5]\n%3 = reshape(%2) shape=[2, 2, 1, 3, 5]\n%4 = expand(%3) shape=[2, 2, 2, "
     "3, 5]\n%5 = reshape(%4) shape=[2, 4, 3, 5]\n%6 = matmul(%1, %5) trans_a=false trans_b=true\n"
     "%7 = softmax(%6) axis=-1\n%8 = matmul(%7, %5)" MATMUL
     "%9 = attention(%1, %2, %2, none, none, none, none) scale=1 softcap=0 causal=none window=0 "
     "layout=bhsd\n" ENDS(8, 9)},
    {"rms norm without eps, weight first",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = input() name=\"w\" dtype=f32 shape=[6]\n"
     "%3 = powf(%1) exponent=2\n%4 = mean(%3) axes=[1] keepdims=true\n%5 = rsqrt(%4)\n%6 = mul(%2, "
     "%1)\n%7 = mul(%6, %5)\n%8 = rms_norm(%1, %2, none) axes=1 eps=0\n" ENDS(7, 8)},
    {"rms norm by a sum",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = mul(%1, %1)\n%3 = sum(%2) axes=[-1] "
     "keepdims=true\n%4 = full() dtype=f32 shape=[] value=6\n%5 = div(%3, %4)\n%6 = affine(%5) "
     "mul=1 add=0.01\n%7 = sqrt(%6)\n%8 = div(%1, %7)\n%9 = rms_norm(%1, none, none) axes=1 "
     "eps=0.01\n" ENDS(8, 9)},
    {"layer norm by var",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = mean(%1) axes=[1] keepdims=true\n%3 = "
     "sub(%1, %2)\n%4 = var(%1) axes=[-1] correction=0 keepdims=true\n%5 = affine(%4) mul=1 "
     "add=0.01\n%6 = rsqrt(%5)\n%7 = mul(%3, %6)\n%8 = layer_norm(%1, none, none) axes=1 "
     "eps=0.01\n" ENDS(7, 8)},
    {"silu gated, in another order",
     "%1 = input() name=\"x\" dtype=f32 shape=[4]\n%2 = input() name=\"y\" dtype=f32 shape=[4]\n%3 "
     "= "
     "mul(%2, %1)\n%4 = affine(%1) mul=-1 add=0\n%5 = exp(%4)\n%6 = affine(%5) mul=1 add=1\n%7 = "
     "recip(%6)\n%8 = mul(%3, %7)\n%9 = silu(%1)\n%10 = mul(%9, %2)\n" ENDS(8, 10)},
    {"cross-entropy by log-sum-exp",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = input() name=\"y\" dtype=i32 "
     "shape=[4]\n%3 = reshape(%2) shape=[4, 1]\n%4 = gather_along(%1, %3) axis=1\n%5 = "
     "logsumexp(%1) axes=[1] keepdims=true\n%6 = sub(%5, %4)\n%7 = mean(%6) axes=[] "
     "keepdims=false\n%8 = cross_entropy(%1, %2) ignore_index=-2147483648 smoothing=0 "
     "reduction=mean\n" ENDS(7, 8)},
    {"cross-entropy by one_hot",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = input() name=\"y\" dtype=i32 "
     "shape=[4]\n%3 = one_hot(%2) n=6 dtype=f32\n%4 = log_softmax(%1) axis=1\n%5 = mul(%3, %4)\n%6 "
     "= sum(%5) axes=[1] keepdims=false\n%7 = mean(%6) axes=[0] keepdims=false\n%8 = neg(%7)\n%9 = "
     "cross_entropy(%1, %2) ignore_index=-2147483648 smoothing=0 reduction=mean\n" ENDS(8, 9)},
    {"the last row of a product",
     "symbol n 64\n%1 = input() name=\"x\" dtype=f32 shape=[1, n, 8]\n%2 = input() name=\"w\" "
     "dtype=f32 shape=[9, 8]\n%3 = matmul(%1, %2) trans_a=false trans_b=true\n%4 = slice(%3) "
     "axis=1 "
     "start=n - 1 stop=n step=1\n%5 = slice(%1) axis=1 start=n - 1 stop=n step=1\n%6 = matmul(%5, "
     "%2) trans_a=false trans_b=true\n" ENDS(4, 6)},
    {"the last row of a product in another shape",
     "symbol n 64\n%1 = input() name=\"x\" dtype=f32 shape=[1, n, 8]\n%2 = input() name=\"w\" "
     "dtype=f32 shape=[9, 8]\n%3 = matmul(%1, %2) trans_a=false trans_b=true\n%4 = reshape(%3) "
     "shape=[n, 3, 3]\n%5 = slice(%4) axis=0 start=n - 1 stop=n step=1\n%6 = slice(%1) axis=1 "
     "start=n - 1 stop=n step=1\n%7 = matmul(%6, %2) trans_a=false trans_b=true\n%8 = reshape(%7) "
     "shape=[1, 3, 3]\n" ENDS(5, 8)},
    {"the last row of a norm of a sum",
     "symbol n 64\n%1 = input() name=\"x\" dtype=f32 shape=[1, n, 8]\n%2 = input() name=\"w\" "
     "dtype=f32 shape=[8]\n%3 = add(%1, %2)\n%4 = rms_norm(%3, %2, none) axes=1 eps=0.01\n%5 = "
     "slice(%4) axis=-2 start=n - 1 stop=n step=1\n%6 = slice(%1) axis=1 start=n - 1 stop=n "
     "step=1\n"
     "%7 = add(%6, %2)\n%8 = rms_norm(%7, %2, none) axes=1 eps=0.01\n" ENDS(5, 8)},
};

static const goal before_gradients[] = {
    {"frozen statistics in a convolution's weights", CONV("3", "f32", "none") MEAN NORM FOLDED},
    {"for the most images that there are",
     "symbol n 3\n" CONV("n", "f32", "none") MEAN NORM FOLDED},
    {"a mean of 0", CONV("3", "f32", "none") ZERO NORM CENTRED},
};

static const goal never[] = {
    {"more weights than results take", CONV("2", "f32", "none") MEAN NORM FOLDED},
    {"more weights than results ever take",
     "symbol n 2\n" CONV("n", "f32", "none") MEAN NORM FOLDED},
    {"more weights, and a mean of 0", CONV("2", "f32", "none") ZERO NORM CENTRED},
    {"a mean that is not 0", CONV("3", "f32", "none") MEAN NORM CENTRED},
    {"a product of weights in 16 bits",
     CONV("3", "bf16", "none") VECTOR(5, "m", "bf16") NORM FOLDED},
    {"a convolution with a bias", CONV("3", "f32", "%17") MEAN NORM FOLDED},
    {"statistics of the batch", CONV("3", "f32", "none") MEAN
     "%20 = batch_norm_train(%7, %3, %4, %5, %6) momentum=0.1 eps=0.01\n%8 = reshape(%20) "
     "shape=[3, 4, 4]\n" FOLDED},
    {"statistics of a group",
     CONV("3", "f32", "none") MEAN "%8 = group_norm(%7, %3, %4) groups=4 eps=0.01\n" FOLDED},
    {"a triangle that lacks its diagonal, with a low number",
     QKV "%12 = tril(%9) diagonal=-1\n%13 = where(%12, %11, %7)\n" AGAINST(
         13, "%12, none, none, none) " PLAIN)},
    {"a constant with an empty row, with a low number",
     QKV "%12 = constant() dtype=bool shape=[4, 4] data=0x01000000010100000000000001000101\n%13 = "
         "where(%12, %11, %7)\n" AGAINST(13, "%12, none, none, none) " PLAIN)},
    {"keys repeated behind each other",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 2, 3, 5]\n%2 = input() name=\"k\" dtype=f32 "
     "shape=[2, 2, 3, 5]\n%3 = reshape(%2) shape=[2, 2, 1, 3, 5]\n%4 = expand(%3) shape=[2, 2, 2, "
     "3, 5]\n%5 = reshape(%4) shape=[2, 2, 6, 5]\n%6 = attention(%1, %5, %5, none, none, none, "
     "none) "
     "scale=1 softcap=0 causal=end window=0 layout=bhsd\n%8 = attention(%1, %2, %2, none, none, "
     "none, "
     "none) scale=1 softcap=0 causal=end window=0 layout=bhsd\n" ENDS(6, 8)},
    {"a triangle the wrong way, symbolic", SYMBOLIC("%4 = triu(%3) diagonal=1\n", 4)},
    {"a triangle and not, symbolic",
     SYMBOLIC("%4 = tril(%3) diagonal=0\n%5 = logical_not(%4)\n", 5)},
    {"what is hidden one too far, symbolic",
     SYMBOLIC("%4 = triu(%3) diagonal=0\n%5 = logical_not(%4)\n", 5)},
    {"positions that do not count",
     SYMBOLIC("%4 = arange() dtype=i32 n=s start=0 step=1\n%5 = reshape(%4) shape=[s, 1]\n%6 = "
              "expand(%5) shape=[s, s]\n%7 = arange() dtype=i32 n=1 start=0 step=1\n%8 = le(%7, "
              "%6)\n",
              8)},
    {"causal to neither end of more keys",
     SIZES(2, 4, "%3 = full() dtype=bool shape=[2, 4] value=1\n%4 = tril(%3) diagonal=1\n",
           "%4, none, none, none) " FREE, "end")},
    {"causal twice",
     SIZES(2, 4, "%3 = full() dtype=bool shape=[2, 4] value=1\n%4 = tril(%3) diagonal=2\n",
           "%4, none, none, none) scale=1 softcap=0 causal=start", "end")},
    {"a low bias that leaves a row empty",
     SIZES(3, 2, "%3 = full() dtype=f32 shape=[3, 2] value=-1e9\n%4 = triu(%3) diagonal=0\n",
           "none, %4, none, none) " FREE, "end")},
    {"a bias that hides and adds", QKV
     "%12 = full() dtype=f32 shape=[] value=1\n%13 = where(%4, %12, %6)\n%14 = attention(%1, %2, "
     "%3, none, %13, none, none) " PLAIN
     "%16 = attention(%1, %2, %3, %4, none, none, none) " PLAIN ENDS(14, 16)},
    {"labels of the other axis of one class",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 1]\n%2 = input() name=\"y\" dtype=i32 shape=[4, "
     "1]\n%3 = log_softmax(%1) axis=1\n%4 = gather_along(%3, %2) axis=0\n%5 = mean(%4) axes=[] "
     "keepdims=false\n%6 = neg(%5)\n%7 = reshape(%2) shape=[4]\n%8 = cross_entropy(%1, %7) "
     "ignore_index=-2147483648 smoothing=0 reduction=mean\n" ENDS(6, 8)},
    {"a log-sum-exp of columns",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4]\n%2 = input() name=\"y\" dtype=i32 "
     "shape=[4]\n%3 = reshape(%2) shape=[4, 1]\n%4 = gather_along(%1, %3) axis=1\n%5 = reshape(%4) "
     "shape=[4]\n%6 = logsumexp(%1) axes=[0] keepdims=false\n%7 = sub(%6, %5)\n%8 = mean(%7) "
     "axes=[] "
     "keepdims=false\n%9 = cross_entropy(%1, %2) ignore_index=-2147483648 smoothing=0 "
     "reduction=mean\n" ENDS(8, 9)},
    {"batches backwards are not rows backwards",
     MATRICES "%3 = matmul(%1, %2)" MATMUL "%4 = slice(%3) axis=0" REVERSED "%5 = slice(%1) "
              "axis=1" REVERSED "%6 = matmul(%5, %2)" MATMUL ENDS(4, 6)},
    {"rows backwards are not columns backwards",
     MATRICES "%3 = matmul(%1, %2)" MATMUL "%4 = slice(%3) axis=1" REVERSED "%5 = slice(%2) "
              "axis=2" REVERSED "%6 = matmul(%1, %5)" MATMUL ENDS(4, 6)},
    {"an axis that a reshape does not keep",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4, 2]\n%2 = reshape(%1) shape=[4, 2, 4]\n%3 = "
     "slice(%2) axis=2" REVERSED "%4 = slice(%1) axis=1" REVERSED "%5 = reshape(%4) shape=[4, 2, "
     "4]\n" ENDS(3, 5)},
    {"an axis under another transpose",
     MATRICES "%3 = transpose(%1) perm=[2, 0, 1]\n%4 = slice(%3) axis=0" REVERSED "%5 = slice(%1) "
              "axis=1" REVERSED "%6 = transpose(%5) perm=[2, 0, 1]\n" ENDS(4, 6)},
    {"half of a sum backwards",
     MATRICES "%3 = sub(%1, %2)\n%4 = slice(%3) axis=1" REVERSED "%5 = slice(%1) axis=1" REVERSED
              "%6 = sub(%5, %2)\n" ENDS(4, 6)},
    {"the other half of a sum backwards",
     MATRICES "%3 = sub(%1, %2)\n%4 = slice(%3) axis=1" REVERSED "%5 = slice(%2) axis=1" REVERSED
              "%6 = sub(%1, %5)\n" ENDS(4, 6)},
    {"no sigmoid", "%1 = input() name=\"x\" dtype=f32 shape=[4]\n%2 = neg(%1)\n%3 = exp(%2)\n%4 = "
                   "affine(%3) mul=1 add=2\n%5 = recip(%4)\n%6 = sigmoid(%1)\n" ENDS(5, 6)},
    {"no softcap",
     "%1 = input() name=\"x\" dtype=f32 shape=[4]\n%2 = affine(%1) mul=0.2 add=0.5\n%3 "
     "= tanh(%2)\n%4 = affine(%3) mul=5 add=0\n%5 = softcap(%1) cap=5\n" ENDS(4, 5)},
    {"no softcap either", "%1 = input() name=\"x\" dtype=f32 shape=[4]\n%2 = affine(%1) mul=0.2 "
                          "add=0\n%3 = tanh(%2)\n%4 = affine(%3) mul=5 add=1\n%5 = softcap(%1) "
                          "cap=5\n" ENDS(4, 5)},
    {"an eps that scales",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = sqr(%1)\n%3 = mean(%2) axes=[1] "
     "keepdims=true\n%4 = affine(%3) mul=2 add=0.01\n%5 = rsqrt(%4)\n%6 = mul(%1, %5)\n%7 = "
     "rms_norm(%1, none, none) axes=1 eps=0.01\n" ENDS(6, 7)},
    {"the scale is dropped", QKV AGAINST(10, NO_MASK)},
    {"the scale comes twice", QKV "%12 = affine(%11) mul=0.5 add=0\n" AGAINST(12, NO_MASK)},
    {"a scale that adds", QKV "%12 = affine(%10) mul=0.5 add=0.25\n" AGAINST(12, NO_MASK)},
    {"the scale of q is dropped",
     QKV "%12 = affine(%1) mul=0.5 add=0\n%13 = matmul(%12, %2) trans_a=false trans_b=true\n%14 = "
         "affine(%13) mul=0.5 add=0\n" AGAINST(14, NO_MASK)},
    {"another softmax axis", QKV "%29 = softmax(%11) axis=2\n%30 = matmul(%29, %3)" MATMUL
                                 "%31 = attention(%1, %2, %3, " NO_MASK ENDS(30, 31)},
    {"k is not transposed",
     QKV "%12 = matmul(%1, %2)" MATMUL "%13 = affine(%12) mul=0.5 add=0\n" AGAINST(13, NO_MASK)},
    {"k is transposed twice",
     QKV "%12 = transpose(%2) perm=[0, 1, 3, 2]\n%13 = matmul(%1, %12) "
         "trans_a=false trans_b=true\n%14 = affine(%13) mul=0.5 add=0\n" AGAINST(14, NO_MASK)},
    {"other axes of k are swapped",
     QKV "%12 = transpose(%2) perm=[0, 3, 2, 1]\n%13 = matmul(%1, %12)" MATMUL
         "%14 = affine(%13) mul=0.5 add=0\n" AGAINST(14, NO_MASK)},
    {"v is transposed",
     QKV "%12 = softmax(%11) axis=-1\n%13 = matmul(%12, %3) trans_a=false trans_b=true\n%14 = "
         "attention(%1, %2, %3, " NO_MASK ENDS(13, 14)},
    {"the weights are transposed",
     QKV "%12 = softmax(%11) axis=-1\n%13 = matmul(%12, %3) trans_a=true trans_b=false\n%14 = "
         "attention(%1, %2, %3, " NO_MASK ENDS(13, 14)},
    {"q and k are exchanged", QKV
     "%12 = matmul(%2, %1) trans_a=false trans_b=true\n%13 = affine(%12) mul=0.5 add=0\n" AGAINST(
         13, NO_MASK)},
    {"the bias is dropped", QKV "%12 = add(%11, %5)\n" AGAINST(12, NO_MASK)},
    {"the bias is scaled too", QKV "%12 = add(%10, %5)\n%13 = affine(%12) mul=0.5 add=0\n" AGAINST(
                                   13, "none, %5, none, none) " PLAIN)},
    {"a bias that multiplies",
     QKV "%12 = mul(%11, %5)\n" AGAINST(12, "none, %5, none, none) " PLAIN)},
    {"a bias that is taken off",
     QKV "%12 = sub(%11, %5)\n" AGAINST(12, "none, %5, none, none) " PLAIN)},
    {"the mask is dropped", QKV "%12 = where(%4, %11, %6)\n" AGAINST(12, NO_MASK)},
    {"the mask is turned round",
     QKV "%12 = where(%4, %6, %11)\n" AGAINST(12, "%4, none, none, none) " PLAIN)},
    {"0 is no mask", QKV "%12 = where(%4, %11, %8)\n" AGAINST(12, "%4, none, none, none) " PLAIN)},
    {"a low number where rows may be empty",
     QKV "%12 = where(%4, %11, %7)\n" AGAINST(12, "%4, none, none, none) " PLAIN)},
    {"a number that is not low",
     QKV "%12 = full() dtype=f32 shape=[] value=-1000\n%13 = tril(%9) diagonal=0\n%14 = where(%13, "
         "%11, %12)\n" AGAINST(14, MASK_END)},
    {"a mask of infinities",
     QKV "%12 = neg(%6)\n%13 = where(%4, %11, %12)\n" AGAINST(13, "%4, none, none, none) " PLAIN)},
    {"a bias behind the mask", QKV
     "%12 = where(%4, %11, %6)\n%13 = add(%12, %5)\n" AGAINST(13, "%4, none, none, none) " PLAIN)},
    {"the cap is dropped", QKV "%12 = softcap(%11) cap=5\n" AGAINST(12, NO_MASK)},
    {"the cap is another",
     QKV "%12 = affine(%11) mul=0.2 add=0\n%13 = tanh(%12)\n%14 = affine(%13) "
         "mul=4 add=0\n" AGAINST(14, "none, none, none, none) scale=0.5 "
                                     "softcap=5 causal=none window=0 "
                                     "layout=bhsd\n")},
    {"the cap before the scale",
     QKV "%12 = softcap(%10) cap=5\n%13 = affine(%12) mul=0.5 add=0\n" AGAINST(
         13, "none, none, none, none) scale=0.5 softcap=5 causal=none window=0 layout=bhsd\n")},
    {"causal the wrong way", CAUSAL("%12 = triu(%9) diagonal=0\n", 12, MASK_END)},
    {"causal one too far", CAUSAL("%12 = tril(%9) diagonal=1\n", 12, MASK_END)},
    {"causal one too short", CAUSAL(AT "%15 = gt(%13, %12)\n", 15, MASK_END)},
    {"causal by columns of rows", CAUSAL(AT "%15 = ge(%14, %13)\n", 15, MASK_END)},
    {"causal from another start",
     CAUSAL("%12 = arange() dtype=i32 n=4 start=0 step=1\n%13 = arange() dtype=i32 n=4 start=1 "
            "step=1\n%14 = reshape(%13) shape=[4, 1]\n%15 = ge(%14, %12)\n",
            15, MASK_END)},
    {"causal in other steps",
     CAUSAL("%12 = arange() dtype=i32 n=4 start=0 step=2\n%13 = arange() dtype=i32 n=4 start=0 "
            "step=1\n%14 = reshape(%13) shape=[4, 1]\n%15 = ge(%14, %12)\n",
            15, MASK_END)},
    {"a constant that is almost causal",
     CAUSAL("%12 = constant() dtype=bool shape=[4, 4] data=0x01000000010100000101010001000101\n",
            12, MASK_END)},
    {"a bias that is almost causal",
     QKV "%12 = full() dtype=f32 shape=[4, 4] value=-1e9\n%13 = triu(%12) diagonal=2\n%14 = "
         "add(%11, %13)\n" AGAINST(14, MASK_END)},
    {"a bias of numbers that are not low",
     QKV "%12 = full() dtype=f32 shape=[4, 4] value=-3\n%13 = triu(%12) diagonal=1\n%14 = add(%11, "
         "%13)\n" AGAINST(14, MASK_END)},
    {"heads tiled, not repeated",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 3, 5]\n%2 = input() name=\"k\" dtype=f32 "
     "shape=[2, 2, 3, 5]\n%3 = reshape(%2) shape=[2, 1, 2, 3, 5]\n%4 = expand(%3) shape=[2, 2, 2, "
     "3, 5]\n%5 = reshape(%4) shape=[2, 4, 3, 5]\n%6 = matmul(%1, %5) trans_a=false trans_b=true\n"
     "%7 = softmax(%6) axis=-1\n%8 = matmul(%7, %5)" MATMUL
     "%9 = attention(%1, %2, %2, none, none, none, none) scale=1 softcap=0 causal=none window=0 "
     "layout=bhsd\n" ENDS(8, 9)},
    {"a mask of batches is none of heads",
     "%1 = input() name=\"q\" dtype=f32 shape=[2, 4, 4]\n%2 = input() name=\"c\" dtype=bool "
     "shape=[2, 4, 4]\n%3 = full() dtype=f32 shape=[] value=-inf\n"
     "%4 = matmul(%1, %1) trans_a=false trans_b=true\n%5 = where(%2, %4, %3)\n%6 = softmax(%5) "
     "axis=-1\n%7 = matmul(%6, %1)" MATMUL
     "%8 = reshape(%1) shape=[1, 2, 4, 4]\n%9 = transpose(%2) perm=[0, 2, 1]\n"
     "%10 = attention(%8, %8, %8, %9, none, none, none) scale=1 softcap=0 causal=none window=0 "
     "layout=bhsd\n%12 = reshape(%10) shape=[2, 4, 4]\n" ENDS(7, 12)},
    {"a variance over n - 1",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = mean(%1) axes=[1] keepdims=true\n%3 = "
     "sub(%1, %2)\n%4 = var(%1) axes=[-1] correction=1 keepdims=true\n%5 = affine(%4) mul=1 "
     "add=0.01\n%6 = rsqrt(%5)\n%7 = mul(%3, %6)\n%8 = layer_norm(%1, none, none) axes=1 "
     "eps=0.01\n" ENDS(7, 8)},
    {"a variance of another axis",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4]\n%2 = mean(%1) axes=[1] keepdims=true\n%3 = "
     "sub(%1, %2)\n%4 = var(%1) axes=[0] correction=0 keepdims=true\n%5 = affine(%4) mul=1 "
     "add=0.01\n%6 = rsqrt(%5)\n%7 = mul(%3, %6)\n%8 = layer_norm(%1, none, none) axes=1 "
     "eps=0.01\n" ENDS(7, 8)},
    {"a sum over another number is no mean",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = sum(%1) axes=[1] keepdims=true\n%3 = "
     "affine(%2) mul=0.25 add=0\n%4 = mean(%1) axes=[1] keepdims=true\n" ENDS(3, 4)},
    {"a mean of some labels",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = input() name=\"y\" dtype=i32 shape=[4, "
     "1]\n%3 = log_softmax(%1) axis=0\n%4 = gather_along(%3, %2) axis=1\n%5 = mean(%4) axes=[] "
     "keepdims=false\n%6 = neg(%5)\n%7 = reshape(%2) shape=[4]\n%8 = cross_entropy(%1, %7) "
     "ignore_index=-2147483648 smoothing=0 reduction=mean\n" ENDS(6, 8)},
    {"a loss that is not negated",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = input() name=\"y\" dtype=i32 shape=[4, "
     "1]\n%3 = log_softmax(%1) axis=1\n%4 = gather_along(%3, %2) axis=1\n%5 = mean(%4) axes=[] "
     "keepdims=false\n%7 = reshape(%2) shape=[4]\n%8 = cross_entropy(%1, %7) "
     "ignore_index=-2147483648 "
     "smoothing=0 reduction=mean\n" ENDS(5, 8)},
    {"labels that stand for less than all classes",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4]\n%2 = input() name=\"y\" dtype=i32 shape=[1, "
     "4]\n%3 = log_softmax(%1) axis=1\n%4 = gather_along(%3, %2) axis=0\n%5 = mean(%4) axes=[] "
     "keepdims=false\n%6 = neg(%5)\n%7 = reshape(%2) shape=[4]\n%8 = cross_entropy(%1, %7) "
     "ignore_index=-2147483648 smoothing=0 reduction=mean\n" ENDS(6, 8)},
    {"a norm of a slice of its own axis",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 6]\n%2 = rms_norm(%1, none, none) axes=1 "
     "eps=0.01\n%3 = slice(%2) axis=1 start=1 stop=3 step=1\n%4 = slice(%1) axis=1 start=1 stop=3 "
     "step=1\n%5 = rms_norm(%4, none, none) axes=1 eps=0.01\n" ENDS(3, 5)},
    {"rows of the other factor",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4]\n%2 = input() name=\"y\" dtype=f32 shape=[4, "
     "4]\n%3 = matmul(%1, %2)" MATMUL "%4 = slice(%3) axis=0 start=1 stop=3 step=1\n%5 = slice(%1) "
     "axis=0 start=0 stop=2 step=1\n%6 = matmul(%5, %2)" MATMUL ENDS(4, 6)},
    {"rows are not columns",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4]\n%2 = input() name=\"y\" dtype=f32 shape=[4, "
     "4]\n%3 = matmul(%1, %2) trans_a=true trans_b=false\n%4 = slice(%3) axis=0 start=-1 "
     "stop=4611686018427387903 step=-1\n%5 = slice(%1) axis=0 start=-1 stop=4611686018427387903 "
     "step=-1\n%6 = matmul(%5, %2) trans_a=true "
     "trans_b=false\n" ENDS(4, 6)},
};

/* Whether "a" and "b" end in one class. */
static bool proves(const goal *q, bool recognise_only, bool fast_math) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *dims = NULL;
  egraph e;
  rule_set set;
  opt_report report = {0};
  opt_options o = {.recognise_only = recognise_only, .fast_math = fast_math, .max_matches = 100000};
  bool live[64], equal = false;
  class_id of[64] = {0};
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  if (sn_graph_parse(ctx, q->text, &g) != SN_OK)
    FAIL("%s: %s", q->name, sn_ctx_message(ctx));
  else if (CHECK(graph_create(ctx, g->table, &dims) == SN_OK && dim_copy_all(dims, g) &&
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

TEST_WALK(proved) {
  for (size_t i = 0; i < COUNT_OF(provable); i++) {
    if (!test_begin("%s", provable[i].name))
      continue;
    if (!proves(&provable[i], false, false))
      FAIL("is not proved");
    /* Slices belong to the graph that runs; the rest is found before gradients too. */
    if (!strstr(provable[i].text, "slice(") && !proves(&provable[i], true, false))
      FAIL("is not recognised");
    test_end();
  }
}

TEST_WALK(not_proved) {
  for (size_t i = 0; i < COUNT_OF(never); i++) {
    if (!test_begin("%s", never[i].name))
      continue;
    if (proves(&never[i], false, false) || proves(&never[i], true, false) ||
        proves(&never[i], false, true))
      FAIL("is proved");
    test_end();
  }
}

/* What serves gradients alone is not done to what runs. */
TEST_WALK(proved_before_gradients) {
  for (size_t i = 0; i < COUNT_OF(before_gradients); i++) {
    if (!test_begin("%s", before_gradients[i].name))
      continue;
    if (!proves(&before_gradients[i], true, false))
      FAIL("is not recognised");
    if (proves(&before_gradients[i], false, false) || proves(&before_gradients[i], false, true))
      FAIL("is done to what runs");
    test_end();
  }
}
