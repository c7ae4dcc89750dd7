"""Fixture lines of the outside oracle: draws inputs, evaluates an expression, writes text.

A case is one call of `add`:

    add("softmax", "axis=-1", "F.softmax(x, -1)", x=R(2, 5))

The first two arguments are our op and its attributes, the third is the outside expression of the
same thing; it ends up beside the numbers as their provenance. Floats are drawn in f32 (or the dtype
asked for), evaluated in float64, and rounded once at the end, so that inputs are exact in the text
and results carry one rounding. The draws of a case depend on its op and its place among the cases of
that op alone: a case added behind others leaves them as they are.

Options begin with an underscore: _grad (default: whether there is a float input and a float result;
a list of names asks for those inputs only), _tol (relative tolerance of results and gradients),
_out (dtypes of the results, where they are not the obvious ones).
"""

import hashlib
import math
import random

import torch
import torch.nn.functional as F

STORAGE = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}
FLOATS = ("f32", "f16", "bf16")


class Draw:
    """An input that is yet to be drawn: shape, dtype, and a function of a random generator."""

    def __init__(self, shape, dtype, make):
        self.shape, self.dtype, self.make = list(shape), dtype, make

    def tensor(self, rng, before):
        """`before`: the inputs drawn so far, by name."""
        numbers = self.make(rng, math.prod(self.shape))
        stored = torch.tensor(numbers, dtype=torch.float64).to(STORAGE[self.dtype])
        stored = stored.reshape(self.shape)
        return stored.to(torch.float64) if self.dtype in FLOATS else stored


def R(*shape, lo=-2.0, hi=2.0, dtype="f32"):
    """Random floats with all their bits."""
    return Draw(shape, dtype, lambda rng, n: [rng.uniform(lo, hi) for _ in range(n)])


