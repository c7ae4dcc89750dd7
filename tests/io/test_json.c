/* Tests of sinew/json.h: what is accepted with which values, what is refused with which message,
 * large objects, failing allocations. Numbers: test_json_number.c. */
#include "io/json.h"
#include "support/fault.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

static sn_ctx *new_ctx(void) {
  sn_ctx *ctx;
  CHECK_EQ_INT(sn_ctx_create(NULL, &ctx), SN_OK);
  return ctx;
}

static sn_json_doc *parse(sn_ctx *ctx, const char *string) {
  sn_json_doc *doc;
  if (sn_json_parse(ctx, string, strlen(string), &doc) != SN_OK)
    FAIL("%.60s: %s", string, sn_ctx_message(ctx));
  return doc;
}

TEST(values_and_types) {
  sn_ctx *ctx = new_ctx();
  sn_json_doc *doc =
      parse(ctx, " {\"n\": null, \"t\": true, \"f\": false, \"i\": -12, \"x\": 2.5,\n"
                 "\"s\": \"text\", \"a\": [1, [], {}], \"o\": {\"k\": {\"l\": 7}}} ");
  const sn_json *root = sn_json_root(doc);
  static const struct {
    const char *key;
    sn_json_kind kind;
  } rows[] = {{"n", SN_JSON_NULL},   {"t", SN_JSON_BOOL},   {"f", SN_JSON_BOOL},
              {"i", SN_JSON_NUMBER}, {"x", SN_JSON_NUMBER}, {"s", SN_JSON_STRING},
              {"a", SN_JSON_ARRAY},  {"o", SN_JSON_OBJECT}};
  CHECK_EQ_UINT(sn_json_size(root), COUNT_OF(rows));
  for (size_t i = 0; i < COUNT_OF(rows); i++) { /* in the order of the file */
    const sn_json *value = sn_json_get(root, rows[i].key);
    CHECK_EQ_INT(sn_json_type(value), rows[i].kind);
    CHECK_EQ_PTR(sn_json_at(root, i), value);
    CHECK_EQ_STR(sn_json_key(value, NULL), rows[i].key);
    CHECK_EQ_UINT(json_position(root, value), i);
  }
  bool truth = false;
  int64_t n = 0;
  double x = 0;
  CHECK(sn_json_bool(sn_json_get(root, "t"), &truth) && truth);
  CHECK(sn_json_bool(sn_json_get(root, "f"), &truth) && !truth);
  CHECK(sn_json_int(sn_json_get(root, "i"), &n) && n == -12);
  CHECK(sn_json_number(sn_json_get(root, "i"), &x) && x == -12);
  CHECK(sn_json_number(sn_json_get(root, "x"), &x) && x == 2.5);
  CHECK(!sn_json_int(sn_json_get(root, "x"), &n) && n == -12);
  CHECK_EQ_STR(sn_json_string(sn_json_get(root, "s"), NULL), "text");
  const sn_json *a = sn_json_get(root, "a");
  CHECK_EQ_UINT(sn_json_size(a), 3);
  CHECK_EQ_UINT(sn_json_size(sn_json_at(a, 1)), 0);
  CHECK_EQ_INT(sn_json_type(sn_json_at(a, 2)), SN_JSON_OBJECT);
  CHECK(sn_json_key(sn_json_at(a, 0), NULL) == NULL);
  CHECK(sn_json_int(sn_json_get(sn_json_get(sn_json_get(root, "o"), "k"), "l"), &n) && n == 7);
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
}

TEST(absent_values_are_harmless) {
  sn_ctx *ctx = new_ctx();
  sn_json_doc *doc = parse(ctx, "[1]");
  const sn_json *values[] = {NULL, sn_json_get(sn_json_root(doc), "k"),
                             sn_json_at(sn_json_root(doc), 1), sn_json_root(NULL)};
  for (size_t i = 0; i < COUNT_OF(values); i++) {
    bool truth = true;
    int64_t n = 5;
    double x = 6;
    size_t size = 7;
    CHECK_EQ_INT(sn_json_type(values[i]), SN_JSON_ABSENT);
    CHECK(!sn_json_bool(values[i], &truth) && truth);
    CHECK(!sn_json_int(values[i], &n) && n == 5);
    CHECK(!sn_json_number(values[i], &x) && x == 6);
    CHECK(sn_json_string(values[i], &size) == NULL && size == 0);
    CHECK(sn_json_key(values[i], &size) == NULL);
    CHECK(sn_json_get(values[i], "k") == NULL && sn_json_at(values[i], 0) == NULL);
    CHECK_EQ_UINT(sn_json_size(values[i]), 0);
  }
  CHECK_EQ_STR(sn_json_type_name(SN_JSON_ABSENT), "nothing");
  CHECK_EQ_STR(sn_json_type_name(SN_JSON_OBJECT), "an object");
  CHECK_EQ_STR(sn_json_type_name((sn_json_kind)99), "an unknown value");
  sn_json_destroy(doc);
  sn_json_destroy(NULL);
  sn_ctx_destroy(ctx);
}

