"""What a tensor and a storage answer about their device, put on torch.Tensor and torch.UntypedStorage."""

from __future__ import annotations

from typing import Any

import torch

from . import moves, tags
from .patching import Patches
from .special import LEGACY, legacy_type
from .tags import read, real_device, write

_base = torch._C.TensorBase
_real_grad: Any = _base.grad
_real_numpy = _base.numpy
_real_type = _base.type


class _Attribute(property):
    """A property that says, as C++'s own do, whose attribute it is and what it is called.

    Dynamo of torch 2.11 asks both of each attribute of torch.Tensor when it is imported, as the first optimizer does.
    """

    __objclass__ = _base

    def __init__(self, name: str, *functions: Any) -> None:
        super().__init__(*functions)
        self.__name__ = name


def install(patches: Patches) -> None:
    tensor: Any = torch.Tensor
    for name, getter in _GETTERS.items():
        patches.set(tensor, name, _Attribute(name, getter))
    patches.set(tensor, "grad", _Attribute("grad", _grad, _set_grad, _delete_grad))
    for name, method in _METHODS.items():
        patches.set(tensor, name, method)
    for name in ("new", "new_tensor"):
        patches.wrap(tensor, name, _following)
    for name in ("apply_", "map_", "map2_"):
        patches.wrap(tensor, name, _cpu_only)
    patches.set(tensor, "__new__", _new)
    storage: Any = torch.UntypedStorage
    patches.set(storage, "_whydevice", 0)
    patches.set(storage, "device", property(_storage_device))
    for name, method in _STORAGE_METHODS.items():
        patches.set(storage, name, method)


def _new(*args: Any, **kwargs: Any) -> torch.Tensor:
    """The legacy constructor, `torch.Tensor(2, 3)`: on the CPU, though C++ does not say so to its own `empty`.

    No named parameter: dynamo, when it is imported, compares signatures and lets only this one pass.
    """
    made: torch.Tensor = _base.__new__(*args, **kwargs)
    try:
        wild = read(made) == tags.WILD
    except (RuntimeError, TypeError):
        return made
    if wild:
        write(made, 0)
    return made


def _device(self: torch.Tensor) -> torch.device:
    tag = read(self)
    return tags.device(tag) if tag > 0 else real_device(self)


def _type_as(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return moves.to(self, other.device, other.dtype)


def _grad(self: torch.Tensor) -> torch.Tensor | None:
    """Autograd leaves a gradient where its input is; what C++ left elsewhere or nowhere is set right here."""
    grad: torch.Tensor | None = _real_grad.__get__(self)
    if grad is not None:
        mine, its = read(self), read(grad)
        if mine != its:
            if its == tags.WILD:
                write(grad, mine)
            elif mine != tags.WILD and real_device(self) == real_device(grad):
                with torch.no_grad():
                    grad = moves.move(grad, mine)
                _real_grad.__set__(self, grad)
    return grad


def _set_grad(self: torch.Tensor, grad: Any) -> None:
    """python_variable.cpp, THPVariable_set_grad: the gradient must be where the tensor is."""
    if isinstance(grad, torch.Tensor) and grad is not self:
        mine, its = self.device, grad.device
        if mine.type != its.type and "cuda" in (mine.type, its.type):
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{its.type}' to a tensor with device type "
                f"'{mine.type}'. Please ensure that the gradient and the tensor are on the same device"
            )
        if mine != its and mine.type == its.type:
            raise RuntimeError(
                f"attempting to assign a gradient located on device with index '{its.index}' to a tensor "
                f"located on "
                f"device with index '{mine.index}'. Please ensure that the gradient and the tensor are on "
                f"the same "
                "device"
            )
    _real_grad.__set__(self, grad)


def _delete_grad(self: torch.Tensor) -> None:
    _real_grad.__delete__(self)


def _get_device(self: torch.Tensor) -> int:
    tag = read(self)
    return tag - 1 if tag > 0 else _base.get_device(self)


