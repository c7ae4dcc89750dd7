// Making stories and judging them: two walks over the same rules (stories_grammar.c).
//
// The generator draws one rule by weight wherever it may choose and binds a variable where it is
// first used. The recogniser tries every rule, depth first, and keeps the set of rows each variable
// may still have. Since both read the rules through grammar_read_symbol and keep their bindings
// with grammar_narrow, what the one makes the other accepts.
//
// Invariants, kept by the tables (stories_check_tables): no recursion, so both walks end;
// conditions come first in a rule, so a rule that the generator picks can be carried through. The
// recogniser uses a C stack frame for each symbol on its way: some hundred bytes times the tokens
// it has matched.
#include "cli/stories.h"

#include <assert.h>
#include <string.h>

#include "cli/stories_grammar.h"

// --- random numbers

// splitmix64 (Steele, Lea, Flood 2014): every state is good, integers only.
static uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

// 0 .. bound - 1; bounds here are so small that the bias of the multiplication does not matter.
static uint32_t random_below(uint64_t *state, uint32_t bound) {
  return (uint32_t)(((random_next(state) >> 32) * bound) >> 32);
}

// --- generator

typedef struct writer {
  uint64_t rng;
  grammar_bindings bindings;
  int32_t *tokens;
  size_t capacity, count;
} writer;

// Can the conditions at the start of a rule hold?
static bool may_use(const grammar_bindings *bindings, const char *text) {
  grammar_bindings trial = *bindings;
  grammar_symbol s;
  for (text = grammar_read_symbol(text, &s); s.kind == SYMBOL_CONDITION;
       text = grammar_read_symbol(text, &s)) {
    uint32_t rows = grammar_rows_with(&trial, s.variable, s.column, s.value);
    if (!grammar_narrow(&trial, s.variable, rows))
      return false;
  }
  return true;
}

static uint32_t usable_weight(const writer *w, const grammar_rule *rule, grammar_span name) {
  if (!grammar_span_is(name, rule->name))
    return 0;
  return may_use(&w->bindings, rule->text) ? rule->weight : 0;
}

// One of the rules called `name` whose conditions can hold, by weight.
static const grammar_rule *draw_rule(writer *w, grammar_span name) {
  uint32_t total = 0;
  for (size_t i = 0; i < grammar_rule_count; i++) {
    total += usable_weight(w, &grammar_rules[i], name);
  }
  assert(total > 0 && "some rule of every name can be used");
  uint32_t at = random_below(&w->rng, total);
  const grammar_rule *rule = grammar_rules;
  for (uint32_t weight; at >= (weight = usable_weight(w, rule, name)); rule++)
    at -= weight;
  return rule;
}

// Binds the variable to one of the rows it may have, and returns that row.
static size_t draw_row(writer *w, int variable) {
  uint32_t rows = w->bindings.rows[variable], count = 0;
  for (uint32_t rest = rows; rest; rest &= rest - 1)
    count++;
  uint32_t skip = random_below(&w->rng, count);
  size_t row = 0;
  while (!(rows >> row & 1) || skip-- > 0)
    row++;
  bool possible = grammar_narrow(&w->bindings, variable, (uint32_t)1 << row);
  assert(possible);
  (void)possible;
  return row;
}

static stories_status put(writer *w, int32_t token) {
  assert(token >= 0 && "every word of the rules is in the vocabulary");
  if (w->count == w->capacity)
    return STORIES_BUFFER_FULL;
  w->tokens[w->count++] = token;
  return STORIES_OK;
}

static stories_status expand(writer *w, const char *text);

static stories_status expand_symbol(writer *w, const grammar_symbol *s) {
  switch (s->kind) {
  case SYMBOL_WORD: return put(w, grammar_find_word(s->name));
  case SYMBOL_RULE: return expand(w, draw_rule(w, s->name)->text);
  case SYMBOL_SLOT:
    return expand(w, grammar_cell(s->variable, draw_row(w, s->variable), s->column));
  case SYMBOL_CONDITION: {
    uint32_t rows = grammar_rows_with(&w->bindings, s->variable, s->column, s->value);
    grammar_narrow(&w->bindings, s->variable, rows);
    return STORIES_OK;
  }
  case SYMBOL_NONE: break;
  }
  return STORIES_OK;
}

static stories_status expand(writer *w, const char *text) {
  grammar_symbol s;
  stories_status status = STORIES_OK;
  do {
    text = grammar_read_symbol(text, &s);
    status = expand_symbol(w, &s);
  } while (status == STORIES_OK && s.kind != SYMBOL_NONE);
  return status;
}

