"""Rotary positions, through the functions that the models of transformers call. Those compute in
float; for the time of a call the name is made to mean float64."""

import contextlib
import types

import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as rotate_pairs
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate_halves

from fixture import G, I, L


@contextlib.contextmanager
def in_double():
    kept = torch.float, torch.float32
    torch.float = torch.float32 = torch.float64
    try:
        yield
    finally:
        torch.float, torch.float32 = kept


def frequencies(dims, base, kind, positions, length, low, high, **parameters):
    """Turns a step of each pair, and what cos and sin are multiplied with."""
    parameters = {
        "rope_theta": base,
        "original_max_position_embeddings": length,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "beta_slow": low,
        "beta_fast": high,
        **parameters,
    }
    config = types.SimpleNamespace(
        rope_parameters=parameters,
        head_dim=dims,
        hidden_size=dims,
        num_attention_heads=1,
        max_position_embeddings=length,
        standardize_rope_params=lambda: None,
    )
    with in_double():
        if kind == "default":
            return LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        return ROPE_INIT_FUNCTIONS[kind](config, seq_len=int(positions.max()) + 1)


def rope(
    x,
    positions,
    seq_axis,
    dims,
    base,
    layout="half",
    kind="default",
    inverse=False,
    magnitude=None,
    rounding=None,
    length=None,
    low=None,
    high=None,
    **parameters,
):
    """x [B,H,S,D] (seq_axis 2) or [B,S,H,D] (1); positions [S] or [B,S]."""
    inv_freq, factor = frequencies(dims, base, kind, positions, length, low, high, **parameters)
    if rounding:  # what casting a whole model does to its buffers
        inv_freq = inv_freq.to(rounding).to(torch.float64)
    factor = magnitude or factor
    angle = positions.to(torch.float64).unsqueeze(-1) * inv_freq
    angle = angle.expand(x.shape[0], *angle.shape[-2:])
    cos, sin = angle.cos() * factor, angle.sin() * (-factor if inverse else factor)
    turned, rest = x[..., :dims], x[..., dims:]
    if layout == "half":
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        turned, _ = rotate_halves(turned, turned, cos, sin, unsqueeze_dim=3 - seq_axis)
    elif seq_axis == 1:
        turned = rotate_pairs(turned, sin, cos)
    else:
        turned = rotate_pairs(turned.transpose(1, 2), sin, cos).transpose(1, 2)
    return torch.cat((turned, rest), -1)


helpers = {"rope": rope}

SCALED = [
    ("linear", "factor=4", "factor=4.0"),
    ("dynamic", "factor=2 original_length=10", "factor=2.0, length=10"),
    ("dynamic", "factor=4 original_length=50", "factor=4.0, length=50"),
    (
        "llama3",
        "factor=8 low=1 high=4 original_length=64",
        "factor=8.0, low=1.0, high=4.0, length=64",
    ),
    ("yarn", "factor=4 low=1 high=8 original_length=128", "factor=4.0, low=1, high=8, length=128"),
    (
        "yarn",
        "factor=16 low=2 high=32 original_length=512 attention_factor=0.75",
        "factor=16.0, low=2, high=32, length=512, attention_factor=0.75",
    ),
]


def cases(family):
    add = family.add
    for axis, shape, positions, dims, layout in [
        (2, (1, 2, 3, 4), I(3, hi=9), 4, "half"),
        (1, (2, 3, 1, 6), I(3, hi=99), 4, "half"),
        (1, (1, 3, 2, 4), I(3, hi=9), 4, "interleaved"),
        (2, (2, 1, 3, 6), I(2, 3, hi=99), 4, "interleaved"),
        (1, (2, 2, 1, 8), I(2, 2, hi=9), 8, "half"),
    ]:
        for inverse in (False, True):
            add(
                "rope",
                f"seq_axis={axis} dims={dims} base=10000 layout={layout} inverse={inverse}".replace(
                    "True", "true"
                ).replace("False", "false"),
                f"rope(x, positions, {axis}, {dims}, 10000.0, '{layout}', inverse={inverse})",
                x=L(*shape),
                positions=positions,
            )
    add(
        "rope",
        "seq_axis=1 dims=4 base=500 layout=half attention_factor=1.5",
        "rope(x, positions, 1, 4, 500.0, magnitude=1.5)",
        x=L(1, 3, 1, 4),
        positions=I(3, hi=50),
    )
    add(
        "rope",
        "seq_axis=1 dims=4 base=500 layout=half attention_factor=1.5 inverse=true",
        "rope(x, positions, 1, 4, 500.0, magnitude=1.5, inverse=True)",
        x=L(1, 3, 1, 4),
        positions=I(3, hi=50),
    )
    for dtype, name in [("bf16", "bfloat16"), ("f16", "float16")]:
        add(
            "rope",
            f"seq_axis=1 dims=8 base=10000 layout=half rounding={dtype}",
            f"rope(x, positions, 1, 8, 10000.0, rounding=torch.{name})",
            x=L(1, 1, 1, 8),
            positions=G([777], "i32"),
        )
    for kind, attrs, call in SCALED:
        for layout in ("half", "interleaved") if kind == "llama3" else ("half",):
            expression = f"rope(x, positions, 1, 12, 1000.0, '{layout}', '{kind}', {call})"
            add(
                "rope",
                f"seq_axis=1 dims=12 base=1000 layout={layout} scaling={kind} {attrs}",
                expression,
                x=L(1, 2, 1, 12),
                positions=G([3, 29], "i32"),
            )
