"""Pointwise ops. Kinks and special values stand in lines of their own; where PyTorch's convention is
not ours (docs/oracle.md) they are left out."""

from fixture import B, G, I, R

NAN, INF = float("nan"), float("inf")

# op, attributes, expression, range of the drawn inputs
UNARY = [
    ("neg", "", "torch.neg(x)", -2, 2),
    ("abs", "", "torch.abs(x)", -2, 2),
    ("sign", "", "torch.sign(x)", -2, 2),
    ("recip", "", "torch.reciprocal(x)", 0.25, 3),
    ("recip", "", "torch.reciprocal(x)", -3, -0.25),
    ("sqr", "", "torch.square(x)", -3, 3),
    ("sqrt", "", "torch.sqrt(x)", 0.01, 9),
    ("rsqrt", "", "torch.rsqrt(x)", 0.01, 9),
    ("exp", "", "torch.exp(x)", -5, 5),
    ("exp2", "", "torch.exp2(x)", -5, 5),
    ("expm1", "", "torch.expm1(x)", -2, 2),
    ("expm1", "", "torch.expm1(x)", -1e-6, 1e-6),
    ("log", "", "torch.log(x)", 0.01, 9),
    ("log2", "", "torch.log2(x)", 0.01, 9),
    ("log1p", "", "torch.log1p(x)", -0.9, 4),
    ("log1p", "", "torch.log1p(x)", -1e-6, 1e-6),
    ("sin", "", "torch.sin(x)", -7, 7),
    ("cos", "", "torch.cos(x)", -7, 7),
    ("tan", "", "torch.tan(x)", -1.4, 1.4),
    ("atan", "", "torch.atan(x)", -4, 4),
    ("tanh", "", "torch.tanh(x)", -4, 4),
    ("sigmoid", "", "torch.sigmoid(x)", -9, 9),
    ("softplus", "", "F.softplus(x, threshold=50)", -9, 9),
    ("erf", "", "torch.erf(x)", -3, 3),
    ("relu", "", "F.relu(x)", -2, 2),
    ("elu", "alpha=1", "F.elu(x)", -3, 2),
    ("elu", "alpha=0.25", "F.elu(x, alpha=0.25)", -3, 2),
    ("leaky_relu", "slope=0.01", "F.leaky_relu(x)", -3, 2),
    ("leaky_relu", "slope=0.3", "F.leaky_relu(x, 0.3)", -3, 2),
    ("silu", "", "F.silu(x)", -6, 6),
    ("gelu", "", "F.gelu(x)", -4, 4),
    ("gelu_tanh", "", "F.gelu(x, approximate='tanh')", -4, 4),
    ("mish", "", "F.mish(x)", -6, 6),
    ("hardswish", "", "F.hardswish(x)", -5, 5),
    ("floor", "", "torch.floor(x)", -4, 4),
    ("ceil", "", "torch.ceil(x)", -4, 4),
    ("round", "", "torch.round(x)", -4, 4),
    ("affine", "mul=1.5 add=-0.25", "x * 1.5 - 0.25", -2, 2),
    ("affine", "mul=-0.1 add=3", "torch.add(3, x, alpha=-0.1)", -2, 2),
    ("powf", "exponent=2.5", "torch.pow(x, 2.5)", 0.1, 3),
    ("powf", "exponent=3", "torch.pow(x, 3)", -3, 3),
    ("powf", "exponent=-2", "torch.pow(x, -2)", -3, -0.2),
    ("powf", "exponent=0.5", "torch.pow(x, 0.5)", 0.1, 3),
    ("powf", "exponent=0", "torch.pow(x, 0)", -3, 3),
    ("powf", "exponent=1", "torch.pow(x, 1)", -3, 3),
    ("clamp", "lo=-0.5 hi=0.75", "torch.clamp(x, -0.5, 0.75)", -2, 2),
    ("clamp", "lo=0.25 hi=inf", "torch.clamp(x, min=0.25)", -2, 2),
    ("clamp", "lo=-inf hi=0.25", "torch.clamp(x, max=0.25)", -2, 2),
    ("softcap", "cap=1.5", "1.5 * torch.tanh(x / 1.5)", -4, 4),
    ("softcap", "cap=30", "30 * torch.tanh(x / 30)", -90, 90),
    ("stop_gradient", "", "x.detach()", -2, 2),
]

