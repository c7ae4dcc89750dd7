"""The workloads on a GPU: all peers compile beside each other, then they take turns with nobody else on the GPU.

A worker process (gpu_worker.py) that is not ready in time is stopped, and goes on when the others were measured.
Results have the same shape as those of compare.py, with the variants of an engine as players. They are printed and
written as they come, since a machine's time may end early.
"""

import json
import os
import queue
import signal
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
ONCE = ("eager", "sinew-exact")  # far behind their likes: their first turn is their last
TURN_S = 30  # what takes longer than this at its turn hangs
DEVICES = {"cuda": ("cuda", "vulkan"), "dry": ("cpu", "cpu")}  # the peers' and ours


def tell(options, text):
    print(f"{time.monotonic() - options.begun:6.1f} s  {text}", file=sys.stderr, flush=True)


class Worker:
    """A process. What it says is read by a thread, so that waiting can end."""

    def __init__(self, engine, workload, forms, options, lock):
        self.engine, self.workload, self.forms, self.options = engine, workload, list(forms), options
        self.version, self.states, self.seconds, self.compile_s, self.turns = None, {}, {}, {}, 0
        self.stage, self.silent = "compiling", False  # then "compiled", "settled"; or "lost"
        self.log = open(options.logs / f"{engine}-{workload}-{forms[0]}.log", "w") if options.logs else None
        first = ["nice", "-n", str(gpu_engines.ENGINES[engine].niceness)]
        arguments = [*first, sys.executable, str(WORKER), engine, workload, DEVICES[options.device][0], lock, *forms]
        self.process = subprocess.Popen(arguments, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log or subprocess.DEVNULL, env=environment(), process_group=0)
        self.heard = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "compile_s" in message:
                tell(self.options, f"{self.workload}, {self.engine}: {message['form']} compiled, "
                                   f"{message['compile_s']:.1f} s")
            self.heard.put(message)
        self.heard.put(None)

    def hear(self, until):
        """The next message; None where there is none by then, or will be none."""
        try:
            message = self.heard.get(timeout=max(0.01, until - time.monotonic()))
        except queue.Empty:
            return None
        self.silent = message is None
        return message

    def say(self, **order):
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # then nothing will be heard either

    def signal(self, which):
        """To the process and those that compile for it."""
        try:
            os.killpg(self.process.pid, which)
        except ProcessLookupError:
            pass

    def lose(self, how):
        """Nothing more is to be had of it: what was not measured failed."""
        self.stage = "lost"
        self.signal(signal.SIGKILL)
        known = {form for _, form in self.states}
        lacking = [key for key in self.states if key not in self.seconds]
        for key in lacking + [(self.engine, form) for form in self.forms if form not in known]:
            self.states.setdefault(key, {}).setdefault("failed", how)

    def await_compiled(self, until):
        """Where it is not by then, this can be called again."""
        while (message := self.hear(until)) and "version" not in message:
            self.compile_s[message["form"]] = message.get("compile_s")
            if "failed" in message:
                self.states[self.engine, message["form"]] = message
        if message:
            self.version, self.stage = message["version"], "compiled"
        elif self.silent:
            self.lose("ended while it compiled")

    def settle(self):
        until = time.monotonic() + TURN_S
        self.say(settle=True)
        while (message := self.hear(until)) and "settled" not in message:
            form, variant = message.pop("form"), message.pop("variant")
            self.states[variant, form] = message | {"compile_s": self.compile_s.get(form)}
        if message:
            self.stage = "settled"
        else:
            self.lose("ended or hung before its turn")

    def round(self, until):
        """No turn begins after that."""
        self.turns += 1
        for (variant, form), state in self.states.items():
            if "failed" in state or (variant in ONCE and self.turns > 1) or time.monotonic() > until:
                continue
            self.say(form=form, variant=variant, least_s=self.options.least_s, fewest=self.options.fewest,
                     warm_s=self.options.warm_s)
            message = self.hear(time.monotonic() + TURN_S)
            if not message:
                self.lose("ended or hung at its turn")
                return
            self.seconds.setdefault((variant, form), []).append(clock.summary(message["seconds"], self.options.best))

    def close(self):
        """It has nothing more to save, and takes its time to end by itself."""
        if self.stage == "compiling":
            self.lose("not compiled in time")
        self.signal(signal.SIGKILL)
        self.process.wait()


class Ours:
    """`sinew bench`, which takes turns as a worker does."""

    stage = "settled"

    def __init__(self, name, workload, options, repeat):
        arguments = ["--device", DEVICES[options.device][1], "--precision", OURS[name]]
        self.player = sinew.Sinew(options.sinew, workload, repeat, arguments, name)
        self.seconds, self.turns = {}, 0

    @property
    def version(self):
        return self.player.version

    @property
    def states(self):
        return {(self.player.name, form): state for form, state in self.player.forms.items()}

    def round(self, until, turn_s=TURN_S):
        self.turns += 1
        if (self.player.name in ONCE and self.turns > 1) or time.monotonic() > until:
            return
        for form, taken in self.player.try_round(turn_s).items():
            self.seconds.setdefault((self.player.name, form), []).append(taken)


