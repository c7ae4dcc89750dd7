"""The workloads as PyTorch modules, written down from docs/workloads.md. Parameter names are those of the goldens."""

import torch
import torch.nn.functional as F
from torch import nn

import workloads


def split_heads(x, size=64):
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def attend(q, k, v, causal=False):
    """[B, T, heads · 64] on keys and values of fewer heads."""
    q, k, v = split_heads(q), split_heads(k), split_heads(v)
    group = q.shape[1] // k.shape[1]
    if group > 1:  # repeated: with enable_gqa PyTorch leaves its fused kernel
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


# --- SmolLM2-135M


def rope_tables(length, size=64, base=10000.0):
    frequency = 1.0 / base ** (torch.arange(0, size, 2, dtype=torch.float32, device="cpu") / size)
    angle = torch.outer(torch.arange(length, dtype=torch.float32, device="cpu"), frequency)
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def rotate(x, tables):
    """x [B, T, heads · 64]; pairs are (i, i + 32) of a head."""
    cos, sin = (t[: x.shape[1], None] for t in tables)
    x = x.unflatten(-1, (-1, 64))
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat((-b, a), -1) * sin).flatten(2)


class LlamaAttention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.q_proj = nn.Linear(hidden, heads * 64, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * 64, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * 64, bias=False)
        self.o_proj = nn.Linear(heads * 64, hidden, bias=False)

    def forward(self, x, tables):
        q, k = rotate(self.q_proj(x), tables), rotate(self.k_proj(x), tables)
        return self.o_proj(attend(q, k, self.v_proj(x), causal=True))


class LlamaMlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, hidden, heads, kv_heads, inner, eps):
        super().__init__()
        self.self_attn = LlamaAttention(hidden, heads, kv_heads)
        self.mlp = LlamaMlp(hidden, inner)
        self.input_layernorm = nn.RMSNorm(hidden, eps)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps)

    def forward(self, x, tables):
        x = x + self.self_attn(self.input_layernorm(x), tables)
        return x + self.mlp(self.post_attention_layernorm(x))


class SmolLM2(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(49152, 576)
        self.model.layers = nn.ModuleList(LlamaLayer(576, 9, 3, 1536, 1e-6) for _ in range(30))
        self.model.norm = nn.RMSNorm(576, 1e-6)
        self.lm_head = nn.Linear(576, 49152, bias=False)
        self.tables = rope_tables(128)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, self.tables)
        return self.lm_head(self.model.norm(x))


# --- SmolVLA


class ActionAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(720, 960, bias=False)
        self.k_proj = nn.Linear(720, 320, bias=False)
        self.v_proj = nn.Linear(720, 320, bias=False)
        self.o_proj = nn.Linear(960, 720, bias=False)

    def forward(self, x, source):
        return self.o_proj(attend(self.q_proj(x), self.k_proj(source), self.v_proj(source)))


class ActionMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(720, 2048, bias=False)
        self.up = nn.Linear(720, 2048, bias=False)
        self.down = nn.Linear(2048, 720, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class ActionLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.RMSNorm(720, 1e-5)
        self.attn = ActionAttention()
        self.norm2 = nn.RMSNorm(720, 1e-5)
        self.mlp = ActionMlp()

    def forward(self, x, kv):
        y = self.norm1(x)
        x = x + self.attn(y, y if kv is None else kv)
        return x + self.mlp(self.norm2(x))


class SmolVLA(nn.Module):
    def __init__(self):
        super().__init__()
        self.action_proj = nn.Linear(32, 720, bias=False)
        self.time_proj = nn.Linear(1440, 720, bias=False)
        self.kv_proj = nn.Linear(320, 720, bias=False)
        self.layers = nn.ModuleList(ActionLayer() for _ in range(16))
        self.norm = nn.RMSNorm(720, 1e-5)
        self.head = nn.Linear(720, 32, bias=False)

    def forward(self, action, time, context):
        x = self.action_proj(action) + self.time_proj(time)
        kv = self.kv_proj(context)
        for i, layer in enumerate(self.layers):
            x = layer(x, kv if i % 2 else None)
        return self.head(self.norm(x))


# --- StableDiffusion


def conv3(inner, outer, stride=1):
    return nn.Conv2d(inner, outer, 3, stride, 1, bias=False)


class ResBlock(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(16, inner), conv3(inner, outer)
        self.norm2, self.conv2 = nn.GroupNorm(16, outer), conv3(outer, outer)
        self.res_conv = nn.Conv2d(inner, outer, 1, bias=False) if inner != outer else None

    def forward(self, x):
        y = self.conv1(F.silu(self.norm1(x)))
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (self.res_conv(x) if self.res_conv else x)


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256)):
        super().__init__()
        inner = (widths[0],) + widths[:-1]
        self.conv_in = conv3(4, widths[0])
        self.encoder_blocks = nn.ModuleList(ResBlock(i, w) for i, w in zip(inner, widths))
        self.downsamples = nn.ModuleList(conv3(w, w, 2) for w in widths[:-1])
        self.middle = ResBlock(widths[-1], widths[-1])
        below = (widths[-1],) + widths[:0:-1]
        self.decoder_blocks = nn.ModuleList(ResBlock(b + w, w) for b, w in zip(below, widths[::-1]))
        self.norm_out = nn.GroupNorm(16, widths[0])
        self.conv_out = conv3(widths[0], 4)

    def forward(self, x):
        x = self.conv_in(x)
        skips = []
        for i, block in enumerate(self.encoder_blocks):
            x = block(x)
            skips.append(x)
            if i < len(self.downsamples):
                x = self.downsamples[i](x)
        x = self.middle(x)
        for i, block in enumerate(self.decoder_blocks):
            x = F.interpolate(x, scale_factor=2, mode="nearest") if i else x
            x = block(torch.cat((x, skips.pop()), 1))
        return self.conv_out(F.silu(self.norm_out(x)))


