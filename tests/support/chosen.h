/* What the environment chooses for tests that run on any device: SINEW_TEST_DEVICE, "cpu" without it ("ref": the reference, in hours), and
 * SINEW_TEST_PRECISION, `exact` without it. */
#ifndef SINEW_TESTS_SUPPORT_CHOSEN_H
#define SINEW_TESTS_SUPPORT_CHOSEN_H

#include <sinew/sinew.h>

const char *chosen_device(void);
/* Another name than of a precision ends the process: nothing may pass because of a slip. */
sn_precision chosen_precision(void);
/* What a result may be off by, of the largest: plan_numbers.tolerance. */
double precision_tolerance(sn_precision precision);

#endif
