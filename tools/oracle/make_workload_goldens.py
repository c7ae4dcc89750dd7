#!/usr/bin/env python3
"""Writes tests/fixtures/workloads/: output, gradients and training losses of SmolVLA and ResNet-50.

The shared goldens of these two hold loss and output norm only; this adds the rest, in their format: PyTorch
in float64 on the `live` parameters (docs/workloads.md has the formulas). The models are written down here
anew, from their description. Development only; docs/oracle.md says which packages it needs.
"""

import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 6


def live(name, shape):
    h = 0
    for c in name.encode():
        h = (h * 31 + c) % 2**32
    n = int(np.prod(shape))
    x = (np.arange(n, dtype=np.uint64) * np.uint64(2654435761)).astype(np.uint32) ^ np.uint32(h)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    u = (x >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    if len(shape) >= 2:
        u = u * np.float32(np.sqrt(3 / np.prod(shape[1:])))
    else:
        u = np.float32(0.1) * u + np.float32(1 if name.endswith("weight") else 0)
    return torch.from_numpy(u.astype(np.float64)).reshape(shape)


class Parameters(dict):
    """Made when first asked for."""

    def get(self, name, *shape):
        if name not in self:
            self[name] = live(name, shape).requires_grad_()
        return self[name]


def wave(function, shape, step):
    i = np.arange(int(np.prod(shape)))
    return torch.from_numpy(function(step(i)).astype(np.float32).astype(np.float64)).reshape(shape)


def single(step):
    return lambda i: (i.astype(np.float32) * np.float32(step)).astype(np.float32)


def double(step):
    return lambda i: (i * step).astype(np.float32)


# --- SmolVLA's action expert


def rms_norm(x, weight):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def heads(x, n):
    return x.unflatten(-1, (n, 64)).transpose(1, 2)


def attend(p, prefix, x, source):
    q = heads(x @ p.get(prefix + "q_proj.weight", 960, 720).T, 15)
    k = heads(source @ p.get(prefix + "k_proj.weight", 320, 720).T, 5).repeat_interleave(3, 1)
    v = heads(source @ p.get(prefix + "v_proj.weight", 320, 720).T, 5).repeat_interleave(3, 1)
    y = torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v
    return y.transpose(1, 2).flatten(2) @ p.get(prefix + "o_proj.weight", 720, 960).T


def mlp(p, prefix, x):
    gate = x @ p.get(prefix + "gate.weight", 2048, 720).T
    up = x @ p.get(prefix + "up.weight", 2048, 720).T
    return (F.silu(gate) * up) @ p.get(prefix + "down.weight", 720, 2048).T


def smolvla(p):
    a = wave(np.sin, (1, 50, 32), single(0.01))
    t = wave(np.sin, (1, 1, 1440), single(0.005))
    c = wave(np.cos, (1, 16, 320), single(0.01))
    x = a @ p.get("action_proj.weight", 720, 32).T + t @ p.get("time_proj.weight", 720, 1440).T
    kv = c @ p.get("kv_proj.weight", 720, 320).T
    for i in range(16):
        y = rms_norm(x, p.get(f"layers.{i}.norm1.weight", 720))
        x = x + attend(p, f"layers.{i}.attn.", y, kv if i % 2 else y)
        y = rms_norm(x, p.get(f"layers.{i}.norm2.weight", 720))
        x = x + mlp(p, f"layers.{i}.mlp.", y)
    y = rms_norm(x, p.get("norm.weight", 720)) @ p.get("head.weight", 32, 720).T
    return y, y.pow(2).mean()


# --- ResNet-50


def conv_norm(p, x, conv, norm, width, kernel, stride):
    w = p.get(conv + ".weight", width, x.shape[1], kernel, kernel)
    x = F.conv2d(x, w, stride=stride, padding=kernel // 2) / np.sqrt(1 + 1e-5)
    weight, bias = p.get(norm + ".weight", width), p.get(norm + ".bias", width)
    return x * weight[:, None, None] + bias[:, None, None]


def bottleneck(p, x, prefix, width, stride):
    y = F.relu(conv_norm(p, x, prefix + "conv1", prefix + "bn1", width, 1, 1))
    y = F.relu(conv_norm(p, y, prefix + "conv2", prefix + "bn2", width, 3, stride))
    y = conv_norm(p, y, prefix + "conv3", prefix + "bn3", 4 * width, 1, 1)
    if prefix.endswith(".0."):
        down = prefix + "downsample."
        x = conv_norm(p, x, down + "0", down + "1", 4 * width, 1, stride)
    return F.relu(x + y)


def resnet50(p):
    x = wave(np.sin, (4, 3, 224, 224), double(0.001))
    x = F.max_pool2d(F.relu(conv_norm(p, x, "conv1", "bn1", 64, 7, 2)), 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            stride = 2 if stage > 0 and i == 0 else 1
            x = bottleneck(p, x, f"layer{stage + 1}.{i}.", 64 << stage, stride)
    y = F.linear(x.mean((2, 3)), p.get("fc.weight", 1000, 2048), p.get("fc.bias", 1000))
    return y, F.cross_entropy(y, torch.arange(4))


# --- goldens


def losses(model, kind, rate):
    p = Parameters()
    model(p)
    optimizer = kind(p.values(), lr=rate)
    out = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(p)[1]
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


def goldens(model):
    p = Parameters()
    y, loss = model(p)
    loss.backward()
    total = sum(x.grad.pow(2).sum().item() for x in p.values())
    rate = float(f"{0.04 * loss.item() / total:.2g}")  # the first step takes about 4 % off the loss
    flat = y.detach().flatten()
    return {
        "output_shape": list(y.shape),
        "loss_f64": loss.item(),
        "output_l2_f64": flat.norm().item(),
        "output_rms_f64": flat.pow(2).mean().sqrt().item(),
        "output_first32_f64": flat[:32].tolist(),
        "output_last8_f64": flat[-8:].tolist(),
        "grads_f64": {
            name: {
                "shape": list(x.shape),
                "l2": x.grad.norm().item(),
                "first4": x.grad.flatten()[:4].tolist(),
                "last4": x.grad.flatten()[-4:].tolist(),
            }
            for name, x in p.items()
        },
        "sgd_lr": rate,
        "sgd_losses_f64": losses(model, torch.optim.SGD, rate),
        "adam_lr": 1e-4,
        "adam_losses_f64": losses(model, torch.optim.Adam, 1e-4),
    }


def main():
    folder = ROOT / "tests/fixtures/workloads"
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in (("SmolVLA", smolvla), ("ResNet-50", resnet50)):
        result = goldens(model)
        text = json.dumps({"live": result}, indent=0).replace(",\n", ", ").replace("[\n", "[")
        text = text.replace("\n]", "]").replace("}, ", "},\n")
        (folder / f"{name}.json").write_text(text + "\n")
        print(name, result["loss_f64"], result["output_l2_f64"], result["sgd_losses_f64"],
              result["adam_losses_f64"])


main()