static grammar_span start_name(void) {
  return (grammar_span){grammar_rules[0].name, strlen(grammar_rules[0].name)};
}

stories_status stories_generate(uint64_t *rng, int32_t *tokens, size_t capacity,
                                size_t *out_count) {
  *out_count = 0;
  writer w = {*rng, grammar_bindings_open(), tokens, capacity, 0};
  stories_status status = expand(&w, draw_rule(&w, start_name())->text);
  if (status == STORIES_OK)
    status = put(&w, STORIES_END);
  if (status != STORIES_OK)
    return status;
  *rng = w.rng;
  *out_count = w.count;
  return STORIES_OK;
}

void stories_fill(uint64_t *rng, int32_t *tokens, size_t n) {
  int32_t story[STORIES_MAX_STORY];
  for (size_t done = 0, count; done < n; done += count) {
    stories_status status = stories_generate(rng, story, STORIES_MAX_STORY, &count);
    assert(status == STORIES_OK && "STORIES_MAX_STORY holds every story");
    (void)status;
    if (count > n - done)
      count = n - done;
    memcpy(tokens + done, story, count * sizeof *tokens);
  }
}

// --- recogniser

typedef struct reader {
  const int32_t *tokens;
  size_t count;
} reader;

// What has to come after the text being matched, innermost first.
typedef struct pending {
  const char *text;
  const struct pending *outer;
} pending;

// Can tokens[at ..] be read as `text` and then all that is pending, up to the last token?
static bool match(const reader *r, size_t at, const char *text, const pending *outer,
                  const grammar_bindings *bindings);

static bool match_rules(const reader *r, size_t at, grammar_span name, const pending *outer,
                        const grammar_bindings *bindings) {
  for (size_t i = 0; i < grammar_rule_count; i++) {
    const grammar_rule *rule = &grammar_rules[i];
    if (grammar_span_is(name, rule->name) && match(r, at, rule->text, outer, bindings))
      return true;
  }
  return false;
}

// Rows with equal cells are tried as one: after "she", all girls are still possible.
static bool match_slot(const reader *r, size_t at, const grammar_symbol *s, const pending *outer,
                       const grammar_bindings *bindings) {
  uint32_t untried = bindings->rows[s->variable];
  for (size_t row = 0; untried; row++) {
    if (!(untried >> row & 1))
      continue;
    const char *cell = grammar_cell(s->variable, row, s->column);
    grammar_span value = {cell, strlen(cell)};
    uint32_t rows = grammar_rows_with(bindings, s->variable, s->column, value);
    untried &= ~rows;
    grammar_bindings narrowed = *bindings;
    if (grammar_narrow(&narrowed, s->variable, rows) && match(r, at, cell, outer, &narrowed)) {
      return true;
    }
  }
  return false;
}

static bool match_word(const reader *r, size_t at, grammar_span word) {
  const char *got = at < r->count ? stories_word(r->tokens[at]) : NULL;
  return got && grammar_span_is_nocase(word, got);
}

static bool match(const reader *r, size_t at, const char *text, const pending *outer,
                  const grammar_bindings *bindings) {
  grammar_symbol s;
  const pending rest = {grammar_read_symbol(text, &s), outer};
  switch (s.kind) {
  case SYMBOL_NONE:
    return outer ? match(r, at, outer->text, outer->outer, bindings) : at == r->count;
  case SYMBOL_WORD:
    return match_word(r, at, s.name) && match(r, at + 1, rest.text, outer, bindings);
  case SYMBOL_RULE: return match_rules(r, at, s.name, &rest, bindings);
  case SYMBOL_SLOT: return match_slot(r, at, &s, &rest, bindings);
  case SYMBOL_CONDITION: {
    grammar_bindings narrowed = *bindings;
    uint32_t rows = grammar_rows_with(bindings, s.variable, s.column, s.value);
    return grammar_narrow(&narrowed, s.variable, rows) && match(r, at, rest.text, outer, &narrowed);
  }
  }
  return false;
}

bool stories_sentence_parses(const int32_t *tokens, size_t n) {
  const reader r = {tokens, n};
  const grammar_bindings bindings = grammar_bindings_open();
  for (size_t i = 0; i < grammar_rule_count; i++) {
    const grammar_rule *rule = &grammar_rules[i];
    if (rule->level == LEVEL_SENTENCE && match(&r, 0, rule->text, NULL, &bindings))
      return true;
  }
  return false;
}

bool stories_story_parses(const int32_t *tokens, size_t n) {
  const reader r = {tokens, n};
  const grammar_bindings bindings = grammar_bindings_open();
  return match_rules(&r, 0, start_name(), NULL, &bindings);
}
