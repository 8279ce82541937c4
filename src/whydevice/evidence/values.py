"""What can be read off a value without running any of its code, and without a torch operation.

`isinstance` asks an object's `__class__`, `getattr` its `__getattr__`: both run code of the user's. Here types are
compared with `type()`, attributes read from `__dict__`, and tensor metadata through PyTorch's own C descriptors.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from .passive import bases, class_entries, class_module, exactly, find_key, first_entries
from .passive import class_attribute as class_attribute
from .passive import class_name as class_name
from .passive import instance_dict as instance_dict
from .passive import is_a as is_a
from .passive import is_class as is_class
from .passive import lookup as lookup
from .passive import named as named
from .passive import type_name as type_name

MOST_ITEMS = 200  # of one container; a batch is smaller, a million-item list is not read to the end
MOST_MODULES = 20_000

_MISSING = object()


def torch() -> Any:
    """The torch that the program has imported; an explanation never imports it anew."""
    return sys.modules.get("torch")


def is_tensor(value: object) -> bool:
    t = torch()
    return t is not None and issubclass(type(value), t.Tensor)


def is_module(value: object) -> bool:
    t = torch()
    return t is not None and issubclass(type(value), t.nn.Module)


def is_parameter(value: object) -> bool:
    t = torch()
    return t is not None and issubclass(type(value), t.nn.Parameter)


def is_device(value: object) -> bool:
    t = torch()
    # Under simulation something stands for the type, and says for which.
    return t is not None and type(value) is getattr(t.device, "__wrapped__", t.device)


def attribute(value: object, name: str) -> Any:
    """`value.name` where reading it runs no code of the user's; raises LookupError where it would or is absent."""
    kind = type(value)
    own = instance_dict(value)
    if is_module(value):
        for table in ("_parameters", "_buffers", "_modules"):
            found = lookup(lookup(own, table), name, _MISSING)
            if found is not _MISSING:
                return found
    held = lookup(own, name, _MISSING)
    if kind is types.ModuleType:
        if held is _MISSING:
            raise LookupError(name)
        return held
    if is_tensor(value):
        return _tensor_attribute(value, name, held)
    if issubclass(kind, type):
        return class_attribute(value, name)  # type: ignore[arg-type]
    defined = class_attribute(kind, name)
    if held is not _MISSING:
        if _decides(defined):
            raise LookupError(name)
        return held
    if defined is not None:
        return _bound(value, kind, name, defined)
    # A data holder such as BatchEncoding keeps its items in `data` and serves them by __getattr__.
    served = lookup(lookup(own, "data"), name, _MISSING)
    if served is _MISSING:
        raise LookupError(name)
    return served


def _decides(defined: object) -> bool:
    """Whether a class's entry, not the instance's own, answers for an attribute: a data descriptor."""
    return defined is not None and class_attribute(type(defined), "__set__") is not None


def _bound(value: object, kind: type, name: str, defined: Any) -> Any:
    """What a class's entry gives for an instance, if Python's own descriptors give it."""
    if type(defined) is types.MemberDescriptorType:  # a slot
        try:
            return defined.__get__(value)
        except AttributeError:
            raise LookupError(name) from None
    if type(defined) is types.FunctionType:
        return types.MethodType(defined, value)
    if type(defined) is staticmethod:
        return defined.__func__
    if type(defined) is classmethod:
        return types.MethodType(defined.__func__, kind)
    if issubclass(kind, functools.partial) and name in ("func", "args", "keywords"):
        return functools.partial.__dict__[name].__get__(value)
    if type(defined) is collections._tuplegetter and issubclass(kind, tuple):  # type: ignore[attr-defined]
        return defined.__get__(value)
    if class_attribute(type(defined), "__get__") is None:
        return defined
    raise LookupError(name)