WIDE = [NAN, INF, -INF, 0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 100, -100, 88, -103]

# Special values: op, attributes, expression, numbers
SPECIAL = [
    ("neg", "", "torch.neg(x)", WIDE),
    ("abs", "", "torch.abs(x)", WIDE),
    ("sign", "", "torch.sign(x)", [INF, -INF, 0.0, -0.0, 1e-30, -1e30]),
    ("recip", "", "torch.reciprocal(x)", WIDE),
    ("sqr", "", "torch.square(x)", WIDE),
    ("sqrt", "", "torch.sqrt(x)", WIDE),
    ("rsqrt", "", "torch.rsqrt(x)", [NAN, INF, 0.0, 1e-30, 1e30, -1]),
    ("exp", "", "torch.exp(x)", WIDE),
    ("exp2", "", "torch.exp2(x)", WIDE + [128, 127.5, -149, -151]),
    ("expm1", "", "torch.expm1(x)", WIDE),
    ("log", "", "torch.log(x)", WIDE),
    ("log2", "", "torch.log2(x)", WIDE),
    ("log1p", "", "torch.log1p(x)", WIDE + [-1]),
    ("sin", "", "torch.sin(x)", [NAN, INF, -INF, 0.0, 1e-30, 100, 1e6]),
    ("cos", "", "torch.cos(x)", [NAN, INF, -INF, 0.0, 1e-30, 100, 1e6]),
    ("tan", "", "torch.tan(x)", [NAN, INF, -INF, 0.0, 1e-30, 100, 1e6]),
    ("atan", "", "torch.atan(x)", WIDE),
    ("tanh", "", "torch.tanh(x)", WIDE),
    ("sigmoid", "", "torch.sigmoid(x)", WIDE),
    ("softplus", "", "F.softplus(x, threshold=50)", WIDE),
    ("erf", "", "torch.erf(x)", WIDE),
    ("relu", "", "F.relu(x)", WIDE),
    ("elu", "alpha=0.5", "F.elu(x, alpha=0.5)", WIDE),
    ("leaky_relu", "slope=0.25", "F.leaky_relu(x, 0.25)", WIDE),
    ("silu", "", "F.silu(x)", [NAN, INF, 0.0, 100, -100, 1e-30, 1e30]),
    ("gelu", "", "F.gelu(x)", [NAN, INF, 0.0, 100, -100, 1e-30, 1e30]),
    ("gelu_tanh", "", "F.gelu(x, approximate='tanh')", [NAN, INF, 0.0, 100, -100, 1e-30]),
    ("mish", "", "F.mish(x)", [NAN, INF, 0.0, 100, -100, 1e-30, 1e30]),
    ("hardswish", "", "F.hardswish(x)", [NAN, INF, 0.0, 3, -3, 100, -100, 1e-30]),
    ("floor", "", "torch.floor(x)", WIDE + [2.5, -2.5, 0.999, -0.001]),
    ("ceil", "", "torch.ceil(x)", WIDE + [2.5, -2.5, 0.999, -0.001]),
    ("round", "", "torch.round(x)", WIDE + [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 8388609, 0.49999997]),
    ("isnan", "", "torch.isnan(x)", WIDE),
    ("isinf", "", "torch.isinf(x)", WIDE),
    ("affine", "mul=2 add=1", "x * 2 + 1", WIDE),
    ("affine", "mul=0 add=1", "x * 0 + 1", WIDE),
    ("powf", "exponent=2", "torch.pow(x, 2)", WIDE),
    ("powf", "exponent=0.5", "torch.pow(x, 0.5)", [NAN, INF, 0.0, -1, 4]),
    ("powf", "exponent=-1", "torch.pow(x, -1)", WIDE),
    ("powf", "exponent=0", "torch.pow(x, 0)", WIDE),
    ("clamp", "lo=-1 hi=2", "torch.clamp(x, -1, 2)", WIDE + [-1, 2]),
    ("softcap", "cap=2", "2 * torch.tanh(x / 2)", WIDE),
    ("stop_gradient", "", "x.detach()", WIDE),
]

