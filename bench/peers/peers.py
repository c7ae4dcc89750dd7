#!/usr/bin/env python3
"""Compares sinew with PyTorch, ONNX Runtime, JAX and OpenBLAS on this machine. README.md says how to set it up."""

import argparse
import json
import pathlib
import sys

import workloads

ENGINES = ("eager", "eager-nhwc", "compiled", "onnxruntime", "jax")
GPU_ENGINES = ("compiled", "eager", "jax", "autotuned")
DEFAULTS = {"cpu": {"peers": ENGINES, "rounds": 5, "least_s": 0.3},
            "gpu": {"peers": GPU_ENGINES, "rounds": 2, "least_s": 0.1}}


def run_workloads(options):
    if options.device == "cpu":
        import compare as side
    else:
        import gpu as side
    return side.main(options)


def run_matmul(options):
    import ops

    return ops.matmul_main(options)


def run_conv(options):
    import ops

    return ops.conv_main(options)


def run_demo(options):
    import demo

    return demo.main(options)


def run_markdown(options):
    import gpu

    print(gpu.markdown(json.loads(options.json.read_text())))


def run_shapes(options):
    import shapes

    found = shapes.write()
    print(f"{shapes.FILE}: {len(found['matmul'])} matmuls, {len(found['conv'])} convolutions")


MODES = {
    "workloads": (run_workloads, "the five workloads: inference, latency, training"),
    "matmul": (run_matmul, "matmuls against OpenBLAS"),
    "conv": (run_conv, "convolutions and their gradients against PyTorch"),
    "demo": (run_demo, "tokens a second of the demonstration's training against PyTorch eager"),
    "markdown": (run_markdown, "print the table of --json, from workloads on a GPU"),
    "shapes": (run_shapes, "write shapes.json anew from PyTorch's calls"),
}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=MODES, help="; ".join(f"{k}: {text}" for k, (_, text) in MODES.items()))
    parser.add_argument("--sinew", type=pathlib.Path, default=workloads.ROOT / "build" / "sinew",
                        help="our program; default build/sinew")
    parser.add_argument("--no-sinew", dest="sinew", action="store_const", const=None, help="the peers only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workload", action="append", choices=workloads.NAMES, help="only this one; may be repeated")
    parser.add_argument("--peers", nargs="*", choices=sorted({*ENGINES, *GPU_ENGINES}), help="default: all that fit")
    parser.add_argument("--rounds", type=int, help="turns that each takes; default 5, on a GPU 2")
    parser.add_argument("--fewest", type=int, default=5, help="least runs a turn; default 5")
    parser.add_argument("--least-s", type=float, help="least seconds a turn of a peer; default 0.3, on a GPU 0.1")
    parser.add_argument("--best", action="store_true", help="the least time instead of the median, for a busy machine")
    parser.add_argument("--json", type=pathlib.Path, help="write the results there")
    add_gpu(parser)
    options = parser.parse_args(arguments)
    for name, value in DEFAULTS["cpu" if options.device == "cpu" else "gpu"].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def add_gpu(parser):
    gpu = parser.add_argument_group("workloads on a GPU")
    gpu.add_argument("--device", choices=("cpu", "cuda", "dry"), default="cpu",
                     help="dry: what cuda does, but on the CPU, to try the scripts out")
    gpu.add_argument("--ready-s", type=float, default=600,
                     help="what is not compiled by then waits until the others were measured; default 600")
    gpu.add_argument("--late-s", type=float, default=0, help="then it may go on until here; default: it is left out")
    gpu.add_argument("--limit-s", type=float, default=3600, help="no turn begins after so long; default 3600")
    gpu.add_argument("--warm-s", type=float, default=0.1, help="runs before a turn of a peer; default 0.1 s")
    gpu.add_argument("--repeat", type=int, default=100, help="runs in a turn of ours; default 100")
    gpu.add_argument("--logs", type=pathlib.Path, help="a folder for what the peers print")


def main():
    options = parse(sys.argv[1:])
    results = MODES[options.mode][0](options)
    if options.json and results is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
