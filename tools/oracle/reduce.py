"""Reductions and scans."""

import torch

from fixture import B, G, L, R

NAN, INF = float("nan"), float("inf")


def prod_over(x, axes, keepdim=False):
    """torch.prod takes one axis at a time."""
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keepdim)
    return x


def scan(f, x, axis, exclusive, reverse):
    """A running sum or product from PyTorch's inclusive forward one."""
    neutral = 1.0 if f is torch.cumprod else 0.0
    x = torch.flip(x, [axis]) if reverse else x
    if exclusive:
        n = x.shape[axis]
        first = torch.full_like(x.narrow(axis, 0, 1), neutral)
        x = torch.cat([first, x.narrow(axis, 0, n - 1)], axis)
    y = f(x, axis)
    return torch.flip(y, [axis]) if reverse else y


helpers = {"prod_over": prod_over, "scan": scan}

FLOAT = [
    ("sum", "torch.sum(x, {axes}, keepdim={keep})"),
    ("mean", "torch.mean(x, {axes}, keepdim={keep})"),
    ("max", "torch.amax(x, {axes}, keepdim={keep})"),
    ("min", "torch.amin(x, {axes}, keepdim={keep})"),
    ("prod", "prod_over(x, {axes}, keepdim={keep})"),
    ("logsumexp", "torch.logsumexp(x, {axes}, keepdim={keep})"),
    ("l2_norm", "torch.linalg.vector_norm(x, dim={axes}, keepdim={keep})"),
]


def reductions(add):
    for op, pattern in FLOAT:
        for axes, keep in [([0, 1], False), ([1], True), ([-1, 0], False), ([-2], False)]:
            shape = (2, 3) if axes == [0, 1] else (2, 3, 4)
            attrs = f"axes={axes} keepdims={str(keep).lower()}" if axes != [0, 1] else ""
            add(op, attrs, pattern.format(axes=axes, keep=keep), x=R(*shape))
        add(op, "axes=[0]", pattern.format(axes=[0], keep=False), x=R(5, dtype="f16"), _grad=False)
    numbers = [[NAN, 1, 2], [3, INF, -1], [-INF, 2, INF], [-INF, -INF, -INF], [0, -0.0, 0]]
    for op, pattern in FLOAT:
        add(op, "axes=[1]", pattern.format(axes=[1], keep=False), x=G(numbers), _grad=False)
    for op, pattern in FLOAT:
        if op not in ("max", "min"):
            add(
                op,
                "axes=[0] keepdims=true",
                pattern.format(axes=[0], keep=True),
                x=G([], shape=[0, 3]),
                _grad=False,
            )
        if op in ("sum", "max", "min"):
            add(
                op,
                "axes=[1]",
                pattern.format(axes=[1], keep=False),
                x=G([[5, -7, 2147483647], [1, 2, -3]], "i32"),
            )
    # Where the gradient needs care: ties, zeros, a norm of 0, numbers that overflow exp.
    add("max", "axes=[1]", "torch.amax(x, [1])", x=G([[1, 3, 3, 2], [5, 5, 5, 5]]))
    add("min", "axes=[1]", "torch.amin(x, [1])", x=G([[1, 3, 1, 2], [5, 5, 5, 5]]))
    add("max", "", "torch.amax(x)", x=G([[1, 4], [4, 2]]))
    add("prod", "axes=[1]", "torch.prod(x, 1)", x=G([[2, 0, 3], [0, 0, 3], [1, 2, 3]]))
    add("prod", "", "torch.prod(x)", x=G([[2, 0.5], [0, 3]]))
    add("prod", "axes=[0]", "torch.prod(x, 0).to(torch.int32)", x=G([3, -4, 5], "i32"))
    add("l2_norm", "axes=[1]", "torch.linalg.vector_norm(x, dim=1)", x=G([[0, 0], [3, 4]]))
    add("logsumexp", "axes=[1]", "torch.logsumexp(x, 1)", x=G([[1000, 999], [-1000, -1001]]))
    for correction in (0, 1):
        pattern = f"torch.var(x, {{}}, correction={correction}, keepdim={{}})"
        attrs = f"axes={{}} correction={correction} keepdims={{}}"
        add("var", f"correction={correction}", pattern.format([0, 1], False), x=R(2, 3))
        add("var", attrs.format([1], "true"), pattern.format([1], True), x=R(2, 3, 4))
        add("var", attrs.format([-1, 0], "false"), pattern.format([-1, 0], False), x=R(2, 3, 4))
        add("var", attrs.format([0], "false"), pattern.format([0], False), x=R(7, lo=1000, hi=1001))
        add(
            "var",
            attrs.format([0], "false"),
            pattern.format([0], False),
            x=R(7, dtype="bf16"),
            _grad=False,
        )
    add("var", "axes=[0] correction=0", "torch.var(x, 0, correction=0)", x=G([[1, 2, 3]]))

    add("var", "axes=[0] correction=1", "torch.var(x, 0, correction=1)", x=G([[1, 2]]), _grad=False)


