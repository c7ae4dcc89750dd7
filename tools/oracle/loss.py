"""Softmax and losses. F.cross_entropy has its classes on axis 1, ours are last."""

import torch.nn.functional as F

from fixture import G, I, P, R

NAN, INF = float("nan"), float("inf")


def ce(logits, labels, **options):
    """Integer labels [..] of logits [.., C]."""
    return F.cross_entropy(
        logits.movedim(-1, 1) if logits.dim() > 1 else logits, labels.long(), **options
    )


def ce_dist(logits, target, **options):
    """Distributions [.., C] of logits [.., C]."""
    if logits.dim() > 1:
        logits, target = logits.movedim(-1, 1), target.movedim(-1, 1)
    return F.cross_entropy(logits, target, **options)


helpers = {"ce": ce, "ce_dist": ce_dist}
REDUCTIONS = ("none", "mean", "sum")


def softmaxes(add):
    for op in ("softmax", "log_softmax"):
        for shape, axis in [((2, 5), -1), ((3, 4), 0), ((2, 3, 2), 1), ((1,), 0), ((7,), 0)]:
            add(op, f"axis={axis}", f"F.{op}(x, {axis})", x=R(*shape, lo=-4, hi=4))
        add(
            op,
            "axis=1",
            f"F.{op}(x, 1)",
            x=G([[1000, 999, -1000], [-INF, 0, 1], [5, 5, 5]]),
            _grad=False,
        )
        rows = [[NAN, 0, 1], [-INF, -INF, -INF]] + ([[INF, 0, 1]] if op == "softmax" else [])
        add(op, "axis=1", f"F.{op}(x, 1)", _grad=False, x=G(rows))
        add(op, "axis=0", f"F.{op}(x, 0)", x=R(5, dtype="f16"), _grad=False)
        add(op, "axis=0", f"F.{op}(x, 0)", x=R(5, dtype="bf16"), _grad=False)


def cross_entropies(add):
    for reduction in REDUCTIONS:
        for smoothing in (0, 0.1):
            attrs = f"ignore_index=-100 smoothing={smoothing} reduction={reduction}"
            call = f"ce(logits, labels, label_smoothing={smoothing}, reduction='{reduction}')"
            add("cross_entropy", attrs, call, logits=R(3, 5), labels=I(3, hi=5))
            add("cross_entropy", attrs, call, logits=R(4, 3), labels=G([2, -100, 0, -100], "i32"))
            add(
                "cross_entropy",
                attrs,
                call,
                logits=R(2, 2, 3),
                labels=G([[2, -100], [0, 1]], "i32"),
            )
        add(
            "cross_entropy",
            f"ignore_index=1 smoothing=0.3 reduction={reduction}",
            f"ce(logits, labels, ignore_index=1, label_smoothing=0.3, reduction='{reduction}')",
            logits=R(3, 4),
            labels=G([1, 3, 0], "i32"),
        )
        for smoothing in (0, 0.2):
            attrs = f"smoothing={smoothing} reduction={reduction}"
            call = f"ce_dist(logits, target, label_smoothing={smoothing}, reduction='{reduction}')"
            add("cross_entropy_dist", attrs, call, logits=R(3, 4), target=P(3, 4))
            add("cross_entropy_dist", attrs, call, logits=R(2, 2, 3), target=P(2, 2, 3))
    add(
        "cross_entropy",
        "ignore_index=-100 smoothing=0 reduction=sum",
        "ce(logits, labels, reduction='sum')",
        logits=R(2, 3),
        labels=G([-100, -100], "i32"),
    )
    add(
        "cross_entropy",
        "ignore_index=-100 smoothing=0 reduction=mean",
        "ce(logits, labels)",
        logits=R(5),
        labels=G(3, "i32"),
    )
    add(
        "cross_entropy",
        "ignore_index=-100 smoothing=0 reduction=none",
        "ce(logits, labels, reduction='none')",
        logits=G([[1000, -1000, 999], [-1000, 0, 1000]]),
        labels=G([1, 2], "i32"),
    )
    add(
        "cross_entropy_dist",
        "smoothing=0 reduction=mean",
        "ce_dist(logits, target)",
        logits=R(5),
        target=P(5),
    )


PAIRS = [
    ("mse", "", "F.mse_loss(a, b, reduction='{r}')"),
    ("l1", "", "F.l1_loss(a, b, reduction='{r}')"),
    ("huber", "delta=1", "F.huber_loss(a, b, reduction='{r}')"),
    ("huber", "delta=0.3", "F.huber_loss(a, b, reduction='{r}', delta=0.3)"),
    ("smooth_l1", "beta=1", "F.smooth_l1_loss(a, b, reduction='{r}')"),
    ("smooth_l1", "beta=0.3", "F.smooth_l1_loss(a, b, reduction='{r}', beta=0.3)"),
]


def pairs(add):
    for reduction in REDUCTIONS:
        for op, attrs, call in PAIRS:
            attrs = f"{attrs} reduction={reduction}".strip()
            add(op, attrs, call.format(r=reduction), a=R(2, 4), b=R(2, 4))
        attrs = f"reduction={reduction}"
        add(
            "bce",
            attrs,
            f"F.binary_cross_entropy(p, target, reduction='{reduction}')",
            p=R(2, 3, lo=0.02, hi=0.98),
            target=R(2, 3, lo=0, hi=1),
        )
        add(
            "bce_logits",
            attrs,
            f"F.binary_cross_entropy_with_logits(x, target, reduction='{reduction}')",
            x=R(2, 3, lo=-5, hi=5),
            target=R(2, 3, lo=0, hi=1),
        )
        add(
            "kl",
            attrs,
            f"F.kl_div(input, target, reduction='{reduction}', log_target=True)",
            input=R(2, 3, lo=-4, hi=-0.1),
            target=R(2, 3, lo=-4, hi=-0.1),
        )
    # Places where the pieces meet; their gradients agree.
    d = G([0, 1, -1, 0.5, -3])
    zero = G([0, 0, 0, 0, 0])
    add("l1", "reduction=sum", "F.l1_loss(a, b, reduction='sum')", a=d, b=zero)
    add("huber", "delta=1 reduction=sum", "F.huber_loss(a, b, reduction='sum')", a=d, b=zero)
    add("smooth_l1", "beta=1 reduction=sum", "F.smooth_l1_loss(a, b, reduction='sum')", a=d, b=zero)
    add(
        "smooth_l1",
        "beta=0 reduction=sum",
        "F.smooth_l1_loss(a, b, reduction='sum', beta=0)",
        a=d,
        b=zero,
    )
    add(
        "bce",
        "reduction=none",
        "F.binary_cross_entropy(p, target, reduction='none')",
        _grad=["p"],
        p=G([0, 1, 0, 1, 1e-30, 0.5]),
        target=G([0, 1, 1, 0, 1, 0.25]),
    )
    add(
        "bce_logits",
        "reduction=none",
        "F.binary_cross_entropy_with_logits(x, target, reduction='none')",
        x=G([0, 100, -100, 100, -100]),
        target=G([1, 1, 0, 0, 1]),
    )
    add(
        "mse",
        "reduction=none",
        "F.mse_loss(a, b, reduction='none')",
        _grad=False,
        a=G([NAN, INF, 1]),
        b=G([1, 1, -INF]),
    )


def cases(family):
    add = family.add
    softmaxes(add)
    cross_entropies(add)
    pairs(add)
