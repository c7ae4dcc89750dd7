"""Sorting and choosing."""

import torch

from fixture import G, L

NAN, INF = float("nan"), float("inf")


def ordered(x, axis, descending):
    values, indices = torch.sort(x, dim=axis, descending=descending, stable=True)
    return values, indices.to(torch.int32)


def top(x, k, axis, largest):
    """By a stable sort: torch.topk leaves the order of ties open."""
    values, indices = ordered(x, axis, largest)
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)


def topk(x, k, axis, largest):
    values, indices = torch.topk(x, k, axis, largest, sorted=True)
    return values, indices.to(torch.int32)


def penalized(logits, history, penalty):
    """The processor of transformers, row by row; negative ids are empty."""
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    processor = RepetitionPenaltyLogitsProcessor(penalty)
    rows = [processor(h[h >= 0].long()[None], row[None])[0] for h, row in zip(history, logits)]
    return torch.stack(rows)


helpers = {"ordered": ordered, "top": top, "topk": topk, "penalized": penalized}


def cases(family):
    add = family.add
    ties = [[3, 1, 3, 2, 1], [0, 0, 0, 0, 0], [NAN, 2, INF, NAN, -INF]]
    for largest in (True, False):
        word = str(largest).lower()
        for shape, axis, k in [((2, 5), -1, 3), ((4, 2), 0, 4), ((2, 3, 2), 1, 1)]:
            add(
                "topk",
                f"k={k} axis={axis} largest={word}",
                f"topk(x, {k}, {axis}, {largest})",
                x=L(*shape),
            )
            add(
                "sort",
                f"axis={axis} descending={word}",
                f"ordered(x, {axis}, {largest})",
                x=L(*shape),
            )
        add(
            "topk", f"k=4 axis=1 largest={word}", f"top(x, 4, 1, {largest})", x=G(ties), _grad=False
        )
        add(
            "sort", f"axis=1 descending={word}", f"ordered(x, 1, {largest})", x=G(ties), _grad=False
        )
        add(
            "sort",
            f"axis=0 descending={word}",
            f"ordered(x, 0, {largest})",
            x=G([0.0, -0.0, 1, 0.0, -1]),
            _grad=False,
        )
        add("topk", f"k=0 axis=0 largest={word}", f"topk(x, 0, 0, {largest})", x=L(3), _grad=False)
        add(
            "topk",
            f"k=2 axis=0 largest={word}",
            f"top(x, 2, 0, {largest})",
            x=G([5, -3, 5, 0, -3], "i32"),
        )
        add(
            "sort",
            f"axis=0 descending={word}",
            f"ordered(x, 0, {largest})",
            x=G([5, -3, 5, 0, -3], "i32"),
        )
        add(
            "topk",
            f"k=3 axis=1 largest={word}",
            f"top(x, 3, 1, {largest})",
            x=G([[3, 1, 3, 2, 1], [2, 2, 1, 2, 1]]),
        )
        add(
            "sort",
            f"axis=1 descending={word}",
            f"ordered(x, 1, {largest})",
            x=G([[3, 1, 3, 2, 1], [2, 2, 1, 2, 1]]),
        )
    sampling(add)


def sampling(add):
    """What a draw cannot change: greedy, and all settings that leave one candidate."""
    key = G([1, 2, 3], "i32")
    greedy = "torch.argmax({}, -1).to(torch.int32)"
    off = "top_k={k} top_p={p} min_p={m} repetition_penalty={r}"
    for temperature, k, p, m in [(0, 0, 1, 0), (0.7, 1, 1, 0), (1, 0, 1e-6, 0), (2, 0, 1, 1)]:
        add(
            "sample",
            f"temperature={temperature} " + off.format(k=k, p=p, m=m, r=1),
            greedy.format("logits"),
            logits=L(3, 7),
            key=key,
            history=None,
        )
    for penalty in (1.5, 4.0, 0.5):
        add(
            "sample",
            "temperature=0 " + off.format(k=0, p=1, m=0, r=penalty),
            greedy.format(f"penalized(logits, history, {penalty})"),
            logits=G([[1, 2, 1.5, -1], [-1, -1.25, -2, -3], [3, 2, 1, 0], [1, 2, 1.5, 2.25]]),
            key=key,
            history=G([[1, -1, 1], [0, 0, -1], [-1, -1, -1], [3, 1, 2]], "i32"),
        )
