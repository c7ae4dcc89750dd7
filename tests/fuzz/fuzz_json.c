/* Fuzzes the JSON reader: any bytes are parsed or refused with a message; what is parsed can be
 * written and parsed again to the same tree, and every key finds its member. */
#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void put_number(text *t, const sn_json *value) {
  int64_t integer;
  double number = 0;
  demand(sn_json_number(value, &number) && isfinite(number));
  if (sn_json_int(value, &integer) && !(number == 0 && signbit(number)))
    text_printf(t, "%lld", (long long)integer);
  else
    text_printf(t, "%.17g", number);
}

static void put_value(text *t, const sn_json *value) {
  size_t size;
  bool truth = false;
  sn_json_kind kind = sn_json_type(value);
  if (kind == SN_JSON_NULL)
    text_puts(t, "null");
  if (kind == SN_JSON_BOOL)
    text_puts(t, sn_json_bool(value, &truth) && truth ? "true" : "false");
  if (kind == SN_JSON_NUMBER)
    put_number(t, value);
  if (kind == SN_JSON_STRING) {
    const char *string = sn_json_string(value, &size);
    demand(json_utf8_valid(string, size));
    json_write_string(t, string, size);
  }
  if (kind < SN_JSON_ARRAY)
    return;
  text_puts(t, kind == SN_JSON_ARRAY ? "[" : "{");
  for (size_t i = 0; i < sn_json_size(value); i++) {
    const sn_json *child = sn_json_at(value, i);
    const char *key = sn_json_key(child, &size);
    text_puts(t, i ? ",\n " : " ");
    demand((key != NULL) == (kind == SN_JSON_OBJECT));
    if (key) {
      demand(json_get(value, key, size) == child);
      json_write_string(t, key, size);
      text_puts(t, " : ");
    }
    put_value(t, child);
  }
  text_puts(t, kind == SN_JSON_ARRAY ? "]" : "}");
}

static void check_again(sn_ctx *ctx, const sn_json_doc *doc) {
  text first, second;
  sn_json_doc *again;
  text_init(&first, ctx);
  text_init(&second, ctx);
  put_value(&first, sn_json_root(doc));
  demand(sn_json_parse(ctx, first.data, first.size, &again) == SN_OK);
  put_value(&second, sn_json_root(again));
  demand(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
  sn_json_destroy(again);
  text_free(&first);
  text_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  sn_json_doc *doc;
  demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (sn_json_parse(ctx, (const char *)bytes, size, &doc) == SN_OK)
    check_again(ctx, doc);
  else
    demand(doc == NULL && sn_ctx_message(ctx)[0]);
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  return 0;
}
