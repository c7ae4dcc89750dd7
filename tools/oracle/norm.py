"""Normalisation."""

import torch.nn.functional as F

from fixture import G, R


def rms(x, shape, weight, bias, eps):
    """F.rms_norm has no bias."""
    y = F.rms_norm(x, shape, weight, eps)
    return y if bias is None else y + bias


def batch_train(x, weight, bias, mean, var, momentum, eps):
    """F.batch_norm changes the running statistics in place."""
    mean, var = mean.detach().clone(), var.detach().clone()
    y = F.batch_norm(x, mean, var, weight, bias, training=True, momentum=momentum, eps=eps)
    return y, mean, var


helpers = {"rms": rms, "batch_train": batch_train}


def cases(family):
    add = family.add
    for shape, axes, eps in [((2, 5), 1, 1e-5), ((2, 3, 2), 2, 1e-3), ((2, 2, 3), 1, 1e-12)]:
        last = list(shape[-axes:])
        for weight in (True, False):
            for bias in (True, False):
                given = {"weight": R(*last) if weight else None, "bias": R(*last) if bias else None}
                attrs = f"axes={axes} eps={eps}"
                if weight != bias and shape != (2, 5):
                    continue
                add(
                    "layer_norm",
                    attrs,
                    f"F.layer_norm(x, {last}, weight, bias, {eps})",
                    x=R(*shape),
                    **given,
                )
                add("rms_norm", attrs, f"rms(x, {last}, weight, bias, {eps})", x=R(*shape), **given)
    add(
        "layer_norm",
        "axes=1 eps=1e-5",
        "F.layer_norm(x, [3], weight, bias, 1e-5)",
        x=G([[2, 2, 2], [1000, 1001, 1002]]),
        weight=R(3),
        bias=R(3),
    )
    add(
        "rms_norm",
        "axes=1 eps=1e-6",
        "F.rms_norm(x, [3], weight, 1e-6)",
        x=G([[0, 0, 0], [3000, 4000, -5000]]),
        weight=R(3),
        bias=None,
    )
    add(
        "layer_norm",
        "axes=1 eps=1e-5",
        "F.layer_norm(x, [5], weight, bias, 1e-5)",
        x=R(2, 5, dtype="bf16"),
        weight=R(5, dtype="bf16"),
        bias=R(5, dtype="bf16"),
        _grad=False,
    )
    add(
        "rms_norm",
        "axes=1 eps=1e-5",
        "F.rms_norm(x, [5], weight, 1e-5)",
        x=R(2, 5, dtype="f16"),
        weight=R(5, dtype="f16"),
        bias=None,
        _grad=False,
    )
    for shape, groups, eps in [
        ((2, 4), 2, 1e-5),
        ((1, 4, 3), 2, 1e-3),
        ((2, 2, 2, 2), 1, 1e-5),
        ((1, 3, 2, 2), 3, 1e-5),
    ]:
        for weight in (True, False) if groups == 2 else (True,):
            c = shape[1]
            add(
                "group_norm",
                f"groups={groups} eps={eps}",
                f"F.group_norm(x, {groups}, weight, bias, {eps})",
                x=R(*shape),
                weight=R(c) if weight else None,
                bias=R(c) if weight else None,
            )
    for shape, weight, bias, eps in [
        ((2, 3), True, True, 1e-5),
        ((2, 2, 3), False, False, 1e-3),
        ((2, 2, 2, 2), True, False, 1e-5),
        ((3, 2, 1), False, True, 0.1),
    ]:
        c = shape[1]
        given = {
            "weight": R(c) if weight else None,
            "bias": R(c) if bias else None,
            "mean": R(c),
            "var": R(c, lo=0.2, hi=2),
        }
        add(
            "batch_norm",
            f"eps={eps}",
            f"F.batch_norm(x, mean.detach(), var.detach(), weight, bias, eps={eps})",
            x=R(*shape),
            _grad=["x"] + [k for k in ("weight", "bias") if given[k]],
            **given,
        )
        for momentum in (0.1, 0.75):
            add(
                "batch_norm_train",
                f"momentum={momentum} eps={eps}",
                f"batch_train(x, weight, bias, mean, var, {momentum}, {eps})",
                x=R(*shape),
                **given,
            )
    add(
        "batch_norm_train",
        "momentum=1 eps=1e-5",
        "batch_train(x, weight, bias, mean, var, 1, 1e-5)",
        x=R(5, 1, 2),
        weight=None,
        bias=None,
        mean=R(1),
        var=R(1, lo=1),
    )
    # Gradients for the given statistics: by formula, F.batch_norm has none.
    add(
        "batch_norm",
        "eps=0.01",
        "(x - mean) * torch.rsqrt(var + 0.01) * weight + bias",
        x=R(2, 3),
        weight=R(3),
        bias=R(3),
        mean=R(3),
        var=R(3, lo=0.2, hi=2),
    )
    for shape, axis, eps in [((2, 5), -1, 1e-6), ((3, 4), 0, 0.1), ((2, 3, 2), 1, 1e-12)]:
        add(
            "l2_normalize",
            f"axis={axis} eps={eps}",
            f"x * torch.rsqrt(torch.sum(x * x, {axis}, keepdim=True) + {eps})",
            x=R(*shape),
        )
    add("l2_normalize", "axis=-1 eps=0", "F.normalize(x, dim=-1, eps=0)", x=R(2, 3))
    for weight in (True, False):
        for eps in (1e-6, 0.01):
            add(
                "gated_rms_norm",
                f"eps={eps}",
                f"F.rms_norm(x, [5], weight, {eps}) * F.silu(gate)",
                x=R(3, 5),
                gate=R(3, 5),
                weight=R(5) if weight else None,
            )
