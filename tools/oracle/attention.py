"""Attention: F.scaled_dot_product_attention where it can say it, else the formula in tensors, which
is compared with it here, when the fixtures are made."""

import math

import torch
import torch.nn.functional as F

from fixture import B, D, G, L, R

OFF = -math.inf


def seen(q, k, kv_length, causal, window):
    """bool [B, 1, Sq, Skv]: which keys a query may see by position."""
    b, sq, skv = q.shape[0], q.shape[2], k.shape[2]
    length = torch.full((b,), skv) if kv_length is None else kv_length.long()
    i = torch.arange(sq)[None, :, None]
    j = torch.arange(skv)[None, None, :]
    at = i if causal == "start" else i + length[:, None, None] - sq
    ok = (j < length[:, None, None]).expand(b, sq, skv)
    if causal != "none" or window:
        ok = ok & (j <= at)
    if window:
        ok = ok & (at - j < window)
    return ok[:, None]


def scores_of(q, k, mask, bias, kv_length, scale, softcap, causal, window):
    """[B, Hq, Sq, Skv], -inf where masked; and where not."""
    score = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT * scale
    score = softcap * torch.tanh(score / softcap) if softcap else score
    score = score if bias is None else score + bias
    ok = seen(q, k, kv_length, causal, window).expand(score.shape)
    ok = ok if mask is None else ok & mask
    return torch.where(ok, score, OFF), ok


def attend(
    q,
    k,
    v,
    mask=None,
    bias=None,
    kv_length=None,
    sinks=None,
    scale=1.0,
    softcap=0,
    causal="none",
    window=0,
    layout="bhsd",
):
    """The result and its log-sum-exp, by the definition."""
    if layout == "bshd":
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    score, _ = scores_of(q, k, mask, bias, kv_length, scale, softcap, causal, window)
    rest = (
        score
        if sinks is None
        else torch.cat([score, sinks[None, :, None, None].expand(*score.shape[:3], 1)], -1)
    )
    empty = (rest == OFF).all(-1, keepdim=True)  # rows that see nothing
    safe = torch.where(empty, 0.0, rest)
    p = torch.where(empty | (rest == OFF), 0.0, torch.softmax(safe, -1))[..., : score.shape[-1]]
    lse = torch.where(empty[..., 0], OFF, torch.logsumexp(safe, -1))
    out = p @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    return out.transpose(1, 2) if layout == "bshd" else out, lse


def sdpa(q, k, v, layout="bhsd", **options):
    """PyTorch's own; it has no second result."""
    if layout == "bshd":
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, **options)
    return out.transpose(1, 2) if layout == "bshd" else out


def attend_grad(q, k, v, mask, bias, kv_length, sinks, d_out, d_lse, **options):
    """Gradients by autograd of the formula; [0] for what is left out."""
    leaves = {"q": q, "k": k, "v": v, "bias": bias, "sinks": sinks}
    leaves = {n: None if t is None else t.detach().requires_grad_(True) for n, t in leaves.items()}
    out, lse = attend(mask=mask, kv_length=kv_length, **leaves, **options)
    loss = (out * d_out).sum() + (0 if d_lse is None else (lse * d_lse).sum())
    wrt = [t for t in leaves.values() if t is not None]
    grads = iter(torch.autograd.grad(loss, wrt, allow_unused=True))
    return [torch.zeros(0) if t is None else next(grads) for t in leaves.values()]


def grad_formula(
    q,
    k,
    v,
    mask,
    bias,
    kv_length,
    sinks,
    lse,
    out,
    d_out,
    d_lse,
    scale=1.0,
    softcap=0,
    causal="none",
    window=0,
):
    """The same as a function of lse and out too, which can be differentiated once more."""
    score, ok = scores_of(q, k, mask, bias, kv_length, scale, softcap, causal, window)
    group = q.shape[1] // k.shape[1]
    p = torch.where(ok, torch.exp(torch.where(ok, score, 0.0) - lse[..., None]), 0.0)
    row = -(d_out * out).sum(-1, keepdim=True) + (0 if d_lse is None else d_lse[..., None])
    ds = p * (d_out @ v.repeat_interleave(group, 1).mT + row)
    wrt = [q, k] + ([] if bias is None else [bias])
    dq, dk, *dbias = torch.autograd.grad(score, wrt, ds, create_graph=True)
    dv = (p.mT @ d_out).unflatten(1, (v.shape[1], group)).sum(2)
    none = torch.zeros(0, dtype=q.dtype)
    dsinks = none if sinks is None else (torch.exp(sinks[:, None] - lse) * row[..., 0]).sum((0, 2))
    return dq, dk, dv, dbias[0] if dbias else none, dsinks


