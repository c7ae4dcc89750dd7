"""The workloads as JAX functions of (parameters, *inputs), written down from docs/workloads.md.

Images are channels-last inside, which is what XLA's CPU backend is fastest at: `parameters` brings convolution
weights into [height, width, in, out] once, and the models transpose their input and output.
"""

import jax
import jax.numpy as jnp
import numpy as np

import workloads

IMAGES = ("NHWC", "HWIO", "NHWC")


def linear(p, name, x):
    y = jax.lax.dot_general(x, p[name + ".weight"], (((x.ndim - 1,), (1,)), ((), ())))
    bias = p.get(name + ".bias")
    return y if bias is None else y + bias


def rms_norm(p, name, x, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * p[name + ".weight"]


def attend(q, k, v, causal=False):
    """[B, T, heads · 64] on keys and values of fewer heads: the heads of a group share them."""
    batch, length = q.shape[:2]
    k, v = (x.reshape(batch, x.shape[1], -1, 64) for x in (k, v))
    q = q.reshape(batch, length, k.shape[2], -1, 64)
    scores = jnp.einsum("btkgd,bskd->bkgts", q, k) / 8
    if causal:
        scores = jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf)
    y = jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores, -1), v)
    return y.reshape(batch, length, -1)


# --- SmolLM2-135M


def rotate(x):
    """x [B, T, heads · 64]; pairs are (i, i + 32) of a head."""
    frequency = np.float32(1) / np.float32(10000) ** (np.arange(0, 64, 2, dtype=np.float32) / 64)
    angle = np.outer(np.arange(x.shape[1], dtype=np.float32), frequency)[:, None]
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = jnp.split(x.reshape(*x.shape[:2], -1, 64), 2, -1)
    return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1).reshape(x.shape)


def smollm2_layer(p, prefix, x):
    y = rms_norm(p, prefix + "input_layernorm", x, 1e-6)
    q, k, v = (linear(p, f"{prefix}self_attn.{n}_proj", y) for n in "qkv")
    x = x + linear(p, prefix + "self_attn.o_proj", attend(rotate(q), rotate(k), v, causal=True))
    y = rms_norm(p, prefix + "post_attention_layernorm", x, 1e-6)
    gate, up = linear(p, prefix + "mlp.gate_proj", y), linear(p, prefix + "mlp.up_proj", y)
    return x + linear(p, prefix + "mlp.down_proj", jax.nn.silu(gate) * up)


def smollm2(p, ids):
    x = p["model.embed_tokens.weight"][ids]
    for i in range(30):
        x = smollm2_layer(p, f"model.layers.{i}.", x)
    return linear(p, "lm_head", rms_norm(p, "model.norm", x, 1e-6))


# --- SmolVLA


def smolvla_layer(p, prefix, x, kv):
    y = rms_norm(p, prefix + "norm1", x, 1e-5)
    source = y if kv is None else kv
    q = linear(p, prefix + "attn.q_proj", y)
    k, v = linear(p, prefix + "attn.k_proj", source), linear(p, prefix + "attn.v_proj", source)
    x = x + linear(p, prefix + "attn.o_proj", attend(q, k, v))
    y = rms_norm(p, prefix + "norm2", x, 1e-5)
    gate, up = linear(p, prefix + "mlp.gate", y), linear(p, prefix + "mlp.up", y)
    return x + linear(p, prefix + "mlp.down", jax.nn.silu(gate) * up)


def smolvla(p, action, time, context):
    x = linear(p, "action_proj", action) + linear(p, "time_proj", time)
    kv = linear(p, "kv_proj", context)
    for i in range(16):
        x = smolvla_layer(p, f"layers.{i}.", x, kv if i % 2 else None)
    return linear(p, "head", rms_norm(p, "norm", x, 1e-5))


# --- StableDiffusion


def conv(p, name, x, stride=1):
    w = p[name + ".weight"]
    edge = w.shape[0] // 2
    return jax.lax.conv_general_dilated(x, w, (stride, stride), ((edge, edge),) * 2, dimension_numbers=IMAGES)


