"""The workloads: rounds in which ours and every peer take their turn, so that noise hits all alike."""

import json
import pathlib
import subprocess
import sys

import clock
import sinew
import workloads

WORKER = pathlib.Path(__file__).with_name("worker.py")


class Peer:
    """A worker process."""

    def __init__(self, name, workload, options):
        self.name, self.options = name, options
        self.process = subprocess.Popen([sys.executable, str(WORKER), name, workload, str(options.threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline()
        ready = json.loads(line) if line else {"version": name, "forms": {}}
        self.version, self.forms = ready["version"], ready["forms"]

    def measure(self, form):
        order = {"form": form, "least_s": self.options.least_s, "fewest": self.options.fewest}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return clock.summary(json.loads(self.process.stdout.readline())["seconds"], self.options.best)

    def round(self):
        return {form: self.measure(form) for form, state in self.forms.items() if "failed" not in state}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(workload, options):
    """Ours first, then the peers that can do this workload."""
    import engines

    players = []
    if options.sinew:
        ours = ["--threads", str(options.threads)]
        players.append(sinew.Sinew(options.sinew, workload, options.fewest, ours))
    for name in options.peers:
        if engines.ENGINES[name].unfit(workload) is None:
            print(f"{workload}: preparing {name}", file=sys.stderr)
            players.append(Peer(name, workload, options))
    return players


def measure(workload, options):
    """{player: {"version", "forms", "rounds": {form: [seconds]}, "seconds": {form: the median of them}}}"""
    players = start(workload, options)
    seconds = {p.name: {form: [] for form in workloads.FORMS} for p in players}
    for k in range(options.rounds):
        print(f"{workload}: round {k + 1} of {options.rounds}", file=sys.stderr)
        for p in players:
            for form, taken in p.round().items():
                seconds[p.name][form].append(taken)
    for p in players:
        p.close()
    return {p.name: {"version": p.version, "forms": p.forms, "rounds": seconds[p.name],
                     "seconds": {form: clock.summary(x, options.best) for form, x in seconds[p.name].items() if x}}
            for p in players}


# --- the report


def cell(result, player, form):
    taken = result.get(player, {}).get("seconds", {}).get(form)
    return 1e3 * taken if taken else None


def best_peer(result, form):
    """(ms, name) of the fastest peer."""
    found = [(cell(result, name, form), name) for name in result if not name.startswith("sinew")]
    return min((pair for pair in found if pair[0] is not None), default=(None, None))


def number(x, width=11):
    return f"{x:{width}.2f}" if x is not None else " " * (width - 1) + "–"


def table(results, peers, ours_names=("sinew",)):
    """The ratio is to the first of ours."""
    heads = [*ours_names, *peers]
    widths = [max(11, len(h) + 1) for h in heads]
    lines = [f"{'workload':<16}{'form':<11}" + "".join(f" {h:>{w}}" for h, w in zip(heads, widths)) + "  best/ours"]
    for workload, result in results.items():
        for form in workloads.FORMS:
            row = "".join(" " + number(cell(result, h, form), w) for h, w in zip(heads, widths))
            ours, (best, name) = cell(result, ours_names[0], form), best_peer(result, form)
            ratio = f"{best / ours:9.2f}  {name}" if ours and best else "        –"
            lines.append(f"{workload:<16}{form:<11}{row}  {ratio}")
    return "\n".join(lines)


def failures(results):
    return [f"{workload}, {name}, {form}: {state['failed']}" for workload, result in results.items()
            for name, player in result.items() for form, state in player["forms"].items() if "failed" in state]


def disagreements(results, tolerance=1e-4):
    """The latency form has no golden: there the peers must agree with each other."""
    found = []
    for workload, result in results.items():
        states = (player["forms"].get("latency", {}) for player in result.values())
        norms = [state["norm"] for state in states if "norm" in state]
        if norms and max(norms) > (1 + tolerance) * min(norms):
            found.append(f"{workload}, latency: output norms from {min(norms):g} to {max(norms):g}")
    return found


def main(options):
    results = {}
    for workload in options.workload or workloads.NAMES:
        results[workload] = measure(workload, options)
        print(table({workload: results[workload]}, options.peers), file=sys.stderr)
    print(f"ms, {'least' if options.best else 'median'} of {options.rounds} rounds; {options.threads} threads")
    print(table(results, options.peers))
    for version in sorted({p["version"] for r in results.values() for p in r.values()}):
        print(version)
    for failure in failures(results) + disagreements(results):
        print("failed:", failure)
    return results
