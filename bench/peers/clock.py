"""Timing: medians of repeated calls, for at least a given time."""

import gc
import statistics
import time


def warm_up(call, least_s):
    """One call, and more until so much time has passed."""
    start = time.perf_counter()
    call()
    while time.perf_counter() - start < least_s:
        call()


def sample(call, least_s=0.2, fewest=5, most=200, warm_s=0.0):
    """Seconds of each of some calls, behind a warm-up."""
    warm_up(call, warm_s)
    gc.disable()
    taken, start = [], time.perf_counter()
    while len(taken) < fewest or (time.perf_counter() - start < least_s and len(taken) < most):
        before = time.perf_counter()
        call()
        taken.append(time.perf_counter() - before)
    gc.enable()
    return taken


def summary(seconds, best=False):
    """The median, or the least: that of a machine which others leave alone for a moment."""
    return min(seconds) if best else statistics.median(seconds)