def norm_silu(p, name, x):
    """Group norm in 16 groups, then SiLU."""
    batch, height, width, channels = x.shape
    y = x.reshape(batch, height * width, 16, channels // 16)
    mean = y.mean((1, 3), keepdims=True)
    variance = jnp.square(y - mean).mean((1, 3), keepdims=True)
    y = ((y - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return jax.nn.silu(y * p[name + ".weight"] + p[name + ".bias"])


def res_block(p, prefix, x):
    y = conv(p, prefix + "conv1", norm_silu(p, prefix + "norm1", x))
    y = conv(p, prefix + "conv2", norm_silu(p, prefix + "norm2", y))
    return y + (conv(p, prefix + "res_conv", x) if prefix + "res_conv.weight" in p else x)


def unet(p, x):
    x = conv(p, "conv_in", x.transpose(0, 2, 3, 1))
    skips = []
    for i in range(3):
        x = res_block(p, f"encoder_blocks.{i}.", x)
        skips.append(x)
        x = conv(p, f"downsamples.{i}", x, 2) if i < 2 else x
    x = res_block(p, "middle.", x)
    for i in range(3):
        x = x.repeat(2, 1).repeat(2, 2) if i else x
        x = res_block(p, f"decoder_blocks.{i}.", jnp.concatenate((x, skips.pop()), -1))
    return conv(p, "conv_out", norm_silu(p, "norm_out", x)).transpose(0, 3, 1, 2)


# --- ResNet-50


def conv_norm(p, x, conv_name, norm_name, stride=1):
    scale = p[norm_name + ".weight"] / np.sqrt(np.float32(1 + 1e-5))
    return conv(p, conv_name, x, stride) * scale + p[norm_name + ".bias"]


def bottleneck(p, prefix, x, stride):
    y = jax.nn.relu(conv_norm(p, x, prefix + "conv1", prefix + "bn1"))
    y = jax.nn.relu(conv_norm(p, y, prefix + "conv2", prefix + "bn2", stride))
    y = conv_norm(p, y, prefix + "conv3", prefix + "bn3")
    if prefix.endswith(".0."):
        x = conv_norm(p, x, prefix + "downsample.0", prefix + "downsample.1", stride)
    return jax.nn.relu(x + y)


def resnet50(p, x):
    x = jax.nn.relu(conv_norm(p, x.transpose(0, 2, 3, 1), "conv1", "bn1", 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                              ((0, 0), (1, 1), (1, 1), (0, 0)))
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        for i in range(blocks):
            x = bottleneck(p, f"layer{stage}.{i}.", x, 2 if stage > 1 and i == 0 else 1)
    return linear(p, "fc", x.mean((1, 2)))


# --- Whisper-tiny


def layer_norm(p, name, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def conv_gelu(p, name, x, stride):
    y = jax.lax.conv_general_dilated(x, p[name + ".weight"], (stride,), ((1, 1),),
                                     dimension_numbers=("NWC", "WIO", "NWC"))
    return gelu(y + p[name + ".bias"])


def whisper_layer(p, prefix, x):
    y = layer_norm(p, prefix + "self_attn_layer_norm", x)
    q, k, v = (linear(p, f"{prefix}self_attn.{n}_proj", y) for n in "qkv")
    x = x + linear(p, prefix + "self_attn.out_proj", attend(q, k, v))
    y = layer_norm(p, prefix + "final_layer_norm", x)
    return x + linear(p, prefix + "fc2", gelu(linear(p, prefix + "fc1", y)))


def whisper(p, x):
    x = conv_gelu(p, "conv2", conv_gelu(p, "conv1", x.transpose(0, 2, 1), 1), 2)
    x = x + p["embed_positions.weight"]
    for i in range(4):
        x = whisper_layer(p, f"layers.{i}.", x)
    return layer_norm(p, "layer_norm", x)


# --- all of them

MODELS = {"SmolLM2-135M": smollm2, "SmolVLA": smolvla, "StableDiffusion": unet, "ResNet-50": resnet50,
          "Whisper-tiny": whisper}


def parameters(workload, init):
    """All values, and the names of those that are trained."""
    values = {}
    for name, x in workloads.parameters(workload, init).items():
        if x.ndim > 2:  # [out, in, …] to […, in, out]
            x = np.ascontiguousarray(x.transpose(*range(2, x.ndim), 1, 0))
        values[name] = jnp.asarray(x)
    frozen = workloads.description(workload)["not_trained"]
    return values, [name for name in values if name not in frozen]


def loss(workload, output):
    target = workloads.target(workload)
    if target is None:
        return jnp.square(output).mean()
    if workload == "StableDiffusion":
        return jnp.square(output - target).mean()
    scores = jax.nn.log_softmax(output.reshape(-1, output.shape[-1]), -1)
    return -jnp.take_along_axis(scores, target.reshape(-1, 1), 1).mean()