def L(*shape, step=4, dtype="f32"):
    """Distinct multiples of 1/step around zero: short in text, no ties."""

    def make(rng, n):
        half = max(n // 2 + 1, 2 * step)
        return [k / step for k in rng.sample(range(-half, half), n)]

    return Draw(shape, dtype, make)


def I(*shape, lo=0, hi=5, dtype="i32"):
    """Random whole numbers lo … hi-1."""
    return Draw(shape, dtype, lambda rng, n: [rng.randrange(lo, hi) for _ in range(n)])


def B(*shape):
    """Random bools."""
    return Draw(shape, "bool", lambda rng, n: [rng.randrange(2) for _ in range(n)])


def G(numbers, dtype="f32", shape=None):
    """Given numbers, nested as the shape or flat with a shape beside them."""
    t = torch.tensor(numbers, dtype=torch.float64)
    shape = list(t.shape) if shape is None else shape
    flat = t.reshape(-1).tolist()
    return Draw(shape, dtype, lambda rng, n: flat)


def P(*shape, dtype="f32"):
    """Rows of probabilities along the last axis."""

    def make(rng, n):
        w = torch.tensor([rng.uniform(0.05, 1) for _ in range(n)], dtype=torch.float64)
        return (w.reshape(shape) / w.reshape(shape).sum(-1, keepdim=True)).reshape(-1).tolist()

    return Draw(shape, dtype, make)


class D(Draw):
    """An input computed from those before it, such as the result that a gradient op is given."""

    def __init__(self, compute, dtype="f32"):
        self.dtype, self.compute = dtype, compute

    def tensor(self, rng, before):
        plain = {k: t.detach() for k, t in before.items()}
        return self.compute(**plain).to(STORAGE[self.dtype]).to(torch.float64)


# --- text ---------------------------------------------------------------------------------------


def number(x, dtype):
    if dtype not in FLOATS:
        return str(int(x))
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return f"{x:.9g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def tensor_text(t, dtype, exact=False):
    """`exact`: as it is; else rounded to the dtype first."""
    if dtype in FLOATS and not exact:
        t = t.to(torch.float64).to(STORAGE[dtype])
    flat = t.reshape(-1).to(torch.float64 if dtype in FLOATS else torch.int64).tolist()
    texts = [number(x, dtype) for x in flat]
    if len(texts) > 1 and len(set(texts)) == 1:
        texts = texts[:1]  # one number stands for all
    return f"{dtype}[{', '.join(map(str, t.shape))}]{{{','.join(texts)}}}"


def result_dtype(t, float_dtype):
    if t.dtype == torch.bool:
        return "bool"
    return float_dtype if t.dtype.is_floating_point else "u8" if t.dtype == torch.uint8 else "i32"


class Family:
    """The lines of one file tests/fixtures/oracle/<name>.txt."""

    def __init__(self, name, helpers=None):
        self.name, self.lines, self.counts = name, [], {}
        self.scope = {"torch": torch, "F": F, "math": math, "inf": math.inf, **(helpers or {})}

    def generator(self, op):
        count = self.counts[op] = self.counts.get(op, 0) + 1
        seed = hashlib.sha256(f"{op} {count}".encode()).digest()
        return random.Random(int.from_bytes(seed[:8], "little"))

    def add(self, op, attrs, expression, _grad=None, _tol=None, _out=None, **inputs):
        rng = self.generator(op)
        drawn = {}
        for k, d in inputs.items():
            if d is not None:
                drawn[k] = d.tensor(rng, drawn)
        dtypes = {k: d.dtype for k, d in inputs.items() if d is not None}
        floats = [k for k in drawn if dtypes[k] in FLOATS]
        for k in floats:
            drawn[k].requires_grad_(True)
        results = eval(expression, {**self.scope, **{k: None for k in inputs}, **drawn})
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        first_float = dtypes[floats[0]] if floats else "f32"
        out = _out or [result_dtype(r, first_float) for r in results]
        arguments = ", ".join(
            tensor_text(drawn[k].detach(), dtypes[k]) if k in drawn else "none" for k in inputs
        )
        line = f"{op}({arguments})" + (f" {attrs}" if attrs else "") + " => "
        line += ", ".join(tensor_text(r.detach(), d) for r, d in zip(results, out))
        wanted = floats if _grad is None or _grad is True else _grad or []
        if wanted and all(dtypes[k] == "f32" for k in wanted):
            line += self.gradients(rng, inputs, drawn, wanted, results, out)
        if _tol:
            line += f" ; tol={_tol:g}"
        if len(expression) > 160:
            raise ValueError(f"{op}: name a helper for {expression}")
        self.lines.append(f"{line} # {expression}")

    def gradients(self, rng, inputs, drawn, wanted, results, out):
        """` ; w … ; grad …` for loss = sum over the float results of sum(result * w)."""
        loss, weights = None, []
        for r, dtype in zip(results, out):
            if dtype not in FLOATS:
                weights.append("none")
                continue
            fixed = not r.requires_grad and loss is not None  # such as running statistics
            quarter = [
                0 if fixed else rng.choice([-6, -5, -3, -2, -1, 1, 2, 3, 4, 7]) / 4
                for _ in range(r.numel())
            ]
            w = torch.tensor(quarter, dtype=torch.float64).reshape(r.shape)
            weights.append(tensor_text(w, dtype))
            part = (r * w).sum()
            loss = part if loss is None else loss + part
        if loss is None:
            return ""
        if loss.requires_grad:
            loss.backward()
        grads = []
        for k in inputs:
            if k not in drawn or not drawn[k].dtype.is_floating_point or k not in wanted:
                grads.append("none")
            else:
                g = drawn[k].grad
                g = torch.zeros_like(drawn[k]) if g is None else g
                grads.append(tensor_text(g.detach(), "f32", exact=True))
        return f" ; w {', '.join(weights)} ; grad {', '.join(grads)}"

    def keep(self, op, attrs, arguments, results, source, tol=None):
        """A line of numbers that others made: (tensor, dtype) pairs, None for an input left out."""
        self.counts[op] = self.counts.get(op, 0) + 1
        inputs = ", ".join("none" if a is None else tensor_text(*a) for a in arguments)
        line = f"{op}({inputs})" + (f" {attrs}" if attrs else "") + " => "
        line += ", ".join(tensor_text(*r) for r in results)
        self.lines.append(line + (f" ; tol={tol:g}" if tol else "") + f" # {source}")

    def write(self, folder):
        path = folder / f"{self.name}.txt"
        path.write_text("\n".join(self.lines) + "\n")
        return path.stat().st_size
