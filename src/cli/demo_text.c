/* Story tokens as text, and the vocabulary in a model's config.json. */
#include "cli/demo.h"
#include "cli/stories.h"

#include <stdlib.h>
#include <string.h>

void demo_print_tokens(demo_printer *printer, FILE *out, const int32_t *tokens, size_t n) {
  size_t size = 16 * n + 1, length = 0;
  char *text = malloc(size);
  if (!text)
    return;
  if (stories_decode(tokens, n, text, size, &length) == STORIES_OK && length > printer->shown) {
    /* The <|end|> that a prompt begins with is a line break that nobody needs. */
    const char *from = text + printer->shown;
    if (printer->shown == 0)
      from += strspn(from, "\n");
    fputs(from, out);
    printer->shown = length;
  }
  free(text);
}

static bool same_vocabulary(const sn_json *words) {
  int32_t n = stories_vocab_size();
  if (sn_json_size(words) != (size_t)n)
    return false;
  for (int32_t i = 0; i < n; i++) {
    const char *word = sn_json_string(sn_json_at(words, (size_t)i), NULL);
    if (!word || strcmp(word, stories_word(i)) != 0)
      return false;
  }
  return true;
}

sn_status demo_vocabulary_known(sn_ctx *ctx, const char *folder, bool *out_known) {
  char path[4096];
  sn_json_doc *doc;
  *out_known = false;
  if (!demo_path(ctx, folder, "config.json", path, sizeof path))
    return SN_ERR_INVALID;
  sn_status status = sn_json_parse_file(ctx, path, &doc);
  if (status != SN_OK)
    return status;
  *out_known = same_vocabulary(sn_json_get(sn_json_root(doc), "sinew_vocabulary"));
  sn_json_destroy(doc);
  return SN_OK;
}
