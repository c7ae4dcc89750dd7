// The demo's stories: that generator and recogniser agree, that the recogniser refuses what it
// should, and that the text rewards a model for looking further back than one word.
//
// The bounds below are measured values with some room; the measured value stands beside each.
#include "cli/stories.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

enum { STORIES = 2000, TRAIN_TOKENS = 200000, HELD_OUT_TOKENS = 50000 };

// --- helpers

static size_t make_story(uint64_t *rng, int32_t tokens[STORIES_MAX_STORY]) {
  size_t count = 0;
  CHECK_EQ_INT(stories_generate(rng, tokens, STORIES_MAX_STORY, &count), STORIES_OK);
  return count;
}

static uint64_t hash_tokens(uint64_t hash, const int32_t *tokens, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ (uint64_t)tokens[i]) * UINT64_C(0x100000001b3); // FNV-1a
  }
  return hash;
}

static uint32_t random_below(uint64_t *state, size_t bound) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((*state >> 33) % bound);
}

static void swap(int32_t *a, int32_t *b) {
  int32_t t = *a;
  *a = *b;
  *b = t;
}

static int32_t *new_stream(uint64_t seed, size_t n) {
  int32_t *tokens = malloc(n * sizeof *tokens);
  if (tokens)
    stories_fill(&seed, tokens, n);
  return tokens;
}

static size_t encode(const char *text, int32_t *tokens, size_t capacity) {
  char bad[32] = "";
  size_t count = 0;
  if (stories_encode(text, tokens, capacity, bad, sizeof bad, &count) != STORIES_OK) {
    FAIL("cannot encode \"%s\": %s", text, bad);
  }
  return count;
}

// --- the tables

TEST(the_tables_are_sound) {
  char message[200];
  if (stories_check_tables(message, sizeof message) != STORIES_OK)
    FAIL("%s", message);
}

TEST(the_vocabulary_is_small) {
  CHECK(stories_vocab_size() >= 120 && stories_vocab_size() <= 200);
  CHECK_EQ_STR(stories_word(STORIES_END), "<|end|>");
  CHECK(stories_word(stories_vocab_size() - 1) != NULL);
  CHECK(stories_word(stories_vocab_size()) == NULL);
  CHECK(stories_word(-1) == NULL);
}

// --- the generator

TEST(a_seed_gives_the_same_stories_everywhere) {
  uint64_t rng = 1, hash = UINT64_C(0xcbf29ce484222325);
  for (int i = 0; i < 50; i++) {
    int32_t story[STORIES_MAX_STORY];
    hash = hash_tokens(hash, story, make_story(&rng, story));
  }
  CHECK_EQ_UINT(hash, UINT64_C(0x3c0e0f5de827f196)); // changes with the grammar, and only with it
}

TEST(a_small_buffer_changes_nothing) {
  int32_t story[STORIES_MAX_STORY], again[STORIES_MAX_STORY];
  uint64_t rng = 7, start = 7;
  size_t length = make_story(&rng, story), count = 99;
  for (size_t capacity = 0; capacity < length; capacity++) {
    CHECK_EQ_INT(stories_generate(&start, again, capacity, &count), STORIES_BUFFER_FULL);
    CHECK_EQ_UINT(count, 0);
    CHECK_EQ_UINT(start, 7);
  }
  CHECK_EQ_INT(stories_generate(&start, again, length, &count), STORIES_OK);
  CHECK_EQ_UINT(count, length);
  CHECK_EQ_MEM(again, story, length * sizeof *story);
  CHECK_EQ_UINT(start, rng);
}

TEST(fill_writes_story_after_story) {
  int32_t stream[300], story[STORIES_MAX_STORY];
  uint64_t rng = 3, same = 3;
  stories_fill(&rng, stream, 300);
  for (size_t done = 0; done < 300;) {
    size_t count = make_story(&same, story);
    if (count > 300 - done)
      count = 300 - done;
    CHECK_EQ_MEM(stream + done, story, count * sizeof *story);
    done += count;
  }
  CHECK_EQ_UINT(rng, same);
}

