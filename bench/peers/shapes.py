"""Which matmuls and convolutions the workloads consist of: read off PyTorch's own calls, written to shapes.json.

A matmul is out[m, n] = a·b, where `ta`/`tb` say that a is stored [k, m] and b [n, k]. A convolution is
{x, w, stride, padding} in the order of PyTorch's shapes. `uses` counts the calls by workload and form; training has
the forward's calls and those of the backward. What attention multiplies inside its fused kernel is not listed.
"""

import collections
import json
import pathlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torch_models
import workloads

FILE = pathlib.Path(__file__).with_name("shapes.json")


def is_transposed(x):
    return bool(x.stride(0) == 1 and x.stride(1) != 1)


class Recorder(TorchDispatchMode):
    """Counts mm, addmm and convolutions as they pass by."""

    def __init__(self):
        super().__init__()
        self.matmuls, self.convs = collections.Counter(), collections.Counter()

    def add_matmul(self, a, b):
        self.matmuls[a.shape[0], b.shape[1], a.shape[1], is_transposed(a), is_transposed(b)] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        aten = torch.ops.aten
        if func is aten.mm.default:
            self.add_matmul(*args)
        elif func is aten.addmm.default:
            self.add_matmul(*args[1:3])
        elif func is aten.convolution.default:
            x, w, _, stride, padding = args[:5]
            self.convs[tuple(x.shape), tuple(w.shape), tuple(stride), tuple(padding)] += 1
        return func(*args, **(kwargs or {}))


def record(workload, form):
    model = torch_models.build(workload, "live")
    x = [torch.from_numpy(v) for v in workloads.inputs(workload, form)]
    with Recorder() as seen:
        y = model(*x)
        if form == "training":
            torch_models.loss(workload, y, torch_models.target(workload)).backward()
    return seen


def collect():
    matmuls, convs = collections.defaultdict(dict), collections.defaultdict(dict)
    for workload in workloads.NAMES:
        for form in workloads.FORMS:
            seen, use = record(workload, form), f"{workload} {form}"
            for key, n in seen.matmuls.items():
                matmuls[key][use] = n
            for key, n in seen.convs.items():
                convs[key][use] = n
    return {
        "matmul": [dict(zip(("m", "n", "k", "ta", "tb"), key), uses=uses) for key, uses in matmuls.items()],
        "conv": [dict(zip(("x", "w", "stride", "padding"), key), uses=uses) for key, uses in convs.items()],
    }


def write(path=FILE):
    found = collect()
    lines = [f' "{kind}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]"
             for kind, rows in found.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return found


def read(path=FILE):
    return json.loads(path.read_text())