TEST(strings_and_escapes) {
  static const struct {
    const char *literal, *bytes;
    size_t size;
  } rows[] = {
      {"\"\"", "", 0},
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
      {"\"\\u0041\\u00e9\\u20AC\\uffff\"", "A\xc3\xa9\xe2\x82\xac\xef\xbf\xbf", 9},
      {"\"\\ud83d\\ude00\\uDBFF\\uDFFF\"", "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", 8},
      {"\"a\\u0000b\"", "a\0b", 3},
      {"\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80\"",
       "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80", 14},
      {"\"\x7f\"", "\x7f", 1},
  };
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    sn_json_doc *doc = parse(ctx, rows[i].literal);
    size_t size;
    const char *got = sn_json_string(sn_json_root(doc), &size);
    CHECK_EQ_UINT(size, rows[i].size);
    if (got)
      CHECK_EQ_MEM(got, rows[i].bytes, rows[i].size + 1); /* with the NUL */
    bool whole = strlen(rows[i].bytes) == rows[i].size;
    CHECK_EQ_PTR(sn_json_string(sn_json_root(doc), NULL), whole ? got : NULL);
    sn_json_destroy(doc);
  }
  sn_ctx_destroy(ctx);
}

TEST(written_strings_read_back) {
  sn_ctx *ctx = new_ctx();
  char all[300];
  for (size_t i = 0; i < 128; i++)
    all[i] = (char)i;
  memcpy(all + 128, "\xc3\xa9\xf0\x9f\x98\x80", 6);
  text t;
  text_init(&t, ctx);
  json_write_string(&t, all, 134);
  for (size_t i = 0; i < t.size; i++)
    CHECK((unsigned char)t.data[i] >= 0x20 && t.data[i] != 0x7f);
  CHECK_STR_HAS(t.data, "\"\\u0000\\u0001");
  CHECK_STR_HAS(t.data, "\\b\\t\\n");
  sn_json_doc *doc;
  REQUIRE(sn_json_parse(ctx, t.data, t.size, &doc) == SN_OK);
  size_t size;
  const char *got = sn_json_string(sn_json_root(doc), &size);
  CHECK_EQ_UINT(size, 134);
  CHECK_EQ_MEM(got, all, 134);
  sn_json_destroy(doc);
  text_free(&t);
  sn_ctx_destroy(ctx);
}

