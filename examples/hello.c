/* The smallest whole program: y = x·w + b, built as a graph, run through a session.
 *
 *   cc hello.c $(pkg-config --cflags --libs sinew) -o hello && ./hello
 */
#include <sinew/sinew.h>

#include <stdio.h>

/* Builders keep their first error in the graph, so building needs no checks. */
static void build(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "rows", 8), 3));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3, 2), SN_INIT_ZEROS, 0);
  sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(2), SN_INIT_ZEROS, 0);
  sn_output(g, "y", sn_add(g, sn_matmul(g, x, w, false, false), b));
}

/* Every call returns a status; && stops at the first that fails. */
static bool run(const sn_graph *g, sn_store *store, sn_session **out_session, float y[2][2]) {
  static const float x[2][3] = {{1, 2, 3}, {4, 5, 6}};
  static const float w[3][2] = {{1, 0}, {0, 1}, {1, 1}};
  static const float b[2] = {10, 20};
  return sn_store_init(store, g, 0) == SN_OK && sn_store_write(store, "w", w, sizeof w) == SN_OK &&
         sn_store_write(store, "b", b, sizeof b) == SN_OK &&
         sn_session_create(g, store, NULL, out_session) == SN_OK &&
         sn_session_bind(*out_session, "rows", 2) == SN_OK &&
         sn_session_write(*out_session, "x", x, sizeof x) == SN_OK &&
         sn_session_run(*out_session) == SN_OK &&
         sn_session_read(*out_session, "y", y, sizeof(float[2][2])) == SN_OK;
}

int main(void) {
  sn_ctx *ctx = NULL;
  sn_graph *graph = NULL;
  sn_store *store = NULL;
  sn_session *session = NULL;
  float y[2][2] = {{0}};
  bool ok = sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &graph) == SN_OK &&
            sn_store_create(ctx, &store) == SN_OK;
  if (ok) {
    build(graph);
    ok = run(graph, store, &session, y);
  }
  if (ok)
    printf("%g %g\n%g %g\n", y[0][0], y[0][1], y[1][0], y[1][1]);
  else
    fprintf(stderr, "hello: %s\n", ctx ? sn_ctx_message(ctx) : "no memory");

  sn_session_destroy(session);
  sn_store_destroy(store);
  sn_graph_destroy(graph);
  sn_ctx_destroy(ctx);
  /* x·w + b = {{4, 5}, {10, 11}} + {10, 20} */
  return ok && y[0][0] == 14 && y[0][1] == 25 && y[1][0] == 20 && y[1][1] == 31 ? 0 : 1;
}
