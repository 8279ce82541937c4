"""The simulated device of a tensor: a small number kept on its storage.

0 is the CPU, n + 1 is cuda:n, and WILD marks a tensor that C++ made inside an operator without saying
where: it takes the device of what it first meets. The number is an attribute of the storage's Python
object, which PyTorch keeps alive as long as the storage itself (PyObject preservation, torch 2.1): views,
`.data =`, parameters and optimizer state follow by themselves, nothing has to be swept, and an address that
is used again starts afresh. A tensor without an accessible storage (sparse, nested) carries the number
itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

WILD = -1
CPU = torch.device("cpu")

storage_of = torch._C.TensorBase.untyped_storage
real_device: Any = torch._C.TensorBase.device.__get__
no_torch_function = torch._C.DisableTorchFunction

_STRINGS: dict[int, str] = {WILD: "cpu", 0: "cpu"}
_DEVICES: dict[int, torch.device] = {WILD: CPU, 0: CPU}


def string(tag: int) -> str:
    """The device as PyTorch prints it, `cuda:0`."""
    if tag not in _STRINGS:
        _STRINGS[tag] = f"cuda:{tag - 1}"
    return _STRINGS[tag]


def device(tag: int) -> torch.device:
    """The device as PyTorch hands it out."""
    if tag not in _DEVICES:
        _DEVICES[tag] = torch.device("cuda", tag - 1)
    return _DEVICES[tag]


def read(tensor: Any) -> int:
    """The tag of a tensor. Needs a running simulation, which gives storages and tensors the default 0."""
    try:
        return storage_of(tensor)._whydevice  # type: ignore[no-any-return,attr-defined]
    except (RuntimeError, NotImplementedError):
        return _read_without_storage(tensor)


def write(tensor: Any, tag: int) -> None:
    """Say that this tensor, with all that shares its storage, is on the device of `tag`."""
    try:
        storage_of(tensor)._whydevice = tag  # type: ignore[attr-defined]
    except (RuntimeError, NotImplementedError):
        _write_without_storage(tensor, tag)


def _read_without_storage(tensor: Any) -> int:
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        return read(functorch.get_unwrapped(tensor))
    return tensor.__dict__.get("_whydevice", 0)  # type: ignore[no-any-return]


def _write_without_storage(tensor: Any, tag: int) -> None:
    """Also to the parts of a sparse tensor, which have storages and can be asked for."""
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        write(functorch.get_unwrapped(tensor), tag)
        return
    tensor._whydevice = tag
    parts = _PARTS.get(tensor.layout)
    if parts:
        with _disable_current_modes():
            for part in parts:
                write(getattr(torch._C.TensorBase, part)(tensor), tag)


_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def on_gpu(tensor: Any) -> int:
    """The tag if it is a GPU's, also where a wrapper subclass bears the GPU itself; else 0."""
    tag = read(tensor)
    if tag <= 0 and type(tensor) is not torch.Tensor and real_device(tensor).type == "cuda":
        return (real_device(tensor).index or 0) + 1
    return max(tag, 0)


def name(tensor: Any, tag: int) -> str:
    """The device of a tensor in an error text: its tag, or its real device where that is neither CPU nor simulated."""
    return string(tag) if tag > 0 else str(real_device(tensor))


def plain_device_of(tensor: Any) -> str | None:
    """The device as a string, from the storage's tag alone: no operator, no mode, no `__torch_function__`
    runs.

    Right outside the simulation too, while the storage lives. None for what has neither storage nor tag.
    """
    with no_torch_function():
        if not issubclass(type(tensor), torch._C.TensorBase):  # isinstance would ask its __class__
            return None
        try:
            tag: Any = getattr(storage_of(tensor), "_whydevice", 0)
        except (RuntimeError, NotImplementedError):
            try:
                tag = object.__getattribute__(tensor, "__dict__").get("_whydevice")
            except AttributeError:
                tag = None
            if tag is None:
                return None
        return name(tensor, tag)
