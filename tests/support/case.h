/* Cases of ops as text, which tests, fixtures and the mutation run share:
 *
 *   softmax(f32[2, 5]) axis=-1                       inputs drawn, deterministically
 *   gather(f32[7, 3], i32[2, 5](0, 7))               whole numbers drawn from 0 … 6
 *   log(f32[5](0.25, 4))                             drawn from a range
 *   add(i32[2]{1, 2}, i32[2]{3, 4}) => i32[2]{4, 6}  given, with the expected results
 *   layer_norm(f32[2, 5], none, f32[5]) axes=1 eps=1e-5
 *   maximum(f32[1]{2}, f32[1]{2}) @kink              no finite differences here
 *
 * Drawn floats lie on a lattice of 1/64, moved off its points by a different amount for each input:
 * no two are equal, none is a multiple of 1/64, none of one input equals one of another; so kinks at
 * such places and ties never occur by chance.
 */
#ifndef SINEW_TESTS_SUPPORT_CASE_H
#define SINEW_TESTS_SUPPORT_CASE_H

#include "ref/ref.h"

enum { CASE_MAX_INPUTS = 16 };

typedef struct case_tensor {
  sn_type type;
  int64_t count;
  double *data;
  bool given;
} case_tensor;

typedef struct op_test_case {
  sn_ctx *ctx;
  arena memory;
  const op_table *table;
  const op_desc *op;
  char *line; /* the op's line in the text form, with inputs %1 … */
  char *head; /* the lines of the inputs */
  int n_in;
  case_tensor in[CASE_MAX_INPUTS]; /* type.dtype SN_NO_DTYPE: none */
  int n_expected;
  case_tensor expected[MAX_RESULTS];
  bool kink;
} op_test_case;

/* Reads a case. On failure the message is the context's. */
sn_status case_load(sn_ctx *ctx, const op_table *table, const char *source, op_test_case *out);
void case_free(op_test_case *c);
/* Builds the graph of the op alone; outputs "out0", …. inputs are named "in0", … */
sn_status case_graph(const op_test_case *c, sn_graph **out_graph, sn_value *out_first);
/* Value of input i in such a graph; SN_NONE when it is left out. */
sn_value case_input(const op_test_case *c, const sn_graph *g, int i);
/* Runs a graph whose inputs are named "in<i>" (data of the case) and "w<k>" (drawn). results[k] is the
 * k-th output, allocated in `memory`. */
sn_status case_run(const op_test_case *c, const sn_graph *g, ref_mode mode, arena *memory,
                   case_tensor *results);
/* One deterministic draw in [-1, 1), for weights: by name and index. */
double case_weight(const char *name, int64_t index);

#endif
