"""The ops that compare devices in their own way, and the composite ones, for which CUDA names the inner op.

Each function takes the call and returns the tag of the results, or raises. Sources: shared/messages.md,
Rules; PyTorch's aten/src/ATen/native (the file is named beside each rule).
"""

from __future__ import annotations

import torch

from . import errors, tags
from .judge import Call, Item, exact, iterate, special
from .state import STATE

LEGACY = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


def legacy_type(tensor: torch.Tensor, tag: int) -> str:
    """`torch.cuda.FloatTensor`, as Tensor.type() prints it: the kind of device without its index."""
    place = "cuda." if tag > 0 else ""
    sparse = "sparse." if tensor.layout is torch.sparse_coo else ""
    return f"torch.{place}{sparse}{LEGACY.get(tensor.dtype, 'Undefined')}Tensor"


def renamed(call: Call, names: dict[str, str], method: str) -> int:
    """The exact check of the op that a composite one calls, with that op's argument names, in the order of `names`."""
    order = [item._replace(name=shown) for name, shown in names.items() for item in call.named(name)]
    return exact(order, method)


# Calls in which devices may differ: the result is where the first argument is.
@special("copy_", "copy", "_copy_from", "_to_copy", "_foreach_copy_", "resize_as_", "is_same_size",
         "record_stream", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
         "_has_same_storage_numel", "_use_cudnn_ctc_loss", "_cudnn_ctc_loss", "is_set_to", "fill_", "fill",
         "_make_dual", "_new_zeros_with_same_feature_meta", "linspace", "logspace", "randint_like",
         "resize_as_sparse_", "_segment_reduce", "segment_reduce")  # fmt: skip
def anywhere(call: Call) -> int:
    return call.items[0].tag


@special("stack", "_stack")
def stack(call: Call) -> int:
    """TensorShape.cpp, stack: on CUDA it calls cat."""
    return renamed(call, {"tensors": "tensors"}, "wrapper_CUDA_cat")


@special("embedding")
def embedding(call: Call) -> int:
    """Embedding.cpp: weight.index_select(0, indices)."""
    return renamed(call, {"weight": "self", "indices": "index"}, "wrapper_CUDA__index_select")


# Functional forms that clone self and call their in-place form: its wrapper compares.
_INPLACE = {
    "masked_scatter": ("self", "mask", "source"),
    "put": ("self", "index", "source"),
    "index_fill.int_Scalar": ("self", "index"),
    "index_fill.int_Tensor": ("self", "index"),
    "index_fill_.int_Tensor": ("self", "index"),
}


@special(*_INPLACE)
def inplace_form(call: Call) -> int:
    """TensorAdvancedIndexing.cpp."""
    base, _, overload = call.op.partition(".")
    overload = overload and "int_Scalar"
    return renamed(
        call, {n: n for n in _INPLACE[call.op]}, f"wrapper_CUDA_{overload}_{base.removesuffix('_')}_"
    )


@special("cholesky_solve")
def solve(call: Call) -> int:
    """LinearAlgebraUtils.h, linearSolveCheckInputs: b, then A."""
    b, a = call.items[0], call.items[1]
    raise RuntimeError(
        f"Expected b and A to be on the same device, but found b on {b.device} and A on {a.device} instead."
    )


@special("block_diag")
def block_diag(call: Call) -> int:
    """TensorShape.cpp."""
    first = call.items[0]
    for index, item in enumerate(call.items):
        if item.device != first.device:
            raise RuntimeError(
                "torch.block_diag: input tensors must all be on the same device. "
                f"Input 0 is on device {first.device} and input {index} is on device {item.device}"
            )
    return first.tag


@special("dot.out", "vdot.out")
def dot_out(call: Call) -> int:
    """Blas.cpp."""
    name = call.op.partition(".")[0]
    out, a, b = (call.named(n)[0] for n in ("out", "self", "tensor" if name == "dot" else "other"))
    raise RuntimeError(
        f"{name}: Expected the output and input tensors to be on the same device, but got the output "
        f"tensor on "
        f"{out.device}, input tensor a on {a.device}, and input tensor b on {b.device}"
    )


