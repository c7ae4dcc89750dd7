/* Builders: one function an op, declared from the table in ops.def, which is the reference for what
 * each op means. sn_NAME(graph, inputs…, attributes…) yields the op's result 0. */
#ifndef SINEW_OPS_H
#define SINEW_OPS_H

#include <sinew/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
/* Enumerated attributes: SN_ENUM_VALUE, and the word that stands for it in text. */
#define SN_INIT_VALUES(X) \
  X(SN_INIT_ZEROS, zeros) X(SN_INIT_ONES, ones) X(SN_INIT_NORMAL, normal) X(SN_INIT_UNIFORM, uniform)
#define SN_PAD_MODE_VALUES(X) \
  X(SN_PAD_CONSTANT, constant) X(SN_PAD_REFLECT, reflect) X(SN_PAD_EDGE, edge)
#define SN_REDUCTION_VALUES(X) \
  X(SN_REDUCTION_NONE, none) X(SN_REDUCTION_MEAN, mean) X(SN_REDUCTION_SUM, sum)
#define SN_CAUSAL_VALUES(X) X(SN_CAUSAL_NONE, none) X(SN_CAUSAL_END, end) X(SN_CAUSAL_START, start)
#define SN_LAYOUT_VALUES(X) X(SN_LAYOUT_BHSD, bhsd) X(SN_LAYOUT_BSHD, bshd)
#define SN_ROPE_LAYOUT_VALUES(X) X(SN_ROPE_HALF, half) X(SN_ROPE_INTERLEAVED, interleaved)
#define SN_ROPE_SCALING_VALUES(X)                                                    \
  X(SN_ROPE_DEFAULT, default) X(SN_ROPE_LINEAR, linear) X(SN_ROPE_DYNAMIC, dynamic) \
  X(SN_ROPE_LLAMA3, llama3) X(SN_ROPE_YARN, yarn)
#define SN_POOL_VALUES(X)                                                                  \
  X(SN_POOL_MAX, max) X(SN_POOL_AVG, avg) X(SN_POOL_SUM, sum) X(SN_POOL_MIN, min) \
  X(SN_POOL_PROD, prod)

/* clang-format on */

#define SN_ENUM_VALUE_(value, word) value,
typedef enum sn_init { SN_INIT_VALUES(SN_ENUM_VALUE_) } sn_init;
typedef enum sn_pad_mode { SN_PAD_MODE_VALUES(SN_ENUM_VALUE_) } sn_pad_mode;
typedef enum sn_reduction { SN_REDUCTION_VALUES(SN_ENUM_VALUE_) } sn_reduction;
typedef enum sn_causal { SN_CAUSAL_VALUES(SN_ENUM_VALUE_) } sn_causal;
typedef enum sn_layout { SN_LAYOUT_VALUES(SN_ENUM_VALUE_) } sn_layout;
typedef enum sn_rope_layout { SN_ROPE_LAYOUT_VALUES(SN_ENUM_VALUE_) } sn_rope_layout;
typedef enum sn_rope_scaling { SN_ROPE_SCALING_VALUES(SN_ENUM_VALUE_) } sn_rope_scaling;
typedef enum sn_pool_kind { SN_POOL_VALUES(SN_ENUM_VALUE_) } sn_pool_kind;
#undef SN_ENUM_VALUE_

/* Bytes of a constant; borrowed for the call. */
typedef struct sn_bytes {
  const void *data;
  size_t size;
} sn_bytes;

/* `stop` of a slice that runs to the end. */
#define SN_END INT64_C(0x3fffffffffffffff)
/* Identity of a random op or barrier: the next free one of the graph. */
#define SN_AUTO INT64_C(-1)
/* No axes listed: all of them. */
#ifdef __cplusplus
#define SN_ALL_AXES sn_ints_of()
#else
#define SN_ALL_AXES ((sn_ints){0, {0}})
#endif

#define IN(x)         , sn_value x
#define OPT(x)        , sn_value x
#define INT(n)        , int64_t n
#define DIM(d)        , sn_dim d
#define REAL(f)       , double f
#define FLAG(b)       , bool b
#define DTYPE(t)      , sn_dtype t
#define INTS(l)       , sn_ints l
#define SHAPE(s)      , sn_shape s
#define STR(s)        , const char *s
#define BYTES(b)      , sn_bytes b
#define ENUM(type, e) , type e
#define STREAM(s)     , int64_t s
#define OP(name, inputs, attributes, results, meaning) \
  SN_API sn_value sn_##name(sn_graph *graph inputs attributes);
#define OPN(name, attributes, results, meaning) \
  SN_API sn_value sn_##name(sn_graph *graph, const sn_value *values, int n_values attributes);
#include <sinew/ops.def>

#ifdef __cplusplus
}
#endif

#endif
