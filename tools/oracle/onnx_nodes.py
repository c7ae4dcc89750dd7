"""Node tests of ONNX (Debian's libonnx-testdata) as a second opinion: the ones with small tensors whose
operator is one of our ops with other words. Their numbers are NumPy's in float."""

import glob
import os
import pathlib

import onnx
import torch
from onnx import numpy_helper

FOLDER = pathlib.Path(os.environ.get("ONNX_NODE_TESTS", "/usr/include/onnx/backend/test/data/node"))
DTYPES = {
    "float32": "f32",
    "float64": "f32",
    "float16": "f16",
    "int32": "i32",
    "int64": "i32",
    "uint8": "u8",
    "bool": "bool",
}

# test, our op, attributes; `inputs` says which inputs of the node are tensors of ours (all when None)
TESTS = [
    ("argmax_keepdims_example", "argmax", "axis=1 keepdims=true", None),
    ("argmax_negative_axis_keepdims_random", "argmax", "axis=-1 keepdims=true", None),
    ("argmin_no_keepdims_example", "argmin", "axis=1", None),
    ("argmin_keepdims_random", "argmin", "axis=1 keepdims=true", None),
    ("cast_FLOAT_to_FLOAT16", "cast", "dtype=f16", None),
    ("cast_FLOAT16_to_FLOAT", "cast", "dtype=f32", None),
    ("clip_example", "clamp", "lo=-1 hi=1", [0]),
    ("clip_splitbounds", "clamp", "lo=-5 hi=5", [0]),
    ("concat_3d_axis_negative_2", "concat", "axis=-2", None),
    ("cumsum_1d", "cumsum", "axis=0", [0]),
    ("cumsum_1d_exclusive", "cumsum", "axis=0 exclusive=true", [0]),
    ("cumsum_1d_reverse", "cumsum", "axis=0 reverse=true", [0]),
    ("cumsum_1d_reverse_exclusive", "cumsum", "axis=0 exclusive=true reverse=true", [0]),
    ("cumsum_2d_axis_1", "cumsum", "axis=1", [0]),
    ("cumsum_2d_negative_axis", "cumsum", "axis=-1", [0]),
    ("elu_example", "elu", "alpha=2", None),
    ("leakyrelu_example", "leaky_relu", "slope=0.1", None),
    ("softplus_example", "softplus", "", None),
    ("round", "round", "", None),
    ("isinf", "isinf", "", None),
    ("isnan", "isnan", "", None),
    ("max_float32", "maximum", "", None),
    ("min_int32", "minimum", "", None),
    ("mod_mixed_sign_int32", "rem", "", None),
    ("mod_int64_fmod", "fmod", "", None),
    ("mod_mixed_sign_float32", "fmod", "", None),
    ("pow_bcast_array", "pow", "", None),
    ("where_example", "where", "", None),
    ("where_long_example", "where", "", None),
    ("expand_dim_unchanged", "expand", "shape=[3, 4]", [0]),
    ("eyelike_with_dtype", "eye", "dtype=f32 n=3 m=4", []),
    ("range_float_type_positive_delta", "arange", "dtype=f32 n=2 start=1 step=2", []),
    ("range_int32_type_negative_delta", "arange", "dtype=i32 n=2 start=10 step=-3", []),
    ("tril_neg", "tril", "diagonal=-1", [0]),
    ("tril_out_pos", "tril", "diagonal=6", [0]),
    ("tril_square_neg", "tril", "diagonal=-1", [0]),
    ("triu_pos", "triu", "diagonal=2", [0]),
    ("triu_out_neg_out", "triu", "diagonal=-7", [0]),
    ("gather_elements_0", "gather_along", "axis=1", None),
    ("gather_elements_1", "gather_along", "axis=0", None),
    ("scatter_elements_with_axis", "scatter_along_set", "axis=1", None),
    ("scatter_elements_without_axis", "scatter_along_set", "axis=0", None),
    ("scatter_elements_with_duplicate_indices", "scatter_along_add", "axis=1", None),
    ("tile_precomputed", "tile", "repeats=[2, 2]", [0]),
    ("edge_pad", "pad", "before=[0, 0, 1, 1] after=[0, 0, 1, 1] mode=edge", [0]),
    ("reflect_pad", "pad", "before=[0, 0, 1, 1] after=[0, 0, 1, 1] mode=reflect", [0]),
    ("reduce_l2_do_not_keepdims_example", "l2_norm", "axes=[2]", None),
    ("reduce_l2_default_axes_keepdims_example", "l2_norm", "keepdims=true", None),
    ("reduce_log_sum_exp_keepdims_example", "logsumexp", "axes=[1] keepdims=true", None),
    ("reduce_max_do_not_keepdims_example", "max", "axes=[1]", None),
    ("reduce_min_negative_axes_keepdims_example", "min", "axes=[-2] keepdims=true", None),
    ("reduce_mean_do_not_keepdims_example", "mean", "axes=[1]", None),
    ("reduce_prod_keepdims_example", "prod", "axes=[1] keepdims=true", None),
    ("reduce_sum_do_not_keepdims_example", "sum", "axes=[1]", [0]),
    ("softmax_large_number", "softmax", "axis=-1", None),
    ("logsoftmax_large_number", "log_softmax", "axis=-1", None),
    ("sce_mean", "cross_entropy", "ignore_index=-100 reduction=mean", None),
    ("sce_none", "cross_entropy", "ignore_index=-100 reduction=none", None),
    ("sce_sum", "cross_entropy", "ignore_index=-100 reduction=sum", None),
    ("sce_mean_no_weight_ii", "cross_entropy", "ignore_index=2 reduction=mean", None),
    ("layer_normalization_2d_axis1", "layer_norm", "axes=1 eps=1e-5", None),
    ("layer_normalization_2d_axis0", "layer_norm", "axes=2 eps=1e-5", None),
    ("instancenorm_example", "group_norm", "groups=2 eps=1e-5", None),
    ("globalaveragepool_precomputed", "adaptive_avg_pool", "size=[1, 1]", None),
    (
        "resize_downsample_scales_linear",
        "upsample_linear",
        "size=[1, 2] scale_h=0.6 scale_w=0.6",
        [0],
    ),
    ("resize_upsample_scales_linear", "upsample_linear", "size=[4, 4] scale_h=2 scale_w=2", [0]),
    (
        "resize_upsample_scales_linear_align_corners",
        "upsample_linear",
        "size=[4, 4] align_corners=true",
        [0],
    ),
    ("resize_upsample_sizes_nearest", "upsample_nearest", "size=[7, 8]", [0]),
    ("top_k", "topk", "k=3 axis=1 largest=true", [0]),
    ("top_k_smallest", "topk", "k=3 axis=1 largest=false", [0]),
]

