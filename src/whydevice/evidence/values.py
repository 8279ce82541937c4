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
    return t is not None and type(value) is t.device


def instance_dict(value: object) -> dict[str, Any]:
    """The `__dict__` of an instance, read past any `__getattribute__`; empty when it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if type(found) is dict else {}


def class_attribute(cls: type, name: str) -> Any:
    """What the class or a base of it defines under this name (`None` if nothing), never bound."""
    for base in type.__getattribute__(cls, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get(name, _MISSING)
        if found is not _MISSING:
            return found
    return None


def attribute(value: object, name: str) -> Any:
    """`value.name` where reading it runs no code of the user's; raises LookupError where it would or is absent."""
    own = instance_dict(value)
    if is_module(value):
        for table in ("_parameters", "_buffers", "_modules"):
            entries = own.get(table)
            if isinstance(entries, dict) and name in entries:
                return entries[name]
    if isinstance(value, types.ModuleType) and type(value) is types.ModuleType:
        if name in own:
            return own[name]
        raise LookupError(name)
    if is_tensor(value):
        return _tensor_attribute(value, name, own)
    if isinstance(type(value), type) and issubclass(type(value), type):
        return class_attribute(value, name)  # type: ignore[arg-type]
    defined = class_attribute(type(value), name)
    if isinstance(defined, property | functools.cached_property) and name not in own:
        raise LookupError(name)
    if name in own:
        return own[name]
    if isinstance(defined, types.MemberDescriptorType):  # a slot
        try:
            return defined.__get__(value)
        except AttributeError:
            raise LookupError(name) from None
    if isinstance(defined, types.FunctionType):
        return types.MethodType(defined, value)
    if isinstance(defined, staticmethod):
        return defined.__func__
    if isinstance(defined, classmethod):
        return types.MethodType(defined.__func__, type(value))
    if issubclass(type(value), functools.partial) and name in ("func", "args", "keywords"):
        return getattr(functools.partial, name).__get__(value)
    if issubclass(type(value), tuple) and type(defined).__name__ in ("_tuplegetter",):
        return defined.__get__(value)
    # A data holder such as BatchEncoding keeps its items in `data` and serves them by __getattr__.
    held = own.get("data")
    if isinstance(held, dict) and name in held:
        return held[name]
    if defined is not None and not hasattr(type(defined), "__get__"):
        return defined
    raise LookupError(name)


def _tensor_attribute(value: object, name: str, own: dict[str, Any]) -> Any:
    if name in own:
        return own[name]
    if name == "grad":
        t = torch()
        with t._C.DisableTorchFunction():
            return t._C.TensorBase.grad.__get__(value)
    if name == "data":
        return value
    if name == "device":
        return DeviceText(device_of(value) or "cpu")
    raise LookupError(name)


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
    if issubclass(kind, dict):
        if type(key) in (str, int, bool, float) or is_tensor(key) or key is None:
            if dict.__contains__(value, key):
                return dict.__getitem__(value, key)
        raise LookupError(key)
    own = instance_dict(value)
    if is_module(value) and isinstance(own.get("_modules"), dict):
        entries = list(own["_modules"].items())
        if isinstance(key, int) and -len(entries) <= key < len(entries):
            return entries[key][1]
        if isinstance(key, str) and key in own["_modules"]:
            return own["_modules"][key]
        params = own.get("_parameters", {})
        if isinstance(key, int | str) and str(key) in params:
            return params[str(key)]
        raise LookupError(key)
    if isinstance(own.get("data"), dict):  # UserDict and BatchEncoding
        return item(own["data"], key)
    raise LookupError(key)


def items(value: object) -> Iterator[tuple[object, Any]]:
    """The (key, item) pairs of a plain container or data holder, at most `MOST_ITEMS` of them."""
    kind = type(value)
    pairs: Iterator[tuple[object, Any]]
    if issubclass(kind, dict):
        pairs = iter(list(dict.items(value)))  # type: ignore[arg-type]
    elif issubclass(kind, list):
        pairs = enumerate(list.__iter__(value))  # type: ignore[arg-type]
    elif issubclass(kind, tuple):
        pairs = enumerate(tuple.__iter__(value))  # type: ignore[arg-type]
    elif issubclass(kind, set | frozenset):
        pairs = iter(())
    elif isinstance(instance_dict(value).get("data"), dict):
        pairs = iter(list(instance_dict(value)["data"].items()))
    else:
        return
    for count, pair in enumerate(pairs):
        if count >= MOST_ITEMS:
            return
        yield pair


def is_container(value: object) -> bool:
    kind = type(value)
    return issubclass(kind, dict | list | tuple) or isinstance(instance_dict(value).get("data"), dict)


def device_of(value: object) -> str | None:
    """The device of a tensor as PyTorch prints it, simulated or real; None when it has none."""
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


def shape_of(value: object) -> tuple[int, ...] | None:
    t = torch()
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
        return ", ".join([type(value).__name__, *counted])
    return type(value).__name__


def module_tensors(module: object) -> Iterator[tuple[str, Any, str]]:
    """(dotted name, tensor, `parameter` or `buffer`) of a module tree, as `.to()` would reach them."""
    for path, sub in submodules(module):
        own = instance_dict(sub)
        for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            entries = own.get(table)
            if not isinstance(entries, dict):
                continue
            for name, tensor in list(entries.items()):
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
        children = instance_dict(here).get("_modules")
        if isinstance(children, dict):
            for name, child in list(children.items()):
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
