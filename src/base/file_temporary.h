/* Temporary files of the atomic writer (file_writer.c): made beside the file that they are to become, and removed by a later
 * writer when theirs was killed.
 *
 * A writer holds a lock on its temporary from before the first byte until after the rename. The system lets go of it when the
 * process ends, however it ends: a temporary with nobody's lock is a dead writer's. Whoever removes one holds its lock while
 * doing so; a writer that finds its fresh file locked or removed takes another name.
 *
 * That a lock is free proves nothing where locks may not reach other machines, or do not work. Temporaries there have no
 * lock, and names that are never removed.
 *
 * Process numbers say nothing of who is alive (in a container it is always 1), nor does age (a large save takes long, and clocks
 * differ); files without a name (O_TMPFILE) cannot replace one that has it.
 */
#ifndef SINEW_BASE_FILE_TEMPORARY_H
#define SINEW_BASE_FILE_TEMPORARY_H

#include "base/base.h"

#include <sys/types.h>

typedef struct temporary {
  char name[48]; /* in the folder; "": there is none */
  int fd;        /* to write to; -1: closed */
  int lock;      /* a second descriptor, which keeps the lock when fd is closed; -1: none */
} temporary;

#define TEMPORARY_NONE ((temporary){.fd = -1, .lock = -1})

/* Makes an empty one with these permissions. On failure errno says why, and nothing is left. */
int temporary_create(sn_ctx *ctx, int folder, mode_t mode, temporary *out);
/* Closes what is open and, where there is a name, removes the file. */
void temporary_destroy(sn_ctx *ctx, int folder, temporary *t);
/* Removes from a folder what dead writers left there, as far as it can. */
void temporary_sweep(sn_ctx *ctx, int folder);

#endif