TEST_WALK(refused) {
  static const struct {
    const char *name, *input, *message;
  } rows[] = {
      {"empty", "", "1:1: expected a value, got the end of the text"},
      {"only space", " \n ", "2:2: expected a value, got the end of the text"},
      {"after the document", "1 \n 2", "2:2: expected the end of the text, got '2'"},
      {"word", "nul", "1:1: expected a value, got 'n'"},
      {"byte order mark", "\xef\xbb\xbf{}", "1:1: expected a value, got '\xef\xbb\xbf'"},
      {"comment", "[1, // x\n2]", "1:5: expected a value, got '/'"},
      {"array end", "[1,\n  2", "2:4: expected ',' or ']', got the end of the text"},
      {"array comma", "[1 2]", "1:4: expected ',' or ']', got '2'"},
      {"trailing comma", "[1,]", "1:4: expected a value, got ']'"},
      {"object end", "{\"a\":1", "1:7: expected ',' or '}', got the end of the text"},
      {"object comma", "{\"a\":1,}", "1:8: expected a key in quotes, got '}'"},
      {"bare key", "{a:1}", "1:2: expected a key in quotes, got 'a'"},
      {"colon", "{\"a\" 1}", "1:6: expected ':' after a key, got '1'"},
      {"mismatch", "[1}", "1:3: expected ',' or ']', got '}'"},
      {"leading zero", "[01]", "1:2: a number may not begin with 0"},
      {"plus", "+1", "1:1: expected a value, got '+'"},
      {"lone minus", "-", "1:2: expected a digit, got the end of the text"},
      {"minus word", "-x", "1:2: expected a digit, got 'x'"},
      {"point", "1.", "1:3: expected a digit"},
      {"point first", ".5", "1:1: expected a value, got '.'"},
      {"exponent", "1e", "1:3: expected a digit"},
      {"exponent sign", "1e+-1", "1:4: expected a digit, got '-'"},
      {"nan", "NaN", "1:1: expected a value, got 'N'"},
      {"too large", "[1,-1e309]", "1:4: the number is too large for a double"},
      {"string end", "\"abc", "1:5: expected a character of a string or its closing '\"'"},
      {"string line", "\"a\nb\"",
       "1:3: expected a character of a string or its closing '\"', got "
       "byte 0x0a"},
      {"escape", "\"\\x\"", "1:3: expected one of \"\\/bfnrtu after a backslash, got 'x'"},
      {"escape end", "\"\\", "1:3: expected one of"},
      {"hex", "\"\\u12g4\"", "1:6: expected four hexadecimal digits after \\u, got 'g'"},
      {"hex end", "\"\\u12", "1:6: expected four hexadecimal digits"},
      {"low surrogate", "\"x\\udc00\"", "1:3: a low surrogate without a high one"},
      {"high surrogate", "\"\\ud800\"", "1:2: a high surrogate without a low one"},
      {"high and letter", "\"\\ud800\\n\"", "1:2: a high surrogate without a low one"},
      {"high and high", "\"\\ud800\\ud800\"", "1:2: a high surrogate without a low one"},
      {"high and bad", "\"\\ud800\\uzzzz\"", "1:10: expected four hexadecimal digits"},
      {"utf8 stray", "\"\x80\"", "1:2: expected valid UTF-8, got byte 0x80"},
      {"utf8 overlong 2", "\"\xc1\xbf\"", "1:2: expected valid UTF-8"},
      {"utf8 overlong 3", "\"\xe0\x9f\xbf\"", "1:2: expected valid UTF-8"},
      {"utf8 overlong 4", "\"\xf0\x8f\xbf\xbf\"", "1:2: expected valid UTF-8"},
      {"utf8 surrogate", "\"\xed\xa0\x80\"", "1:2: expected valid UTF-8"},
      {"utf8 beyond", "\"\xf4\x90\x80\x80\"", "1:2: expected valid UTF-8"},
      {"utf8 5 bytes", "\"\xf8\x88\x80\x80\x80\"", "1:2: expected valid UTF-8"},
      {"utf8 cut", "\"\xe2\x82", "1:2: expected valid UTF-8, got byte 0xe2"},
      {"column in characters", "[\"\xc3\xa9\xc3\xa9\" x", "1:7: expected ',' or ']', got 'x'"},
      {"duplicate", "{\"a\": 1,\n  \"b\": 2, \"a\": 3}", "2:11: the key \"a\" occurs twice"},
      {"escaped duplicate", "{\"a\": 1, \"\\u0061\": 3}", "1:10: the key \"a\" occurs twice"},
  };
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (!test_begin("%s", rows[i].name))
      continue;
    sn_json_doc *doc;
    CHECK_EQ_INT(sn_json_parse(ctx, rows[i].input, strlen(rows[i].input), &doc), SN_ERR_FORMAT);
    CHECK(doc == NULL);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].message);
    sn_json_destroy(doc);
    test_end();
  }
  sn_ctx_destroy(ctx);
}

TEST(limits) {
  sn_ctx *ctx = new_ctx();
  sn_json_doc *doc;
  char deep[2 * SN_JSON_MAX_DEPTH + 2];
  memset(deep, '[', SN_JSON_MAX_DEPTH + 1);
  memset(deep + SN_JSON_MAX_DEPTH, ']', SN_JSON_MAX_DEPTH);
  CHECK_EQ_INT(sn_json_parse(ctx, deep, 2 * SN_JSON_MAX_DEPTH, &doc), SN_OK);
  sn_json_destroy(doc);
  deep[SN_JSON_MAX_DEPTH] = '[';
  CHECK_EQ_INT(sn_json_parse(ctx, deep, SN_JSON_MAX_DEPTH + 1, &doc), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "1:129: nested too deeply");
  char wide[3 * 2 * SN_JSON_MAX_DEPTH + 1]; /* siblings do not add up: [[],[],...] */
  for (size_t i = 0; i < sizeof wide; i++)
    wide[i] = ",[]"[i % 3];
  wide[0] = '[';
  wide[sizeof wide - 1] = ']';
  CHECK_EQ_INT(sn_json_parse(ctx, wide, sizeof wide, &doc), SN_OK);
  CHECK_EQ_UINT(sn_json_size(sn_json_root(doc)), 2 * SN_JSON_MAX_DEPTH);
  sn_json_destroy(doc);
  CHECK_EQ_INT(sn_json_parse(ctx, NULL, 0, &doc), SN_ERR_FORMAT);
  CHECK_EQ_INT(sn_json_parse(ctx, "1", (size_t)SN_JSON_MAX_SIZE + 1, &doc), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "too long");
  CHECK_EQ_INT(sn_json_parse(ctx, "1\0", 2, &doc), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "1:2: expected the end of the text, got byte 0x00");
  sn_ctx_destroy(ctx);
}

