"""Autocast on simulated GPUs.

CUDA's autocast acts on tensors that C++ knows to be on a GPU; here it sees CPU tensors. So the CPU's
autocast is switched on along with CUDA's, which covers the ops that run in lower precision, inside
composite ones too, and a function mode does what the two do differently: it raises the ops on CUDA's
float32 list, and keeps tensors that are on the CPU out. The lists are those of torch 2.13
(aten/src/ATen/autocast_mode.h, AT_FORALL_FP32 and its relatives).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .patching import Patches
from .tags import read

_LOW = (torch.float16, torch.bfloat16)
_FLOAT32 = frozenset(
    [
        "acos",
        "asin",
        "cosh",
        "erfinv",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
        "sinh",
        "tan",
        "pow",
        "__pow__",
        "__rpow__",
        "softplus",
        "layer_norm",
        "native_layer_norm",
        "group_norm",
        "cosine_similarity",
        "poisson_nll_loss",
        "cosine_embedding_loss",
        "nll_loss",
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "mse_loss",
        "margin_ranking_loss",
        "multilabel_margin_loss",
        "soft_margin_loss",
        "triplet_margin_loss",
        "multi_margin_loss",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "dist",
        "pdist",
        "cdist",
        "renorm",
        "logsumexp",
        "prod",
        "softmax",
        "log_softmax",
        "softmin",
        "cumprod",
        "cumsum",
        "norm",
        "vector_norm",
        "matrix_norm",
        "linalg_vector_norm",
        "linalg_matrix_norm",
        "sum",
        "interpolate",
    ]
)
_LOWERED = frozenset(
    [
        "linear",
        "matmul",
        "__matmul__",
        "__rmatmul__",
        "mm",
        "bmm",
        "addmm",
        "addbmm",
        "baddbmm",
        "addmv",
        "mv",
        "einsum",
        "multi_dot",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "conv_tbc",
        "prelu",
        "scaled_dot_product_attention",
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "lstm_cell",
        "gru_cell",
    ]
)
# AT_FORALL_PROMOTE: their arguments are brought to the widest type among them.
_WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sample grid_sampler index_put tensordot scatter_add".split()
)
_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


def install(patches: Patches) -> None:
    autocast: Any = torch.amp.autocast_mode.autocast
    patches.wrap(autocast, "__enter__", _entering)
    patches.wrap(autocast, "__exit__", _leaving)


def _entering(original: Any) -> Any:
    def __enter__(self: Any) -> Any:
        found = original(self)
        if self.device == "cuda":
            states = self.__dict__.setdefault("_whydevice_states", [])
            mode: Any = CudaAutocast() if self._enabled else None
            states.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), mode))
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
            if mode is not None:
                mode.__enter__()
        return found

    return __enter__


def _leaving(original: Any) -> Any:
    def __exit__(self: Any, *error: Any) -> Any:
        states = self.__dict__.get("_whydevice_states")
        if self.device == "cuda" and states:
            enabled, dtype, mode = states.pop()
            if mode is not None:
                mode.__exit__(*error)
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return original(self, *error)

    return __exit__


class CudaAutocast(TorchFunctionMode):
    """Active inside `torch.autocast("cuda")`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if not torch.is_autocast_enabled("cuda"):
            return func(*args, **kwargs)
        if name in _LOWERED:
            if _on_gpu(args) or _on_gpu(tuple(kwargs.values())):
                return func(*args, **kwargs)
            return _plainly(func, args, kwargs)
        if name in _FLOAT32 and not kwargs.get("dtype"):
            args = tuple(_raised(value) for value in args)
            kwargs = {key: _raised(value) for key, value in kwargs.items()}
        elif name in _WIDEST and _on_gpu((*args, *kwargs.values())):
            return _promoted(func, args, kwargs)
        elif name == "binary_cross_entropy" and _on_gpu(args):
            raise RuntimeError(_BANNED)
        return func(*args, **kwargs)


def _on_gpu(values: Any) -> bool:
    return any(
        read(value) > 0
        if isinstance(value, torch.Tensor)
        else isinstance(value, (tuple, list)) and _on_gpu(value)
        for value in values
    )


def _raised(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _LOW and read(value) > 0:
        return value.float()
    return value


def _promoted(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function with its floating tensors on the GPU in the widest of their types (cast_policy::promote)."""
    found = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor) and v.is_floating_point()]
    kinds = {value.dtype for value in found if read(value) > 0}
    if not kinds <= {torch.float32, *_LOW}:
        return func(*args, **kwargs)
    low = torch.get_autocast_dtype("cuda")
    if not kinds <= {torch.float32, low}:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    widest = torch.float32 if torch.float32 in kinds else low

    def cast(value: Any) -> Any:
        here = isinstance(value, torch.Tensor) and value.is_floating_point() and read(value) > 0
        return value.to(widest) if here and value.dtype is not widest else value

    out = func(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})
    # The CPU's own autocast raises some of them to float32.
    return cast(out)


def _plainly(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function on CPU tensors, which CUDA's autocast leaves alone."""
    torch.set_autocast_enabled("cpu", False)
    try:
        return func(*args, **kwargs)
    finally:
        torch.set_autocast_enabled("cpu", True)
