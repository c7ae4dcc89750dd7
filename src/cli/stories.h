// stories.h: little children's stories, made and judged by one grammar.
//
// `sinew demo` trains a small word-level GPT while you watch. Its text comes from here: no
// download, no file, the same on every machine. The module
//
//   - makes stories from a seed                           stories_generate, stories_fill
//   - turns text into tokens and back                     stories_encode, stories_decode
//   - says whether a sentence or story is of the grammar  stories_sentence_parses, ...
//   - gives the loss that a model must beat               stories_bigram_entropy
//
// In five lines:
//
//   uint64_t rng = 1;                                     // any seed
//   int32_t text[4096];
//   stories_fill(&rng, text, 4096);                       // story <|end|> story <|end|> ...
//   stories_tally tally = stories_count_parsed(text, 4096);
//   printf("%zu of %zu sentences parse\n", tally.parsed, tally.total);
//
// Tokens are int32_t, from 0 to stories_vocab_size() - 1. One token is one word or one punctuation
// mark. STORIES_END stands after each story; put it before a prompt to ask for a new story.
// Quotation marks are two tokens, as in the Penn Treebank: `` opens, '' closes; as text both are ".
//
// Nothing here allocates, keeps state between calls or does I/O; every function may be called from
// any thread. All buffers are the caller's. Only libc (and libm's log) is used.
#ifndef SINEW_CLI_STORIES_H
#define SINEW_CLI_STORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  STORIES_END = 0,         // the token <|end|>: end of a story, and so the start of the next
  STORIES_MAX_STORY = 192, // no story is longer, in tokens, its <|end|> counted
};

typedef enum stories_status {
  STORIES_OK = 0,
  STORIES_BUFFER_FULL,   // the caller's buffer is too small
  STORIES_UNKNOWN_WORD,  // encode: a word that is not in the vocabulary
  STORIES_BROKEN_TABLES, // check: the grammar's own tables contradict each other
} stories_status;

// --- vocabulary

// How many tokens there are. A model that knows nothing has the loss log(stories_vocab_size()).
int32_t stories_vocab_size(void);

// The spelling of a token: "Lily", "ball", ",", "``", "<|end|>". Lower case but for names and "I".
// NULL when id is not a token. Static storage.
const char *stories_word(int32_t id);

// --- making stories

// Writes one story and its <|end|> to tokens[0 .. *out_count). To append, pass the free tail of a
// larger buffer. `rng` is the state of the random numbers: any value is a good seed, the call moves
// it on. STORIES_MAX_STORY tokens always suffice; when `capacity` does not, the answer is
// STORIES_BUFFER_FULL, *out_count is 0 and *rng is as before, so that a retry gives the same story.
// Integer arithmetic only: one seed gives the same stories on all machines.
stories_status stories_generate(uint64_t *rng, int32_t *tokens, size_t capacity, size_t *out_count);

// Fills tokens[0 .. n) with stories one after the other; the last is cut where the buffer ends.
void stories_fill(uint64_t *rng, int32_t *tokens, size_t n);

// --- text

// Splits `text` into tokens. Words are found whatever their case; the marks . , ! ? " need no
// spaces; the quotation mark opens and closes in turn; "<|end|>" may be written out. On
// STORIES_UNKNOWN_WORD the word is copied to `bad_word` (cut to `bad_word_size` bytes with its
// final zero), and *out_count is 0. `bad_word` may be NULL when its size is 0.
stories_status stories_encode(const char *text, int32_t *tokens, size_t capacity, char *bad_word,
                              size_t bad_word_size, size_t *out_count);

// Writes tokens as readable text, with a final zero: a capital at the start of a sentence, no space
// before punctuation or inside quotation marks, a line break for <|end|>, "?" with its number for
// what is not a token. The text of the first k tokens is a prefix of the text of k + 1: to print as
// a model writes, decode again and print what is new. *out_length is in bytes, without the zero. On
// STORIES_BUFFER_FULL the text holds as many whole tokens as fit. 16 bytes a token always suffice,
// and one for the zero.
stories_status stories_decode(const int32_t *tokens, size_t count, char *text, size_t size,
                              size_t *out_length);

// --- judging

// Is tokens[0 .. n) one sentence of the grammar, for any choice of hero, friend, place and thing?
// Agreement inside the sentence counts ("Lily lost his ball" is refused), the story around it does
// not. The final mark, and a closing quote after it, belong to the sentence.
bool stories_sentence_parses(const int32_t *tokens, size_t n);

// Is tokens[0 .. n), given without <|end|>, one whole story: a plot of the grammar from its opening
// to its close, with the same hero, friend, place and thing all through?
bool stories_story_parses(const int32_t *tokens, size_t n);

// Finds the next sentence at or after *pos, skipping <|end|>: it is tokens[*out_begin .. *pos) on
// return. A sentence ends after . ! or ? outside quotation marks; after a closing quote that
// follows one of these, unless said, asked or cried comes next; and before <|end|>. False when
// there is no more; what is left at the end of the stream without an end mark is no sentence.
bool stories_next_sentence(const int32_t *tokens, size_t n, size_t *pos, size_t *out_begin);

typedef struct stories_tally {
  size_t parsed; // sentences that parse
  size_t total;  // sentences
} stories_tally;

// Splits a stream with stories_next_sentence and counts the sentences that parse. A sentence broken
// off by <|end|> counts, and does not parse; one broken off by the end of the stream does not
// count.
stories_tally stories_count_parsed(const int32_t *tokens, size_t n);

// --- the loss to beat

// The bigram entropy of a text, in nats per token: H(w_t | w_{t-1}) with the probabilities taken
// from the bigram counts of this very text (maximum likelihood). It is the lowest mean loss that
// any bigram model could have on this text, even one fitted to it, and so the floor for models that
// see only one word back: a model with a lower loss on held-out text uses more of the context. On
// short texts the value is too low, as the counts learn the text by heart: give it 10,000 tokens or
// more. The n - 1 tokens that have a predecessor count; 0 when there are none. Tokens lie in 0 ..
// vocab-1; `counts` is scratch for vocab * vocab numbers, contents on entry and return without
// meaning.
double stories_bigram_entropy(const int32_t *tokens, size_t n, int32_t vocab, uint32_t *counts);

// --- for the tests

// Checks the tables of the grammar: every symbol has its rows, every word is in the vocabulary,
// every word of the vocabulary and every rule is used, nothing is recursive, the vocabulary is
// sorted. On STORIES_BROKEN_TABLES `message` (of `size` bytes, at least 1) says what is wrong.
stories_status stories_check_tables(char *message, size_t size);

#endif
