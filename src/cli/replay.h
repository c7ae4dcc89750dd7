/* A graph from a text file with all that a run of it needs: a number for each symbol, a value for each input, a store
 * for its states. `sinew run` and `sinew bench FILE.txt` run it.
 *
 *   SN_TRY(replay_open(ctx, "graph.txt", &r));
 *   SN_TRY(replay_bind(&r, "n=5"));              // any number of these two
 *   SN_TRY(replay_give(&r, "x=x.npy"));
 *   SN_TRY(replay_settle(&r, &drawing));         // what was not given is found or drawn
 *   SN_TRY(replay_start(&r, &options, &store, &session));
 *   replay_close(&r);                            // also after a failure
 */
#ifndef SINEW_CLI_REPLAY_H
#define SINEW_CLI_REPLAY_H

#include "cli/cli.h"

/* An input or a state. */
typedef struct replay_leaf {
  sn_value value;
  const char *name; /* the graph's */
  bool is_state;
  const char *file; /* where its value comes from; NULL: drawn, or as the graph says */
  sn_shape given;   /* the shape in that file */
  sn_type type;     /* in numbers; from replay_settle on */
  void *data;       /* NULL for a state that no file has */
  size_t size;
} replay_leaf;

/* Where the value of a symbol comes from. */
typedef enum replay_origin {
  REPLAY_UNKNOWN,
  REPLAY_GIVEN,  /* --bind */
  REPLAY_SHAPE,  /* the shape of a given input */
  REPLAY_MAXIMUM /* nothing said what it is */
} replay_origin;

typedef struct replay_symbol {
  const char *name;
  int64_t max;
  replay_origin origin;
  const char *input; /* whose shape it is from */
} replay_symbol;

typedef struct replay {
  sn_ctx *ctx;
  const char *path;
  sn_graph *graph;
  replay_leaf *leaves; /* inputs, then states */
  int n_inputs, n_leaves;
  replay_symbol *symbols;
  int64_t *values; /* of the symbols */
  int n_symbols;
} replay;

/* How values are drawn that no file has. */
typedef struct replay_drawing {
  uint64_t seed;
  int64_t most; /* i32 and u8 are 0 … most */
} replay_drawing;
/* Where nothing is asked for. */
extern const replay_drawing replay_drawn;

/* Whether a file's name says that it is a graph: it ends in .txt. */
bool replay_is_graph(const char *path);
/* Whether a name ends so. */
bool replay_ends_in(const char *path, const char *ending);

sn_status replay_open(sn_ctx *ctx, const char *path, replay *out) SN_MUST_USE;
void replay_close(replay *r);
sn_status replay_bind(replay *r, const char *symbol_is_value) SN_MUST_USE;

/* FILE.npy, NAME=FILE.npy, FILE.safetensors or NAME=FILE.safetensors (replay_files.c). */
sn_status replay_give(replay *r, const char *text) SN_MUST_USE;

sn_status replay_settle(replay *r, const replay_drawing *drawing) SN_MUST_USE;
/* A store with the states, and a session on it with inputs and symbols: ready to run. Both are NULL after a failure. */
sn_status replay_start(const replay *r, uint64_t seed, const sn_session_options *options,
                       sn_store **out_store, sn_session **out_session) SN_MUST_USE;

/* For replay_files.c and replay_draw.c: memory for a leaf's value. */
sn_status replay_reserve(replay *r, replay_leaf *leaf, sn_dtype dtype, sn_shape shape) SN_MUST_USE;
/* Draws the value of a leaf, which depends on the seed, its name and its type only. */
void replay_draw(replay_leaf *leaf, const replay_drawing *drawing);

/* --- numbers of any dtype (replay_draw.c) --- */
double replay_load(sn_dtype dtype, const void *data, int64_t i);
/* "f32[3, 4]" */
enum { REPLAY_TYPE = 240 };
const char *replay_type_text(sn_type type, char out[REPLAY_TYPE]);
int64_t replay_count(sn_shape shape);

#endif