def _tensor_attribute(value: object, name: str, held: Any) -> Any:
    if held is not _MISSING:
        return held
    if name == "grad":
        t = torch()
        with t._C.DisableTorchFunction():
            return t._C.TensorBase.grad.__get__(value)
    if name == "data":
        return value
    if name == "device":
        return DeviceText(device_of(value) or "cpu")
    raise LookupError(name)


def field_names(cls: type) -> list[str]:
    """The fields of a namedtuple or dataclass in the order in which its constructor takes them."""
    fields = class_attribute(cls, "_fields")
    if type(fields) is tuple:
        return [field for field in fields if type(field) is str]
    return [name for name, _ in named(class_attribute(cls, "__dataclass_fields__"))]


class DeviceText(str):
    """A device that was read from a tensor, as text."""

    __slots__ = ()


def item(value: Any, key: Any) -> Any:
    """`value[key]` for the plain containers; raises LookupError for any other."""
    kind: type = type(value)
    for base in (list, tuple):
        if issubclass(kind, base) and class_attribute(kind, "__getitem__") is base.__dict__["__getitem__"]:
            if type(key) is int:
                return base.__getitem__(value, key)
            raise LookupError(key)
    plain = exactly(key, str, int, bool, float) or key is None
    if issubclass(kind, dict):
        if plain or is_tensor(key):
            return find_key(value, key)
        raise LookupError(key)
    own = instance_dict(value)
    if is_module(value):
        children = named(lookup(own, "_modules", {}))
        if type(key) is int and -len(children) <= key < len(children):
            return children[key][1]
        for table in ("_modules", "_parameters"):
            found = lookup(lookup(own, table), str(key), _MISSING) if plain else _MISSING
            if found is not _MISSING:
                return found
        raise LookupError(key)
    data = lookup(own, "data")
    if issubclass(type(data), dict):  # UserDict and BatchEncoding
        return item(data, key)
    raise LookupError(key)


def items(value: object) -> Iterator[tuple[object, Any]]:
    """The (key, item) pairs of a plain container or data holder, at most `MOST_ITEMS` of them."""
    kind = type(value)
    if issubclass(kind, dict):
        yield from first_entries(value, MOST_ITEMS)
    elif issubclass(kind, list):
        yield from enumerate(list.__getitem__(value, slice(MOST_ITEMS)))  # type: ignore[call-overload]
    elif issubclass(kind, tuple):
        yield from enumerate(tuple.__getitem__(value, slice(MOST_ITEMS)))  # type: ignore[call-overload]
    else:
        data = lookup(instance_dict(value), "data")
        if issubclass(type(data), dict):
            yield from first_entries(data, MOST_ITEMS)


def is_container(value: object) -> bool:
    kind = type(value)
    if issubclass(kind, (dict, list, tuple)):
        return True
    return issubclass(type(lookup(instance_dict(value), "data")), dict)


def device_of(value: object) -> str | None:
    """The device of a tensor as PyTorch prints it, simulated or real; None when it has none."""
    if _answers_itself(value):
        return _device_by_keys(value)
    simulate = sys.modules.get("whydevice.simulate")
    if simulate is not None:
        found: str | None = simulate.device_of(value)
        if found is not None:
            return found
    t = torch()
    try:
        with t._C.DisableTorchFunction():
            return str(t._C.TensorBase.device.__get__(value))
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def _answers_itself(value: object) -> bool:
    """Whether a tensor's own `__torch_dispatch__` may be what its `.device` and `.shape` ask.

    With `dispatch_device=True` the C descriptors call it. That a subclass was made so cannot be seen, so each that
    defines one counts; torch's own (FakeTensor, DTensor) are no code of the user's.
    """
    t = torch()
    kind = type(value)
    if kind is t.Tensor or kind is t.nn.Parameter or not issubclass(kind, t.Tensor):
        return False
    for base in bases(kind):
        if base is t.Tensor:
            return False
        if lookup(class_entries(base), "__torch_dispatch__") is not None:
            return class_module(base).partition(".")[0] != "torch"
    return False


