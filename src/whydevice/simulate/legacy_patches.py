"""torch.cuda.FloatTensor and its like, and torch.set_default_tensor_type."""

from __future__ import annotations

from typing import Any

import torch

from . import moves
from .patching import Patches
from .special import LEGACY
from .tags import read, write


def install(patches: Patches) -> None:
    for dtype, kind in LEGACY.items():
        name = f"{kind}Tensor"
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, _make(name, dtype, gpu=True))
        if hasattr(torch, name):
            patches.set(torch, name, _make(name, dtype, gpu=False))
    patches.wrap(torch, "set_default_tensor_type", _default_type)


class _LegacyType(type):
    """`isinstance(x, torch.cuda.FloatTensor)`: a float32 tensor on a GPU; torch.FloatTensor: one that is not."""

    dtype: torch.dtype
    is_cuda: bool

    def __instancecheck__(cls, value: object) -> bool:
        if not isinstance(value, torch.Tensor) or value.dtype is not cls.dtype:
            return False
        return read(value) > 0 if cls.is_cuda else read(value) <= 0 and value.device.type == "cpu"


def _make(name: str, dtype: torch.dtype, gpu: bool) -> Any:
    host = getattr(torch, name, None)

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not gpu and host is not None:
            made: torch.Tensor = host(*args, **kwargs)
            write(made, max(read(made), 0))  # C++ does not say that it makes it on the CPU
            return made
        kwargs.pop("device", None)
        made = host(*args, **kwargs) if host is not None else torch.Tensor(*args, **kwargs).to(dtype)
        return moves.to(made, torch.device("cuda"))

    module = "torch.cuda" if gpu else "torch"
    space = {
        "__new__": __new__,
        "dtype": dtype,
        "is_cuda": gpu,
        "__module__": module,
        "_whydevice_name": f"{module}.{name}",
    }
    return _LegacyType(name, (), space)


def _default_type(original: Any) -> Any:
    """A CUDA type makes factories default to the GPU, in C++; here the default device does."""

    def set_default_tensor_type(kind: Any, /) -> None:
        name = kind if isinstance(kind, str) else getattr(kind, "_whydevice_name", "")
        if ".cuda." in name:
            dtype = {f"torch.cuda.{kind}Tensor": dtype for dtype, kind in LEGACY.items()}.get(name)
            if dtype is None:
                raise TypeError(f"invalid type object: {name}")
            torch.set_default_dtype(dtype)
            torch.set_default_device("cuda")
        else:
            torch.set_default_device(None)
            original(name or kind)

    return set_default_tensor_type
