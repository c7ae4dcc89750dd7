/* See stack.h. How much is left is asked of the system: of glibc and musl, which know; elsewhere a thread is made. */
#if defined(__linux__)
#define _GNU_SOURCE /* pthread_getattr_np */
#endif
#include "base/stack.h"

#include <pthread.h>
#include <signal.h>

typedef struct deep_call {
  stack_work work;
  void *user;
  sn_status status;
} deep_call;

/* Bytes below this frame; 0: not known. */
static size_t stack_left(void) {
#if defined(__linux__)
  pthread_attr_t attributes;
  void *low = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return 0;
  int status = pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return status == 0 && here > (uintptr_t)low ? (size_t)(here - (uintptr_t)low) : 0;
#else
  return 0;
#endif
}

static void *deep_main(void *user) {
  deep_call *call = user;
  call->status = call->work(call->user);
  return NULL;
}

/* Signals are for the host's own threads. */
static bool start(pthread_t *thread, const pthread_attr_t *attributes, deep_call *call) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool made = pthread_create(thread, attributes, deep_main, call) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return made;
}

sn_status stack_run_deep(sn_ctx *ctx, stack_work work, void *user) {
  enum { SPARE = 64 << 10 }; /* of the thread's own: what libc puts there */
  deep_call call = {work, user, SN_ERR_NO_MEMORY};
  pthread_attr_t attributes;
  pthread_t thread;
  if (stack_left() >= STACK_DEEP)
    return work(user);
  if (pthread_attr_init(&attributes) != 0)
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "no memory for a thread");
  bool made = pthread_attr_setstacksize(&attributes, STACK_DEEP + SPARE) == 0 &&
              start(&thread, &attributes, &call);
  pthread_attr_destroy(&attributes);
  if (!made)
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "the system has no room for another thread");
  pthread_join(thread, NULL);
  return call.status;
}
