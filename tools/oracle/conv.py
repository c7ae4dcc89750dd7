"""Convolution and pooling. Padding of its own at each end comes from F.pad; where an op's padding is
the same at both ends the engine's own padding is used."""

import torch
import torch.nn.functional as F

from fixture import D, G, L

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}


def padded(x, before, after, value=0.0):
    """F.pad counts from the last axis."""
    pairs = [n for b, a in zip(reversed(before), reversed(after)) for n in (b, a)]
    return F.pad(x, pairs, value=value)


def conv(x, w, bias, stride, before, after, dilation, groups):
    f = CONV[x.dim() - 2]
    if before == after:
        return f(x, w, bias, stride, before, dilation, groups)
    return f(padded(x, before, after), w, bias, stride, 0, dilation, groups)


def conv_input(dy, w, size, *options):
    """Autograd of conv for x; differentiable once more."""
    x = torch.zeros(
        dy.shape[0], w.shape[1] * options[-1], *size, dtype=dy.dtype, requires_grad=True
    )
    return torch.autograd.grad(conv(x, w, None, *options), x, dy, create_graph=True)[0]


def conv_weight(x, dy, kernel, *options):
    """Autograd of conv for w; differentiable once more."""
    w = torch.zeros(
        dy.shape[1], x.shape[1] // options[-1], *kernel, dtype=dy.dtype, requires_grad=True
    )
    return torch.autograd.grad(conv(x, w, None, *options), w, dy, create_graph=True)[0]


def conv_transpose(x, w, bias, stride, before, after, dilation, more, groups):
    f = TRANSPOSED[x.dim() - 2]
    if before == after:
        return f(x, w, bias, stride, before, more, groups, dilation)
    y = f(x, w, bias, stride, 0, more, groups, dilation)
    for axis, (b, a) in enumerate(zip(before, after)):
        y = y.narrow(axis + 2, b, y.shape[axis + 2] - b - a)
    return y


def windows(x, kernel, stride):
    """[N, C, out…, kernel…]"""
    for axis, (k, s) in enumerate(zip(kernel, stride)):
        x = x.unfold(axis + 2, k, s)
    return x


def pool(x, kind, kernel, stride, before, after, dilation, ceil, include):
    n = x.dim() - 2
    if kind == "min":
        return -pool(-x, "max", kernel, stride, before, after, dilation, ceil, include)
    if kind == "max":
        if before == after:
            return MAX[n](x, kernel, stride, before, dilation, ceil)
        return MAX[n](padded(x, before, after, -torch.inf), kernel, stride, 0, dilation, ceil)
    if kind == "prod":
        y = windows(padded(x, before, after, 1.0), kernel, stride)
        return y.flatten(-n).prod(-1)
    if kind == "sum":
        count = torch.tensor(kernel).prod().item()
        return AVG[n](padded(x, before, after), kernel, stride, 0, ceil) * count
    if before == after:
        return AVG[n](x, kernel, stride, before, ceil, include)
    y = AVG[n](padded(x, before, after), kernel, stride, 0, ceil)
    return y if include else y / AVG[n](padded(torch.ones_like(x), before, after), kernel, stride)


def pool_grad(x, dy, *options):
    """Autograd of pool; differentiable once more in dy."""
    x = x.detach().requires_grad_(True)
    return torch.autograd.grad(pool(x, *options), x, dy, create_graph=True)[0]


def adaptive(x, size):
    return ADAPTIVE[x.dim() - 2](x, size)


helpers = {
    "conv": conv,
    "conv_input": conv_input,
    "conv_weight": conv_weight,
    "conv_transpose": conv_transpose,
    "pool": pool,
    "pool_grad": pool_grad,
    "adaptive": adaptive,
}

# x, w, bias, stride, pad_before, pad_after, dilation, groups
CONVS = [
    ((1, 2, 5), (2, 2, 3), True, [1], [0], [0], [1], 1),
    ((2, 2, 6), (4, 1, 2), False, [2], [1], [1], [2], 2),
    ((1, 1, 5), (1, 1, 3), True, [1], [2], [0], [1], 1),
    ((1, 2, 4, 4), (2, 2, 2, 2), True, [1, 1], [0, 0], [0, 0], [1, 1], 1),
    ((1, 2, 5, 4), (2, 1, 3, 2), False, [2, 1], [1, 0], [1, 0], [1, 1], 2),
    ((1, 1, 5, 5), (2, 1, 2, 2), True, [2, 3], [0, 1], [2, 0], [2, 1], 1),
    ((1, 1, 3, 3, 2), (1, 1, 2, 2, 2), True, [1, 1, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1], 1),
    ((1, 2, 2, 2, 3), (2, 1, 1, 2, 2), False, [1, 2, 1], [0, 1, 1], [0, 1, 1], [1, 1, 2], 2),
]

# x, w, bias, stride, pad_before, pad_after, dilation, output_padding, groups
TRANSPOSES = [
    ((1, 2, 4), (2, 2, 3), True, [1], [0], [0], [1], [0], 1),
    ((2, 2, 3), (2, 1, 2), False, [2], [1], [1], [2], [1], 2),
    ((1, 1, 4), (1, 2, 3), True, [2], [1], [0], [1], [0], 1),
    ((1, 1, 3, 3), (1, 2, 2, 2), True, [1, 1], [0, 0], [0, 0], [1, 1], [0, 0], 1),
    ((1, 2, 2, 3), (2, 1, 3, 2), False, [2, 3], [1, 0], [1, 0], [1, 2], [1, 2], 2),
    ((1, 1, 3, 2), (1, 1, 3, 3), True, [2, 2], [0, 2], [1, 1], [1, 1], [1, 0], 1),
]

