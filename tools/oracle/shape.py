"""Shape ops: views, pads, gathers, scatters, resampling."""

import math

import torch
import torch.nn.functional as F

from fixture import G, I, L

END = 0x3FFFFFFFFFFFFFFF


def rows_set(base, index, value):
    """base[index] = value, one row after the other: the last write wins."""
    rows = list(base)
    for i, v in zip(index.reshape(-1).tolist(), value.reshape(-1, *base.shape[1:])):
        rows[i] = v
    return torch.stack(rows)


def along_set(base, index, value, axis):
    """As torch.scatter, but the last of several writes to one place wins."""
    columns = [c for c in base.movedim(axis, 0)]
    for i in range(index.shape[axis]):
        at, v = index.select(axis, i), value.select(axis, i)
        columns = [torch.where(at == k, v, c) for k, c in enumerate(columns)]
    return torch.stack(columns).movedim(0, axis)


def sliced(x, axis, start, stop, step):
    """Python's own slicing of the positions."""
    at = torch.tensor(list(range(x.shape[axis]))[start:stop:step], dtype=torch.int64)
    return torch.index_select(x, axis, at)


def patches(x, kernel, stride, before, after, dilation):
    """F.unfold with padding of its own at each end; 1d as 2d of height 1."""
    if x.dim() == 3:
        return patches(
            x.unsqueeze(2), [1] + kernel, [1] + stride, [0] + before, [0] + after, [1] + dilation
        )
    x = F.pad(x, (before[1], after[1], before[0], after[0]))
    return F.unfold(x, kernel, dilation=dilation, stride=stride)


helpers = {"rows_set": rows_set, "along_set": along_set, "sliced": sliced, "patches": patches}


def makers(add):
    add(
        "arange",
        "dtype=f32 n=5 start=-1.5 step=0.25",
        "-1.5 + torch.arange(5, dtype=torch.float64) * 0.25",
    )
    add("arange", "dtype=i32 n=4 start=7 step=-3", "torch.arange(7, -5, -3, dtype=torch.int32)")
    add("arange", "dtype=i32 n=0 start=7 step=1", "torch.arange(7, 7, dtype=torch.int32)")
    add("full", "dtype=f32 shape=[2, 3] value=1.5", "torch.full((2, 3), 1.5)")
    add("full", "dtype=i32 shape=[] value=-7", "torch.full((), -7, dtype=torch.int32)")
    add("full", "dtype=bool shape=[2] value=1", "torch.full((2,), True)")
    add("eye", "dtype=f32 n=3 m=3", "torch.eye(3)")
    add("eye", "dtype=f32 n=2 m=4", "torch.eye(2, 4)")
    add("eye", "dtype=i32 n=3 m=1", "torch.eye(3, 1, dtype=torch.int32)")
    for op in ("tril", "triu"):
        for diagonal in (0, 1, -2, 9):
            add(op, f"diagonal={diagonal}", f"torch.{op}(x, {diagonal})", x=L(3, 4))
        add(op, "diagonal=-1", f"torch.{op}(x, -1)", x=L(2, 3, 2))
        add(op, "diagonal=0", f"torch.{op}(x)", x=I(3, 3, lo=1))


