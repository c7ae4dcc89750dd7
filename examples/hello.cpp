// hello.c in C++: the same API, with unique_ptr as the owner.
//
//   c++ -std=c++17 hello.cpp $(pkg-config --cflags --libs sinew) -o hello && ./hello
#include <sinew/sinew.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace {

template <auto destroy> struct Destroy {
  template <typename T> void operator()(T *object) const { destroy(object); }
};
using Context = std::unique_ptr<sn_ctx, Destroy<sn_ctx_destroy>>;
using Graph = std::unique_ptr<sn_graph, Destroy<sn_graph_destroy>>;
using Store = std::unique_ptr<sn_store, Destroy<sn_store_destroy>>;
using Session = std::unique_ptr<sn_session, Destroy<sn_session_destroy>>;

void check(const sn_ctx *ctx, sn_status status) {
  if (status != SN_OK)
    throw std::runtime_error(ctx ? sn_ctx_message(ctx) : sn_status_name(status));
}

void build(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "rows", 8), 3));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3, 2), SN_INIT_ZEROS, 0);
  sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(2), SN_INIT_ZEROS, 0);
  sn_output(g, "y", sn_add(g, sn_matmul(g, x, w, false, false), b));
}

std::array<float, 4> hello() {
  const std::array<float, 6> x = {1, 2, 3, 4, 5, 6}, w = {1, 0, 0, 1, 1, 1};
  const std::array<float, 2> b = {10, 20};
  std::array<float, 4> y = {};

  // Declared in the order of dependence, so that they are destroyed in the reverse.
  sn_ctx *ctx = nullptr;
  check(nullptr, sn_ctx_create(nullptr, &ctx));
  Context own_ctx(ctx);
  sn_graph *graph = nullptr;
  check(ctx, sn_graph_create(ctx, &graph));
  Graph own_graph(graph);
  sn_store *store = nullptr;
  check(ctx, sn_store_create(ctx, &store));
  Store own_store(store);

  build(graph);
  check(ctx, sn_store_init(store, graph, 0));
  check(ctx, sn_store_write(store, "w", w.data(), sizeof w));
  check(ctx, sn_store_write(store, "b", b.data(), sizeof b));

  sn_session *session = nullptr;
  check(ctx, sn_session_create(graph, store, nullptr, &session));
  Session own_session(session);
  check(ctx, sn_session_bind(session, "rows", 2));
  check(ctx, sn_session_write(session, "x", x.data(), sizeof x));
  check(ctx, sn_session_run(session));
  check(ctx, sn_session_read(session, "y", y.data(), sizeof y));
  return y;
}

} // namespace

int main() {
  try {
    const std::array<float, 4> y = hello();
    std::printf("%g %g\n%g %g\n", y[0], y[1], y[2], y[3]);
    return y == std::array<float, 4>{14, 25, 20, 31} ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "hello: %s\n", error.what());
    return 1;
  }
}
