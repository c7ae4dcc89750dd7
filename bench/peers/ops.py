"""Single operations: matmuls against OpenBLAS, convolutions against PyTorch (oneDNN).

An operation is a line of text, the same for us and for the peers:

    matmul NT 128 576 576                       a stored [m, k], b stored [n, k]; m, n, k
    conv forward 4 64 56 56 128 3 3 1 1         or grad-input, grad-weight; N C H W, K R S, stride, padding

`sinew bench ops --shapes FILE --json` measures such lines. A convolution over one dimension has H = R = 1 and is
padded along W only. shapes.json lists what the workloads use; here each counts as often as it is used.
"""

import math
import os
import sys
import tempfile

import clock
import shapes
import sinew

CUBES = (512, 1024, 2048, 4096)
BATCH = 8  # lines in a turn
DIRECTIONS = ("forward", "grad-input", "grad-weight")
CONV_WORKLOADS = ("ResNet-50", "StableDiffusion")


def matmul_line(row):
    return f"matmul {'NT'[row['ta']]}{'NT'[row['tb']]} {row['m']} {row['n']} {row['k']}"


def flat(sizes):
    return sizes if len(sizes) == 4 else [*sizes[:2], 1, sizes[2]]


def conv_line(row, direction):
    x, w = flat(row["x"]), flat(row["w"])
    numbers = [*x, w[0], *w[2:], row["stride"][-1], row["padding"][-1]]
    return f"conv {direction} " + " ".join(map(str, numbers))


def matmul_flops(row):
    return 2 * row["m"] * row["n"] * row["k"]


