"""The demonstration's training in PyTorch eager: same model, batch, optimiser and clipping; tokens a second.

The sizes are read from what `sinew demo` writes and prints, so that they follow it. Both figures count training steps
only: the loss read back, but no evaluations and no stories.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

TURN_S = 15


def run_ours(binary):
    """One short demonstration: {"config", "weights", "batch", "tokens_per_s"}."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(binary), "demo", "--seconds", str(TURN_S), "--out", folder], capture_output=True,
                              text=True, check=True)
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    tokens = int(re.search(r"each step sees (\d+) tokens", done.stdout).group(1))
    speed = float(re.findall(r"([\d.]+) tokens/s", done.stderr)[-1])
    weights = int(re.search(r"a GPT of (\d+) weights", done.stdout).group(1))
    return {"config": config, "weights": weights, "batch": tokens // config["n_positions"], "tokens_per_s": speed}


def make_model(config):
    import torch.nn.functional as F
    from torch import nn

    activation = {"relu": F.relu, "gelu": F.gelu, "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
                  "silu": F.silu}[config["activation_function"]]
    width, heads, eps = config["n_embd"], config["n_head"], config["layer_norm_epsilon"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.c_out = nn.Linear(width, config["n_inner"]), nn.Linear(config["n_inner"], width)

        def forward(self, x):
            qkv = self.c_attn(self.ln_1(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*qkv, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).flatten(2))
            return x + self.c_out(activation(self.c_fc(self.ln_2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(config["vocab_size"], width)
            self.places = nn.Embedding(config["n_positions"], width)
            self.blocks = nn.Sequential(*(Block() for _ in range(config["n_layer"])))
            self.ln_f = nn.LayerNorm(width, eps)

        def forward(self, ids):
            x = self.words(ids) + self.places.weight
            return self.ln_f(self.blocks(x)) @ self.words.weight.T  # tied

    assert config["model_type"] == "gpt2" and config["tie_word_embeddings"]
    return Gpt()


class Trainer:
    """A step: forward, backward, clipping, AdamW in its fused form, and the loss read back, as the demo does."""

    def __init__(self, config, batch, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.model = torch, make_model(config)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), fused=True)
        self.shape, self.vocab = (batch, config["n_positions"]), config["vocab_size"]

    def step(self):
        text = self.torch.randint(self.vocab, (self.shape[0], self.shape[1] + 1))
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(text[:, :-1])
        loss = self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def weights(self):
        return sum(p.numel() for p in self.model.parameters())

    def tokens_per_s(self, seconds):
        for _ in range(5):
            self.step()
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            self.step()
            steps += 1
        return steps * self.shape[0] * self.shape[1] / (time.perf_counter() - start)


def main(options):
    os.environ["OMP_PROC_BIND"] = "true"
    ours, peer, trainer = [], [], None
    for _ in range(options.rounds):
        turn = run_ours(options.sinew)
        ours.append(turn["tokens_per_s"])
        trainer = trainer or Trainer(turn["config"], turn["batch"], options.threads)
        assert trainer.weights() == turn["weights"], "not the same model"
        peer.append(trainer.tokens_per_s(TURN_S))
    result = {"sinew": statistics.median(ours), "eager": statistics.median(peer),
              "rounds": {"sinew": ours, "eager": peer}}
    print(f"{trainer.weights()} weights, {trainer.shape[0]} texts of {trainer.shape[1]} tokens")
    print(f"sinew demo {result['sinew']:.0f} tokens/s; PyTorch eager {result['eager']:.0f}; "
          f"ours over theirs {result['sinew'] / result['eager']:.2f}")
    return result
