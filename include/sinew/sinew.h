/* Sinew: everything. */
#ifndef SINEW_SINEW_H
#define SINEW_SINEW_H

#include <sinew/base.h>
#include <sinew/compose.h>
#include <sinew/graph.h>
#include <sinew/inspect.h>
#include <sinew/json.h>
#include <sinew/model.h>
#include <sinew/npy.h>
#include <sinew/ops.h>
#include <sinew/safetensors.h>
#include <sinew/session.h>
#include <sinew/store.h>
#include <sinew/train.h>
#include <sinew/workload.h>

#endif