def _device_by_keys(value: object) -> str | None:
    """What the tags of the dispatcher say of a tensor's device; None where they leave the index open."""
    t = torch()
    with t._C.DisableTorchFunction():
        try:
            tag = getattr(t._C.TensorBase.untyped_storage(value), "_whydevice", 0)
        except (RuntimeError, NotImplementedError):
            tag = 0
        keys = t._C._dispatch_keys(value)
    if tag > 0:
        return f"cuda:{tag - 1}"
    key = t._C.DispatchKey
    if keys.has(key.CUDA):
        count = getattr(t._C, "_cuda_getDeviceCount", None)
        return "cuda:0" if count is None or count() == 1 else None
    return "cpu" if keys.has(key.CPU) else "meta" if keys.has(key.Meta) else None


def shape_of(value: object) -> tuple[int, ...] | None:
    t = torch()
    if _answers_itself(value):
        return None
    try:
        with t._C.DisableTorchFunction():
            return tuple(int(n) for n in t._C.TensorBase.shape.__get__(value))
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return None


def dtype_of(value: object) -> str | None:
    t = torch()
    try:
        with t._C.DisableTorchFunction():
            return str(t._C.TensorBase.dtype.__get__(value)).removeprefix("torch.")
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def is_leaf(value: object) -> bool:
    """Whether autograd made the tensor from others (False) or not."""
    t = torch()
    with t._C.DisableTorchFunction():
        return t._C.TensorBase.grad_fn.__get__(value) is None


def storage_key(value: object) -> int | None:
    """What two views of one memory have in common: the address of the storage's implementation."""
    t = torch()
    try:
        with t._C.DisableTorchFunction():
            return int(t._C.TensorBase.untyped_storage(value)._cdata)
    except (RuntimeError, TypeError, NotImplementedError, AttributeError):
        return None


def describe(value: object) -> str:
    """A few words for the table: `float32[32, 784]`, `MLP, 4 parameters`."""
    if is_tensor(value):
        shape = shape_of(value)
        inside = ", ".join(map(str, shape)) if shape is not None else "?"
        return f"{dtype_of(value)}[{inside}]"
    if is_module(value):
        kinds = collections.Counter(kind for _, _, kind in module_tensors(value))
        counted = [
            f"{kinds[k]} {k}{'' if kinds[k] == 1 else 's'}" for k in ("parameter", "buffer") if kinds[k]
        ]
        return ", ".join([type_name(value), *counted])
    return type_name(value)


def module_tensors(module: object) -> Iterator[tuple[str, Any, str]]:
    """(dotted name, tensor, `parameter` or `buffer`) of a module tree, as `.to()` would reach them."""
    for path, sub in submodules(module):
        own = instance_dict(sub)
        for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            for name, tensor in named(lookup(own, table, {})):
                if tensor is not None and is_tensor(tensor):
                    yield f"{path}.{name}" if path else name, tensor, kind


def submodules(module: object) -> Iterator[tuple[str, Any]]:
    """(dotted path, module) of the tree, each module once, the root with an empty path."""
    seen: set[int] = set()
    queue: collections.deque[tuple[str, Any]] = collections.deque([("", module)])
    while queue and len(seen) < MOST_MODULES:
        path, here = queue.popleft()
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield path, here
        for name, child in named(lookup(instance_dict(here), "_modules", {})):
            if child is not None and is_module(child):
                queue.append((f"{path}.{name}" if path else name, child))


def module_devices(module: object) -> dict[str, int]:
    """How many parameters and buffers of a module tree are on each device."""
    count: collections.Counter[str] = collections.Counter()
    for _, tensor, _ in module_tensors(module):
        count[device_of(tensor) or "?"] += 1
    return dict(count)


def module_device(module: object) -> str | None:
    """The one device that all parameters and buffers of a module are on; None if none or several."""
    devices = module_devices(module)
    return next(iter(devices)) if len(devices) == 1 else None
