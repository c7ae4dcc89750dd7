/* See fixture.h. */
#include "support/fixture.h"

#include "support/test.h"

const char *fixture_device = NULL;

static bool fine(const fixture *f, sn_status status) {
  return status == SN_OK || FAIL("%s: %s", sn_status_name(status), sn_ctx_message(f->ctx));
}

bool fixture_start(fixture *f) {
  *f = (fixture){0};
  return CHECK(sn_ctx_create(NULL, &f->ctx) == SN_OK) && fine(f, sn_graph_create(f->ctx, &f->g)) &&
         fine(f, sn_store_create(f->ctx, &f->store));
}

bool fixture_ready(fixture *f, const sn_session_options *options) {
  sn_session_options o = options ? *options : (sn_session_options){0};
  if (!o.device)
    o.device = fixture_device;
  return fine(f, sn_store_init(f->store, f->g, 1)) &&
         fine(f, sn_session_create(f->g, f->store, &o, &f->session));
}

bool fixture_run(fixture *f) { return fine(f, sn_session_run(f->session)); }

void fixture_end(fixture *f) {
  sn_session_destroy(f->session);
  sn_store_destroy(f->store);
  sn_graph_destroy(f->g);
  sn_ctx_destroy(f->ctx);
  *f = (fixture){0};
}