def _numpy(self: torch.Tensor, *, force: bool = False) -> Any:
    tag = read(self)
    if tag > 0:
        if not force:
            raise TypeError(
                f"can't convert {tags.string(tag)} device type tensor to numpy. Use Tensor.cpu() to copy "
                f"the tensor "
                "to host memory first."
            )
        self = moves.cpu(self.detach())
    return _real_numpy(self, force=force)


def _type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Tensor.type: the name of the legacy type, or a conversion to one, its device included."""
    tag = read(self)
    if dtype is None:
        return legacy_type(self, tag) if tag > 0 else _real_type(self)
    name = dtype if isinstance(dtype, str) else getattr(dtype, "_whydevice_name", None)
    if name is None and isinstance(dtype, type):
        name = f"{dtype.__module__}.{dtype.__name__}"
    if name is None:
        return moves.to(self, dtype, non_blocking, **kwargs)
    place, _, kind = name.rpartition(".")
    wanted = {f"{known}Tensor": dtype for dtype, known in LEGACY.items()}.get(kind)
    if wanted is None:
        return _real_type(self, dtype, non_blocking)
    device = torch.device("cuda") if ".cuda" in f".{place}" else tags.CPU
    if device.type == "cuda" and tag > 0:
        device = tags.device(tag)
    return moves.to(self, device, wanted, non_blocking)


def _pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    tag = read(self)
    if tag > 0:
        raise RuntimeError(f"cannot pin '{legacy_type(self, tag)}' only dense CPU tensors can be pinned")
    if _is_pinned(self):
        return self
    pinned = self.clone()
    storage: Any = tags.storage_of(pinned)
    storage._whydevice_pinned = True
    return pinned


def _is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    return getattr(tags.storage_of(self), "_whydevice_pinned", False)


def _following(original: Any) -> Any:
    """`new` and `new_tensor` make their result where self is."""

    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        out = original(self, *args, **kwargs)
        wanted = self.device if device is None else device
        requires = out.requires_grad
        out = moves.to(out.detach(), wanted)
        return out.requires_grad_() if requires else out

    return method


def _cpu_only(original: Any) -> Any:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if read(self) > 0:
            raise TypeError(f"{original.__name__} is only implemented on CPU tensors")
        return original(self, *args, **kwargs)

    return method


def _interface(self: torch.Tensor) -> Any:
    if read(self) > 0:
        raise RuntimeError(
            "whydevice: __cuda_array_interface__ is not simulated: there is no GPU memory to point at"
        )
    found = legacy_type(self, 0)
    raise AttributeError(
        f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {found} "
        "If CUDA data is required use tensor.cuda() to copy tensor to device memory."
    )


def _storage_device(self: Any) -> torch.device:
    tag = self._whydevice
    return tags.device(tag) if tag > 0 else torch._C.StorageBase.device.__get__(self)  # type: ignore[attr-defined]


def _storage_clone(self: Any) -> Any:
    return moves.copy_storage(self, self._whydevice)


def _storage_cpu(self: Any) -> Any:
    return moves.storage_to(self, device="cpu")


def _storage_cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    return moves.storage_to(self, device="cuda" if device is None else device)


_GETTERS: dict[str, Any] = {
    "device": _device,
    "is_cuda": lambda self: tags.on_gpu(self) > 0,
    "is_cpu": lambda self: read(self) <= 0 and real_device(self).type == "cpu",
    "__cuda_array_interface__": _interface,
}
_METHODS: dict[str, Any] = {
    "to": moves.to,
    "cuda": moves.cuda,
    "cpu": moves.cpu,
    "get_device": _get_device,
    "numpy": _numpy,
    "type": _type,
    "type_as": _type_as,
    "pin_memory": _pin_memory,
    "is_pinned": _is_pinned,
    "record_stream": lambda self, stream: None,
}
_STORAGE_METHODS: dict[str, Any] = {
    "to": moves.storage_to,
    "cpu": _storage_cpu,
    "cuda": _storage_cuda,
    "clone": _storage_clone,
}
