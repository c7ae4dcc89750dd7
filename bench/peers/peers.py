#!/usr/bin/env python3
"""Compares sinew with PyTorch, ONNX Runtime, JAX and OpenBLAS on this machine. README.md says how to set it up."""

import argparse
import json
import pathlib
import sys

import workloads

ENGINES = ("eager", "eager-nhwc", "compiled", "onnxruntime", "jax")


def run_workloads(options):
    import compare

    return compare.main(options)


def run_matmul(options):
    import ops

    return ops.matmul_main(options)


def run_conv(options):
    import ops

    return ops.conv_main(options)


def run_demo(options):
    import demo

    return demo.main(options)


def run_shapes(options):
    import shapes

    found = shapes.write()
    print(f"{shapes.FILE}: {len(found['matmul'])} matmuls, {len(found['conv'])} convolutions")


MODES = {
    "workloads": (run_workloads, "the five workloads: inference, latency, training"),
    "matmul": (run_matmul, "matmuls against OpenBLAS"),
    "conv": (run_conv, "convolutions and their gradients against PyTorch"),
    "demo": (run_demo, "tokens a second of the demonstration's training against PyTorch eager"),
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
    parser.add_argument("--peers", nargs="*", choices=ENGINES, default=ENGINES)
    parser.add_argument("--rounds", type=int, default=5, help="turns that each takes; default 5")
    parser.add_argument("--fewest", type=int, default=5, help="least runs a turn; default 5")
    parser.add_argument("--least-s", type=float, default=0.3, help="least seconds a turn of a peer; default 0.3")
    parser.add_argument("--best", action="store_true", help="the least time instead of the median, for a busy machine")
    parser.add_argument("--json", type=pathlib.Path, help="write the results there")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    results = MODES[options.mode][0](options)
    if options.json and results is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
