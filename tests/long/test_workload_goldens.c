/* The reference workloads against their goldens (support/golden.h) on every instruction set, with the `arena` parameters, and
 * over training steps. */
#include "device/cpu/isa.h"
#include "support/chosen.h"
#include "support/golden.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOSS_TOLERANCE = 1e-5;     /* relative */
static const double SEQUENCE_TOLERANCE = 1e-2; /* of the change since step 0 */

static void live_steps(const char *set, bool gradients) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s%s%s", set ? set : "", set ? " " : "", sn_workload_name(sn_workload_at(i)))) {
      golden_step(sn_workload_at(i), SN_WORKLOAD_LIVE, gradients);
      test_end();
    }
}

/* On the cpu: with each of its instruction sets, unless the environment's SINEW_CPU names one. */
static void live_on_sets(bool gradients) {
  if (strcmp(chosen_device(), "cpu") != 0 || getenv("SINEW_CPU")) {
    live_steps(NULL, gradients);
    return;
  }
  for (int k = 0; cpu_isa_at(k); k++) {
    setenv("SINEW_CPU", cpu_isa_at(k)->name, 1);
    live_steps(cpu_isa_at(k)->name, gradients);
  }
  unsetenv("SINEW_CPU");
}

TEST_WALK(live_step) { live_on_sets(true); }
TEST_WALK(live_forward) { live_on_sets(false); }

TEST_WALK(arena_loss) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      golden_step(sn_workload_at(i), SN_WORKLOAD_ARENA, false);
      test_end();
    }
}

/* --- training --- */

static void compare_sequence(golden *s, sn_trainer *t, const sn_json *losses) {
  double start = golden_number(sn_json_at(losses, 0)), worst = 0;
  float first = NAN, loss = NAN;
  double before = golden_seconds();
  CHECK(sn_workload_write(s->workload, s->graph, SN_WORKLOAD_FULL, sn_trainer_session(t)) == SN_OK);
  for (size_t k = 0; k < sn_json_size(losses); k++) {
    if (!golden_went(s, sn_trainer_step(t, &loss)))
      return;
    if (k == 0)
      first = loss;
    double expected = golden_number(sn_json_at(losses, k)) - start;
    double error = fabs((double)loss - (double)first - expected) / fabs(expected);
    if (k > 0 && !(error <= worst)) /* NaN stays */
      worst = error;
  }
  golden_check("loss at step 0", fabs((double)first / start - 1), LOSS_TOLERANCE);
  golden_check("changes of the loss", worst, SEQUENCE_TOLERANCE);
  printf("  loss %.6g to %.6g, worst change off by %.2g %%; %zu steps in %.1f s, %.1f s in all\n",
         (double)first, (double)loss, 100 * worst, sn_json_size(losses), golden_seconds() - before,
         golden_seconds() - s->started);
}

static void train(const sn_workload *w, sn_optimizer_kind kind, const char *rate_key,
                  const char *losses_key) {
  golden s;
  if (golden_start(&s, w, SN_WORKLOAD_LIVE)) {
    const sn_json *losses = golden_find(&s, losses_key);
    sn_trainer_options o = {.optimizer = {.kind = kind},
                            .schedule = {.kind = SN_SCHEDULE_CONSTANT},
                            .device = chosen_device()};
    sn_param params[GOLDEN_PARAMS] = {0};
    sn_trainer *t = NULL;
    for (int i = 0; i < s.n; i++)
      params[i].state = s.params[i];
    if (CHECK(losses)) {
      o.schedule.rate = golden_number(golden_find(&s, rate_key));
      printf("%s, %s, %s:", sn_workload_name(w), losses_key, chosen_device());
      if (golden_went(&s, sn_trainer_create(s.graph, s.values.loss, params, s.n, s.store, &o, &t)))
        compare_sequence(&s, t, losses);
    }
    sn_trainer_destroy(t);
  }
  golden_end(&s);
}

TEST_WALK(sgd_losses) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      train(sn_workload_at(i), SN_SGD, "sgd_lr", "sgd_losses_f64");
      test_end();
    }
}

TEST_WALK(adam_losses) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      train(sn_workload_at(i), SN_ADAM, "adam_lr", "adam_losses_f64");
      test_end();
    }
}
