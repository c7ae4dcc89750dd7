/* JSON (RFC 8259), read strictly: one document becomes one tree that lives until it is destroyed.
 *
 *   sn_json_doc *doc;
 *   if (sn_json_parse_file(ctx, "config.json", &doc) != SN_OK) ...   // sn_ctx_message: line:column
 *   const sn_json *config = sn_json_root(doc);
 *   int64_t layers = 12;                                             // the default
 *   sn_json_int(sn_json_get(config, "num_hidden_layers"), &layers);
 *   const char *kind = sn_json_string(sn_json_get(sn_json_get(config, "rope"), "type"), NULL);
 *   sn_json_destroy(doc);
 *
 * Every function that takes a value takes NULL too and treats it as absent, so that lookups chain.
 * Refused: anything after the document, comments, trailing commas, a byte order mark, invalid
 * UTF-8, lone surrogates, control characters in strings, duplicate keys, numbers beyond the range
 * of double, nesting deeper than SN_JSON_MAX_DEPTH, text longer than SN_JSON_MAX_SIZE.
 * Time is linear in the text (n log n for the keys of one object), whatever the text is.
 */
#ifndef SINEW_JSON_H
#define SINEW_JSON_H

#include <sinew/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SN_JSON_MAX_DEPTH = 128, SN_JSON_MAX_SIZE = 1 << 30 };

typedef struct sn_json_doc sn_json_doc; /* owns the tree */
typedef struct sn_json sn_json;         /* a value in it; read only */

typedef enum sn_json_kind {
  SN_JSON_ABSENT = 0, /* no value: NULL was passed */
  SN_JSON_NULL,
  SN_JSON_BOOL,
  SN_JSON_NUMBER,
  SN_JSON_STRING,
  SN_JSON_ARRAY,
  SN_JSON_OBJECT
} sn_json_kind;

/* The text is not kept. Errors read `3:14: expected ',' or ']', got 'x'`. */
SN_MUST_USE SN_API sn_status sn_json_parse(sn_ctx *ctx, const char *text, size_t size,
                                           sn_json_doc **out_doc);
/* Errors are prefixed with the path. */
SN_MUST_USE SN_API sn_status sn_json_parse_file(sn_ctx *ctx, const char *path,
                                                sn_json_doc **out_doc);
SN_API void sn_json_destroy(sn_json_doc *doc);
/* Never NULL for a document. */
SN_API const sn_json *sn_json_root(const sn_json_doc *doc);

SN_API sn_json_kind sn_json_type(const sn_json *value);
/* For messages: "a string", "an object", "nothing". */
SN_API const char *sn_json_type_name(sn_json_kind kind);

/* These return whether the value is of that type; where it is not, *out stays as it was, so that a
 * default can be put there before. */
SN_API bool sn_json_bool(const sn_json *value, bool *out);
/* The nearest double. */
SN_API bool sn_json_number(const sn_json *value, double *out);
/* Only integers that are known exactly: any int64 written without fraction and exponent, and other
 * spellings (1.0, 2e3) up to 2^53. */
SN_API bool sn_json_int(const sn_json *value, int64_t *out);

/* UTF-8, NUL-terminated, escapes resolved; NULL when it is no string. out_size may be NULL; then a
 * string that contains a NUL, which would look shorter than it is, gives NULL too. */
SN_API const char *sn_json_string(const sn_json *value, size_t *out_size);

/* Elements of an array or members of an object; 0 for all else. */
SN_API size_t sn_json_size(const sn_json *value);
/* The index-th element, or the value of the index-th member in file order; NULL beyond. */
SN_API const sn_json *sn_json_at(const sn_json *value, size_t index);
/* The key of a value that is a member of an object; NULL for others. out_size as above. */
SN_API const char *sn_json_key(const sn_json *member, size_t *out_size);
/* The member with this key; NULL when there is none or `object` is not an object. */
SN_API const sn_json *sn_json_get(const sn_json *object, const char *key);

#ifdef __cplusplus
}
#endif

#endif