BINARY = [
    ("add", "torch.add(a, b)"),
    ("sub", "torch.sub(a, b)"),
    ("mul", "torch.mul(a, b)"),
    ("div", "torch.div(a, b)"),
    ("rem", "torch.remainder(a, b)"),
    ("fmod", "torch.fmod(a, b)"),
    ("floor_div", "torch.div(a, b, rounding_mode='floor')"),
    ("maximum", "torch.maximum(a, b)"),
    ("minimum", "torch.minimum(a, b)"),
    ("atan2", "torch.atan2(a, b)"),
    ("eq", "torch.eq(a, b)"),
    ("ne", "torch.ne(a, b)"),
    ("lt", "torch.lt(a, b)"),
    ("le", "torch.le(a, b)"),
    ("gt", "torch.gt(a, b)"),
    ("ge", "torch.ge(a, b)"),
]
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def unary(add):
    for op, attrs, expression, lo, hi in UNARY:
        add(op, attrs, expression, x=R(2, 5, lo=lo, hi=hi))
    for op, attrs, expression, numbers in SPECIAL:
        add(op, attrs, expression, x=G(numbers), _grad=False)
    for op, expression in [
        ("neg", "torch.neg(x)"),
        ("abs", "torch.abs(x)"),
        ("sign", "torch.sign(x)"),
        ("sqr", "torch.square(x)"),
    ]:
        add(op, "", expression, x=G([3, -4, 0, 2147483647, -46341, -2147483648], "i32"))
    for dtype in ("f16", "bf16"):
        for op, expression in [
            ("exp", "torch.exp(x)"),
            ("sqrt", "torch.sqrt(x.abs())"),
            ("tanh", "torch.tanh(x)"),
            ("gelu", "F.gelu(x)"),
            ("recip", "torch.reciprocal(x)"),
            ("silu", "F.silu(x)"),
            ("sigmoid", "torch.sigmoid(x)"),
            ("relu", "F.relu(x)"),
        ]:
            add(op, "", expression, x=R(7, lo=0.1, hi=3, dtype=dtype), _grad=False)
    # Gradients at the kinks where the conventions agree.
    add("abs", "", "torch.abs(x)", x=G([0.0, -1, 1]))
    add("relu", "", "F.relu(x)", x=G([0.0, -1, 1]))
    add("powf", "exponent=2", "torch.pow(x, 2)", x=G([0.0, -1, 1]))
    add("powf", "exponent=0", "torch.pow(x, 0)", x=G([0.0, -1, 1]))
    add("sigmoid", "", "torch.sigmoid(x)", x=G([0, 40, -40, 90, -90]))
    add("softplus", "", "F.softplus(x, threshold=1000)", x=G([0, 40, -40, 90, -90]))
    add("tanh", "", "torch.tanh(x)", x=G([0, 20, -20]))
    add("silu", "", "F.silu(x)", x=G([0, 90, -90]))
    add("gelu", "", "F.gelu(x)", x=G([0, 15, -15]))
    add("gelu_tanh", "", "F.gelu(x, approximate='tanh')", x=G([0, 15, -15]))
    add("logical_not", "", "torch.logical_not(x)", x=G([1, 0, 0, 1], "bool"))
    add("logical_not", "", "torch.logical_not(x)", x=B(2, 3))


