/* The devices that sessions run on: the reference interpreter, and those of the registry (device/device.h), which run
 * compiled programs. The first is what "auto" means; the reference comes last. */
#include "device/devices.h"
#include "run/session.h"

static const char REF_NAME[] = "ref";
static const char REF_DESCRIPTION[] =
    "reference interpreter: f32 storage, f64 accumulation, one thread";

/* The i-th of all; *out is NULL for the reference. */
static bool device_of(int i, const device **out) {
  *out = device_at(i);
  return *out || i == 0 || (i > 0 && device_at(i - 1));
}

const char *sn_device_name(int i) {
  const device *d;
  return !device_of(i, &d) ? NULL : d ? d->name : REF_NAME;
}

const char *sn_device_description(int i) {
  const device *d;
  return !device_of(i, &d) ? NULL : d ? d->description : REF_DESCRIPTION;
}

int sn_device_find(const char *name) {
  const device *wanted = device_find(name);
  bool ref = name && strcmp(name, REF_NAME) == 0;
  if (!wanted && !ref)
    return -1;
  for (int i = 0;; i++) {
    const device *d;
    if (!device_of(i, &d) || d == wanted)
      return i;
  }
}

const char *sn_device_why_not(const char *name) {
  return strncmp(name, "vulkan", 6) == 0 && !device_find(name) ? vulkan_why_none() : "";
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
  bool any = !name || strcmp(name, "auto") == 0; /* the reference, in a build without devices */
  *out_device = device_find(name);
  *out_engine = *out_device ? &session_by_plan : NULL;
  if (!*out_device && (any || strcmp(name, REF_NAME) == 0))
    *out_engine = &session_by_ref;
  return *out_engine ? SN_OK : not_found(ctx, name);
}
