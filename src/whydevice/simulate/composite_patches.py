"""Device checks that PyTorch makes in composite C++ functions, before the dispatcher sees anything.

Each function of `CHECKS` gets the call's arguments and raises what C++ raises. The same check guards
torch's function and the method of Tensor. Sources: the strings of libtorch_cpu 2.13, and
aten/src/ATen/native (file named at each).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from . import errors, moves
from .patching import Patches
from .state import STATE
from .tags import WILD, read, write


def install(patches: Patches) -> None:
    for name, check in CHECKS.items():
        for owner in (torch, torch.Tensor, torch.functional):
            if name in vars(owner) or (owner is torch.Tensor and hasattr(owner, name)):
                original = getattr(owner, name)
                patches.set(owner, name, patches.stand_in(original, _guarded(original, check)))
    for name, check in LINALG.items():
        patches.wrap(torch.linalg, name, partial(_guarded, check=check))
    for name in ("batch_norm", "instance_norm"):
        patches.wrap(torch, name, lambda original: patches.stand_in(original, _choosing(original)))
    patches.wrap(
        torch.nn.functional, "one_hot", lambda original: patches.stand_in(original, _placing(original))
    )
    patches.wrap(torch, "ctc_loss", lambda original: patches.stand_in(original, _gathering(original)))


def _gathering(original: Any) -> Any:
    """LossCTC.cpp moves targets to the GPU "as a service for the user" and reads lengths on the CPU, wherever they are."""

    def ctc_loss(log_probs: Any, *args: Any, **kwargs: Any) -> Any:
        def near(value: Any) -> Any:
            return moves.to(value, log_probs.device) if isinstance(value, torch.Tensor) else value

        return original(log_probs, *map(near, args), **{name: near(value) for name, value in kwargs.items()})

    return ctc_loss


def _placing(original: Any) -> Any:
    """Onehot.cpp gives back `at::empty` for an index without elements, which no other operator sees: it is
    where the index is.
    """

    def one_hot(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        out = original(tensor, *args, **kwargs)
        if read(out) == WILD:
            write(out, read(tensor))
        return out

    return one_hot


def _same_device(prefix: str, first: str = "result") -> Callable[..., None]:
    """LinearAlgebraUtils.h, checkSameDevice: the output of a composite function of linear algebra."""

    def check(input: Any, *_: Any, out: Any = None, **__: Any) -> None:
        if _differ(out, input):
            one, two = (out, input) if first == "result" else (input, out)
            raise RuntimeError(
                f"{prefix}: Expected result and input tensors to be on the same device, but got "
                f"result on {one.device} and input on {two.device}"
            )

    return check


def _guarded(original: Any, check: Callable[..., None]) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return original(*args, **kwargs)

    return function


def _choosing(original: Any) -> Any:
    """Tell the check of native_batch_norm that it stands for the choice of a backend."""

    def normalise(*args: Any, **kwargs: Any) -> Any:
        before, STATE.thread.chooses_backend = STATE.thread.chooses_backend, True
        try:
            return original(*args, **kwargs)
        finally:
            STATE.thread.chooses_backend = before

    return normalise


def _differ(a: Any, b: Any) -> bool:
    """Whether two tensors are on different devices, one of them a GPU."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    one, two = read(a), read(b)
    return one != two and max(one, two) > 0 and min(one, two) >= 0


def _multi_dot(tensors: Any, *, out: Any = None, **_: Any) -> None:
    """LinearAlgebra.cpp."""
    for index, tensor in enumerate(tensors):
        if _differ(tensors[0], tensor):
            raise RuntimeError(
                f"multi_dot(): all tensors must be on the same device but tensor 0 is on {tensors[0].device} "
                f"and tensor {index} on {tensor.device}"
            )
    if _differ(out, tensors[0]):
        raise RuntimeError(
            f"multi_dot(): expected out tensor to be on device {tensors[0].device} but got {out.device}"
        )


def _tensordot(a: Any, b: Any, *_: Any, out: Any = None, **__: Any) -> None:
    """Linear.cpp, tensordot_out."""
    if _differ(out, a) or _differ(out, b):
        raise RuntimeError(
            f"tensordot: Expected the output and input tensors to be on the same device, but got the output "
            f"tensor on {out.device}, input tensor a on {a.device}, and input tensor b on {b.device}"
        )


