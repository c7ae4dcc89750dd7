/* Access to JSON values; UTF-8; writing strings. See sinew/json.h and json.h. */
#include "base/null.h"

#include "io/json.h"

void sn_json_destroy(sn_json_doc *doc) {
  if (!doc)
    return;
  arena_clear(&doc->arena);
  mem_free(doc->ctx, doc, sizeof *doc);
}

const sn_json *sn_json_root(const sn_json_doc *doc) {
  NEEDS_OR(doc, NULL);
  return doc ? &doc->root : NULL;
}

sn_json_kind sn_json_type(const sn_json *value) {
  return value ? (sn_json_kind)value->kind : SN_JSON_ABSENT;
}

const char *sn_json_type_name(sn_json_kind kind) {
  static const char *const names[] = {"nothing",  "null",     "true or false", "a number",
                                      "a string", "an array", "an object"};
  size_t i = (size_t)kind;
  return i < COUNT_OF(names) ? names[i] : "an unknown value";
}

bool sn_json_bool(const sn_json *value, bool *out) {
  NEEDS_OR(out, false);
  if (sn_json_type(value) != SN_JSON_BOOL)
    return false;
  *out = value->as.boolean;
  return true;
}

bool sn_json_number(const sn_json *value, double *out) {
  NEEDS_OR(out, false);
  if (sn_json_type(value) != SN_JSON_NUMBER)
    return false;
  *out = value->integer ? (double)value->as.integer : value->as.number;
  return true;
}

bool sn_json_int(const sn_json *value, int64_t *out) {
  NEEDS_OR(out, false);
  if (sn_json_type(value) != SN_JSON_NUMBER)
    return false;
  if (value->integer) {
    *out = value->as.integer;
    return true;
  }
  double x = value->as.number;
  if (!(x >= -0x1p53 && x <= 0x1p53) || (double)(int64_t)x != x)
    return false;
  *out = (int64_t)x;
  return true;
}

/* Without a place for the size, a string must be as long as it looks. */
static const char *give(const char *string, size_t size, size_t *out_size) {
  if (out_size)
    *out_size = size;
  return out_size || strlen(string) == size ? string : NULL;
}

const char *sn_json_string(const sn_json *value, size_t *out_size) {
  if (out_size)
    *out_size = 0;
  if (sn_json_type(value) != SN_JSON_STRING)
    return NULL;
  return give(value->as.string, value->size, out_size);
}

size_t sn_json_size(const sn_json *value) {
  sn_json_kind kind = sn_json_type(value);
  return kind == SN_JSON_ARRAY || kind == SN_JSON_OBJECT ? value->size : 0;
}

static const sn_json *children(const sn_json *container) {
  return container->kind == SN_JSON_OBJECT ? container->as.object->members : container->as.elements;
}

const sn_json *sn_json_at(const sn_json *value, size_t index) {
  return index < sn_json_size(value) ? children(value) + index : NULL;
}

size_t json_position(const sn_json *container, const sn_json *child) {
  return (size_t)(child - children(container));
}

const char *sn_json_key(const sn_json *member, size_t *out_size) {
  if (out_size)
    *out_size = 0;
  if (!member || !member->key)
    return NULL;
  return give(member->key, member->key_size, out_size);
}

const sn_json *sn_json_get(const sn_json *object, const char *key) {
  NEEDS_OR(key, NULL);
  return json_get(object, key, strlen(key));
}

/* --- UTF-8 ------------------------------------------------------------------------------------ */

size_t json_utf8_length(const char *bytes, size_t left) {
  const unsigned char *p = (const unsigned char *)bytes;
  if (!left)
    return 0;
  if (p[0] < 0x80)
    return 1;
  size_t n = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
  if (!n || left < n)
    return 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  bool surrogate = p[0] == 0xed && p[1] >= 0xa0, beyond = p[0] == 0xf4 && p[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : n;
}

bool json_utf8_valid(const char *bytes, size_t size) {
  for (size_t i = 0; i < size;) {
    size_t n = json_utf8_length(bytes + i, size - i);
    if (!n)
      return false;
    i += n;
  }
  return true;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void write_escape(text *t, unsigned char c) {
  static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
  const char *found = c ? strchr(values, c) : NULL;
  if (found)
    text_printf(t, "\\%c", names[found - values]);
  else
    text_printf(t, "\\u%04x", c);
}

void json_write_string(text *t, const char *bytes, size_t size) {
  size_t done = 0; /* all before is written */
  text_add(t, "\"", 1);
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
      continue;
    text_add(t, bytes + done, i - done);
    write_escape(t, c);
    done = i + 1;
  }
  text_add(t, bytes + done, size - done);
  text_add(t, "\"", 1);
}
