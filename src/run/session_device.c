/* The devices that sessions run on: those of the registry (device/device.h), which run compiled programs, and the reference
 * interpreter. It stands behind the CPU, so that to find either loads no driver of a GPU. */
#include "base/null.h"

#include "device/devices.h"
#include "run/session.h"

static const char REF_NAME[] = "ref";
static const char REF_DESCRIPTION[] =
    "reference interpreter: f32 storage, f64 accumulation, one thread";

/* The i-th of all; *out is NULL for the reference. */
static bool device_of(int i, const device **out) {
  enum { REF = 1 };
  *out = i == REF ? NULL : device_at(i > REF ? i - 1 : i);
  return i == REF || *out;
}

const char *sn_device_name(int i) {
  const device *d;
  return !device_of(i, &d) ? NULL : d ? d->name : REF_NAME;
}

const char *sn_device_description(int i) {
  const device *d;
  return !device_of(i, &d) ? NULL : d ? d->description : REF_DESCRIPTION;
}

const char *sn_device_note(int i) {
  const device *d;
  return device_of(i, &d) && d && d->note ? d->note(d) : "";
}

sn_status sn_device_measure(sn_ctx *ctx, int i, sn_device_peaks *out) {
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, out);
  const device *d;
  *out = (sn_device_peaks){0};
  if (!device_of(i, &d))
    return diag_fail(ctx, SN_ERR_NOT_FOUND, "no device %d", i);
  if (!d || !d->measure)
    return diag_fail(ctx, SN_ERR_UNSUPPORTED, "%s: its peaks are not known", sn_device_name(i));
  return d->measure(d, ctx, out);
}

int sn_device_find(const char *name) {
  const device *wanted = device_find(name), *d;
  bool ref = name && strcmp(name, REF_NAME) == 0;
  if (!wanted && !ref)
    return -1;
  int i = 0;
  while (device_of(i, &d) && d != wanted)
    i++;
  return i;
}

const char *sn_device_why_not(const char *name) {
  if (name && strcmp(name, "auto") != 0)
    return strncmp(name, "vulkan", 6) == 0 && !device_find(name) ? vulkan_why_none() : "";
  const device_choice *c = device_why_auto();
  return name || c->has_hardware ? c->why : "";
}

static sn_status not_found(sn_ctx *ctx, const char *name) {
  char list[256] = "";
  for (int i = 0; sn_device_name(i); i++) {
    size_t used = strlen(list), more = strlen(sn_device_name(i)) + 4;
    if (used + more >= sizeof list)
      break;
    strcat(strcat(strcat(list, i ? ", \"" : "\""), sn_device_name(i)), "\"");
  }
  if (*sn_device_why_not(name))
    return diag_fail(ctx, SN_ERR_NOT_FOUND, "no device \"%s\": %s", name, sn_device_why_not(name));
  return diag_fail(ctx, SN_ERR_NOT_FOUND, "no device \"%s\": there are %s", name, list);
}

sn_status session_choose(sn_ctx *ctx, const char *name, const session_engine **out_engine,
                         const device **out_device) {
  *out_device = device_find(name);
  *out_engine = *out_device ? &session_by_plan : NULL;
  if (!*out_device && strcmp(name, REF_NAME) == 0)
    *out_engine = &session_by_ref;
  return *out_engine ? SN_OK : not_found(ctx, name);
}
