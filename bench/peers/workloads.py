"""The five reference workloads as data: shapes, parameter values, inputs, goldens. Needs numpy only.

The formulas are those of docs/workloads.md. Values are float32 arrays by parameter name; inputs are lists in the
order in which the models take them.
"""

import json
import os
import pathlib

import numpy as np

NAMES = ("SmolLM2-135M", "SmolVLA", "StableDiffusion", "ResNet-50", "Whisper-tiny")
FORMS = ("inference", "latency", "training")
NO_LATENCY = ("Whisper-tiny",)  # whose latency form is that of inference
ROOT = pathlib.Path(__file__).resolve().parents[2]


def shared_folder():
    return pathlib.Path(os.environ.get("SINEW_SHARED", ROOT.parent / "shared"))


def description(name):
    """The golden file: parameter shapes, what is not trained, losses under both sets of values."""
    return json.loads((shared_folder() / "workloads" / f"{name}.json").read_text())


# --- parameters


def name_hash(name):
    h = 0
    for c in name.encode():
        h = (h * 31 + c) % 2**32
    return h


def hashed(start, end, seed):
    """A number in [-1, 1) for each index."""
    x = np.arange(start, end, dtype=np.uint32) * np.uint32(2654435761)
    x ^= np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return (x >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def live(name, shape, piece=2**18):
    """Piece by piece, which stays in the caches: many processes do this at a time."""
    n, seed = int(np.prod(shape)), name_hash(name)
    u = np.empty(n, np.float32)
    for start in range(0, n, piece):
        u[start : start + piece] = hashed(start, min(n, start + piece), seed)
    if len(shape) >= 2:
        u *= np.float32(np.sqrt(3 / np.prod(shape[1:])))
    else:
        u = np.float32(0.1) * u + np.float32(name.endswith("weight"))
    return u.reshape(shape)


TRANSPOSED = {
    "ResNet-50": ("fc.weight",),
    "Whisper-tiny": ("q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight", "fc1.weight",
                     "fc2.weight"),
}


def arena(workload, name, shape):
    if workload == "ResNet-50" and name.startswith("layer") and len(shape) == 1:
        return np.full(shape, float(name.endswith("weight")), np.float32)
    j = np.arange(int(np.prod(shape)), dtype=np.float32)
    scale = np.float32(0.01 if workload == "ResNet-50" else 0.02)
    x = np.sin(j * np.float32(0.01) + np.float32(name_hash(name) % 10000)) * scale
    if len(shape) == 2 and name.endswith(TRANSPOSED.get(workload, ())):
        return np.ascontiguousarray(x.reshape(shape[::-1]).T)
    return x.reshape(shape)


def parameters(workload, init):
    shapes = description(workload)["params"]
    if init == "live":
        return {name: live(name, shape) for name, shape in shapes.items()}
    return {name: arena(workload, name, shape) for name, shape in shapes.items()}


# --- inputs


def wave(function, shape, step, product=np.float64):
    """function((float)(i · step)), the product in single or double precision."""
    i = np.arange(int(np.prod(shape)))
    return function((i.astype(product) * product(step)).astype(np.float32)).reshape(shape)


def sound(shape):
    return np.sin(np.arange(int(np.prod(shape))) * 0.001).astype(np.float32).reshape(shape)


def full_inputs(workload):
    if workload == "SmolLM2-135M":
        return [np.arange(128).reshape(1, 128)]
    if workload == "SmolVLA":
        return [wave(np.sin, (1, 50, 32), 0.01, np.float32), wave(np.sin, (1, 1, 1440), 0.005, np.float32),
                wave(np.cos, (1, 16, 320), 0.01, np.float32)]
    if workload == "StableDiffusion":
        return [wave(np.sin, (2, 4, 32, 32), 0.01)]
    if workload == "ResNet-50":
        return [wave(np.sin, (4, 3, 224, 224), 0.001)]
    return [sound((1, 80, 3000))]


def inputs(workload, form):
    full = full_inputs(workload)
    if form != "latency" or workload in NO_LATENCY:
        return full
    if workload == "ResNet-50":
        return [np.zeros((1, 3, 224, 224), np.float32)]
    if workload == "StableDiffusion":
        return [full[0][:1]]
    return [np.ascontiguousarray(x[:, :1]) for x in full]  # one token, one row


def target(workload):
    """What the loss compares with; None where it is the mean square of the output."""
    if workload == "SmolLM2-135M":
        return np.arange(1, 129).reshape(1, 128)
    if workload == "StableDiffusion":
        return wave(np.cos, (2, 4, 32, 32), 0.007)
    if workload == "ResNet-50":
        return np.arange(4)
    return None