static int compare_hashes(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

TEST(stories_differ) {
  static uint64_t hashes[STORIES];
  uint64_t rng = 11;
  for (int i = 0; i < STORIES; i++) {
    int32_t story[STORIES_MAX_STORY];
    hashes[i] = hash_tokens(0, story, make_story(&rng, story));
  }
  qsort(hashes, STORIES, sizeof *hashes, compare_hashes);
  int distinct = 1;
  for (int i = 1; i < STORIES; i++)
    distinct += hashes[i] != hashes[i - 1];
  if (distinct < STORIES * 99 / 100)
    FAIL("%d of %d stories are distinct", distinct, STORIES);
}

// --- the recogniser: what it accepts

TEST(every_story_and_sentence_parses) {
  uint64_t rng = 5;
  for (int i = 0; i < STORIES; i++) {
    int32_t story[STORIES_MAX_STORY];
    size_t count = make_story(&rng, story);
    stories_tally tally = stories_count_parsed(story, count);
    CHECK_EQ_UINT(tally.parsed, tally.total);
    CHECK(tally.total >= 4 && tally.total <= 12);
    CHECK_EQ_INT(story[count - 1], STORIES_END);
    CHECK(stories_story_parses(story, count - 1));
  }
}

// The whole-story recogniser wants one hero; the sentence recogniser does not care.
TEST(a_story_keeps_its_cast) {
  int32_t t[64];
  size_t n = encode("Lily was a kind girl. It was her birthday, and her mom made a big cake. "
                    "A brave mouse crept in with some cheese. Then a dog gave her a red kite. "
                    "\"Thank you! I love my kite!\" said Lily. That night Lily went to sleep with "
                    "a big smile.",
                    t, 64);
  CHECK(stories_story_parses(t, n));
  int32_t mia[1];
  encode("Mia", mia, 1);
  swap(&t[0], mia);
  CHECK(!stories_story_parses(t, n));
  stories_tally tally = stories_count_parsed(t, n);
  CHECK_EQ_UINT(tally.total, 6);
  CHECK_EQ_UINT(tally.parsed, 6);
  CHECK(!stories_story_parses(t, n - 1));
}

static const struct {
  bool parses;
  const char *text;
} sentences[] = {
    {true, "Once upon a time there was a brave girl named Lily."},
    {false, "Once upon a time there was a brave boy named Lily."},
    {false, "Once upon a time there was a brave girl named Tom."},
    {false, "Once upon a time there was a brave girl named Lily!"},
    {false, "Once upon a time there was a brave girl named Lily"},
    {false, "Once upon a time there was a brave girl named."},
    {true, "Her mom gave her a red ball."},
    {false, "Her mom gave him a red ball."},
    {false, "His mom gave her a red ball."},
    {true, "She had an old kite."},
    {false, "She had a old kite."},
    {false, "She had an red kite."},
    {true, "He loved to fly his old kite."},
    {false, "He loved to fly her old kite."},
    {false, "He loved to kick his old kite."},
    {false, "He loved to flew his old kite."},
    {true, "One windy day they flew the kite in the garden."},
    {false, "One windy day they flew the ball in the garden."},
    {false, "One windy day they flew the kite by the garden."},
    {true, "The bird ate them all up."},
    {false, "The bird ate it all up."},
    {true, "The mouse was hungry and wanted some cheese."},
    {false, "The mouse was hungry and wanted a bone."},
    {true, "Lily was happy, and she kicked the ball all day."},
    {false, "Lily was happy, and he kicked the ball all day."},
    {true, "So Lily and Tom kicked the ball together."},
    {false, "So Lily and Lily kicked the ball together."},
    {true, "The bear shook the tree, and the hat came down."},
    {false, "The mouse shook the tree, and the hat came down."},
    {true, "\"Oh no! Where is my hat?\" cried Ben."},
    {false, "\"Oh no! Where is my hat?\" cried Ben"},
    {false, "\"Oh no! Where is my hat?\""},
    {true, "Ben asked a dog, \"Is this your cart?\""},
    {false, "Ben asked a dog, \"Is this your cart?"},
    {true, "She was very sad."},
    {false, "She was very sad. He"},
    {false, "Lily was a kind girl. She had a red ball."}, // a story's opening, not a sentence
    {false, "kind"},
    {false, "."},
    {false, ""},
};

TEST(agreement_is_judged) {
  for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
    int32_t tokens[32];
    size_t count = encode(sentences[i].text, tokens, 32);
    if (stories_sentence_parses(tokens, count) != sentences[i].parses) {
      FAIL("%s: %s", sentences[i].parses ? "refused" : "accepted", sentences[i].text);
    }
  }
  int32_t strangers[] = {-1, 9999, INT32_MAX};
  CHECK(!stories_sentence_parses(strangers, 3));
}