helpers = {"attend": attend, "sdpa": sdpa, "attend_grad": attend_grad, "grad_formula": grad_formula}


def words(options):
    """Python options as attributes; scale is always said."""
    return " ".join(f"{k}={v}" for k, v in options.items())


def call(options):
    return ", ".join(f"{k}={v!r}" for k, v in options.items())


# shapes of q, k, v; optional inputs; options
CASES = [
    ((1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 3, 2), {}, {"scale": 0.5}),
    ((1, 1, 2, 2), (1, 1, 4, 2), (1, 1, 4, 2), {}, {"scale": 1.25, "causal": "end"}),
    ((1, 1, 2, 2), (1, 1, 4, 2), (1, 1, 4, 2), {}, {"scale": 1.25, "causal": "start"}),
    ((1, 2, 4, 2), (1, 1, 4, 2), (1, 1, 4, 1), {}, {"scale": 0.5, "causal": "end", "window": 2}),
    ((1, 1, 4, 2), (1, 1, 3, 2), (1, 1, 3, 2), {}, {"scale": 0.5, "causal": "end"}),
    ((1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 3, 2), {}, {"scale": 2, "softcap": 1.5}),
    ((2, 2, 2, 2), (2, 1, 3, 2), (2, 1, 3, 2), {"mask": B(2, 3)}, {"scale": 0.5}),
    (
        (2, 1, 2, 2),
        (2, 1, 3, 2),
        (2, 1, 3, 2),
        {"mask": G([[[[1, 0, 1], [0, 0, 0]]], [[[1, 1, 1], [0, 1, 1]]]], "bool")},
        {"scale": 0.5},
    ),
    ((1, 2, 2, 2), (1, 2, 3, 2), (1, 2, 3, 2), {"bias": L(2, 3)}, {"scale": 0.5}),
    (
        (1, 2, 2, 2),
        (1, 1, 3, 2),
        (1, 1, 3, 2),
        {"bias": L(2, 2, 3)},
        {"scale": 0.5, "softcap": 2, "causal": "end"},
    ),
    (
        (1, 1, 2, 2),
        (1, 1, 3, 2),
        (1, 1, 3, 1),
        {"bias": G([[0, OFF, 0.5], [OFF, OFF, OFF]])},
        {"scale": 0.5},
    ),
    ((2, 1, 2, 2), (2, 1, 4, 2), (2, 1, 4, 2), {"kv_length": G([3, 1], "i32")}, {"scale": 0.5}),
    (
        (2, 1, 2, 2),
        (2, 1, 4, 2),
        (2, 1, 4, 2),
        {"kv_length": G([3, 4], "i32")},
        {"scale": 0.5, "causal": "end", "window": 2},
    ),
    (
        (2, 1, 2, 2),
        (2, 1, 4, 2),
        (2, 1, 4, 2),
        {"kv_length": G([3, 2], "i32")},
        {"scale": 0.5, "causal": "start"},
    ),
    ((1, 4, 2, 2), (1, 2, 2, 2), (1, 2, 2, 2), {"sinks": L(4)}, {"scale": 0.5, "causal": "end"}),
    ((1, 2, 4, 2), (1, 3, 2, 2), (1, 3, 2, 1), {"sinks": L(4)}, {"scale": 0.5, "layout": "bshd"}),
    (
        (1, 2, 3, 2),
        (1, 3, 1, 2),
        (1, 3, 1, 2),
        {},
        {"scale": 0.5, "causal": "end", "layout": "bshd"},
    ),
    (
        (2, 2, 2, 2),
        (2, 1, 4, 2),
        (2, 1, 4, 2),
        {
            "mask": B(2, 1, 2, 4),
            "bias": L(1, 2, 1, 4),
            "kv_length": G([3, 4], "i32"),
            "sinks": L(2),
        },
        {"scale": 0.75, "softcap": 3, "causal": "end", "window": 3},
    ),
]


def part(i, options):
    """Result i of the attention that the gradient belongs to."""
    names = ("q", "k", "v", "mask", "bias", "kv_length", "sinks")
    return D(lambda **t: attend(**{n: t.get(n) for n in names}, **options)[i])


def second_order(add):
    arguments = "q, k, v, mask, bias, kv_length, sinks, lse, out, d_out, d_lse"
    for q, k, v, given, options in [CASES[3], CASES[9], CASES[-1]]:
        optional = {n: given.get(n) for n in ("mask", "bias", "kv_length", "sinks")}
        add(
            "attention_grad",
            words(options),
            f"grad_formula({arguments}, {call(options)})",
            q=L(*q),
            k=L(*k),
            v=L(*v),
            **optional,
            lse=part(1, options),
            out=part(0, options),
            d_out=L(*q[:-1], v[-1]),
            d_lse=L(*q[:3]) if "sinks" in given else None,
        )