def choices(add):
    for op in ("any", "all"):
        add(op, "", f"torch.{op}(x)", x=B(2, 3))
        add(op, "axes=[1] keepdims=true", f"torch.{op}(x, 1, keepdim=True)", x=B(2, 3, 2))
        add(op, "axes=[-1]", f"torch.{op}(x, -1)", x=B(4, 2))
        add(op, "axes=[0]", f"torch.{op}(x, 0)", x=G([], "bool", shape=[0, 2]))
        add(op, "axes=[1]", f"torch.{op}(x, 1)", x=G([[0, 0], [1, 0], [1, 1]], "bool"))
    for op in ("argmax", "argmin"):
        add(op, "axis=1", f"torch.{op}(x, 1)", x=R(3, 5))
        add(op, "axis=0 keepdims=true", f"torch.{op}(x, 0, keepdim=True)", x=R(5, 3))
        add(op, "axis=-2", f"torch.{op}(x, -2)", x=R(2, 5, 2))
        add(
            op,
            "axis=1",
            f"torch.{op}(x, 1)",
            x=G(
                [
                    [1, 3, 3],
                    [2, 2, 2],
                    [5, NAN, 7],
                    [NAN, 1, NAN],
                    [INF, -INF, INF],
                    [-INF, -INF, 0],
                ]
            ),
        )
        add(op, "axis=0", f"torch.{op}(x, 0)", x=G([3, 7, 7, -1, -1], "i32"))
        add(op, "axis=0", f"torch.{op}(x, 0)", x=G([0.0, -0.0, 0.0]))


def scans(add):
    for op in ("cumsum", "cumprod"):
        f = f"torch.{op}"
        add(op, "axis=0", f"{f}(x, 0)", x=R(5))
        for axis in (1, -1, 0):
            for exclusive in (False, True):
                for reverse in (False, True):
                    attrs = f"axis={axis} exclusive={exclusive} reverse={reverse}".lower()
                    add(
                        op,
                        attrs,
                        f"scan({f}, x, {axis}, {exclusive}, {reverse})",
                        x=R(2, 3, 2) if axis == 1 else L(2, 3),
                    )
        add(op, "axis=0", f"{f}(x, 0)", x=G([1, NAN, 2, INF, -INF]), _grad=False)
        add(op, "axis=0", f"{f}(x, 0, dtype=torch.int32)", x=G([2147483647, 5, -7, 3], "i32"))
        add(op, "axis=0", f"{f}(x, 0)", x=R(5, dtype="f16"), _grad=False)
    add("cumprod", "axis=0", "torch.cumprod(x, 0)", x=G([2, 0, 3, 4]))
    add("cumprod", "axis=0", "torch.cumprod(x, 0)", x=G([2, 0, 3, 0, 5]))
    add(
        "cumprod",
        "axis=1 exclusive=true reverse=true",
        "scan(torch.cumprod, x, 1, True, True)",
        x=G([[2, 0, 3, 4], [0, 0, 1, 2]]),
    )


def cases(family):
    add = family.add
    reductions(add)
    choices(add)
    scans(add)