# test, our op, attributes beside the spatial ones, which are read from the node
SPATIAL = [
    ("averagepool_2d_ceil", "pool", "kind=avg ceil_mode=true"),
    ("averagepool_2d_precomputed_pads", "pool", "kind=avg"),
    (
        "averagepool_2d_precomputed_pads_count_include_pad",
        "pool",
        "kind=avg count_include_pad=true",
    ),
    ("averagepool_2d_precomputed_strides", "pool", "kind=avg"),
    ("maxpool_2d_ceil", "pool", "kind=max ceil_mode=true"),
    ("maxpool_2d_dilations", "pool", "kind=max"),
    ("maxpool_2d_precomputed_pads", "pool", "kind=max"),
    ("conv_with_strides_and_asymmetric_padding", "conv", "groups=1"),
    ("convtranspose_1d", "conv_transpose", "groups=1"),
    ("convtranspose_dilations", "conv_transpose", "groups=1"),
    ("convtranspose_pads", "conv_transpose", "groups=1"),
    ("convtranspose_pad", "conv_transpose", "groups=1"),
]


def tensors(test, kind):
    paths = sorted(glob.glob(str(FOLDER / f"test_{test}" / "test_data_set_0" / f"{kind}_*.pb")))
    arrays = [numpy_helper.to_array(onnx.load_tensor(p)) for p in paths]
    return [
        (
            torch.from_numpy(a.astype("int32") if a.dtype == "int64" else a.copy()),
            DTYPES[a.dtype.name],
        )
        for a in arrays
    ]


def spatial(test, op):
    """The node's strides, pads and dilations as our attributes."""
    node = onnx.load(str(FOLDER / f"test_{test}" / "model.onnx")).graph.node[0]
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    n = tensors(test, "input")[0][0].dim() - 2
    pads = list(given.get("pads", [0] * 2 * n))
    words = {"kernel": list(given.get("kernel_shape", []))} if op == "pool" else {}
    words |= {
        "stride": list(given.get("strides", [1] * n)),
        "pad_before": pads[:n],
        "pad_after": pads[n:],
        "dilation": list(given.get("dilations", [1] * n)),
    }
    if op == "conv_transpose":
        words["output_padding"] = list(given.get("output_padding", [0] * n))
    return " ".join(f"{k}={v}" for k, v in words.items())


def cases(family):
    for test, op, attrs, chosen in TESTS:
        inputs = tensors(test, "input")
        inputs = inputs if chosen is None else [inputs[i] for i in chosen]
        results = tensors(test, "output")
        results = results if op == "topk" else results[:1]
        family.keep(op, attrs, inputs, results, f"onnx test_{test}", tol=1e-5)
    for test, op, more in SPATIAL:
        inputs = tensors(test, "input") + ([None] if op != "pool" else [])
        family.keep(
            op,
            f"{spatial(test, op)} {more}",
            inputs,
            tensors(test, "output")[:1],
            f"onnx test_{test}",
            tol=1e-5,
        )