def _quantile(input: Any, q: Any = None, *_: Any, out: Any = None, **__: Any) -> None:
    """Sorting.cpp, quantile_checks."""
    if _differ(input, q):
        raise RuntimeError("quantile() q tensor must be on the same device as the input tensor")
    if _differ(input, out):
        raise RuntimeError("quantile() out tensor must be on the same device as the input tensor")


def _gradient(input: Any, *_: Any, spacing: Any = None, **__: Any) -> None:
    """ReduceOps.cpp, pre_check_gradient."""
    for tensor in spacing if isinstance(spacing, (list, tuple)) else ():
        if _differ(input, tensor):
            raise RuntimeError(
                f"torch.gradient expected each tensor to be on the same device, but got devices "
                f"{input.device} "
                f"and {tensor.device}!"
            )


def _meshgrid(*tensors: Any, **_: Any) -> None:
    """TensorShape.cpp."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if any(_differ(tensors[0], tensor) for tensor in tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same device")


def _weight_norm(v: Any, g: Any, *_: Any) -> None:
    """WeightNorm.cpp."""
    if _differ(v, g):
        raise RuntimeError(
            f"weight_norm: expected v_in and g_in to be on the same device, but v_in is on {v.device} "
            f"and g_in is on {g.device}"
        )


def _grid_sampler(input: Any, grid: Any, *_: Any, **__: Any) -> None:
    """GridSamplerUtils.h, check_grid_sampler_common."""
    if _differ(input, grid):
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to be on same device, but input is on {input.device} "
            f"and grid is on {grid.device}"
        )


def _tensor_split(input: Any, sections: Any = None, *_: Any, **kwargs: Any) -> None:
    """TensorShape.cpp: the sections as a tensor are read on the CPU."""
    sections = kwargs.get("tensor_indices_or_sections", sections)
    if isinstance(sections, torch.Tensor) and read(sections) > 0:
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {sections.device}"
        )


def _searchsorted(boundaries: Any, *_: Any, **options: Any) -> None:
    """BucketizationUtils.h; the sorter is a keyword, which the generated wrapper does not compare."""
    sorter: Any = options.get("sorter")
    if sorter is not None and _differ(boundaries, sorter):
        raise RuntimeError(
            "torch.searchsorted(): sorter and boundary tensors should have same device type, but got "
            "sorter tensor "
            f"device type {sorter.device} and input value tensor device type {boundaries.device}"
        )


def _rms_norm(input: Any, shape: Any, weight: Any = None, *_: Any, **__: Any) -> None:
    """layer_norm.cpp: on the CPU it decomposes, on CUDA it is one kernel, _fused_rms_norm."""
    if _differ(input, weight):
        raise errors.wrapper("weight", str(weight.device), str(input.device), "wrapper_CUDA___fused_rms_norm")


def _window(name: str) -> Callable[..., None]:
    """SpectralOps.cpp."""

    def check(input: Any, *args: Any, **kwargs: Any) -> None:
        window: Any = kwargs.get("window", args[3] if len(args) > 3 else None)
        if _differ(input, window):
            raise RuntimeError(
                f"{name} input and window must be on the same device but got self on {input.device} "
                f"and window on {window.device}"
            )

    return check


LINALG: dict[str, Callable[..., None]] = {
    "multi_dot": _multi_dot,
    "matrix_rank": _same_device("torch.linalg.matrix_rank"),
    "cond": _same_device("linalg.cond"),
    "pinv": _same_device("linalg.pinv"),
    "norm": _same_device("linalg.norm", first="input"),
    "tensorinv": _same_device("tensorinv"),
    "tensorsolve": _same_device("tensorsolve"),
    "matrix_power": _same_device("matrix_power"),
}
CHECKS: dict[str, Callable[..., None]] = {
    "tensordot": _tensordot,
    "rms_norm": _rms_norm,
    "quantile": _quantile,
    "nanquantile": _quantile,
    "gradient": _gradient,
    "meshgrid": _meshgrid,
    "_weight_norm": _weight_norm,
    "grid_sampler": _grid_sampler,
    "tensor_split": _tensor_split,
    "searchsorted": _searchsorted,
    "stft": _window("stft"),
    "istft": _window("istft"),
}