@special(*(f"_foreach_{op}{end}.Tensor" for op in ("add", "mul", "div") for end in ("", "_")))
def foreach_number(call: Call) -> int:
    """ForeachBinaryOpScalarTensor.cu: the one number is where the list is."""
    subject, number = call.named("self")[0], call.named("other")[0]
    if subject.tag > 0:
        raise RuntimeError(f"scalar tensor expected to be on {subject.device} but is on {number.device}")
    raise errors.iterator(number.device, subject.device)


@special(*(f"_fused_{op}_.tensor_lr" for op in ("adam", "adamw", "sgd", "adagrad")))
def fused_step(call: Call) -> int:
    """cuda/FusedAdamKernel.cu and its like: a learning rate on the CPU is read there; one on a GPU sets conditions."""
    numbers = {item.name: item for item in call.items if item.name in ("grad_scale", "found_inf", "lr")}
    lists = [item for item in call.items if item.name not in numbers]
    if any(item.tag != lists[0].tag and item.name != "state_steps" for item in lists):
        raise RuntimeError(
            "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout"
        )
    if "lr" in numbers and numbers["lr"].tag > 0:
        for name in ("grad_scale", "found_inf", "lr"):
            if name in numbers and numbers[name].tag != lists[0].tag:
                raise RuntimeError(f"{name} must be on the same GPU device as the params")
    return lists[0].tag


@special("addcmul", "addcmul_")
def addcmul(call: Call) -> int:
    """PointwiseOpsKernel.cu: of three operands only tensor2 may be a number on the CPU (2.7)."""
    tag = iterate(call.items)
    for name, more in (("self", ""), ("tensor1", _SWAP)):
        item = call.named(name)[0]
        if item.tag == 0:
            raise RuntimeError(
                f"CPU Scalar support for {name} argument is not supported when calling addcmul on CUDA "
                f"tensors.{more}"
            )
    return tag


_SWAP = " However, CPU Scalar support for tensor2 is supported, please swap your tensor1 and tensor2 terms."


@special("mv")
def mv(call: Call) -> int:
    """Blas.cpp: the result is made like `vec`, then addmv_out(result, result, self, vec)."""
    matrix, vector = call.named("self")[0], call.named("vec")[0]
    made = vector._replace(name="out")
    return exact([made, matrix._replace(name="mat"), vector], "wrapper_CUDA_addmv_out_out")


@special("index", "_unsafe_index")
def index(call: Call) -> int:
    """IndexingUtils.h, expandTensors: indices on the CPU or with the indexed tensor."""
    subject = call.named("self")[0]
    for item in call.named("indices"):
        if item.device not in ("cpu", subject.device):
            raise errors.indices(subject.device)
    return subject.tag