/* --- large objects --- */

static char *many_members(size_t n, size_t *out_size) {
  char *string = malloc(n * 40 + 10), *p = string;
  if (!string)
    return NULL;
  p += sprintf(p, "{");
  for (size_t i = 0; i < n; i++)
    p += sprintf(p, "%s\"key %zu\":%zu", i ? ",\n" : "", i * 7919 % n, i);
  p += sprintf(p, "}");
  *out_size = (size_t)(p - string);
  return string;
}

TEST(large_objects_are_found_and_fast) {
  sn_ctx *ctx = new_ctx();
  static const size_t sizes[] = {1, 15, 16, 17, 18, 100, 100000};
  for (size_t k = 0; k < COUNT_OF(sizes); k++) {
    size_t size = 0, n = sizes[k];
    char *string = many_members(n, &size), key[40];
    sn_json_doc *doc;
    REQUIRE(string && sn_json_parse(ctx, string, size, &doc) == SN_OK);
    const sn_json *root = sn_json_root(doc);
    CHECK_EQ_UINT(sn_json_size(root), n);
    for (size_t i = 0; i < n; i++) {
      snprintf(key, sizeof key, "key %zu", i * 7919 % n);
      int64_t value = -1;
      if (!sn_json_int(sn_json_get(root, key), &value) || value != (int64_t)i)
        FAIL("%s of %zu", key, n);
    }
    CHECK(sn_json_get(root, "key") == NULL && sn_json_get(root, "") == NULL);
    CHECK(sn_json_get(root, "key 00") == NULL && sn_json_get(root, "zzz") == NULL);
    sn_json_destroy(doc);
    if (n > 1) { /* the last key again */
      snprintf(string + size - 1, 40, ",\"key 1\":0}");
      CHECK_EQ_INT(sn_json_parse(ctx, string, strlen(string), &doc), SN_ERR_FORMAT);
      CHECK_STR_HAS(sn_ctx_message(ctx), "the key \"key 1\" occurs twice");
      char line[30];
      snprintf(line, sizeof line, "%zu:", n);
      CHECK(strncmp(sn_ctx_message(ctx), line, strlen(line)) == 0);
    }
    free(string);
  }
  sn_ctx_destroy(ctx);
}

/* --- files and memory --- */

TEST(files) {
  sn_ctx *ctx = new_ctx();
  const char *path = test_scratch("file.json");
  FILE *f = fopen(path, "w");
  REQUIRE(f != NULL);
  fputs("{\"a\": 5}\n", f);
  fclose(f);
  sn_json_doc *doc;
  int64_t n = 0;
  CHECK_EQ_INT(sn_json_parse_file(ctx, path, &doc), SN_OK);
  CHECK(sn_json_int(sn_json_get(sn_json_root(doc), "a"), &n) && n == 5);
  sn_json_destroy(doc);
  f = fopen(path, "w");
  REQUIRE(f != NULL);
  fputs("{\"a\": \n}", f);
  fclose(f);
  CHECK_EQ_INT(sn_json_parse_file(ctx, path, &doc), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "file.json: 2:1: expected a value, got '}'");
  CHECK_EQ_INT(sn_json_parse_file(ctx, test_scratch("none.json"), &doc), SN_ERR_NOT_FOUND);
  CHECK(doc == NULL);
  sn_ctx_destroy(ctx);
}

TEST(every_failing_allocation_is_survived) {
  size_t size = 0;
  char *members = many_members(200, &size), *string = malloc(size * 3 + 100);
  REQUIRE(members && string);
  size_t n = (size_t)sprintf(string, "[[1,2,[]],{},%s,\"s\",{\"k\":%s}]", members, members);
  for (int persistent = 0; persistent < 2; persistent++) {
    fault_heap heap = {.persistent = persistent};
    do {
      fault_heap_start(&heap);
      sn_ctx *ctx = fault_ctx(&heap);
      sn_json_doc *doc = NULL;
      sn_status status = ctx ? sn_json_parse(ctx, string, n, &doc) : SN_ERR_NO_MEMORY;
      CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
      if (ctx && status != SN_OK)
        CHECK_STR_HAS(sn_ctx_message(ctx), "out of memory");
      sn_json_destroy(doc);
      sn_ctx_destroy(ctx);
    } while (fault_heap_end(&heap));
    CHECK(heap.fail_at > 10);
  }
  free(members);
  free(string);
}
