/* The body of JSON values, shared by the parser (json.c), the accessors (json_value.c) and the key
 * index (json_index.c); writing of strings; the number parser.
 *
 * Invariants: children of a container are one array in the document's arena, so a child's position
 * is its distance from the first. All strings lie in one pool as long as the text: a decoded string
 * and its NUL are never longer than the literal with its quotes.
 */
#ifndef SINEW_IO_JSON_H
#define SINEW_IO_JSON_H

#include <sinew/json.h>

#include "base/arena.h"
#include "base/text.h"

/* Objects with more members than this are found through sorted hashes. */
enum { JSON_INDEX_ABOVE = 16 };

typedef struct json_object {
  const sn_json *members;
  const uint64_t *hashes; /* of the keys, by member; NULL in small objects */
  const uint32_t *order;  /* members sorted by (hash, key) */
} json_object;

struct sn_json {
  const char *key;           /* NULL unless a member of an object */
  uint32_t key_size, offset; /* offset: of the value, or of its key, in the text */
  uint32_t size;             /* bytes, elements or members */
  uint8_t kind;              /* sn_json_kind */
  bool integer;              /* a number that lies in as.integer, not in as.number */
  union {
    bool boolean;
    int64_t integer;
    double number;
    const char *string;
    const sn_json *elements;
    const json_object *object;
  } as;
};

struct sn_json_doc {
  sn_ctx *ctx;
  arena arena;
  sn_json root;
};

/* Makes `out` the object of these members. Where two keys are equal, *out_duplicate is the later
 * member, otherwise NULL. */
sn_status json_object_build(arena *a, const sn_json *members, uint32_t n, sn_json *out,
                            const sn_json **out_duplicate) SN_MUST_USE;
/* As sn_json_get, with a key of known size. */
const sn_json *json_get(const sn_json *object, const char *key, size_t size);
/* The position of `child` among the children of `container`. */
size_t json_position(const sn_json *container, const sn_json *child);

/* The nearest double to a decimal number in JSON's grammar (which the caller has checked); ties to
 * even. False when it lies beyond the largest double. Does not depend on the locale; assumes
 * the default rounding mode. */
bool json_decimal_to_f64(const char *bytes, size_t size, double *out);

/* Bytes of the valid UTF-8 sequence at p, of which `left` bytes are there; 0 when it is not one. */
size_t json_utf8_length(const char *p, size_t left);
bool json_utf8_valid(const char *bytes, size_t size);

/* Appends a JSON string literal with its quotes. The bytes must be valid UTF-8. */
void json_write_string(text *t, const char *bytes, size_t size);

#endif
