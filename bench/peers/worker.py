#!/usr/bin/env python3
"""One peer on one workload, in a process of its own: worker.py ENGINE WORKLOAD THREADS.

Speaks lines of JSON. First it prepares every form, checks it against the golden, and writes
{"version", "forms": {form: {"compile_s", "norm", "error"} or {"failed"}}}; then for each line
{"form", "least_s", "fewest"} on stdin it writes {"seconds": [...]}. It ends with its input.
"""

import json
import os
import sys
import time
import traceback

import numpy as np

TOLERANCE = 1e-4  # relative, of loss and output norm: float32 against the float64 golden


def check(result, golden, form):
    """The output's norm, and the largest relative error; the latency form has no golden."""
    output, loss = result
    norm = float(np.linalg.norm(np.asarray(output.numpy() if hasattr(output, "numpy") else output, np.float64)))
    if form == "latency":
        return norm, 0.0 if np.isfinite(norm) else float("inf")
    errors = [abs(norm / golden["output_l2_f64"] - 1)]
    if loss is not None:
        errors.append(abs(float(loss) / golden["loss_f64"] - 1))
    return norm, max(errors)


def prepare(engine, workload, form):
    import workloads

    start = time.perf_counter()
    run = engine.prepare(form)
    result = run()
    compile_s = time.perf_counter() - start
    norm, error = check(result, workloads.description(workload)["live"], form)
    if not error <= TOLERANCE:
        raise ValueError(f"relative error {error:.2g} against the golden")
    return run, {"compile_s": compile_s, "norm": norm, "error": error}


def prepare_all(engine, workload):
    runs, report = {}, {}
    for form in engine.forms:
        try:
            runs[form], report[form] = prepare(engine, workload, form)
        except Exception as failure:  # noqa: BLE001 - whatever a peer throws, its other forms go on
            traceback.print_exc()
            report[form] = {"failed": f"{type(failure).__name__}: {failure}"[:300]}
    return runs, report


def main(name, workload, threads):
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_PROC_BIND"] = "true"  # PyTorch's threads: one a core

    import clock
    import engines

    engine = engines.ENGINES[name](workload, threads)
    runs, report = prepare_all(engine, workload)
    print(json.dumps({"version": engine.version(), "forms": report}), file=replies, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        taken = clock.sample(runs[order["form"]], order["least_s"], order["fewest"])
        print(json.dumps({"seconds": taken}), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
