"""The workloads on a GPU: all peers compile beside each other, then they take turns with nobody else on the GPU.

A worker process (gpu_worker.py) that is not ready in time is left out. Results have the same shape as those of
compare.py, with the variants of an engine as players.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

import clock
import compare
import gpu_engines
import sinew
import workloads

WORKER = compare.WORKER.with_name("gpu_worker.py")
OURS = {"sinew-fast": "fast", "sinew-exact": "exact"}
TURN_S = 30  # what takes longer than this at its turn hangs
DEVICES = {"cuda": ("cuda", "vulkan"), "dry": ("cpu", "cpu")}  # the peers' and ours


class Worker:
    """A process. What it says is read by a thread, so that waiting can end."""

    def __init__(self, engine, workload, forms, options, lock):
        self.engine, self.forms, self.options = engine, list(forms), options
        self.version, self.states, self.seconds, self.turns, self.alive = engine, {}, {}, 0, True
        self.log = open(options.logs / f"{engine}-{workload}-{forms[0]}.log", "w") if options.logs else None
        first = ["nice", "-n", "15"] if engine == "autotuned" else []  # what takes longest holds nobody up
        arguments = [*first, sys.executable, str(WORKER), engine, workload, DEVICES[options.device][0], lock, *forms]
        self.process = subprocess.Popen(arguments, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log or subprocess.DEVNULL, env=environment())
        self.heard = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.heard.put(json.loads(line))
        self.heard.put(None)

    def hear(self, until):
        """The next message; None where there is none by then, or will be none."""
        try:
            return self.heard.get(timeout=max(0.01, until - time.monotonic()))
        except queue.Empty:
            return None

    def tell(self, **order):
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # then nothing will be heard either

    def await_compiled(self, until):
        """Forms that are not compiled by then are lost, with the process: it is in the middle of one."""
        self.compile_s = {}
        while (message := self.hear(until)) and "version" not in message:
            self.compile_s[message["form"]] = message.get("compile_s")
            if "failed" in message:
                self.states[self.engine, message["form"]] = message
        if message:
            self.version = message["version"]
        else:
            code = self.process.poll()
            how = f"not ready in {self.options.ready_s:g} s" if code is None else f"ended with {code}"
            self.states |= {(self.engine, form): {"failed": how} for form in self.forms}
            self.alive = False
            self.process.kill()

    def settle(self, until):
        until = min(until, time.monotonic() + TURN_S)
        self.tell(settle=True)
        while (message := self.hear(until)) and "settled" not in message:
            form, variant = message.pop("form"), message.pop("variant")
            self.states[variant, form] = message | {"compile_s": self.compile_s.get(form)}
        if not message:
            self.alive = False
            self.states[self.engine, self.forms[-1]] = {"failed": "ended or hung before its turn"}

    def round(self, until):
        """Eager PyTorch is far behind its own graph: its first turn is its last."""
        self.turns += 1
        for (variant, form), state in self.states.items():
            if "failed" in state or (variant == "eager" and self.turns > 1):
                continue
            self.tell(form=form, variant=variant, least_s=self.options.least_s, fewest=self.options.fewest,
                      warm_s=self.options.warm_s)
            message = self.hear(min(until, time.monotonic() + TURN_S))
            if not message:
                self.alive = False
                return
            self.seconds.setdefault((variant, form), []).append(clock.summary(message["seconds"], self.options.best))

    def close(self):
        """It has nothing more to save, and takes its time to end by itself."""
        self.process.kill()
        self.process.wait()


def environment():
    """Many of them compile at a time: one thread each for arithmetic on the host, four for Triton."""
    return {"TORCHINDUCTOR_COMPILE_THREADS": "4", **os.environ, "OMP_NUM_THREADS": "1"}


# --- preparing


def start(names, options, locks):
    """Workers by workload. One that compiles long has a process for each form; the longest begin first."""
    found = {name: [] for name in names}
    for engine in options.peers:
        for name in names:
            kind = gpu_engines.ENGINES[engine]
            forms = kind.forms(name)
            for part in [[form] for form in reversed(forms)] if kind.apart else [forms] * bool(forms):
                found[name].append(Worker(engine, name, part, options, f"{locks}/{kind.lock_name(name)}"))
    return found


def ours(name, options):
    if not options.sinew:
        return []
    device = DEVICES[options.device][1]
    return [sinew.Sinew(options.sinew, name, options.repeat, ["--device", device, "--precision", precision], player)
            for player, precision in OURS.items()]


def fill_caches(names, options):
    """Those of the driver, which compiles our kernels."""
    for name in names:
        for player in ours(name, options):
            player.try_round(2 * TURN_S)


def prepare(names, options, locks):
    workers = start(names, options, locks)
    until = time.monotonic() + options.ready_s
    filling = threading.Thread(target=fill_caches, args=(names, options))
    filling.start()
    for name in names:
        for w in workers[name]:
            w.await_compiled(until)
        tell(options, f"{name}: compiled")
    filling.join()
    return workers


# --- measuring


def tell(options, text):
    print(f"{time.monotonic() - options.begun:6.1f} s  {text}", file=sys.stderr, flush=True)


def card():
    """What the GPU says of itself just now."""
    what = "name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"], capture_output=True,
                              text=True, check=False)
        return done.stdout.strip()
    except OSError:
        return ""


class Contest:
    """Ours and the peers on one workload."""

    def __init__(self, name, workers, options):
        self.name, self.workers, self.options = name, workers, options
        self.players, self.seconds = ours(name, options), {}
        self.until = options.begun + options.limit_s

    def settle(self):
        for w in self.workers:
            if w.alive:
                w.settle(self.until)
        tell(self.options, f"{self.name}: settled; {card()}")

    def round(self):
        for player in self.players:
            for form, taken in player.try_round(TURN_S).items():
                self.seconds.setdefault((player.name, form), []).append(taken)
        for w in self.workers:
            if w.alive:
                w.round(self.until)
        tell(self.options, f"{self.name}: measured; {card()}")

    def results(self):
        """As compare.measure gives them."""
        found = {p.name: {"version": p.version, "forms": p.forms} for p in self.players}
        seconds = dict(self.seconds)
        for w in self.workers:
            seconds |= w.seconds
            for (variant, form), state in w.states.items():
                found.setdefault(variant, {"version": w.version, "forms": {}})["forms"][form] = state
        for player, result in found.items():
            result["rounds"] = {form: seconds.get((player, form), []) for form in workloads.FORMS}
            result["seconds"] = {form: clock.summary(x, self.options.best) for form, x in result["rounds"].items() if x}
        return found


def measure(contests, options):
    """Round by round through all workloads, so that each has as many when time is over."""
    for contest in contests:
        contest.settle()
    for _ in range(options.rounds):
        for contest in contests:
            if time.monotonic() < contest.until:
                contest.round()
        if options.json:
            options.json.write_text(json.dumps({c.name: c.results() for c in contests}, indent=1) + "\n")
    return {c.name: c.results() for c in contests}


# --- the report


def report(results, options):
    shown = [v for v in gpu_engines.VARIANTS if any(v in r for r in results.values())]
    lines = [f"ms, {'least' if options.best else 'median'} of at most {options.rounds} rounds",
             compare.table(results, shown, tuple(OURS))]
    lines.append("peers: TF32 in matmuls and convolutions; eager-graph-default: f32 in matmuls, PyTorch's default")
    lines += sorted({p["version"] for r in results.values() for p in r.values()})
    worst = {v: max((s.get("error", 0) for r in results.values() for s in r.get(v, {}).get("forms", {}).values()),
                    default=0) for v in (*OURS, *shown)}
    lines.append("largest relative error: " + ", ".join(f"{v} {x:.1g}" for v, x in worst.items()))
    lines += [f"failed: {x}" for x in compare.failures(results) + compare.disagreements(results, tolerance=1e-2)]
    return "\n".join(lines)


HEADS = {"fast": ("sinew-fast",), "exact": ("sinew-exact",), "PyTorch eager": ("eager",),
         "eager, graph": ("eager-graph", "eager-graph-nhwc"), "graph, f32 matmuls": ("eager-graph-default",),
         "compiled": ("compiled",), "compiled, graph": ("compiled-graph",), "autotuned, graph": ("autotuned-graph",),
         "JAX": ("jax",)}


def markdown_row(result, form, heads):
    best, _ = compare.best_peer(result, form)
    found = []
    for players in heads.values():
        x = min((x for p in players if (x := compare.cell(result, p, form))), default=None)
        found.append("–" if x is None else f"**{x:.2f}**" if x == best else f"{x:.2f}")
    ours = compare.cell(result, "sinew-fast", form)
    return [*found, f"{best / ours:.2f}" if best and ours else "–"]


def markdown(results):
    """The table of docs/performance.md."""
    heads = {head: players for head, players in HEADS.items()
             if any(r.get(p, {}).get("seconds") for r in results.values() for p in players)}
    rows = [["workload", "form", *heads, "best/fast"], ["---"] * (len(heads) + 3)]
    for workload, result in results.items():
        for form in workloads.FORMS:
            rows.append([workload if form == "inference" else "", form, *markdown_row(result, form, heads)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(options):
    names = options.workload or workloads.NAMES
    options.begun = time.monotonic()
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as locks:
        workers = prepare(names, options, locks)
        results = measure([Contest(name, workers[name], options) for name in names], options)
    print(report(results, options), flush=True)
    for w in sum(workers.values(), []):
        w.close()
    tell(options, "done")
    return results
