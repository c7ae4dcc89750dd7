"""Matrix products."""

from fixture import G, R


def cases(family):
    add = family.add
    for a, b, trans_a, trans_b in [
        ((2, 3), (3, 4), False, False),
        ((3, 2), (3, 4), True, False),
        ((2, 3), (4, 3), False, True),
        ((3, 2), (4, 3), True, True),
        ((2, 2, 3), (2, 3, 2), False, False),
        ((2, 1, 2, 3), (3, 3, 2), False, False),
        ((2, 3), (2, 3, 1), False, False),
        ((2, 3, 2), (3, 2), True, False),
        ((1, 7), (7, 1), False, False),
    ]:
        x = "a.mT" if trans_a else "a"
        y = "b.mT" if trans_b else "b"
        attrs = f"trans_a={trans_a} trans_b={trans_b}".lower()
        add("matmul", attrs, f"torch.matmul({x}, {y})", a=R(*a), b=R(*b))
    add(
        "matmul",
        "",
        "torch.matmul(a, b)",
        a=G([], shape=[2, 0]),
        b=G([], shape=[0, 3]),
        _grad=False,
    )
    add("matmul", "", "torch.matmul(a, b)", a=R(2, 5, dtype="f16"), b=R(5, 2, dtype="f16"))
    add("matmul", "", "torch.matmul(a, b)", a=R(2, 5, dtype="bf16"), b=R(5, 2, dtype="bf16"))