@special("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
def index_put(call: Call) -> int:
    """TensorAdvancedIndexing.cpp: 0-dim values are moved; others must be with self."""
    subject, values = call.named("self")[0], call.named("values")[0]
    masks = (torch.bool, torch.uint8)
    if not (values.tag == 0 and values.tensor.dim() == 0) and values.device != subject.device:
        filled = values.tag == 0 and values.tensor.numel() == 1 and not call.argument(3, "accumulate", False)
        if not (filled and all(item.tensor.dtype in masks for item in call.named("indices"))):
            index(call._replace(items=[i for i in call.items if i.name != "values"]))
            if call.argument(3, "accumulate", False) and subject.tag > 0:
                raise RuntimeError(
                    f"expected device {subject.device} but got device {values.device} for value tensor"
                )
            iterate([subject._replace(written=True), values], cpu_scalars=False)
    return index(call)


@special("masked_fill", "masked_fill_")
def masked_fill(call: Call) -> int:
    """Indexing.cu: the mask must be with self; the 0-dim value may be on the CPU."""
    subject, mask = call.named("self")[0], call.named("mask")[0]
    if mask.device != subject.device:
        raise RuntimeError(
            f"expected self and mask to be on the same device, but got mask on {mask.device} "
            f"and self on {subject.device}"
        )
    if subject.tag == 0:
        raise RuntimeError("masked_fill_: Expected inputs to be on same device")
    return subject.tag


@special("where.self")
def where(call: Call) -> int:
    """TensorCompare.cpp: each 0-dim CPU tensor is moved to the device of the first that is not on the CPU."""
    return iterate([i for i in call.items if not (i.tag == 0 and i.tensor.dim() == 0)])


@special("convolution", "_convolution")
def convolution(call: Call) -> int:
    """Convolution.cpp: types first, which know no device index; then cuDNN's wrapper; then the bias is added."""
    check_types(call.items)
    subject, weight = call.named("input")[0], call.named("weight")[0]
    transposed = "_transpose" if call.argument(6, "transposed", False) else ""
    exact([subject._replace(name="self"), weight], f"wrapper_CUDA__cudnn_convolution{transposed}")
    return iterate([subject, *call.named("bias")], cpu_scalars=False)


def check_types(items: list[Item]) -> None:
    """E1 and E2 (check_input_same_type_as_parameters)."""
    subject = next(item for item in items if item.name == "input")
    shown = legacy_type(subject.tensor, subject.tag)
    for item in items:
        theirs = legacy_type(item.tensor, item.tag)
        if item.name in ("weight", "bias") and shown != theirs:
            # oneDNN's own words, when the CPU kernel that it would choose is oneDNN's.
            onednn = subject.tag == 0 and subject.tensor.dtype is torch.float32
            tail = f" or input should be a MKLDNN tensor and {item.name} is a dense tensor" if onednn else ""
            raise RuntimeError(
                f"Input type ({shown}) and {item.name} type ({theirs}) should be the same{tail}"
            )


@special("native_batch_norm")
def batch_norm(call: Call) -> int:
    """Normalization.cpp, _select_batch_norm_backend: cuDNN from three dimensions on, when it may.

    The choice is torch.batch_norm's (composite_patches.py says when it is running), and looks at the input
    alone.
    """
    names = ("input", "weight", "bias", "running_mean", "running_var")
    subject = call.named("input")[0].tensor
    affine = bool(call.named("weight")) and bool(call.named("bias"))
    cudnn = (
        STATE.thread.chooses_backend and call.named("input")[0].tag > 0
        and affine and subject.dim() >= 3 and subject.dtype is not torch.bfloat16
        and (bool(call.named("running_mean")) or bool(call.argument(5, "training", False)))
        and torch.backends.cudnn.enabled
    )  # fmt: skip
    return renamed(call, {n: n for n in names}, f"wrapper_CUDA__{'cudnn' if cudnn else 'native'}_batch_norm")


@special("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math")
def attention(call: Call) -> int:
    """attention.cpp, validate_sdpa_input; a mask goes with query, key and value into the fused kernel."""
    query, key, value = (call.named(n)[0] for n in ("query", "key", "value"))
    kinds = [item.device for item in (query, key, value)]
    if len(set(kinds)) > 1:
        raise attention_error(*kinds)
    masks = [item._replace(name="attn_bias") for item in call.named("attn_mask")]
    return exact([query, key, value, *masks], "wrapper_CUDA___scaled_dot_product_efficient_attention")


def attention_error(query: str, key: str, value: str) -> RuntimeError:
    """E6."""
    return RuntimeError(
        "Expected query, key, and value to have the same device type, but got query.device: "
        f"{query} key.device: {key} and value.device: {value} instead."
    )


def lengths_error(lengths: Item) -> RuntimeError:
    """E4."""
    kind = LEGACY.get(lengths.tensor.dtype, "Undefined")
    return RuntimeError(
        f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.tensor.dim()}D "
        f"{lengths.device} {kind} tensor"
    )


def check_lengths(lengths: torch.Tensor) -> None:
    """PackedSequence.cpp: lengths stay on the CPU, wherever the batch is."""
    tag = tags.read(lengths)
    if tag > 0:
        raise lengths_error(Item("lengths", False, lengths, tag))


# Ops with a CPU kernel and none for CUDA (native_functions.yaml), that a user can call.
NO_CUDA_KERNEL = {"histogram", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors",
                  "_spdiags", "to_mkldnn", "_add_relu", "_add_relu_"}  # fmt: skip


def no_kernel(op: str) -> NotImplementedError:
    """M14."""
    return NotImplementedError(
        f"Could not run 'aten::{op}' with arguments from the 'CUDA' backend. This could be because the "
        f"operator doesn't "
        "exist for this backend, or was omitted during the selective/custom build process (if using custom "
        "build). If "
        "you are a Facebook employee using PyTorch on mobile, please visit https://fburl.com/ptmfixes for "
        "possible "
        f"resolutions. 'aten::{op}' is only available for these backends: [CPU]."
    )