def environment():
    """Many of them compile at a time: one thread each for arithmetic on the host, four for Triton."""
    return {"TORCHINDUCTOR_COMPILE_THREADS": "4", **os.environ, "OMP_NUM_THREADS": "1"}


# --- preparing


def start(names, options, locks):
    """Workers by workload, the most important first: with their niceness, that is who gets ready first."""
    found = {name: [] for name in names}
    for engine in options.peers:
        for name in names:
            kind = gpu_engines.ENGINES[engine]
            for part in kind.parts(name):
                found[name].append(Worker(engine, name, part, options, f"{locks}/{kind.lock_name(name)}"))
    return found


def ours(name, options, repeat):
    return [Ours(player, name, options, repeat) for player in OURS] if options.sinew else []


def fill_caches(names, options, until, enough):
    """Those of the driver, which compiles our kernels: while the peers compile, no longer."""
    for name in names:
        for player in ours(name, options, repeat=2):
            if not enough.is_set():
                player.round(until, turn_s=max(1, until - time.monotonic()))
    if options.sinew:
        tell(options, "caches of ours filled")


def compile_all(workers, until):
    """Until all are ready, or time is over. Who is not stands still from then on."""
    workers = [w for w in workers if w.stage == "compiling"]
    for w in workers:
        w.signal(signal.SIGCONT)
    for w in workers:
        w.await_compiled(until)
    for w in workers:
        if w.stage == "compiling":
            w.signal(signal.SIGSTOP)


# --- measuring


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
        self.ours, self.until = ours(name, options, options.repeat), options.begun + options.limit_s

    def settle(self):
        """Those that are compiled by now."""
        found = [w for w in self.workers if w.stage == "compiled"]
        for w in found:
            w.settle()
        tell(self.options, f"{self.name}: {len(found)} processes settled; {card()}")
        return found

    def round(self, players):
        for player in players:
            if player.stage == "settled":
                player.round(self.until)
        tell(self.options, f"{self.name}: measured; {card()}")

    def results(self):
        """As compare.measure gives them."""
        found, seconds = {}, {}
        for player in [*self.ours, *self.workers]:
            seconds |= player.seconds
            for (variant, form), state in player.states.items():
                found.setdefault(variant, {"version": None, "forms": {}})["forms"][form] = state
                found[variant]["version"] = found[variant]["version"] or player.version
        for player, result in found.items():
            result["rounds"] = {form: seconds.get((player, form), []) for form in workloads.FORMS}
            result["seconds"] = {form: clock.summary(x, self.options.best) for form, x in result["rounds"].items() if x}
        return found


def publish(contests, contest, options):
    """What is known so far."""
    results = {c.name: c.results() for c in contests}
    print(compare.table({contest.name: results[contest.name]}, variants(results), tuple(OURS)), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def measure(contests, options, rounds, with_ours):
    """Round by round through all workloads, so that each has as many when time is over."""
    players = {}
    for k in range(rounds):
        for c in contests:
            if time.monotonic() > c.until:
                return
            if k == 0:
                players[c] = (c.ours if with_ours else []) + c.settle()
            if players[c]:
                c.round(players[c])
                publish(contests, c, options)


# --- the report


def variants(results):
    return [v for v in gpu_engines.VARIANTS if any(v in r for r in results.values())]


def report(results, options):
    shown = variants(results)
    lines = [f"ms, {'least' if options.best else 'median'} of at most {options.rounds} rounds",
             compare.table(results, shown, tuple(OURS))]
    lines.append("peers: TF32 in matmuls and convolutions; eager-graph-default: f32 in matmuls, PyTorch's default")
    lines += sorted({p["version"] for r in results.values() for p in r.values() if p["version"]})
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


# --- all of it


def run(contests, options):
    """Who is ready in time, then who was late."""
    workers = sum((c.workers for c in contests), [])
    until, enough = options.begun + options.ready_s, threading.Event()
    filling = threading.Thread(target=fill_caches, args=([c.name for c in contests], options, until, enough),
                               daemon=True)
    filling.start()
    compile_all(workers, until)
    enough.set()
    filling.join()
    tell(options, f"{sum(w.stage == 'compiled' for w in workers)} of {len(workers)} processes are ready")
    measure(contests, options, options.rounds, with_ours=True)
    if options.late_s:
        compile_all(workers, options.begun + options.late_s)
        measure(contests, options, 1, with_ours=False)


def main(options):
    names = options.workload or workloads.NAMES
    options.begun = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is known is reported then
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as locks:
        workers = start(names, options, locks)
        contests = [Contest(name, workers[name], options) for name in names]
        try:
            run(contests, options)
        except KeyboardInterrupt:
            tell(options, "ended early")
        for w in sum(workers.values(), []):
            w.close()
    results = {c.name: c.results() for c in contests}
    print(report(results, options), flush=True)
    tell(options, "done")
    return results