# --- ResNet-50


def frozen_norm(width):
    return nn.BatchNorm2d(width, eps=1e-5).eval()


class Bottleneck(nn.Module):
    def __init__(self, inner, width, stride, change):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), frozen_norm(width)
        self.conv2, self.bn2 = conv3(width, width, stride), frozen_norm(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), frozen_norm(4 * width)
        self.downsample = None
        if change:
            conv = nn.Conv2d(inner, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, frozen_norm(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


def stage(inner, width, blocks, stride):
    first = [Bottleneck(inner, width, stride, True)]
    return nn.Sequential(*first, *(Bottleneck(4 * width, width, 1, False) for _ in range(blocks - 1)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), frozen_norm(64)
        self.layer1 = stage(64, 64, 3, 1)
        self.layer2 = stage(256, 128, 4, 2)
        self.layer3 = stage(512, 256, 6, 2)
        self.layer4 = stage(1024, 512, 3, 2)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


# --- Whisper-tiny


class WhisperAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden)
        self.q_proj = nn.Linear(hidden, hidden)
        self.out_proj = nn.Linear(hidden, hidden)

    def forward(self, x):
        return self.out_proj(attend(self.q_proj(x), self.k_proj(x), self.v_proj(x)))


class WhisperLayer(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.self_attn = WhisperAttention(hidden)
        self.self_attn_layer_norm = nn.LayerNorm(hidden)
        self.fc1, self.fc2 = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.final_layer_norm = nn.LayerNorm(hidden)

    def forward(self, x):
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class Whisper(nn.Module):
    def __init__(self, hidden=384):
        super().__init__()
        self.conv1 = nn.Conv1d(80, hidden, 3, padding=1)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(1500, hidden)
        self.layers = nn.ModuleList(WhisperLayer(hidden, 1536) for _ in range(4))
        self.layer_norm = nn.LayerNorm(hidden)

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x))))
        x = x.transpose(1, 2) + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


# --- all of them

MODELS = {"SmolLM2-135M": SmolLM2, "SmolVLA": SmolVLA, "StableDiffusion": UNet, "ResNet-50": ResNet50,
          "Whisper-tiny": Whisper}
CONVOLUTIONAL = ("StableDiffusion", "ResNet-50")


def build(workload, init, device="cpu"):
    """The model with its values; the buffers of batch norms (mean 0, variance 1) are no parameters."""
    with torch.device("meta"):
        model = MODELS[workload]()
    model.eval()
    for name, buffer in list(model.named_buffers()):
        owner, _, leaf = name.rpartition(".")
        fresh = torch.ones_like if leaf == "running_var" else torch.zeros_like
        setattr(model.get_submodule(owner), leaf, fresh(buffer, device="cpu"))
    values = {k: torch.from_numpy(v) for k, v in workloads.parameters(workload, init).items()}
    missing, unexpected = model.load_state_dict(values, strict=False, assign=True)
    assert not unexpected and not set(missing) & {n for n, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in workloads.description(workload)["not_trained"])
    if hasattr(model, "tables"):
        model.tables = tuple(x.to(device) for x in model.tables)
    return model.to(device)


def target(workload, device="cpu"):
    """What `loss` compares with, or None."""
    values = workloads.target(workload)
    return None if values is None else torch.from_numpy(values).to(device)


def loss(workload, output, target):
    if target is None:
        return output.pow(2).mean()
    if workload == "StableDiffusion":
        return F.mse_loss(output, target)
    return F.cross_entropy(output.flatten(0, -2), target.flatten())