// --- the recogniser: what it refuses

// Spoils a sentence in place; returns its new length, 0 to leave it out.
typedef size_t (*spoiler)(uint64_t *rng, int32_t *sentence, size_t n);

// The share of spoiled sentences that are refused.
static double refused_share(uint64_t seed, spoiler spoil) {
  size_t refused = 0, total = 0;
  uint64_t dice = seed;
  int32_t *stream = new_stream(seed, HELD_OUT_TOKENS);
  if (!CHECK(stream != NULL))
    return 0.0;
  for (size_t pos = 0, begin; stories_next_sentence(stream, HELD_OUT_TOKENS, &pos, &begin);) {
    int32_t sentence[STORIES_MAX_STORY];
    size_t n = pos - begin;
    memcpy(sentence, stream + begin, n * sizeof *sentence);
    n = spoil(&dice, sentence, n);
    if (n == 0)
      continue;
    total++;
    refused += !stories_sentence_parses(sentence, n);
  }
  free(stream);
  CHECK(total > 1000);
  return (double)refused / (double)total;
}

// Words that may stand for each other: the names and the animals. Any other word is a class alone.
static int word_class(int32_t token) {
  static const char *const classes[][9] = {
      {"Anna", "Ben", "Leo", "Lily", "Max", "Mia", "Ruby", "Tom"},
      {"bear", "bird", "cat", "dog", "duck", "mouse", "rabbit"},
  };
  for (int c = 0; c < 2; c++) {
    for (int i = 0; classes[c][i]; i++) {
      if (strcmp(classes[c][i], stories_word(token)) == 0)
        return -1 - c;
    }
  }
  return (int)token;
}

static size_t swap_two(uint64_t *rng, int32_t *sentence, size_t n) {
  int32_t *a = &sentence[random_below(rng, n)], *b = &sentence[random_below(rng, n)];
  if (word_class(*a) == word_class(*b))
    return 0;
  swap(a, b);
  return n;
}

static size_t shuffle(uint64_t *rng, int32_t *sentence, size_t n) {
  for (size_t i = n; i > 1; i--)
    swap(&sentence[i - 1], &sentence[random_below(rng, i)]);
  return n;
}

static size_t replace_one(uint64_t *rng, int32_t *sentence, size_t n) {
  int32_t *word = &sentence[random_below(rng, n)];
  int32_t other = (int32_t)random_below(rng, (size_t)stories_vocab_size());
  if (word_class(*word) == word_class(other))
    return 0;
  *word = other;
  return n;
}

static size_t drop_one(uint64_t *rng, int32_t *sentence, size_t n) {
  size_t at = random_below(rng, n);
  memmove(sentence + at, sentence + at + 1, (n - at - 1) * sizeof *sentence);
  return n - 1;
}

static const struct {
  const char *name;
  spoiler spoil;
  double least; // share that must be refused; measured: see the rows
} spoilers[] = {
    {"swap two words", swap_two, 0.99},    // 1.0000
    {"shuffle all words", shuffle, 0.999}, // 1.0000
    {"replace a word", replace_one, 0.99}, // 0.9979
    {"drop a word", drop_one, 0.99},       // 0.9988
};

TEST_WALK(spoiled_sentences_are_refused) {
  for (size_t i = 0; i < sizeof spoilers / sizeof *spoilers; i++) {
    if (!test_begin("%s", spoilers[i].name))
      continue;
    double share = refused_share(21 + i, spoilers[i].spoil);
    if (share < spoilers[i].least)
      FAIL("refused %.4f of the sentences", share);
    test_end();
  }
}

// --- splitting

static void check_split(const char *text, size_t expected) {
  int32_t tokens[64];
  size_t n = encode(text, tokens, 64), total = 0;
  for (size_t pos = 0, begin; stories_next_sentence(tokens, n, &pos, &begin);)
    total++;
  if (total != expected)
    FAIL("%zu sentences, expected %zu: %s", total, expected, text);
}