def views(add):
    add("reshape", "shape=[3, 2]", "torch.reshape(x, (3, 2))", x=L(2, 3))
    add("reshape", "shape=[2, -1]", "torch.reshape(x, (2, -1))", x=L(3, 2, 2))
    add("reshape", "shape=[]", "torch.reshape(x, ())", x=L(1, 1))
    add("transpose", "perm=[1, 0]", "torch.permute(x, (1, 0))", x=L(2, 3))
    add("transpose", "perm=[2, 0, 1]", "torch.permute(x, (2, 0, 1))", x=L(2, 3, 4))
    add("transpose", "perm=[1, 3, 0, 2]", "torch.permute(x, (1, 3, 0, 2))", x=L(2, 1, 3, 2))
    for axis, start, stop, step in [
        (0, 1, 4, 1),
        (0, 0, END, 2),
        (-1, -3, -1, 1),
        (0, 4, 0, -1),
        (0, -1, -99, -2),
        (0, -99, 99, 3),
        (0, 3, 3, 1),
        (0, 4, 2, 1),
        (0, 99, -99, -1),
        (0, 2, -2, 1),
    ]:
        add(
            "slice",
            f"axis={axis} start={start} stop={stop} step={step}",
            f"sliced(x, {axis}, {start}, {stop}, {step})",
            x=L(5) if axis == 0 else L(2, 5),
        )
    add("slice", "axis=1 start=2 stop=0 step=-1", "sliced(x, 1, 2, 0, -1)", x=L(2, 3, 2))
    add("concat", "axis=0", "torch.cat([a, b], 0)", a=L(1, 3), b=L(2, 3))
    add("concat", "axis=-1", "torch.cat([a, b, c], -1)", a=L(2, 1), b=L(2, 3), c=L(2, 2))
    add("concat", "axis=1", "torch.cat([a, b], 1)", a=L(2, 1, 2), b=L(2, 3, 2))
    add("stack", "axis=0", "torch.stack([a, b])", a=L(3), b=L(3))
    add("stack", "axis=-1", "torch.stack([a, b, c], -1)", a=L(2, 2), b=L(2, 2), c=L(2, 2))
    add("stack", "axis=1", "torch.stack([a, b], 1)", a=L(2, 2), b=L(2, 2))
    add("expand", "shape=[4, 2, 3]", "x.expand(4, 2, 3)", x=L(2, 1))
    add("expand", "shape=[2, -1]", "x.expand(2, -1)", x=L(3))
    add("tile", "repeats=[2, 3]", "torch.tile(x, (2, 3))", x=L(2, 2))
    add("tile", "repeats=[1, 2, 1]", "torch.tile(x, (1, 2, 1))", x=L(2, 1, 3))
    add("flip", "axes=[0]", "torch.flip(x, [0])", x=L(5))
    add("flip", "axes=[-1, 0]", "torch.flip(x, [-1, 0])", x=L(2, 3, 2))
    add(
        "pad",
        "before=[1, 0] after=[0, 2] mode=constant value=0.5",
        "F.pad(x, (0, 2, 1, 0), value=0.5)",
        x=L(2, 3),
    )
    add(
        "pad",
        "before=[0] after=[2] mode=constant value=-inf",
        "F.pad(x, (0, 2), value=-inf)",
        x=L(3),
        _grad=False,
    )
    add(
        "pad",
        "before=[0, 0, 2] after=[0, 0, 3] mode=reflect",
        "F.pad(x, (2, 3), mode='reflect')",
        x=L(1, 2, 4),
    )
    add(
        "pad",
        "before=[2, 3] after=[1, 0] mode=reflect",
        "F.pad(x[None, None], (3, 0, 2, 1), mode='reflect')[0, 0]",
        x=L(3, 4),
    )
    add(
        "pad",
        "before=[2, 0] after=[1, 4] mode=edge",
        "F.pad(x[None, None], (0, 4, 2, 1), mode='replicate')[0, 0]",
        x=L(3, 2),
    )
    add(
        "pad",
        "before=[1, 2, 0] after=[0, 1, 3] mode=edge",
        "F.pad(x[None, None], (0, 3, 2, 1, 1, 0), mode='replicate')[0, 0]",
        x=L(2, 2, 2),
    )


def gathers(add):
    add("gather", "", "F.embedding(index.long(), table)", table=L(5, 3), index=I(4, hi=5))
    add("gather", "", "table[index.long()]", table=L(4, 2, 2), index=I(2, 3, hi=4))
    add("gather", "", "table[index.long()]", table=L(5), index=G(3, "i32"))
    add("gather", "", "table[index.long()]", table=I(5, 2), index=I(3, hi=5))
    for axis, x, index in [
        (0, (4, 3), (2, 3)),
        (1, (2, 4), (2, 5)),
        (-1, (2, 2, 3), (2, 2, 2)),
        (-2, (2, 3, 2), (2, 4, 2)),
    ]:
        add(
            "gather_along",
            f"axis={axis}",
            f"torch.gather(x, {axis}, index.long())",
            x=L(*x),
            index=I(*index, hi=x[axis]),
        )
    for axis, x in [(0, (4, 3)), (1, (2, 4)), (-2, (2, 3, 2))]:
        add(
            "index_select",
            f"axis={axis}",
            f"torch.index_select(x, {axis}, index)",
            x=L(*x),
            index=I(5, hi=x[axis]),
        )
    add(
        "one_hot", "n=4 dtype=f32", "F.one_hot(index.long(), 4).to(torch.float64)", index=I(5, hi=4)
    )
    add(
        "one_hot",
        "n=3 dtype=i32",
        "F.one_hot(index.long(), 3).to(torch.int32)",
        index=I(2, 3, hi=3),
    )


