/* What a caller binds, writes and reads by name or handle; nothing here runs anything. See session.h. */
#include "base/null.h"

#include "run/session.h"

#include "ir/dim.h"

sn_status sn_session_bind(sn_session *s, const char *symbol, int64_t value) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, symbol);
  int i = dim_find_symbol(s->graph, symbol);
  if (i < 0 || i >= s->n_symbols)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: the graph has no symbol \"%s\"", symbol);
  if (value < 0 || value > dim_symbol_max(s->graph, i))
    return diag_fail(s->ctx, SN_ERR_INVALID, "symbol %s: expected 0 … %lld, got %lld", symbol,
                     (long long)dim_symbol_max(s->graph, i), (long long)value);
  s->bindings[i] = value;
  return SN_OK;
}

/* --- inputs --- */

int sn_session_find_input(const sn_session *s, const char *name) {
  NEEDS_OR(s, -1);
  NEEDS_OR(name, -1);
  for (int i = 0; i < s->n_inputs; i++)
    if (strcmp(s->inputs[i].name, name) == 0)
      return i;
  return -1;
}

sn_status sn_session_write_at(sn_session *s, int input, const void *data, size_t size) {
  NEEDS(s);
  NEEDS_ARGUMENT_IF(s->ctx, size > 0, data);
  if (input < 0 || input >= s->n_inputs)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no input %d", input);
  session_input *in = &s->inputs[input];
  if (!session_buffer_reserve(s->ctx, &in->buffer, size))
    return SN_ERR_NO_MEMORY;
  in->size = size;
  in->fresh = true;
  if (size)
    memcpy(in->buffer.data, data, size);
  return SN_OK;
}

sn_status sn_session_write(sn_session *s, const char *name, const void *data, size_t size) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, name);
  int i = sn_session_find_input(s, name);
  if (i < 0)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: the graph has no input \"%s\"", name);
  return sn_session_write_at(s, i, data, size);
}

/* --- outputs --- */

int sn_session_find_output(const sn_session *s, const char *name) {
  NEEDS_OR(s, -1);
  NEEDS_OR(name, -1);
  for (int i = 0; i < s->n_outputs; i++)
    if (strcmp(s->outputs[i].name, name) == 0)
      return i;
  return -1;
}

static sn_status find_output(sn_session *s, int output) {
  if (output < 0 || output >= s->n_outputs)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no output %d", output);
  if (!s->ran)
    return diag_fail(s->ctx, SN_ERR_STATE, "output \"%s\": nothing has run yet",
                     s->outputs[output].name);
  return SN_OK;
}

sn_status sn_session_output_type(sn_session *s, int output, sn_type *out_type) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, out_type);
  *out_type = (sn_type){0};
  SN_TRY(find_output(s, output));
  *out_type = s->outputs[output].type;
  return SN_OK;
}

sn_status sn_session_read_at(sn_session *s, int output, void *data, size_t size) {
  NEEDS(s);
  NEEDS_ARGUMENT_IF(s->ctx, size > 0, data);
  SN_TRY(find_output(s, output));
  const session_output *o = &s->outputs[output];
  if (size != o->size)
    return diag_fail(s->ctx, SN_ERR_INVALID, "output \"%s\" has %zu bytes, got room for %zu",
                     o->name, o->size, size);
  if (s->engine->read)
    return s->engine->read(s, output, data, size);
  if (size)
    memcpy(data, o->buffer.data, size);
  return SN_OK;
}

sn_status sn_session_read(sn_session *s, const char *name, void *data, size_t size) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, name);
  int i = sn_session_find_output(s, name);
  if (i < 0)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: the graph has no output \"%s\"", name);
  return sn_session_read_at(s, i, data, size);
}

sn_session_stats sn_session_get_stats(const sn_session *s) {
  NEEDS_OR(s, (sn_session_stats){0});
  return s->stats;
}

sn_status sn_session_step(sn_session *s, int index, sn_step *out_step) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, out_step);
  *out_step = (sn_step){0};
  if (index < 0 || index >= s->stats.prepare_steps + s->stats.steps)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no step %d", index);
  *out_step = s->engine->step(s, index);
  return SN_OK;
}