def conv_flops(row):
    sizes = zip(row["x"][2:], row["padding"], row["w"][2:], row["stride"])
    out = [(n + 2 * p - k) // s + 1 for n, p, k, s in sizes]
    return 2 * row["x"][0] * math.prod(row["w"]) * math.prod(out)


# --- what is measured: {line: {"flops", "uses": {use: count}}}


def matmul_cases():
    rows = [{"m": n, "n": n, "k": n, "ta": False, "tb": False, "uses": {"cubes": 1}} for n in CUBES]
    rows += shapes.read()["matmul"]
    return {matmul_line(row): {**row, "flops": matmul_flops(row)} for row in rows}


def conv_uses(row, direction):
    """The image that enters a network needs no gradient."""
    uses = {use: n for use, n in row["uses"].items() if use.split()[0] in CONV_WORKLOADS}
    if direction == "forward":
        return uses
    uses = {f"{use.split()[0]} {direction}": n for use, n in uses.items() if use.endswith("training")}
    return {} if direction == "grad-input" and row["x"][1] < 8 else uses


def conv_cases():
    cases = {}
    for row in shapes.read()["conv"]:
        for direction in DIRECTIONS:
            uses = conv_uses(row, direction)
            if uses:
                cases[conv_line(row, direction)] = {**row, "direction": direction, "flops": conv_flops(row),
                                                    "uses": uses}
    return cases


# --- the peers: {line: call}


def openblas_call(library, case):
    return library.caller(case["m"], case["n"], case["k"], case["ta"], case["tb"])[0]


def conv_call(case, channels_last):
    import torch

    layout = torch.channels_last if channels_last else torch.contiguous_format
    x, w = torch.randn(case["x"]).to(memory_format=layout), torch.randn(case["w"]).to(memory_format=layout)
    rest = (case["stride"], case["padding"], [1, 1], False, [0, 0], 1)
    if case["direction"] == "forward":
        return lambda: torch.convolution(x, w, None, *rest)
    gradient = torch.randn_like(torch.convolution(x, w, None, *rest))
    mask = [case["direction"] == "grad-input", case["direction"] == "grad-weight", False]
    return lambda: torch.ops.aten.convolution_backward(gradient, x, w, None, *rest, mask)


def matmul_peers(options):
    import openblas

    libraries = {"OpenBLAS": openblas.OpenBlas("numpy", options.threads)}
    for library in libraries.values():
        print(f"{library.version}, kernels for {library.core}; {options.threads} threads")
    return {name: lambda case, library=library: openblas_call(library, case) for name, library in libraries.items()}


def conv_peers(options):
    os.environ["OMP_PROC_BIND"] = "true"  # one thread a core

    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    print(f"torch {torch.__version__}; {options.threads} threads")
    return {"NCHW": lambda case: conv_call(case, False), "NHWC": lambda case: conv_call(case, True)}


# --- measuring


def run_ours(options, lines):
    """{line: seconds} from one process of ours; empty where it is not asked for."""
    if not options.sinew:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        rows = sinew.run_json(options.sinew, ["bench", "ops", "--shapes", file.name, "--threads", str(options.threads),
                                              "--repeat", str(options.fewest), "--json"])
    return {row["name"]: row["best_seconds" if options.best else "seconds"] for row in rows}


def batches(lines):
    lines = list(lines)
    return [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]


def measure_batch(lines, cases, peers, options, taken):
    """A turn of each; what a peer needs is made anew each time, to hold little memory."""
    for line, seconds in run_ours(options, lines).items():
        taken[line].setdefault("sinew", []).append(seconds)
    for line in lines:
        for name, make in peers.items():
            runs = clock.sample(make(cases[line]), least_s=options.least_s / 2, fewest=options.fewest)
            taken[line].setdefault(name, []).append(clock.summary(runs, options.best))


def measure(cases, peers, options):
    """{line: {player: seconds}}, the median of the rounds."""
    taken = {line: {} for line in cases}
    for k in range(options.rounds):
        print(f"round {k + 1} of {options.rounds}", file=sys.stderr)
        for lines in batches(cases):
            measure_batch(lines, cases, peers, options, taken)
    return {line: {name: clock.summary(x, options.best) for name, x in row.items()} for line, row in taken.items()}


def totals(cases, seconds):
    """{use: {player: seconds}}: all that a form of a workload does."""
    sums = {}
    for line, case in cases.items():
        for use, count in case["uses"].items():
            for player, taken in seconds[line].items():
                row = sums.setdefault(use, {})
                row[player] = row.get(player, 0) + count * taken
    return sums


def ratio(row):
    """Best peer over ours."""
    others = [x for name, x in row.items() if name != "sinew"]
    return f"{min(others) / row['sinew']:9.2f}" if "sinew" in row and others else "        –"


def report(cases, seconds, players):
    width = 2 + max(map(len, cases))
    print(f"{'ms (GFLOP/s)':<{width}}" + "".join(f"{p:>20}" for p in players) + "  best/ours")
    for line, case in cases.items():
        taken = [seconds[line].get(p) for p in players]
        cells = (f"{1e3 * s:11.3f} ({1e-9 * case['flops'] / s:5.1f})" if s else "–" for s in taken)
        print(f"{line:<{width}}" + "".join(f"{c:>20}" for c in cells) + ratio(seconds[line]))
    print(f"\n{'in all, ms':<{width}}" + "".join(f"{p:>20}" for p in players) + "  best/ours")
    for use, row in totals(cases, seconds).items():
        cells = (f"{1e3 * row[p]:.2f}" if p in row else "–" for p in players)
        print(f"{use:<{width}}" + "".join(f"{c:>20}" for c in cells) + ratio(row))


def compare(cases, peers, options):
    seconds = measure(cases, peers, options)
    report(cases, seconds, ["sinew", *peers])
    return {"cases": [{"name": line, "flops": case["flops"], "uses": case["uses"], "seconds": seconds[line]}
                      for line, case in cases.items()],
            "totals": totals(cases, seconds)}


def matmul_main(options):
    return compare(matmul_cases(), matmul_peers(options), options)


def conv_main(options):
    return compare(conv_cases(), conv_peers(options), options)
