#!/usr/bin/env python3
"""One peer on one workload on a GPU, in a process of its own: gpu_worker.py ENGINE WORKLOAD DEVICE LOCK FORM...

Speaks lines of JSON. First it compiles: {"form", "compile_s"} or {"form", "failed"} for each form, then
{"version"}. For {"settle": true} on stdin, given when nobody else uses the GPU, it makes the variants and checks
them against the goldens: {"form", "variant", "norm", "error"} or {"form", "variant", "failed"} each, then
{"settled": true}. For {"form", "variant", "least_s", "fewest"} it writes {"seconds": [...]}. It ends with its input.
"""

import fcntl
import json
import math
import os
import sys
import time
import traceback

import numpy as np

TOLERANCE = 1e-2  # relative, of loss and norms of output and gradients: TF32 against the float64 golden


class Lock:
    """Held by one process at a time."""

    def __init__(self, path):
        self.file = open(path, "w")

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *failure):
        fcntl.flock(self.file, fcntl.LOCK_UN)


def norm_of(output):
    values = output.cpu().numpy() if hasattr(output, "cpu") else output
    return float(np.linalg.norm(np.asarray(values, np.float64)))


def check(engine, result, golden, form):
    """The output's norm, and the largest relative error; the latency form has no golden, some lack gradients."""
    output, loss = result
    norm = norm_of(output)
    if form == "latency":
        return norm, 0.0 if math.isfinite(norm) else math.inf
    errors = [abs(norm / golden["output_l2_f64"] - 1)]
    if loss is not None:
        errors.append(abs(float(loss) / golden["loss_f64"] - 1))
        gradients = engine.gradient_norm()
        known = golden.get("grads_f64")
        if known:
            squares = (g["l2"] ** 2 for g in known.values() if g["l2"] is not None)  # None: not trained
            errors.append(abs(gradients / math.sqrt(sum(squares)) - 1))
        elif not 0 < gradients < math.inf:
            errors.append(math.inf)
    return norm, math.inf if any(math.isnan(e) for e in errors) else max(errors)


class Worker:
    def __init__(self, engine, workload, forms, replies):
        import workloads

        self.engine, self.forms, self.replies, self.runs = engine, forms, replies, {}
        self.golden = workloads.description(workload)["live"]

    def say(self, **message):
        print(json.dumps(message), file=self.replies, flush=True)

    def say_failed(self, failure, **message):
        traceback.print_exc()
        self.say(failed=f"{type(failure).__name__}: {failure}"[:300], **message)

    def compile(self):
        for form in list(self.forms):
            start = time.perf_counter()
            try:
                self.engine.compile(form)
                self.say(form=form, compile_s=time.perf_counter() - start)
            except Exception as failure:  # noqa: BLE001 - whatever a peer throws, its other forms go on
                self.forms.remove(form)
                self.say_failed(failure, form=form)
        self.say(version=self.engine.version())

    def settle(self):
        for form in self.forms:
            for variant, make in self.engine.variants(form):
                try:
                    self.settle_variant(form, variant, make())
                except Exception as failure:  # noqa: BLE001
                    self.say_failed(failure, form=form, variant=variant)
        self.say(settled=True)

    def settle_variant(self, form, variant, run):
        norm, error = check(self.engine, run(), self.golden, form)
        if error <= TOLERANCE:
            self.runs[form, variant] = run
            self.say(form=form, variant=variant, norm=norm, error=error)
        else:
            self.say(form=form, variant=variant, failed=f"relative error {error:.2g} against the golden")

    def measure(self, order):
        import clock

        run = self.runs[order["form"], order["variant"]]
        self.say(seconds=clock.sample(run, order["least_s"], order["fewest"], warm_s=order["warm_s"], most=1000))


def main(name, workload, device, lock, *forms):
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr

    import gpu_engines

    engine = gpu_engines.ENGINES[name](workload, device, Lock(lock))
    worker = Worker(engine, workload, list(forms), replies)
    worker.compile()
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("settle"):
            worker.settle()
        else:
            worker.measure(order)


if __name__ == "__main__":
    main(*sys.argv[1:])
