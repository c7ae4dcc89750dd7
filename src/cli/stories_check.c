// The check of the grammar's tables: what generator and recogniser take for granted is proved here,
// by the tests, once for each change of the tables. Every function returns false after it has said
// what is wrong.
#include "cli/stories.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/stories_grammar.h"

enum { MAX_WORDS = 256, MAX_RULES = 256, MAX_DEPTH = 16 };

typedef struct checker {
  char *message;
  size_t size;
  bool word_used[MAX_WORDS];
  bool rule_used[MAX_RULES]; // reached from the start
} checker;

#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

static bool complain(checker *c, const char *format, ...) PRINTF_LIKE(2, 3);
static bool complain(checker *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(c->message, c->size, format, args);
  va_end(args);
  return false;
}

// --- the vocabulary and the lexicons by themselves

static bool check_words(checker *c) {
  if (grammar_word_count > MAX_WORDS)
    return complain(c, "more than %d words", MAX_WORDS);
  for (size_t i = 0; i < grammar_word_count; i++) {
    grammar_span word = {grammar_words[i], strlen(grammar_words[i])};
    // Searching finds each word at its place just when the table is sorted and has no doubles.
    if (grammar_find_word(word) != (int32_t)i) {
      return complain(c, "vocabulary: \"%s\" is out of order", grammar_words[i]);
    }
  }
  c->word_used[STORIES_END] = true; // written by the generator itself
  return true;
}

static bool check_variables(checker *c) {
  for (int i = 0; i < GRAMMAR_VARIABLES; i++) {
    const grammar_variable *v = &grammar_variables[i];
    if (!v->name)
      return complain(c, "variable %d has no row", i);
    if (v->lexicon->rows < 1 || v->lexicon->rows > 32) {
      return complain(c, "variable %s: %zu rows, expected 1 to 32", v->name, v->lexicon->rows);
    }
    if (v->differs_from < 0)
      continue;
    const grammar_variable *other = &grammar_variables[v->differs_from];
    if (other->lexicon != v->lexicon || other->differs_from != i || v->lexicon->rows < 2) {
      return complain(c, "variables %s and %s cannot differ", v->name, other->name);
    }
  }
  return true;
}

// --- rules: walked from the start, with the length of the longest text

// Adds the tokens of the longest text to *length.
static bool check_text(checker *c, const grammar_rule *rule, const char *text, int depth,
                       size_t *length);

static bool check_word(checker *c, const grammar_rule *rule, grammar_span word, size_t *length) {
  int32_t token = grammar_find_word(word);
  if (token < 0) {
    return complain(c, "%s: \"%.*s\" is not in the vocabulary", rule->name, (int)word.length,
                    word.text);
  }
  if (rule->level == LEVEL_STORY)
    return complain(c, "%s: a story has words", rule->name);
  c->word_used[token] = true;
  *length += 1;
  return true;
}

// A story is made of stories and sentences, all else of phrases.
static bool may_contain(grammar_level outer, grammar_level inner) {
  return outer == LEVEL_STORY ? inner != LEVEL_PHRASE : inner == LEVEL_PHRASE;
}

static bool check_rules(checker *c, const grammar_rule *from, grammar_span name, int depth,
                        size_t *length) {
  bool found = false, unconditional = false;
  size_t longest = 0;
  for (size_t i = 0; i < grammar_rule_count; i++) {
    const grammar_rule *rule = &grammar_rules[i];
    if (!grammar_span_is(name, rule->name))
      continue;
    if (from && !may_contain(from->level, rule->level)) {
      return complain(c, "%s: <%s> is of the wrong level", from->name, rule->name);
    }
    size_t own = 0;
    if (!check_text(c, rule, rule->text, depth + 1, &own))
      return false;
    if (own > longest)
      longest = own;
    grammar_symbol first;
    grammar_read_symbol(rule->text, &first);
    if (first.kind != SYMBOL_CONDITION && rule->weight > 0)
      unconditional = true;
    c->rule_used[i] = found = true;
  }
  *length += longest;
  if (!found)
    return complain(c, "there is no rule <%.*s>", (int)name.length, name.text);
  return unconditional ||
         complain(c, "<%.*s> needs a rule without condition", (int)name.length, name.text);
}

static bool check_slot(checker *c, const grammar_rule *rule, const grammar_symbol *s, int depth,
                       size_t *length) {
  size_t longest = 0;
  for (size_t row = 0; row < grammar_variables[s->variable].lexicon->rows; row++) {
    size_t own = 0;
    const char *cell = grammar_cell(s->variable, row, s->column);
    if (!check_text(c, rule, cell, depth + 1, &own))
      return false;
    if (own > longest)
      longest = own;
  }
  *length += longest;
  return true;
}