def casts(add):
    t = "x.to(torch.float32).to(torch.{})"
    floats = [0.0, 1.5, -1.5, 0.1, -0.1, 3.99, -3.99, 1000.25]
    add("cast", "dtype=i32", t.format("int32"), x=G(floats + [2147483520, -2147483648, -0.99]))
    add("cast", "dtype=u8", t.format("uint8"), x=G([0, 1.5, 254.99, 255, 0.99]))
    add("cast", "dtype=bool", "x.to(torch.bool)", x=G([0, -0.0, 1, 0.5, NAN, INF, 1e-30]))
    ties = [
        1.00048828125,
        1.00146484375,
        65504,
        65519.996,
        65520,
        1e30,
        5.9604645e-8,
        2.9802322e-8,
        2.9802326e-8,
        8.9406967e-8,
        0.1,
        6.1035156e-5,
        -1e-9,
        INF,
        -INF,
        NAN,
    ]
    add("cast", "dtype=f16", t.format("float16"), x=G(ties), _grad=False, _out=["f16"])
    ties = [1.00390625, 1.01171875, 3.3895314e38, 3.3961776e38, 0.1, -1 / 3, 1e-40, INF, NAN]
    add("cast", "dtype=bf16", t.format("bfloat16"), x=G(ties), _grad=False, _out=["bf16"])
    add(
        "cast",
        "dtype=f32",
        "x.to(torch.float32)",
        _out=["f32"],
        x=G([16777217, 16777219, -2147483648, 2147483647, 7], "i32"),
    )
    add("cast", "dtype=f16", "x.to(torch.float16)", _out=["f16"], x=G([2049, 2051, -7], "i32"))
    add("cast", "dtype=i32", "x.to(torch.int32)", x=G([0, 255, 128], "u8"))
    add("cast", "dtype=i32", "x.to(torch.int32)", x=B(5))
    add("cast", "dtype=f32", "x.to(torch.float32)", _out=["f32"], x=B(2, 3))
    add("cast", "dtype=bool", "x.to(torch.bool)", x=G([0, 1, -5, 256], "i32"))
    add("cast", "dtype=u8", "x.to(torch.uint8)", x=G([0, 1, 255, 77], "i32"))
    add("cast", "dtype=f32", "x * 1", x=R(5, dtype="f16"), _grad=False, _out=["f32"])
    add("cast", "dtype=f32", "x * 1", x=R(5, dtype="bf16"), _grad=False, _out=["f32"])
    add("cast", "dtype=f32", "x.to(torch.float64)", x=R(5))


