"""Tensors that leave through DLPack, or for another process: their device goes with them."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch

from . import moves, tags
from .patching import Patches
from .tags import read, write

_CUDA = 2  # kDLCUDA
_exported: dict[int, tuple[Any, int]] = {}
_AT_ONCE = 64


def install(patches: Patches) -> None:
    patches.wrap(torch.Tensor, "__dlpack_device__", _dlpack_device)
    patches.wrap(torch.Tensor, "__dlpack__", _dlpack)
    for owner in (torch, torch.utils.dlpack):
        patches.wrap(owner, "to_dlpack", _exporting)
        patches.wrap(owner, "from_dlpack", _importing)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        patches.wrap(numpy, "from_dlpack", _refusing)
    storage: Any = torch.UntypedStorage
    for name, said in (("_share_fd_cpu_", "_share_fd_"), ("_share_filename_cpu_", "_share_filename_")):
        patches.wrap(storage, name, partial(_cpu_only, said=said))
    patches.wrap(storage, "is_shared", _is_shared)
    _send_devices(patches)
    patches.undo_with(_exported.clear)


def _dlpack_device(original: Any) -> Any:
    def __dlpack_device__(self: torch.Tensor) -> Any:
        tag = read(self)
        return (_CUDA, tag - 1) if tag > 0 else original(self)

    return __dlpack_device__


def _dlpack(original: Any) -> Any:
    def __dlpack__(self: torch.Tensor, **options: Any) -> Any:
        place = options.get("dl_device")
        if place is not None and place[0] == _CUDA:
            options["dl_device"] = None
        capsule = original(self, **{k: v for k, v in options.items() if k != "stream" or read(self) <= 0})
        return _remember(capsule, read(self))

    return __dlpack__


def _exporting(original: Any) -> Any:
    def to_dlpack(tensor: torch.Tensor) -> Any:
        return _remember(original(tensor), read(tensor))

    return to_dlpack


def _remember(capsule: Any, tag: int) -> Any:
    """A capsule takes no attribute. It is kept until it was taken, or for as long as few others follow."""
    if tag > 0:
        while len(_exported) >= _AT_ONCE:
            del _exported[next(iter(_exported))]
        _exported[id(capsule)] = capsule, tag
    return capsule


def _importing(original: Any) -> Any:
    def from_dlpack(source: Any, *args: Any, **options: Any) -> torch.Tensor:
        if isinstance(source, torch.Tensor) and read(source) > 0:
            # Without the stand-in for the device, which C++ has no CUDA for.
            device = options.pop("device", None)
            capsule = source.__dlpack__()
            made: torch.Tensor = original(capsule)
            write(made, _exported.pop(id(capsule))[1])
            made = made.clone() if options.get("copy") else made
            return made if device is None else moves.to(made, device)
        made = original(source, *args, **options)
        _, tag = _exported.pop(id(source), (None, max(0, read(made))))
        write(made, tag)
        return made

    return from_dlpack


def _refusing(original: Any) -> Any:
    """NumPy takes memory of the CPU only."""

    def from_dlpack(source: Any, *args: Any, **options: Any) -> Any:
        if isinstance(source, torch.Tensor) and read(source) > 0:
            raise RuntimeError("Unsupported device in DLTensor.")
        return original(source, *args, **options)

    return from_dlpack


def _cpu_only(original: Any, said: str) -> Any:
    """StorageSharing.cpp."""

    def share(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._whydevice > 0:
            raise RuntimeError(f"{said}: only available on CPU")
        return original(self, *args, **kwargs)

    return share


def _is_shared(original: Any) -> Any:
    """Memory of a GPU counts as shared."""

    def is_shared(self: Any) -> bool:
        return self._whydevice > 0 or bool(original(self))

    return is_shared


def _send_devices(patches: Patches) -> None:
    """A tensor on a simulated GPU is sent as one on the CPU, and tagged where it arrives."""
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    assert reductions is not None  # importing it registers how tensors are sent
    reducers: Any = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    before = dict(reducers)
    patches.undo_with(lambda: (reducers.clear(), reducers.update(before)))
    for kind, storage_of in _SENT:
        if kind in reducers:
            reducers[kind] = _reducing(reducers[kind], storage_of)


def _reducing(original: Any, storage_of: Any) -> Any:
    def reduce(value: Any) -> Any:
        try:
            storage = storage_of(value)
            tag = storage._whydevice
        except (RuntimeError, NotImplementedError):
            return original(value)
        if tag <= 0:
            return original(value)
        storage._whydevice = 0
        try:
            function, args = original(value)
        finally:
            storage._whydevice = tag
        return _arrived, (tag, function, args)

    return reduce


def _arrived(tag: int, function: Any, args: Any) -> Any:
    """In the process that receives: the tensor or storage, on its device when that process is simulated too."""
    made = function(*args)
    storage: Any = made if isinstance(made, torch.UntypedStorage) else tags.storage_of(made)
    if hasattr(torch.UntypedStorage, "_whydevice"):
        storage._whydevice = tag
    return made


_SENT: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, tags.storage_of),
    (torch.nn.Parameter, tags.storage_of),
    (torch.UntypedStorage, lambda storage: storage),
)