# x, kernel, stride, pad_before, pad_after, dilation, ceil_mode, count_include_pad
POOLS = [
    ((1, 2, 5), [2], [2], [0], [0], [1], False, False),
    ((1, 1, 6), [3], [2], [1], [1], [1], True, False),
    ((1, 1, 6), [3], [2], [1], [1], [1], True, True),
    ((1, 1, 5), [3], [1], [2], [0], [1], False, True),
    ((1, 1, 5), [3], [1], [2], [0], [1], False, False),
    ((1, 1, 5), [2], [3], [0], [0], [1], True, True),
    ((1, 1, 4), [2], [3], [1], [1], [1], True, False),
    ((1, 1, 4, 5), [2, 3], [1, 2], [0, 0], [0, 0], [1, 1], False, False),
    ((1, 1, 5, 4), [3, 2], [2, 2], [1, 1], [1, 1], [1, 1], True, True),
    ((1, 1, 5, 4), [3, 2], [2, 2], [1, 1], [1, 1], [1, 1], True, False),
    ((1, 1, 4, 4), [2, 2], [2, 2], [1, 0], [0, 1], [1, 1], False, True),
    ((1, 1, 2, 3, 3), [2, 2, 2], [1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 1], False, False),
    ((1, 1, 3, 3, 3), [2, 2, 2], [2, 2, 2], [0, 0, 0], [0, 0, 0], [1, 1, 1], True, True),
]


def attrs_of(**attrs):
    return " ".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in attrs.items())


def convolutions(add):
    for x, w, bias, stride, before, after, dilation, groups in CONVS:
        options = f"{stride}, {before}, {after}, {dilation}, {groups}"
        attrs = attrs_of(
            stride=stride, pad_before=before, pad_after=after, dilation=dilation, groups=groups
        )
        add(
            "conv",
            attrs,
            f"conv(x, w, bias, {options})",
            x=L(*x),
            w=L(*w),
            bias=L(w[0]) if bias else None,
        )
        dy = conv(
            torch.zeros(x), torch.zeros(w), None, stride, before, after, dilation, groups
        ).shape
        add(
            "conv_grad_input",
            f"size={list(x[2:])} {attrs}",
            f"conv_input(dy, w, {list(x[2:])}, {options})",
            dy=L(*dy),
            w=L(*w),
        )
        add(
            "conv_grad_weight",
            f"kernel={list(w[2:])} {attrs}",
            f"conv_weight(x, dy, {list(w[2:])}, {options})",
            x=L(*x),
            dy=L(*dy),
        )
    for x, w, bias, stride, before, after, dilation, more, groups in TRANSPOSES:
        attrs = attrs_of(
            stride=stride,
            pad_before=before,
            pad_after=after,
            dilation=dilation,
            output_padding=more,
            groups=groups,
        )
        add(
            "conv_transpose",
            attrs,
            f"conv_transpose(x, w, bias, {stride}, {before}, {after}, {dilation}, {more}, {groups})",
            x=L(*x),
            w=L(*w),
            bias=L(w[1] * groups) if bias else None,
        )


def pools(add):
    for x, kernel, stride, before, after, dilation, ceil, include in POOLS:
        for kind in ("max", "avg", "sum", "min", "prod"):
            if kind in ("sum", "prod") and ceil or kind == "min" and len(kernel) > 1:
                continue
            if kind != "avg" and include and (ceil or before != after) and len(kernel) < 3:
                continue
            one_pool(add, x, (kind, kernel, stride, before, after, dilation, ceil, include))
    for kind in ("max", "min"):
        one_pool(add, (1, 1, 7), (kind, [2], [2], [1], [1], [3], False, False))
        one_pool(add, (1, 1, 5, 6), (kind, [2, 2], [1, 2], [0, 1], [0, 1], [2, 1], True, False))
    for x, size in [
        ((1, 2, 5), [3]),
        ((1, 1, 7), [2]),
        ((1, 1, 4, 5), [2, 3]),
        ((1, 2, 3, 3), [1, 1]),
        ((1, 1, 2, 3), [3, 4]),
        ((1, 1, 3, 2, 3), [2, 1, 2]),
    ]:
        add("adaptive_avg_pool", f"size={size}", f"adaptive(x, {size})", x=L(*x))
    add(
        "pool",
        "kind=max kernel=[2] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]",
        "F.max_pool1d(x, 2, 1)",
        x=G([[[1, float("nan"), 2, 3, -torch.inf]]]),
        _grad=False,
    )


def one_pool(add, shape, options):
    kind, kernel, stride, before, after, dilation, ceil, include = options
    attrs = attrs_of(
        kind=kind,
        kernel=kernel,
        stride=stride,
        pad_before=before,
        pad_after=after,
        dilation=dilation,
        ceil_mode=ceil,
        count_include_pad=include,
    )
    text = ", ".join(map(repr, options))
    add("pool", attrs, f"pool(x, {text})", x=L(*shape))
    dy = pool(torch.zeros(shape), *options).shape
    if kind in ("sum", "min") and dilation == [1] * len(kernel) and before != after:
        return
    if kind == "prod":
        add(
            "pool_grad",
            attrs,
            f"pool_grad(x, dy, {text})",
            x=L(*shape),
            y=D(lambda x: pool(x, *options)),
            dy=L(*dy),
            _tol=1e-5,
            _grad=False,
        )
    else:
        add(
            "pool_grad",
            attrs,
            f"pool_grad(x, dy, {text})",
            x=L(*shape),
            y=D(lambda x: pool(x, *options)),
            dy=L(*dy),
            _grad=["dy"],
        )


def cases(family):
    add = family.add
    convolutions(add)
    pools(add)
