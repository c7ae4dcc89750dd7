#!/usr/bin/env python3
"""Writes tests/fixtures/optimizer.txt: weights after each step of PyTorch's optimisers, in float64.

Two parameters: one of 5 elements with twice the rate, and one of 3 without weight decay. A case is a
line of settings, one of first weights, then for each step a line of gradients and one of weights.
Development only; docs/oracle.md says which packages it needs.
"""

import pathlib
import random

import torch

STEPS = 6
ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, kind (0 SGD, 1 Adam, 2 AdamW), rate, momentum, nesterov, decay, beta1, beta2, eps, clip
CASES = [
    ("sgd", 0, 0.1, 0, 0, 0, 0.9, 0.999, 1e-8, 0),
    ("sgd_decay", 0, 0.1, 0, 0, 0.2, 0.9, 0.999, 1e-8, 0),
    ("sgd_momentum", 0, 0.05, 0.9, 0, 0.1, 0.9, 0.999, 1e-8, 0),
    ("sgd_nesterov", 0, 0.05, 0.8, 1, 0.1, 0.9, 0.999, 1e-8, 0),
    ("adam", 1, 0.01, 0, 0, 0, 0.9, 0.999, 1e-8, 0),
    ("adam_decay_eps", 1, 0.02, 0, 0, 0.3, 0.8, 0.95, 0.1, 0),
    ("adamw", 2, 0.01, 0, 0, 0.1, 0.9, 0.999, 1e-8, 0),
    ("adamw_clip", 2, 0.03, 0, 0, 0.2, 0.7, 0.9, 1e-3, 0.5),
    ("sgd_clip", 0, 0.1, 0, 0, 0, 0.9, 0.999, 1e-8, 1.5),
]


def numbers(*tensors):
    return " ".join(f"{x:.9g}" for t in tensors for x in t.tolist())


def make(case, params):
    _, kind, rate, momentum, nesterov, decay, beta1, beta2, eps, _ = case
    groups = [
        {"params": [params[0]], "lr": rate * 2, "weight_decay": decay},
        {"params": [params[1]], "lr": rate, "weight_decay": 0},
    ]
    if kind == 0:
        return torch.optim.SGD(groups, lr=rate, momentum=momentum, nesterov=bool(nesterov))
    adam = [torch.optim.Adam, torch.optim.AdamW][kind - 1]
    return adam(groups, lr=rate, betas=(beta1, beta2), eps=eps)


def draw(source, n):
    values = [source.gauss(0, 1) for _ in range(n)]
    return torch.tensor(values, dtype=torch.float32).to(torch.float64)


def main():
    lines = []
    for case in CASES:
        source = random.Random(case[0])
        params = [draw(source, 5).requires_grad_(), draw(source, 3).requires_grad_()]
        optimizer = make(case, params)
        lines += [" ".join(str(x) for x in case), numbers(*params)]
        for _ in range(STEPS):
            for p in params:
                p.grad = draw(source, p.numel())
            lines.append(numbers(*(p.grad for p in params)))
            if case[-1]:
                torch.nn.utils.clip_grad_norm_(params, case[-1])
            optimizer.step()
            lines.append(numbers(*params))
    (ROOT / "tests" / "fixtures" / "optimizer.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
