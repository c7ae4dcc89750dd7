/* Parts of `sinew demo`, and what `sinew generate` shares with it. */
#ifndef SINEW_CLI_DEMO_H
#define SINEW_CLI_DEMO_H

#include <sinew/sinew.h>
#include <stdio.h>

/* --- text (demo_text.c) --- */

/* Prints a growing sequence of story tokens: each call writes what is new. */
typedef struct demo_printer {
  size_t shown; /* bytes already written */
} demo_printer;
void demo_print_tokens(demo_printer *printer, FILE *out, const int32_t *tokens, size_t n);
/* Whether folder/config.json holds exactly the vocabulary of the stories. */
sn_status demo_vocabulary_known(sn_ctx *ctx, const char *folder, bool *out_known) SN_MUST_USE;

/* --- the record of a run (demo_record.c) --- */

typedef struct demo_point {
  int64_t step;
  double loss;
  double heldout; /* NaN where it was not measured */
} demo_point;

typedef struct demo_record {
  demo_point *points;
  size_t n, capacity;
} demo_record;

bool demo_record_add(demo_record *record, demo_point point); /* false without memory */
void demo_record_free(demo_record *record);
/* loss.csv and loss.svg in the folder; reading back loss.csv up to `last_step`. */
sn_status demo_record_write(sn_ctx *ctx, const demo_record *record, const char *folder,
                            double bigram_entropy) SN_MUST_USE;
sn_status demo_record_read(sn_ctx *ctx, const char *folder, int64_t last_step,
                           demo_record *record) SN_MUST_USE;
/* config.json of the model, with the vocabulary. */
sn_status demo_write_config(sn_ctx *ctx, const sn_model_config *config,
                            const char *folder) SN_MUST_USE;
/* folder/name; false after a message when it is too long. */
bool demo_path(sn_ctx *ctx, const char *folder, const char *name, char *out, size_t size);

/* --- the live view (demo_view.c) --- */

typedef struct demo_view {
  bool live; /* a terminal: one line that is redrawn; else a line now and then */
  double started, last;
} demo_view;

typedef struct demo_progress {
  int64_t step, total;
  double loss, heldout, tokens_per_second, seconds_left;
} demo_progress;

double demo_clock(void); /* seconds, monotonic */
void demo_view_start(demo_view *view);
void demo_view_show(demo_view *view, const demo_progress *progress, bool last);
/* Moves off the bar before other text. */
void demo_view_break(demo_view *view);

#endif
