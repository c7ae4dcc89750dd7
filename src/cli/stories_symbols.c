// Reading the grammar's tables: symbols of rule text, words, and what is known of the variables.
// The generator, the recogniser, the text functions and the table check all go through here, so a
// rule means the same to each.
#include "cli/stories_grammar.h"

#include <string.h>

// --- spans

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

// As strcmp, without regard to case, of a span and a zero-terminated text.
static int compare_nocase(grammar_span span, const char *text) {
  for (size_t i = 0; i < span.length; i++) {
    int difference = (unsigned char)lower(span.text[i]) - (unsigned char)lower(text[i]);
    if (difference != 0)
      return difference;
  }
  return text[span.length] == '\0' ? 0 : -1;
}

bool grammar_span_is(grammar_span span, const char *text) {
  return strncmp(span.text, text, span.length) == 0 && text[span.length] == '\0';
}

bool grammar_span_is_nocase(grammar_span span, const char *text) {
  return compare_nocase(span, text) == 0;
}

int32_t grammar_find_word(grammar_span word) {
  if (grammar_span_is(word, grammar_words[0]))
    return 0;
  size_t low = 1, high = grammar_word_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = compare_nocase(word, grammar_words[middle]);
    if (order == 0)
      return (int32_t)middle;
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return -1;
}

// --- symbols

static int find_variable(grammar_span name) {
  for (int i = 0; i < GRAMMAR_VARIABLES; i++) {
    if (grammar_span_is(name, grammar_variables[i].name))
      return i;
  }
  return -1;
}

static int find_column(int variable, grammar_span name) {
  if (variable < 0)
    return -1;
  const grammar_lexicon *lexicon = grammar_variables[variable].lexicon;
  for (size_t i = 0; i < lexicon->columns; i++) {
    if (grammar_span_is(name, lexicon->cells[i]))
      return (int)i;
  }
  return -1;
}

// Cuts `span` in two at the first `mark`; returns the part before it. Without the mark, all of the
// span is before it and an empty span at its end is left.
static grammar_span cut(grammar_span *span, char mark) {
  grammar_span before = {span->text, 0};
  while (before.length < span->length && before.text[before.length] != mark)
    before.length++;
  size_t used = before.length + (before.length < span->length ? 1 : 0);
  span->text += used;
  span->length -= used;
  return before;
}

// `inside` is what stands between the braces: var.column or var.column=value.
static void read_reference(grammar_span inside, grammar_symbol *out) {
  out->variable = find_variable(cut(&inside, '.'));
  out->column = find_column(out->variable, cut(&inside, '='));
  out->kind = inside.length > 0 ? SYMBOL_CONDITION : SYMBOL_SLOT;
  out->value = inside;
}

const char *grammar_read_symbol(const char *text, grammar_symbol *out_symbol) {
  memset(out_symbol, 0, sizeof *out_symbol);
  text += strspn(text, " ");
  grammar_span piece = {text, strcspn(text, " ")};
  if (piece.length == 0)
    return text;
  text += piece.length;
  char first = piece.text[0], last = piece.text[piece.length - 1];
  grammar_span inside = {piece.text + 1, piece.length > 2 ? piece.length - 2 : 0};
  if (first == '{' && last == '}') {
    read_reference(inside, out_symbol);
  } else if (first == '<' && last == '>') {
    out_symbol->kind = SYMBOL_RULE;
    out_symbol->name = inside;
  } else {
    out_symbol->kind = SYMBOL_WORD;
    out_symbol->name = piece;
  }
  return text;
}

// --- bindings

grammar_bindings grammar_bindings_open(void) {
  grammar_bindings b;
  for (int i = 0; i < GRAMMAR_VARIABLES; i++) {
    b.rows[i] = UINT32_MAX >> (32 - grammar_variables[i].lexicon->rows);
  }
  return b;
}

const char *grammar_cell(int variable, size_t row, int column) {
  const grammar_lexicon *lexicon = grammar_variables[variable].lexicon;
  return lexicon->cells[(row + 1) * lexicon->columns + (size_t)column];
}

uint32_t grammar_rows_with(const grammar_bindings *b, int variable, int column,
                           grammar_span value) {
  uint32_t rows = 0;
  for (size_t row = 0; row < grammar_variables[variable].lexicon->rows; row++) {
    uint32_t bit = (uint32_t)1 << row;
    if ((b->rows[variable] & bit) && grammar_span_is(value, grammar_cell(variable, row, column))) {
      rows |= bit;
    }
  }
  return rows;
}

bool grammar_narrow(grammar_bindings *b, int variable, uint32_t rows) {
  b->rows[variable] &= rows;
  uint32_t left = b->rows[variable];
  int other = grammar_variables[variable].differs_from;
  bool one_left = left != 0 && (left & (left - 1)) == 0;
  if (other >= 0 && one_left)
    b->rows[other] &= ~left;
  return left != 0 && (other < 0 || b->rows[other] != 0);
}
