/* Text files that commands read, whole and of bounded length: a device that never ends must not be read for ever. See cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static sn_status read_text(sn_ctx *ctx, const char *path, FILE *in, size_t most, char **out) {
  size_t room = 0, used = 0;
  for (;;) {
    if (used + 1 >= room) {
      size_t wider = room ? 2 * room : 4096;
      char *text = realloc(*out, wider);
      if (!text)
        return sn_ctx_fail(ctx, SN_ERR_NO_MEMORY, "out of memory");
      *out = text;
      room = wider;
    }
    size_t n = fread(*out + used, 1, room - used - 1, in);
    used += n;
    if (used > most)
      return sn_ctx_fail(ctx, SN_ERR_FORMAT, "%s: too long: at most %zu bytes expected", path,
                         most);
    if (n == 0)
      break;
  }
  (*out)[used] = '\0';
  if (ferror(in))
    return sn_ctx_fail(ctx, SN_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  if (strlen(*out) != used)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "%s: expected text, got a byte of 0", path);
  return SN_OK;
}

sn_status cli_read_text(sn_ctx *ctx, const char *path, size_t most, char **out_text) {
  *out_text = NULL;
  FILE *in = fopen(path, "r");
  if (!in)
    return sn_ctx_fail(ctx, SN_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  sn_status status = read_text(ctx, path, in, most, out_text);
  fclose(in);
  if (status != SN_OK) {
    free(*out_text);
    *out_text = NULL;
  }
  return status;
}

char *cli_next_line(char **rest) {
  char *line = *rest, *end = line + strcspn(line, "\n");
  if (!*line)
    return NULL;
  *rest = *end ? end + 1 : end;
  *end = '\0';
  return line;
}