def scatters(add):
    add(
        "scatter_set",
        "",
        "torch.index_copy(base, 0, index.long(), value)",
        base=L(5, 2),
        index=G([3, 0, 4], "i32"),
        value=L(3, 2),
    )
    add(
        "scatter_set",
        "",
        "rows_set(base, index, value)",
        base=L(4, 2),
        index=G([1, 3, 1, 0, 3], "i32"),
        value=L(5, 2),
    )
    add(
        "scatter_set",
        "",
        "rows_set(base, index, value)",
        base=L(4),
        index=G([[1, 3], [3, 0]], "i32"),
        value=L(2, 2),
    )
    add(
        "scatter_add",
        "",
        "torch.index_add(base, 0, index, value)",
        base=L(4, 2),
        index=G([1, 3, 1, 0, 1], "i32"),
        value=L(5, 2),
    )
    add(
        "scatter_add",
        "",
        "torch.index_put(base, [index.long()], value, accumulate=True)",
        base=L(4, 3),
        index=G([[1, 3], [3, 3]], "i32"),
        value=L(2, 2, 3),
    )
    for axis, base, index in [(0, (3, 2), (4, 2)), (1, (2, 4), (2, 3)), (-1, (2, 2, 3), (2, 2, 4))]:
        shapes = {"base": L(*base), "index": I(*index, hi=base[axis]), "value": L(*index)}
        add("scatter_along_set", f"axis={axis}", f"along_set(base, index, value, {axis})", **shapes)
        add(
            "scatter_along_add",
            f"axis={axis}",
            f"torch.scatter_add(base, {axis}, index.long(), value)",
            **shapes,
        )
    add(
        "scatter_along_set",
        "axis=1",
        "torch.scatter(base, 1, index.long(), value)",
        base=L(2, 4),
        index=G([[2, 0], [1, 3]], "i32"),
        value=L(2, 2),
    )
    for axis, base, value, start in [
        (0, (5, 2), (2, 2), 3),
        (1, (2, 4), (2, 1), 0),
        (-2, (2, 3, 2), (2, 2, 2), 1),
    ]:
        end = start + value[axis]
        add(
            "update_slice",
            f"axis={axis}",
            f"torch.slice_scatter(base, value, {axis}, {start}, {end})",
            base=L(*base),
            value=L(*value),
            start=G(start, "i32"),
        )
        add(
            "slice_at",
            f"axis={axis} size={value[axis]}",
            f"torch.narrow(x, {axis}, {start}, {value[axis]})",
            x=L(*base),
            start=G(start, "i32"),
        )


def resampling(add):
    """Our weights of upsample_linear are rounded to f32: hence its tolerance."""
    sizes = [
        ((1, 2, 5), [7]),
        ((1, 1, 5), [3]),
        ((1, 1, 4), [8]),
        ((1, 1, 3, 4), [5, 3]),
        ((2, 1, 2, 3), [4, 6]),
        ((1, 1, 3, 2), [1, 1]),
        ((1, 1, 4, 4), [3, 7]),
    ]
    for shape, size in sizes:
        add("upsample_nearest", f"size={size}", f"F.interpolate(x, {size})", x=L(*shape))
        mode = "linear" if len(size) == 1 else "bilinear"
        for corners in (False, True):
            add(
                "upsample_linear",
                f"size={size} align_corners={str(corners).lower()}",
                f"F.interpolate(x, {size}, mode='{mode}', align_corners={corners})",
                x=L(*shape),
                _tol=3e-7,
            )
    for shape, scale in [
        ((1, 1, 5), [1.6]),
        ((1, 2, 5), [0.7]),
        ((1, 1, 3, 4), [2.5, 1.3]),
        ((1, 1, 4, 5), [0.6, 2]),
    ]:
        size = [math.floor(n * s) for n, s in zip(shape[2:], scale)]
        words = ("scale_h", "scale_w") if len(scale) == 2 else ("scale_w",)
        attrs = f"size={size} " + " ".join(f"{w}={s}" for w, s in zip(words, scale))
        call = f"F.interpolate(x, scale_factor={scale}, recompute_scale_factor=False"
        mode = "linear" if len(size) == 1 else "bilinear"
        add("upsample_nearest", attrs, f"{call})", x=L(*shape))
        for corners in (False, True):
            add(
                "upsample_linear",
                attrs.replace("scale", f"align_corners={corners} scale".lower(), 1),
                f"{call}, mode='{mode}', align_corners={corners})",
                x=L(*shape),
                _tol=3e-7,
            )
    add(
        "upsample_nearest",
        "size=[6] scale_w=2.3",
        "F.interpolate(x, scale_factor=2.3, recompute_scale_factor=False)",
        _grad=False,
        x=L(1, 1, 3),
    )
    for shape, kernel, stride, before, after, dilation in [
        ((1, 2, 3, 4), [2, 2], [1, 1], [0, 0], [0, 0], [1, 1]),
        ((2, 1, 4, 5), [2, 3], [2, 1], [1, 0], [0, 2], [1, 1]),
        ((1, 1, 5, 5), [2, 2], [2, 3], [1, 1], [1, 1], [2, 3]),
        ((1, 2, 5), [3], [2], [1], [2], [1]),
        ((1, 1, 6), [2], [1], [0], [0], [3]),
    ]:
        add(
            "im2col",
            f"kernel={kernel} stride={stride} pad_before={before} pad_after={after} "
            f"dilation={dilation}",
            f"patches(x, {kernel}, {stride}, {before}, {after}, {dilation})",
            x=L(*shape),
        )


def cases(family):
    add = family.add
    makers(add)
    views(add)
    gathers(add)
    scatters(add)
    resampling(add)
