/* Memory of a plan: what it needs, in as few blocks as the driver's limits allow, and the addresses of values. See plan.h. */
#include "base/memory.h"
#include "device/vulkan/plan.h"

#include <stdlib.h>

/* Results up to this size come to the host with every run: to read them then costs no further copy. */
enum { SMALL_OUTPUT = 64 << 10 };
/* Inputs go through the window onto the GPU's memory where they are not much of it, or of what the window shows. */
enum { WINDOW_MOST = 64 << 20, WINDOW_SHARE = 16 };

static int64_t aligned(int64_t bytes) { return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN; }

/* --- putting rooms into blocks --- */

static sn_status add_room(device_plan *dp, plan_blocks *b, plan_room *r) {
  int64_t bytes = aligned(r->bytes), most = dp->gpu->limits.allocation_bytes;
  if (b->n == 0 || b->bytes[b->n - 1] > most - bytes) {
    if (b->n == PLAN_BLOCKS)
      return diag_fail(dp->ctx, SN_ERR_NO_MEMORY, "%s: the plan is in too many pieces", r->what);
    b->n++;
  }
  r->block = &b->block[b->n - 1];
  r->at = b->bytes[b->n - 1];
  b->bytes[b->n - 1] += bytes;
  return SN_OK;
}

static sn_status create_blocks(device_plan *dp, plan_blocks *b, memory_kind kind,
                               const char *what) {
  for (int i = 0; i < b->n; i++)
    SN_TRY(gpu_block_create(dp->gpu, dp->ctx, kind, what, b->bytes[i], &b->block[i]));
  return SN_OK;
}

static void destroy_blocks(device_plan *dp, plan_blocks *b) {
  for (int i = 0; i < b->n; i++)
    gpu_block_destroy(dp->gpu, &b->block[i]);
}

/* --- arenas --- */

typedef struct extent {
  int64_t from, to;
} extent;

static int by_offset(const void *a, const void *b) {
  const extent *x = a, *y = b;
  return (x->from > y->from) - (x->from < y->from);
}

static int collect(const device_plan *dp, value_home home, extent *out) {
  const program *p = dp->program;
  int n = 0;
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].home == home)
      out[n++] = (extent){p->values[v].offset, p->values[v].offset + p->values[v].bytes};
  qsort(out, (size_t)n, sizeof *out, by_offset);
  return n;
}

/* Cuts between values, where the piece so far and the next values do not fit into one block. A piece that is larger still
 * is tried as it is. */
static int cut(const extent *e, int n, int64_t bytes, int64_t most, arena_piece *out) {
  int pieces = 0;
  int64_t from = 0, last = 0,
          end = 0; /* of the piece; the last place where it could end; of the values so far */
  for (int i = 0; i <= n; i++) {
    int64_t at = i < n ? e[i].from : bytes;
    if (at >= end) { /* nothing lies across `at` */
      if (at - from > most && last > from) {
        out[pieces++] = (arena_piece){.from = from, .to = last};
        from = last;
      }
      last = at;
    }
    end = i < n ? max_i64(end, e[i].to) : end;
  }
  out[pieces++] = (arena_piece){.from = from, .to = bytes};
  return pieces;
}

static sn_status place_arena(device_plan *dp, value_home home, const char *what, int64_t bytes,
                             arena_pieces *out) {
  size_t n = dp->program->n_values + 1;
  extent *extents = arena_array(&dp->memory, n, sizeof *extents);
  out->at = arena_array(&dp->memory, n + 1, sizeof *out->at);
  if (!extents || !out->at)
    return SN_ERR_NO_MEMORY;
  int values = collect(dp, home, extents);
  out->n = cut(extents, values, bytes, dp->gpu->limits.allocation_bytes, out->at);
  for (int i = 0; i < out->n; i++) {
    out->at[i].room = (plan_room){.what = what, .bytes = out->at[i].to - out->at[i].from};
    SN_TRY(add_room(dp, &dp->device, &out->at[i].room));
  }
  return SN_OK;
}

static uint64_t arena_address(const arena_pieces *a, int64_t offset) {
  int i = 0;
  while (i + 1 < a->n && offset >= a->at[i].to)
    i++;
  return room_address(&a->at[i].room) + (uint64_t)(offset - a->at[i].from);
}

/* --- leaves and constants --- */

static int64_t leaf_bytes(const device_plan *dp, value_home home, int index) {
  const program *p = dp->program;
  int64_t most = 0;
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].home == home && p->values[v].index == (uint32_t)index)
      most = max_i64(most, p->values[v].bytes);
  return most;
}