TEST(sentences_are_split) {
  check_split("", 0);
  check_split("<|end|> <|end|>", 0);
  check_split("She was very sad", 0);         // cut off by the end of the stream
  check_split("She was very sad <|end|>", 1); // cut off by the model
  check_split("She was very sad. He was", 1);
  check_split("She was very sad. <|end|> He was very sad!", 2);
  check_split("\"Oh no! Where is my hat?\" cried Ben. He sat", 1);
  check_split("Ben asked, \"Can I help you?\" \"Yes! I want a fish,\" said the cat.", 2);
  check_split("\"I am so hungry. <|end|> She was very sad.", 2); // never closed
}

// --- text

TEST(text_and_tokens_round_trip) {
  uint64_t rng = 9;
  for (int i = 0; i < STORIES; i++) {
    int32_t story[STORIES_MAX_STORY], again[STORIES_MAX_STORY];
    char text[16 * STORIES_MAX_STORY + 1];
    size_t count = make_story(&rng, story) - 1, length;
    CHECK_EQ_INT(stories_decode(story, count, text, sizeof text, &length), STORIES_OK);
    CHECK_EQ_UINT(length, strlen(text));
    CHECK_EQ_UINT(encode(text, again, STORIES_MAX_STORY), count);
    CHECK_EQ_MEM(again, story, count * sizeof *story);
  }
}

TEST(decoding_is_readable) {
  int32_t tokens[64];
  char text[256];
  size_t length, n = encode("\"oh NO!where is my hat ?\"cried ben . \"look!\" said the cat.the "
                            "cat asked , \"can I help you?\" the dog was \"<|end|>\"she",
                            tokens, 64);
  CHECK_EQ_INT(stories_decode(tokens, n, text, sizeof text, &length), STORIES_OK);
  CHECK_EQ_STR(text, "\"Oh no! Where is my hat?\" cried Ben. \"Look!\" said the cat. The cat "
                     "asked, \"Can I help you?\" The dog was \"\n\"She");
}

TEST(decoding_fits_its_buffer) {
  int32_t tokens[8];
  char whole[64], text[64];
  size_t length, n = encode("Tom was very sad, little cat", tokens, 8);
  CHECK_EQ_INT(stories_decode(tokens, n, whole, sizeof whole, &length), STORIES_OK);
  for (size_t size = 0; size <= strlen(whole); size++) {
    memset(text, '#', sizeof text);
    CHECK_EQ_INT(stories_decode(tokens, n, text, size, &length), STORIES_BUFFER_FULL);
    CHECK(size == 0 || (length < size && text[length] == '\0'));
    CHECK_EQ_MEM(text, whole, length);
    CHECK_EQ_INT(text[size], '#');
  }
  int32_t strange[] = {-5, 9999};
  CHECK_EQ_INT(stories_decode(strange, 2, text, sizeof text, &length), STORIES_OK);
  CHECK_EQ_STR(text, "?-5 ?9999");
}

TEST(an_unknown_word_is_named) {
  int32_t tokens[8];
  char bad[32];
  size_t count = 9;
  CHECK_EQ_INT(stories_encode("A girl met Godzilla!", tokens, 8, bad, sizeof bad, &count),
               STORIES_UNKNOWN_WORD);
  CHECK_EQ_STR(bad, "met");
  CHECK_EQ_UINT(count, 0);
  CHECK_EQ_INT(stories_encode("Godzilla!", tokens, 8, bad, 4, &count), STORIES_UNKNOWN_WORD);
  CHECK_EQ_STR(bad, "God");
  CHECK_EQ_INT(stories_encode("a; b", tokens, 8, NULL, 0, &count), STORIES_UNKNOWN_WORD);
  CHECK_EQ_INT(stories_encode("a < b", tokens, 8, bad, sizeof bad, &count), STORIES_UNKNOWN_WORD);
  CHECK_EQ_STR(bad, "<");
  CHECK_EQ_INT(stories_encode("once upon a time", tokens, 3, bad, sizeof bad, &count),
               STORIES_BUFFER_FULL);
  CHECK_EQ_UINT(count, 0);
}

// --- the loss to beat

