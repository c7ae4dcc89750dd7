#!/usr/bin/env python3
"""Writes tests/fixtures/oracle/*.txt: what PyTorch (and ONNX) say our ops should yield.

Development only; docs/oracle.md says which packages it needs. Run from anywhere:

    python tools/oracle/make_fixtures.py [family ...]

Each module of `FAMILIES` has a function cases(family) and may have `helpers`, names that its
expressions use.
"""

import importlib
import pathlib
import sys

import torch

from fixture import Family

FAMILIES = [
    "pointwise",
    "reduce",
    "shape",
    "linear",
    "norm",
    "loss",
    "attention",
    "rope",
    "conv",
    "choose",
    "onnx_nodes",
]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder = ROOT / "tests" / "fixtures" / "oracle"
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in sys.argv[1:] or FAMILIES:
        module = importlib.import_module(name)
        family = Family(name, getattr(module, "helpers", None))
        module.cases(family)
        size = family.write(folder)
        total += size
        print(f"{name}: {len(family.counts)} ops, {len(family.lines)} lines, {size} bytes")
    print(f"{total} bytes")


if __name__ == "__main__":
    main()