static plan_room *leaf_rooms(device_plan *dp, value_home home, int n, const char *what) {
  plan_room *rooms = arena_array(&dp->memory, (size_t)n, sizeof *rooms);
  for (int i = 0; rooms && i < n; i++)
    rooms[i] = (plan_room){.what = what, .bytes = leaf_bytes(dp, home, i)};
  return rooms;
}

static sn_status place_inputs(device_plan *dp) {
  const program *p = dp->program;
  int64_t all = 0;
  for (int i = 0; i < p->n_inputs; i++)
    all += aligned(dp->inputs[i].bytes);
  const gpu *g = dp->gpu;
  int64_t shown = (int64_t)g->heap_bytes[g->memory_heap[MEMORY_SHARED]];
  bool window = g->memory_flags[MEMORY_SHARED] & VK_MEMORY_DEVICE_LOCAL && all <= WINDOW_MOST &&
                all <= shown / WINDOW_SHARE;
  for (int i = 0; i < p->n_inputs; i++)
    SN_TRY(add_room(dp, window ? &dp->shared : &dp->device, &dp->inputs[i]));
  return SN_OK;
}

static bool is_small(const device_plan *dp, uint32_t output) {
  return dp->outputs[0][output].bytes <= SMALL_OUTPUT;
}

/* Of the small outputs: whether a step reads one. */
typedef struct reading {
  const device_plan *dp;
  bool any;
} reading;

static bool note_reading(void *user, const step_use *use) {
  reading *r = user;
  const program_value *v = &r->dp->program->values[use->value];
  r->any = r->any || (!use->store && v->home == HOME_OUTPUT && is_small(r->dp, v->index));
  return true;
}

/* Many of them, as a training's gradients, would cross the bus line by line in the middle of a run. */
static bool goes_straight(const device_plan *dp) {
  const program *p = dp->program;
  reading r = {.dp = dp};
  int64_t all = 0;
  for (int i = 0; i < p->n_outputs; i++)
    all += is_small(dp, (uint32_t)i) ? dp->outputs[0][i].bytes : 0;
  for (int i = 0; i < program_steps(p); i++)
    (void)step_each_use(&p->steps[i], note_reading, &r);
  return all <= SMALL_OUTPUT && !r.any && dp->gpu->memory_flags[MEMORY_HOST] & VK_MEMORY_CACHED;
}

/* Small ones in one room, the others in rooms of their own. */
static sn_status place_set(device_plan *dp, int set, plan_blocks *of_small) {
  const program *p = dp->program;
  plan_room *small = &dp->small[set], *rooms = dp->outputs[set];
  *small = (plan_room){.what = "outputs"};
  for (int i = 0; i < p->n_outputs; i++)
    if (is_small(dp, (uint32_t)i)) {
      rooms[i].at = small->bytes;
      small->bytes += aligned(rooms[i].bytes);
    }
  SN_TRY(add_room(dp, of_small, small));
  for (int i = 0; i < p->n_outputs; i++)
    if (!is_small(dp, (uint32_t)i))
      SN_TRY(add_room(dp, &dp->device, &rooms[i]));
    else {
      rooms[i].block = small->block;
      rooms[i].at += small->at;
    }
  return SN_OK;
}

/* Plans whose outputs are copied to the host by each run need only one set. */
static sn_status place_outputs(device_plan *dp) {
  bool seen = dp->gpu->memory_flags[MEMORY_DEVICE] & VK_MEMORY_VISIBLE;
  bool straight = !seen && goes_straight(dp);
  plan_blocks *of_small = straight ? &dp->host : &dp->device;
  SN_TRY(place_set(dp, 0, of_small));
  if (dp->resident)
    SN_TRY(place_set(dp, 1, of_small));
  else
    dp->outputs[1] = dp->outputs[0], dp->small[1] = dp->small[0];
  dp->collects = !seen && !straight && dp->small[0].bytes > 0;
  dp->collected = (plan_room){.what = "outputs", .bytes = dp->collects ? dp->small[0].bytes : 0};
  return add_room(dp, &dp->host, &dp->collected);
}

static sn_status place_constants(device_plan *dp) {
  const program *p = dp->program;
  int64_t all = 0;
  dp->constant_at = arena_array(&dp->memory, (size_t)p->n_constants, sizeof *dp->constant_at);
  if (!dp->constant_at)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < p->n_constants; i++) {
    dp->constant_at[i] = all;
    all += aligned((int64_t)p->constants[i].size);
  }
  dp->zeros_at = all;
  dp->constants = (plan_room){.what = "constants", .bytes = all + aligned(PLAN_ZEROS)};
  return add_room(dp, &dp->device, &dp->constants);
}

