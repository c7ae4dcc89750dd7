/* Trains a network of two layers to compute XOR.
 *
 *   cc train_xor.c $(pkg-config --cflags --libs sinew) -o train_xor && ./train_xor
 */
#include <sinew/sinew.h>

#include <stdio.h>

/* Builders keep their first error in the graph, so building needs no checks. */
static sn_status make_trainer(sn_graph *g, sn_store *store, sn_trainer **out_trainer) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(4, 2));
  sn_value y = sn_input(g, "y", SN_F32, SN_SHAPE(4, 1));
  sn_param p[] = {{.state = sn_state(g, "w1", SN_F32, SN_SHAPE(2, 8), SN_INIT_NORMAL, 1)},
                  {.state = sn_state(g, "b1", SN_F32, SN_SHAPE(8), SN_INIT_ZEROS, 0)},
                  {.state = sn_state(g, "w2", SN_F32, SN_SHAPE(8, 1), SN_INIT_NORMAL, 1)}};
  sn_value h = sn_tanh(g, sn_add(g, sn_matmul(g, x, p[0].state, false, false), p[1].state));
  sn_value logits = sn_matmul(g, h, p[2].state, false, false);
  sn_value loss = sn_bce_logits(g, logits, y, SN_REDUCTION_MEAN);
  sn_output(g, "p", sn_sigmoid(g, logits));
  sn_trainer_options o = {.optimizer = {.kind = SN_ADAMW, .weight_decay = 1e-4},
                          .schedule = {.kind = SN_SCHEDULE_CONSTANT, .rate = 0.05}};
  return sn_trainer_create(g, loss, p, 3, store, &o, out_trainer);
}

int main(void) {
  static const float x[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, y[4] = {0, 1, 1, 0};
  sn_ctx *ctx = NULL;
  sn_graph *graph = NULL;
  sn_store *store = NULL;
  sn_trainer *trainer = NULL;
  float loss = 0, p[4] = {0};
  bool ok = sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &graph) == SN_OK &&
            sn_store_create(ctx, &store) == SN_OK &&
            make_trainer(graph, store, &trainer) == SN_OK &&
            sn_session_write(sn_trainer_session(trainer), "x", x, sizeof x) == SN_OK &&
            sn_session_write(sn_trainer_session(trainer), "y", y, sizeof y) == SN_OK;
  while (ok && sn_trainer_steps(trainer) < 200)
    ok = sn_trainer_step(trainer, &loss) == SN_OK;
  ok = ok && sn_session_read(sn_trainer_session(trainer), "p", p, sizeof p) == SN_OK;
  if (ok)
    printf("loss %.4f, xor: %.2f %.2f %.2f %.2f\n", loss, p[0], p[1], p[2], p[3]);
  else
    fprintf(stderr, "train_xor: %s\n", ctx ? sn_ctx_message(ctx) : "no memory");
  sn_trainer_destroy(trainer);
  sn_store_destroy(store);
  sn_graph_destroy(graph);
  sn_ctx_destroy(ctx);
  return ok && p[0] < 0.1 && p[1] > 0.9 && p[2] > 0.9 && p[3] < 0.1 ? 0 : 1;
}
