// Stories as text: the vocabulary, text to tokens and back, the split into sentences, and what is
// counted over a stream of tokens.
//
// The marks are told from words by their first character: a word begins with a letter.
#include "cli/stories.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/stories_grammar.h"

// --- vocabulary

int32_t stories_vocab_size(void) { return (int32_t)grammar_word_count; }

const char *stories_word(int32_t id) {
  return id >= 0 && (size_t)id < grammar_word_count ? grammar_words[id] : NULL;
}

// Is tokens[at] this word or mark? No for what lies outside [0, n).
static bool token_is(const int32_t *tokens, size_t n, size_t at, const char *word) {
  const char *got = at < n ? stories_word(tokens[at]) : NULL;
  return got && strcmp(got, word) == 0;
}

static bool is_final_mark(const int32_t *tokens, size_t n, size_t at) {
  return token_is(tokens, n, at, ".") || token_is(tokens, n, at, "!") ||
         token_is(tokens, n, at, "?");
}

static bool is_speech_verb(const int32_t *tokens, size_t n, size_t at) {
  for (const char *const *verb = grammar_speech_verbs; *verb; verb++) {
    if (token_is(tokens, n, at, *verb))
      return true;
  }
  return false;
}

// --- text to tokens

// The token that begins at `text`: a word, or one mark. Zero length at the end.
static grammar_span next_piece(const char *text) {
  static const char end[] = "<|end|>";
  text += strspn(text, " \t\r\n");
  if (strncmp(text, end, sizeof end - 1) == 0)
    return (grammar_span){text, sizeof end - 1};
  size_t length = strcspn(text, " \t\r\n.,!?\"<");
  return (grammar_span){text, length > 0 || !*text ? length : 1};
}

static void copy_piece(grammar_span piece, char *to, size_t size) {
  if (size > 0)
    snprintf(to, size, "%.*s", (int)piece.length, piece.text);
}

stories_status stories_encode(const char *text, int32_t *tokens, size_t capacity, char *bad_word,
                              size_t bad_word_size, size_t *out_count) {
  size_t count = 0;
  bool quoting = false;
  *out_count = 0;
  for (grammar_span piece; (piece = next_piece(text)).length > 0;) {
    grammar_span word = piece;
    if (grammar_span_is(piece, "\"")) {
      word = (grammar_span){quoting ? "''" : "``", 2};
      quoting = !quoting;
    }
    int32_t token = grammar_find_word(word);
    if (token < 0) {
      copy_piece(piece, bad_word, bad_word_size);
      return STORIES_UNKNOWN_WORD;
    }
    if (count == capacity)
      return STORIES_BUFFER_FULL;
    if (token == STORIES_END)
      quoting = false;
    tokens[count++] = token;
    text = piece.text + piece.length;
  }
  *out_count = count;
  return STORIES_OK;
}

// --- tokens to text

// Does a new sentence begin at tokens[at]? Speech counts as sentences of its own.
static bool begins_sentence(const int32_t *tokens, size_t at) {
  if (at == 0 || tokens[at - 1] == STORIES_END)
    return true;
  if (token_is(tokens, at, at - 1, "``") || is_final_mark(tokens, at, at - 1))
    return true;
  return at >= 2 && token_is(tokens, at, at - 1, "''") && is_final_mark(tokens, at, at - 2) &&
         !is_speech_verb(tokens, at + 1, at);
}

static bool wants_space(const int32_t *tokens, size_t at) {
  static const char *const tight[] = {".", ",", "!", "?", "''"};
  if (at == 0 || tokens[at] == STORIES_END || tokens[at - 1] == STORIES_END)
    return false;
  if (token_is(tokens, at, at - 1, "``"))
    return false;
  for (size_t i = 0; i < sizeof tight / sizeof *tight; i++) {
    if (token_is(tokens, at + 1, at, tight[i]))
      return false;
  }
  return true;
}

enum { TOKEN_TEXT = 24 };

static void spell(const int32_t *tokens, size_t at, char text[TOKEN_TEXT]) {
  const char *space = wants_space(tokens, at) ? " " : "";
  const char *word = stories_word(tokens[at]);
  if (!word) {
    snprintf(text, TOKEN_TEXT, "%s?%ld", space, (long)tokens[at]);
    return;
  }
  if (tokens[at] == STORIES_END)
    word = "\n";
  if (strcmp(word, "``") == 0 || strcmp(word, "''") == 0)
    word = "\"";
  snprintf(text, TOKEN_TEXT, "%s%s", space, word);
  char *first = text + strlen(space);
  if (begins_sentence(tokens, at) && *first >= 'a' && *first <= 'z')
    *first += 'A' - 'a';
}

stories_status stories_decode(const int32_t *tokens, size_t count, char *text, size_t size,
                              size_t *out_length) {
  size_t length = 0;
  *out_length = 0;
  if (size == 0)
    return STORIES_BUFFER_FULL;
  text[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    char piece[TOKEN_TEXT];
    spell(tokens, i, piece);
    size_t add = strlen(piece);
    if (add >= size - length)
      return STORIES_BUFFER_FULL;
    memcpy(text + length, piece, add + 1);
    length += add;
    *out_length = length;
  }
  return STORIES_OK;
}

// --- sentences

bool stories_next_sentence(const int32_t *tokens, size_t n, size_t *pos, size_t *out_begin) {
  size_t at = *pos;
  while (at < n && tokens[at] == STORIES_END)
    at++;
  *out_begin = at;
  bool quoting = false;
  for (; at < n; at++) {
    bool closing = token_is(tokens, n, at, "''");
    bool ends = !quoting && is_final_mark(tokens, n, at);
    if (closing && at > *out_begin && is_final_mark(tokens, n, at - 1)) {
      ends = !is_speech_verb(tokens, n, at + 1);
    }
    if (closing)
      quoting = false;
    if (token_is(tokens, n, at, "``"))
      quoting = true;
    if (ends || (at + 1 < n && tokens[at + 1] == STORIES_END)) {
      *pos = at + 1;
      return true;
    }
  }
  *pos = n;
  return false;
}

stories_tally stories_count_parsed(const int32_t *tokens, size_t n) {
  stories_tally tally = {0, 0};
  for (size_t pos = 0, begin; stories_next_sentence(tokens, n, &pos, &begin);) {
    tally.total++;
    if (stories_sentence_parses(tokens + begin, pos - begin))
      tally.parsed++;
  }
  return tally;
}

// --- the loss to beat

// With c(a, b) the count of b after a and c(a) = sum over b of c(a, b):
// H = sum over a, b of c(a, b) * (log c(a) - log c(a, b)) / (n - 1).
double stories_bigram_entropy(const int32_t *tokens, size_t n, int32_t vocab, uint32_t *counts) {
  if (n < 2)
    return 0.0;
  size_t width = (size_t)vocab;
  memset(counts, 0, width * width * sizeof *counts);
  for (size_t i = 1; i < n; i++)
    counts[(size_t)tokens[i - 1] * width + (size_t)tokens[i]]++;
  double nats = 0.0;
  for (size_t a = 0; a < width; a++) {
    const uint32_t *row = counts + a * width;
    double total = 0.0;
    for (size_t b = 0; b < width; b++)
      total += row[b];
    for (size_t b = 0; b < width; b++) {
      if (row[b] > 0)
        nats += row[b] * (log(total) - log(row[b]));
    }
  }
  return nats / (double)(n - 1);
}
