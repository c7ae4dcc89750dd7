// stories_grammar.h: the tables of the story grammar and how to read them. Private to stories*.c.
//
// A rule is a row: level, name, weight, text. The text is a list of symbols with spaces between:
//
//   word                a token of the vocabulary
//   <name>              any rule of that name
//   {var.column}        what the variable's row has in that column: {hero.he} is "she" for Lily
//   {var.column=value}  no text; holds when the variable's row can have that value. Only at the
//                       start of a rule: the generator picks among the rules whose conditions hold
//
// A variable is bound to one row of its lexicon. What is known about the bindings is a bindings
// object: for each variable the set of rows still possible. The generator starts a story with all
// rows and draws one where a variable is first used; the recogniser starts with all rows and keeps
// those that agree with what it reads. That is how one table both makes and judges agreement.
#ifndef SINEW_CLI_STORIES_GRAMMAR_H
#define SINEW_CLI_STORIES_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum grammar_level {
  LEVEL_STORY,    // a list of stories and sentences: no words
  LEVEL_SENTENCE, // one whole sentence, up to its final mark or the quote after it
  LEVEL_PHRASE,   // a part of a sentence
} grammar_level;

typedef struct grammar_rule {
  grammar_level level;
  const char *name;
  uint32_t weight; // how often the generator takes it, against the rules of the same name
  const char *text;
} grammar_rule;

// cells[0 .. columns) are the names of the columns, then come the rows. A cell is rule text.
typedef struct grammar_lexicon {
  const char *const *cells;
  size_t columns;
  size_t rows; // at most 32, without the row of names
} grammar_lexicon;

typedef struct grammar_variable {
  const char *name;
  const grammar_lexicon *lexicon;
  int differs_from; // index of the variable that may not have the same row; -1: none
} grammar_variable;

enum { GRAMMAR_VARIABLES = 10 };

extern const char *const grammar_words[]; // sorted without regard to case from index 1 on
extern const size_t grammar_word_count;
extern const grammar_rule grammar_rules[]; // grammar_rules[0] is the start: a whole story
extern const size_t grammar_rule_count;
extern const grammar_variable grammar_variables[GRAMMAR_VARIABLES];
extern const char *const grammar_speech_verbs[]; // may follow a closing quote; NULL at the end

// --- symbols

// A piece of rule text; not zero-terminated.
typedef struct grammar_span {
  const char *text;
  size_t length;
} grammar_span;

typedef enum grammar_symbol_kind {
  SYMBOL_NONE, // the text is at its end
  SYMBOL_WORD,
  SYMBOL_RULE,
  SYMBOL_SLOT,
  SYMBOL_CONDITION,
} grammar_symbol_kind;

typedef struct grammar_symbol {
  grammar_symbol_kind kind;
  grammar_span name;  // the word, or the name of the rule
  int variable;       // slot and condition: index into grammar_variables; -1: no such
  int column;         // slot and condition: column of the lexicon; -1: no such
  grammar_span value; // condition
} grammar_symbol;

// Reads the first symbol of `text`; returns the text after it.
const char *grammar_read_symbol(const char *text, grammar_symbol *out_symbol);

bool grammar_span_is(grammar_span span, const char *text);        // exactly the same
bool grammar_span_is_nocase(grammar_span span, const char *text); // the same but for A-Z, a-z

// The token of a word in any case; -1 when the vocabulary has none.
int32_t grammar_find_word(grammar_span word);

// --- bindings

typedef struct grammar_bindings {
  uint32_t rows[GRAMMAR_VARIABLES]; // bit r: row r of the lexicon is still possible
} grammar_bindings;

grammar_bindings grammar_bindings_open(void); // everything is possible

// The cell of a row of the variable's lexicon.
const char *grammar_cell(int variable, size_t row, int column);

// The rows still possible that have `value` in `column`.
uint32_t grammar_rows_with(const grammar_bindings *b, int variable, int column, grammar_span value);

// Leaves only `rows` possible; once one row is left, takes it from the variable that must differ.
// False when some variable has no row left.
bool grammar_narrow(grammar_bindings *b, int variable, uint32_t rows);

#endif
