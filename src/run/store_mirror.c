/* Values of entries on devices that have memory of their own: brought there and back only when somebody needs them. See
 * store.h. */
#include "run/store.h"

void store_changed(store_entry *e, store_mirror *mirror) {
  e->version++;
  if (mirror)
    mirror->version = e->version;
  else
    e->held = e->version;
}

void store_lose(store_entry *e) {
  e->version++;
  e->held = 0;
}

void store_regain(store_entry *e) { e->held = e->version; }

void store_kept(store_entry *e) {
  uint64_t before = e->version++;
  e->held += e->held == before;
  for (int i = 0; i < STORE_MIRRORS; i++)
    e->mirrors[i].version += e->mirrors[i].version == before;
}

static void drop(store_mirror *m) {
  if (m->on)
    m->on->mirrors->destroy(m->memory);
  *m = (store_mirror){0};
}

void store_drop_mirrors(store_entry *e) {
  for (int i = 0; i < STORE_MIRRORS; i++)
    drop(&e->mirrors[i]);
}

sn_status store_pull(store_entry *e, sn_ctx *ctx) {
  if (e->held == e->version)
    return SN_OK;
  for (int i = 0; i < STORE_MIRRORS; i++) {
    store_mirror *m = &e->mirrors[i];
    if (m->version != e->version)
      continue;
    sn_status status = m->on->mirrors->read(m->memory, ctx, e->data);
    if (status != SN_OK)
      return diag_within(ctx, status, "entry \"%s\"", e->name);
    e->held = e->version;
    return SN_OK;
  }
  return diag_fail(
      ctx, SN_ERR_STATE,
      "entry \"%s\": its value was lost, with the device that held it or in a load that "
      "failed; write it or load it anew",
      e->name);
}

/* The mirror on that device or, where it has none, a place for it: a free one, or that of the first. */
static sn_status find_place(store_entry *e, sn_ctx *ctx, const device *on, store_mirror **out) {
  store_mirror *free_place = NULL;
  for (int i = STORE_MIRRORS - 1; i >= 0; i--) {
    store_mirror *m = &e->mirrors[i];
    if (m->on && !m->on->mirrors->is_alive(m->memory))
      drop(m);
    if (m->on == on) {
      *out = m;
      return SN_OK;
    }
    free_place = m->on ? free_place : m;
  }
  if (!free_place) {
    SN_TRY(store_pull(e, ctx));
    free_place = &e->mirrors[0];
    drop(free_place);
  }
  *out = free_place;
  return SN_OK;
}

sn_status store_push(store_entry *e, sn_ctx *ctx, const device *on, store_mirror **out_mirror) {
  store_mirror *m;
  SN_TRY(find_place(e, ctx, on, &m));
  *out_mirror = m;
  if (m->on && m->version == e->version)
    return SN_OK;
  SN_TRY(store_pull(e, ctx));
  if (!m->on) {
    SN_TRY(on->mirrors->create(on, ctx, e->size, &m->memory));
    m->on = on;
  }
  m->version = 0;
  SN_TRY(on->mirrors->write(m->memory, ctx, e->data));
  m->version = e->version;
  return SN_OK;
}