def formula(add):
    for q, k, v, given, options in CASES:
        optional = {n: given.get(n) for n in ("mask", "bias", "kv_length", "sinks")}
        arguments = "q, k, v, mask, bias, kv_length, sinks"
        add(
            "attention",
            words(options),
            f"attend({arguments}, {call(options)})",
            q=L(*q),
            k=L(*k),
            v=L(*v),
            **optional,
        )
        rows = [q[0], q[2], q[1]] if options.get("layout") == "bshd" else list(q[:3])
        add(
            "attention_grad",
            words(options),
            f"attend_grad({arguments}, d_out, d_lse, {call(options)})",
            q=L(*q),
            k=L(*k),
            v=L(*v),
            **optional,
            lse=part(1, options),
            out=part(0, options),
            d_out=L(*q[:-1], v[-1]),
            d_lse=L(*rows) if len(options) > 2 else None,
            _grad=False,
            _tol=1e-6,
        )


def torch_own(add):
    tail = {"mask": None, "bias": None, "kv_length": None, "sinks": None}
    add(
        "attention",
        "scale=0.7071067811865476",
        "sdpa(q, k, v)",
        q=R(1, 2, 3, 2),
        k=R(1, 2, 5, 2),
        v=R(1, 2, 5, 2),
        **tail,
    )
    add(
        "attention",
        "scale=0.5 causal=end",
        "sdpa(q, k, v, is_causal=True, scale=0.5)",
        q=R(2, 1, 3, 2),
        k=R(2, 1, 3, 2),
        v=R(2, 1, 3, 1),
        **tail,
    )
    add(
        "attention",
        "scale=0.5 causal=start",
        "sdpa(q, k, v, is_causal=True, scale=0.5)",
        q=R(1, 1, 3, 2),
        k=R(1, 1, 3, 2),
        v=R(1, 1, 3, 2),
        **tail,
    )
    add(
        "attention",
        "scale=0.5 causal=end",
        "sdpa(q, k, v, is_causal=True, scale=0.5, enable_gqa=True)",
        q=R(1, 4, 2, 2),
        k=R(1, 2, 2, 2),
        v=R(1, 2, 2, 2),
        **tail,
    )
    add(
        "attention",
        "scale=0.5",
        "sdpa(q, k, v, attn_mask=mask, scale=0.5)",
        q=R(1, 2, 2, 2),
        k=R(1, 2, 3, 2),
        v=R(1, 2, 3, 2),
        mask=G([[1, 0, 1], [1, 1, 0]], "bool"),
        bias=None,
        kv_length=None,
        sinks=None,
    )
    add(
        "attention",
        "scale=0.5",
        "sdpa(q, k, v, attn_mask=bias, scale=0.5)",
        q=R(1, 2, 2, 2),
        k=R(1, 2, 3, 2),
        v=R(1, 2, 3, 2),
        mask=None,
        bias=R(1, 2, 2, 3),
        kv_length=None,
        sinks=None,
    )
    add(
        "attention",
        "scale=0.5 layout=bshd",
        "sdpa(q, k, v, 'bshd', scale=0.5, enable_gqa=True)",
        q=R(1, 2, 4, 2),
        k=R(1, 3, 2, 2),
        v=R(1, 3, 2, 2),
        **tail,
    )
    add(
        "attention",
        "scale=0.5",
        "sdpa(q, k, v, scale=0.5)",
        q=R(1, 1, 2, 3, dtype="f16"),
        k=R(1, 1, 3, 3, dtype="f16"),
        v=R(1, 1, 3, 2, dtype="f16"),
        **tail,
        _grad=False,
    )


def check_formula():
    """The formula is PyTorch's attention wherever that can express it."""
    g = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, h, 5, 3, generator=g, dtype=torch.float64) for h in (4, 2, 2))
    mask = torch.rand(2, 4, 5, 5, generator=g) < 0.7
    mask[..., 0] = True
    for mine, theirs in [
        (attend(q, k, v, scale=0.3), sdpa(q, k, v, scale=0.3, enable_gqa=True)),
        (attend(q, k, v, causal="end"), sdpa(q, k, v, is_causal=True, scale=1.0, enable_gqa=True)),
        (attend(q, k, v, mask=mask), sdpa(q, k, v, attn_mask=mask, scale=1.0, enable_gqa=True)),
    ]:
        torch.testing.assert_close(mine[0], theirs, rtol=1e-12, atol=1e-12)


def cases(family):
    add = family.add
    check_formula()
    torch_own(add)
    formula(add)
    second_order(add)