TEST(bigram_entropy_by_hand) {
  uint32_t counts[9];
  // 0 is followed by 1, 1, 2, 2: one bit each time; 1 and 2 always by 0: nothing. 8 bigrams.
  const int32_t text[] = {0, 1, 0, 1, 0, 2, 0, 2, 0};
  CHECK_NEAR(stories_bigram_entropy(text, 9, 3, counts), 4 * log(2.0) / 8, 1e-12);
  // 0 is followed by 0, 0, 1: 2 log(3/2) + log 3. 1 is followed by 0: nothing. 4 bigrams.
  const int32_t skew[] = {0, 0, 0, 1, 0};
  CHECK_NEAR(stories_bigram_entropy(skew, 5, 2, counts), (2 * log(1.5) + log(3.0)) / 4, 1e-12);
  CHECK_NEAR(stories_bigram_entropy(text, 1, 3, counts), 0.0, 0.0);
  CHECK_NEAR(stories_bigram_entropy(text, 0, 3, counts), 0.0, 0.0);
}

// An n-gram model with Witten-Bell smoothing: p(w|h) = (c(hw) + t(h) p(w|h')) / (c(h) + t(h)), with
// t(h) the number of different words after h, and h' = h without its oldest word.
enum { MAX_ORDER = 5, SLOTS = 1 << 20 };

typedef struct ngram {
  uint64_t key; // the order and up to 5 tokens, a byte each; 0: free
  uint32_t count, types;
} ngram;

static ngram *ngram_at(ngram *table, uint64_t key) {
  size_t slot = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 44);
  while (table[slot].key && table[slot].key != key)
    slot = (slot + 1) % SLOTS;
  table[slot].key = key;
  return &table[slot];
}

static uint64_t ngram_key(const int32_t *tokens, size_t n) {
  uint64_t key = n + 1;
  for (size_t i = 0; i < n; i++)
    key = key << 8 | (uint64_t)tokens[i];
  return key;
}

static void ngram_count(ngram *table, const int32_t *tokens, size_t n, size_t order) {
  for (size_t i = order; i < n; i++) {
    for (size_t back = 0; back < order; back++) {
      ngram *history = ngram_at(table, ngram_key(tokens + i - back, back));
      ngram *gram = ngram_at(table, ngram_key(tokens + i - back, back + 1) | UINT64_C(1) << 60);
      history->types += gram->count++ == 0;
      history->count++;
    }
  }
}

static double ngram_loss(ngram *table, const int32_t *tokens, size_t n, size_t order) {
  double nats = 0.0;
  for (size_t i = order; i < n; i++) {
    double p = 1.0 / stories_vocab_size();
    for (size_t back = 0; back < order; back++) {
      const ngram *history = ngram_at(table, ngram_key(tokens + i - back, back));
      if (history->count == 0)
        break;
      const ngram *gram =
          ngram_at(table, ngram_key(tokens + i - back, back + 1) | UINT64_C(1) << 60);
      p = (gram->count + history->types * p) / (history->count + history->types);
    }
    nats -= log(p);
  }
  return nats / (double)(n - order);
}

// A model that sees two or four words back, trained on other stories than it is measured on, must
// do clearly better than the best that can be done with one. The demo's model sees more than both.
TEST(context_helps) {
  static const struct {
    size_t order;
    double most; // loss, as a part of the bigram entropy; measured: 0.56 and 0.35
  } models[] = {{3, 0.7}, {5, 0.5}};
  int32_t *train = new_stream(1, TRAIN_TOKENS), *held_out = new_stream(2, HELD_OUT_TOKENS);
  size_t vocab = (size_t)stories_vocab_size();
  uint32_t *counts = malloc(vocab * vocab * sizeof *counts);
  if (CHECK(train && held_out && counts)) {
    double bigram = stories_bigram_entropy(held_out, HELD_OUT_TOKENS, (int32_t)vocab, counts);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
      ngram *table = calloc(SLOTS, sizeof *table);
      if (!CHECK(table != NULL))
        break;
      ngram_count(table, train, TRAIN_TOKENS, models[i].order);
      double loss = ngram_loss(table, held_out, HELD_OUT_TOKENS, models[i].order);
      if (loss > models[i].most * bigram) {
        FAIL("%zu-gram loss %.4f, bigram entropy %.4f", models[i].order, loss, bigram);
      }
      free(table);
    }
  }
  free(train);
  free(held_out);
  free(counts);
}