static bool check_condition(checker *c, const grammar_rule *rule, const grammar_symbol *s) {
  grammar_bindings open = grammar_bindings_open();
  return grammar_rows_with(&open, s->variable, s->column, s->value) != 0 ||
         complain(c, "%s: a condition that never holds", rule->name);
}

static bool check_symbol(checker *c, const grammar_rule *rule, const grammar_symbol *s, int depth,
                         size_t *length) {
  bool refers = s->kind == SYMBOL_SLOT || s->kind == SYMBOL_CONDITION;
  if (refers && (s->variable < 0 || s->column < 0)) {
    return complain(c, "%s: no such variable or column: %s", rule->name, rule->text);
  }
  switch (s->kind) {
  case SYMBOL_WORD: return check_word(c, rule, s->name, length);
  case SYMBOL_RULE: return check_rules(c, rule, s->name, depth, length);
  case SYMBOL_SLOT: return check_slot(c, rule, s, depth, length);
  case SYMBOL_CONDITION: return check_condition(c, rule, s);
  case SYMBOL_NONE: break;
  }
  return true;
}

static bool is_speech_verb(grammar_span word) {
  for (const char *const *verb = grammar_speech_verbs; *verb; verb++) {
    if (grammar_span_is(word, *verb))
      return true;
  }
  return false;
}

static bool check_text(checker *c, const grammar_rule *rule, const char *text, int depth,
                       size_t *length) {
  if (depth > MAX_DEPTH)
    return complain(c, "%s: recursion", rule->name);
  bool may_condition = true, after_quote = false;
  grammar_symbol s;
  for (text = grammar_read_symbol(text, &s); s.kind != SYMBOL_NONE;
       text = grammar_read_symbol(text, &s)) {
    if (s.kind == SYMBOL_CONDITION && !may_condition) {
      return complain(c, "%s: a condition that does not stand first", rule->name);
    }
    if (after_quote && !is_speech_verb(s.name)) {
      return complain(c, "%s: no speech verb after the closing quote", rule->name);
    }
    if (!check_symbol(c, rule, &s, depth, length))
      return false;
    may_condition = may_condition && s.kind == SYMBOL_CONDITION;
    after_quote = s.kind == SYMBOL_WORD && grammar_span_is(s.name, "''");
  }
  return true;
}

// Rules of one name stand together and are of one level.
static bool check_grouping(checker *c) {
  for (size_t i = 1; i < grammar_rule_count; i++) {
    const grammar_rule *rule = &grammar_rules[i], *before = rule - 1;
    bool same_name = strcmp(rule->name, before->name) == 0;
    if (same_name && rule->level != before->level) {
      return complain(c, "<%s> is of two levels", rule->name);
    }
    for (size_t j = 0; !same_name && j + 1 < i; j++) {
      if (strcmp(rule->name, grammar_rules[j].name) != 0)
        continue;
      return complain(c, "the rules of <%s> do not stand together", rule->name);
    }
  }
  return true;
}

static bool check_all_used(checker *c) {
  for (size_t i = 0; i < grammar_word_count; i++) {
    if (!c->word_used[i])
      return complain(c, "no rule uses the word \"%s\"", grammar_words[i]);
  }
  for (size_t i = 0; i < grammar_rule_count; i++) {
    if (!c->rule_used[i])
      return complain(c, "nothing uses <%s>", grammar_rules[i].name);
  }
  return true;
}

stories_status stories_check_tables(char *message, size_t size) {
  checker c = {.message = message, .size = size};
  message[0] = '\0';
  if (grammar_rule_count > MAX_RULES) {
    complain(&c, "more than %d rules", MAX_RULES);
    return STORIES_BROKEN_TABLES;
  }
  size_t longest = 1; // <|end|>
  grammar_span start = {grammar_rules[0].name, strlen(grammar_rules[0].name)};
  bool good = check_words(&c) && check_variables(&c) && check_grouping(&c) &&
              check_rules(&c, NULL, start, 0, &longest) && check_all_used(&c);
  if (good && longest > STORIES_MAX_STORY) {
    good = complain(&c, "a story may take %zu tokens, more than STORIES_MAX_STORY", longest);
  }
  return good ? STORIES_OK : STORIES_BROKEN_TABLES;
}
