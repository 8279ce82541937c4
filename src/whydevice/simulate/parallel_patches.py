"""The C++ functions behind torch.cuda.comm and nn.DataParallel, which a build without CUDA lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import moves
from .patching import Patches
from .tags import read


def install(patches: Patches) -> None:
    for name, function in _FUNCTIONS.items():
        patches.set(torch._C, name, function)


def _scatter(
    tensor: Any, devices: Sequence[int], sizes: Any = None, dim: int = 0, streams: Any = None
) -> Any:
    """comm.cpp, scatter."""
    chunks = tensor.split(list(sizes), dim) if sizes is not None else tensor.chunk(len(devices), dim)
    return tuple(moves.to(c, torch.device("cuda", d)) for c, d in zip(chunks, devices, strict=False))


def _broadcast(tensor: Any, devices: Sequence[int]) -> Any:
    return tuple(moves.to(tensor, torch.device("cuda", device)) for device in devices)


def _broadcast_coalesced(tensors: Sequence[Any], devices: Sequence[int], buffer_size: int = 0) -> Any:
    """comm.cpp: every tensor has to be on the first device."""
    first = torch.device("cuda", devices[0])
    if any(t.device != first for t in tensors):
        raise RuntimeError("all tensors must be on devices[0]: " + str(devices[0]))
    copies = [list(tensors)]
    for device in devices[1:]:
        copies.append([moves.to(t, torch.device("cuda", device)) for t in tensors])
    return copies


def _gather(tensors: Sequence[Any], dim: int, destination: Any = None) -> Any:
    """comm.cpp, gather."""
    for index, tensor in enumerate(tensors):
        if read(tensor) <= 0:
            raise RuntimeError(
                f"Expected all input tensors to be CUDA tensors, but tensor at index {index} has device "
                f"'{tensor.device}'"
            )
    if destination is None:
        device = torch.device("cuda")
    elif isinstance(destination, int):
        device = torch.device("cpu") if destination < 0 else torch.device("cuda", destination)
    else:
        device = torch.device(destination)
    return torch.cat([moves.to(t, device) for t in tensors], dim)


def _broadcast_out(tensor: Any, outs: Sequence[Any]) -> Any:
    return tuple(out.copy_(tensor) for out in outs)


def _scatter_out(tensor: Any, outs: Sequence[Any], dim: int = 0, streams: Any = None) -> Any:
    parts = tensor.split([out.size(dim) for out in outs], dim)
    return tuple(out.copy_(part) for out, part in zip(outs, parts, strict=True))


def _gather_out(tensors: Sequence[Any], out: Any, dim: int = 0) -> Any:
    return out.copy_(_gather(tensors, dim, out.device))


_FUNCTIONS: dict[str, Any] = {
    "_scatter": _scatter,
    "_scatter_out": _scatter_out,
    "_broadcast": _broadcast,
    "_broadcast_out": _broadcast_out,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_gather": _gather,
    "_gather_out": _gather_out,
}
