"""Functions that make tensors and whose C++ cannot be given a CUDA device on a build without CUDA.

`torch.zeros(..., device="cuda")` and its like reach the dispatch mode by themselves; only a bare integer as
the device has to be spelled out for them. `torch.tensor` and its like read Python data, copy it in C++, and
are moved afterwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._device import DeviceContext, _device_constructors

from . import moves
from .devices import resolve
from .fake_patches import refuse
from .patching import Patches

_FROM_DATA = ("tensor", "as_tensor", "asarray", "scalar_tensor", "sparse_coo_tensor", "sparse_csr_tensor",
              "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "sparse_compressed_tensor")  # fmt: skip


def install(patches: Patches) -> None:
    constructors = [f.__name__ for f in _device_constructors()]
    for name in constructors:
        original = getattr(torch, name, None)
        if original is None or name in _FROM_DATA:
            continue
        patches.set(torch, name, patches.stand_in(original, _counted(original)))
    for name in _FROM_DATA:
        original = getattr(torch, name, None)
        if original is not None:
            patches.set(torch, name, patches.stand_in(original, _moved(original, name)))
    patches.wrap(torch._C._nn, "_parse_to", _parse_to)


def _counted(original: Any) -> Any:
    def factory(*args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = resolve(kwargs["device"])
        made = original(*args, **kwargs)
        if kwargs.get("requires_grad"):
            refuse(made)
        return made

    return factory


def default_device() -> torch.device | None:
    """What torch.set_default_device or `with torch.device(...)` asks for in this thread."""
    for depth in range(torch._C._len_torch_function_stack()):
        mode = torch._C._get_function_stack_at(depth)
        if isinstance(mode, DeviceContext):
            return mode.device
    return None


def _moved(original: Any, name: str) -> Any:
    keeps = name in ("as_tensor", "asarray")

    def factory(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        if device is None:
            device = default_device()
            if device is None and isinstance(data, torch.Tensor):
                device = data.device
        if device is None:
            return original(*args, **kwargs)
        device = resolve(device)
        if device.type not in ("cuda", "cpu"):
            return original(*args, device=device, **kwargs)
        if keeps and isinstance(data, torch.Tensor) and not kwargs.get("copy"):
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
            return moves.to(data, device) if dtype is None else moves.to(data, device, dtype)
        requires = kwargs.pop("requires_grad", False)
        out = original(*args, device=torch.device("cpu"), **kwargs)
        out = _place(out, device)
        return out.requires_grad_() if requires else out

    return factory


def _place(out: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Put a tensor that no one else holds yet on a device."""
    from .devices import tag_of
    from .tags import read, write

    tag = tag_of(device)
    if tag is not None and read(out) != tag:
        write(out, tag)
    return out


def _parse_to(original: Any) -> Any:
    """torch._C._nn._parse_to, which nn.Module.to asks: integers are GPUs, and another tensor's device is its tag's."""

    def parse(*args: Any, **kwargs: Any) -> Any:
        other = kwargs.get("tensor", args[0] if args else None)
        if isinstance(other, torch.Tensor):
            _, dtype, *rest = original(*args, **kwargs)
            return other.device, dtype, *rest
        if args and isinstance(args[0], int):
            args = (resolve(args[0]), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = resolve(kwargs["device"])
        return original(*args, **kwargs)

    return parse