def binary(add):
    for op, expression in BINARY:
        positive = {"div", "rem", "fmod", "floor_div"}
        b = R(3, lo=0.3, hi=2) if op in positive else R(3)
        add(op, "", expression, a=R(2, 3), b=R(2, 3, lo=0.3, hi=2) if op in positive else R(2, 3))
        add(op, "", expression, a=R(2, 1, 3), b=b)
        add(op, "", expression, a=R(), b=R(5, lo=-2, hi=-0.3), _grad=False)
        special_a = [NAN, 1, INF, -INF, INF, 0.0, -0.0, 0.0, -1, 1, 2, -2, 5.5, -5.5, 5.5, -5.5]
        special_b = [1, NAN, 2, 3, -INF, 0.0, 1, -1, 0.0, 0.0, INF, -INF, 2, 2, -2, -2]
        n = 16
        if op in ("floor_div", "rem", "fmod"):  # the rest stands below
            special_a, special_b, n = special_a[12:], special_b[12:], 4
        add(op, "", expression, a=G(special_a[:n]), b=G(special_b[:n]), _grad=False)
        if op == "atan2":
            continue
        whole = [7, -7, 7, -7, 0, 2147483647, -2147483648, 12]
        other = [3, 3, -3, -3, 5, 2, 7, 12]
        if op == "div":
            expression = "torch.div(a, b, rounding_mode='trunc')"
        add(op, "", expression, a=G(whole, "i32"), b=G(other, "i32"))
    add(
        "add", "", "torch.add(a, b)", a=G([2147483647, -2147483648], "i32"), b=G([[1], [-1]], "i32")
    )
    add("mul", "", "torch.mul(a, b)", a=G([65537, -3], "i32"), b=G([65537, 1431655766], "i32"))
    for dtype in ("f16", "bf16"):
        for op, expression in [
            ("add", "torch.add(a, b)"),
            ("mul", "torch.mul(a, b)"),
            ("div", "torch.div(a, b)"),
            ("maximum", "torch.maximum(a, b)"),
        ]:
            add(
                op,
                "",
                expression,
                a=R(5, dtype=dtype),
                b=R(5, lo=0.5, hi=3, dtype=dtype),
                _grad=False,
            )
    for op, expression in [
        ("rem", "torch.remainder(a, b)"),
        ("fmod", "torch.fmod(a, b)"),
        ("floor_div", "torch.div(a, b, rounding_mode='floor')"),
    ]:
        add(
            op,
            "",
            expression,
            a=G([NAN, 1, 0, 5.5, -5.5, 0]),
            b=G([1, NAN, 0, 0, 0, -2]),
            _grad=False,
        )
        if op != "floor_div":  # with infinities ours is floor(a / b), PyTorch's is Python's //
            add(
                op,
                "",
                expression,
                a=G([INF, -INF, 5.5, -5.5, 5.5, -5.5]),
                _grad=False,
                b=G([2, 3, INF, INF, -INF, -INF]),
            )
    add("maximum", "", "torch.maximum(a, b)", a=G([1, 2, 3, 3]), b=G([1, 3, 2, 3]))
    add("minimum", "", "torch.minimum(a, b)", a=G([1, 2, 3, 3]), b=G([1, 3, 2, 3]))
    add("pow", "", "torch.pow(a, b)", a=R(2, 3, lo=0.1, hi=3), b=R(2, 3))
    add("pow", "", "torch.pow(a, b)", a=R(2, 1, 3, lo=0.1, hi=3), b=R(2, 1))
    add("pow", "", "torch.pow(a, b)", _grad=["a"], a=G([-2, -2, -1.5, 2]), b=G([2, 3, -1, -2]))
    add(
        "pow",
        "",
        "torch.pow(a, b)",
        _grad=False,
        a=G([0, 0, NAN, 1, -2, INF, -INF, 0, -1, 2]),
        b=G([0, 2, 0, NAN, 0.5, -1, 3, -1, INF, 200]),
    )
    add("atan2", "", "torch.atan2(a, b)", a=G([1, 1, -1, -1]), b=G([1, -1, 1, -1]))
    for op, word in [("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor")]:
        expression = f"torch.logical_{word}(a, b)"
        add(op, "", expression, a=G([0, 0, 1, 1], "bool"), b=G([0, 1, 0, 1], "bool"))
        add(op, "", expression, a=B(3, 1), b=B(2))
    for op, expression in BINARY:
        if op in ("eq", "ne"):
            add(op, "", expression, a=G([0, 0, 1, 1], "bool"), b=G([0, 1, 0, 1], "bool"))
    add("where", "", "torch.where(cond, a, b)", cond=B(2, 3), a=R(2, 3), b=R(2, 3))
    add("where", "", "torch.where(cond, a, b)", cond=B(2, 1, 1), a=R(3, 1), b=R(5))
    add(
        "where",
        "",
        "torch.where(cond, a, b)",
        cond=G([1, 0, 1, 0], "bool"),
        a=G([1, NAN, INF, 2]),
        b=G([NAN, 1, 2, -INF]),
        _grad=False,
    )
    add("where", "", "torch.where(cond, a, b)", cond=B(5), a=I(5), b=I(1))
    add("where", "", "torch.where(cond, a, b)", cond=B(5), a=B(5), b=B(1))


def cases(family):
    add = family.add
    unary(add)
    casts(add)
    binary(add)