static sn_status upload_constants(device_plan *dp) {
  const program *p = dp->program;
  for (int i = 0; i < p->n_constants; i++)
    SN_TRY(gpu_write(dp->gpu, dp->ctx, dp->constants.block, dp->constants.at + dp->constant_at[i],
                     p->constants[i].data, (int64_t)p->constants[i].size));
  static const char zeros[PLAN_ZEROS];
  return gpu_write(dp->gpu, dp->ctx, dp->constants.block, dp->constants.at + dp->zeros_at, zeros,
                   PLAN_ZEROS);
}

static sn_status place_leaves(device_plan *dp) {
  const program *p = dp->program;
  dp->inputs = leaf_rooms(dp, HOME_INPUT, p->n_inputs, "inputs");
  dp->outputs[0] = leaf_rooms(dp, HOME_OUTPUT, p->n_outputs, "outputs");
  dp->outputs[1] = leaf_rooms(dp, HOME_OUTPUT, p->n_outputs, "outputs");
  dp->states = leaf_rooms(dp, HOME_STATE, p->n_states, "states");
  if (!dp->inputs || !dp->outputs[0] || !dp->outputs[1] || !dp->states)
    return SN_ERR_NO_MEMORY;
  SN_TRY(place_inputs(dp));
  SN_TRY(place_outputs(dp));
  for (int i = 0; i < p->n_states && !dp->resident; i++)
    SN_TRY(add_room(dp, &dp->device, &dp->states[i]));
  dp->failures = (plan_room){.what = "failures", .bytes = 8 * (int64_t)(p->n_sites + 1)};
  return add_room(dp, &dp->host, &dp->failures);
}

/* --- addresses --- */

static sn_status find_addresses(device_plan *dp) {
  const program *p = dp->program;
  dp->addresses = arena_array(&dp->memory, p->n_values, sizeof *dp->addresses);
  dp->bound = arena_array(&dp->memory, p->n_values, sizeof *dp->bound);
  if (!dp->addresses || !dp->bound)
    return SN_ERR_NO_MEMORY;
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *value = &p->values[v];
    if (value->home == HOME_ARENA)
      dp->addresses[v] = arena_address(&dp->arena, value->offset);
    else if (value->home == HOME_PREPARED)
      dp->addresses[v] = arena_address(&dp->prepared, value->offset);
    else if (value->home == HOME_CONSTANT)
      dp->addresses[v] = room_address(&dp->constants) + (uint64_t)dp->constant_at[value->index];
    else if (value->home == HOME_INPUT)
      dp->addresses[v] = room_address(&dp->inputs[value->index]);
    else
      dp->bound[dp->n_bound++] = v;
  }
  return SN_OK;
}

static int64_t blocks_bytes(const plan_blocks *b) {
  int64_t all = 0;
  for (int i = 0; i < b->n; i++)
    all += b->bytes[i];
  return all;
}

sn_status vk_plan_place(device_plan *dp) {
  const program *p = dp->program;
  SN_TRY(place_arena(dp, HOME_ARENA, "the arena", p->arena_bytes, &dp->arena));
  SN_TRY(place_arena(dp, HOME_PREPARED, "prepared values", p->prepared_bytes, &dp->prepared));
  SN_TRY(add_room(dp, &dp->device, &dp->scratch));
  SN_TRY(add_room(dp, &dp->device, &dp->kept));
  dp->counters = (plan_room){.what = "counters", .bytes = plan_counters(dp)};
  SN_TRY(add_room(dp, &dp->device, &dp->counters));
  SN_TRY(place_constants(dp));
  SN_TRY(place_leaves(dp));
  SN_TRY(
      memory_check(dp->ctx, "the plan", (size_t)blocks_bytes(&dp->device), gpu_available(dp->gpu)));
  SN_TRY(create_blocks(dp, &dp->device, MEMORY_DEVICE, "the plan's memory"));
  SN_TRY(create_blocks(dp, &dp->shared, MEMORY_SHARED, "inputs"));
  SN_TRY(create_blocks(dp, &dp->host, MEMORY_HOST, "results"));
  memset(dp->failures.block->data + dp->failures.at, 0, (size_t)dp->failures.bytes);
  SN_TRY(upload_constants(dp));
  return find_addresses(dp);
}

int64_t plan_bytes(const device_plan *dp) {
  const gpu *g = dp->gpu;
  int64_t shared = blocks_bytes(&dp->shared) + dp->params.block.bytes;
  return blocks_bytes(&dp->device) + (gpu_is_own(g, MEMORY_SHARED) ? shared : 0) +
         (gpu_is_own(g, MEMORY_HOST) ? blocks_bytes(&dp->host) : 0);
}

void plan_unplace(device_plan *dp) {
  destroy_blocks(dp, &dp->device);
  destroy_blocks(dp, &dp->shared);
  destroy_blocks(dp, &dp->host);
}
