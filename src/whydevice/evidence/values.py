"""What can be read off a value without running any of its code, and without a torch operation.

`isinstance` asks an object's `__class__`, `getattr` its `__getattr__`: both run code of the user's. Here types are
compared with `type()`, attributes read from `__dict__`, and tensor metadata through PyTorch's own C descriptors.
"""

from __future__ import annotations

import collections
import dis
import functools
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from .bounds import kept, visit
from .passive import class_attribute as class_attribute
from .passive import class_name as class_name
from .passive import exactly, find_key, first_entries
from .passive import instance_dict as instance_dict
from .passive import is_a as is_a
from .passive import is_class as is_class
from .passive import lookup as lookup
from .passive import named as named
from .passive import type_name as type_name
from .tensors import device_of as device_of
from .tensors import dtype_of as dtype_of
from .tensors import is_device as is_device
from .tensors import is_leaf as is_leaf
from .tensors import is_module as is_module
from .tensors import is_parameter as is_parameter
from .tensors import is_tensor as is_tensor
from .tensors import shape_of as shape_of
from .tensors import storage_key as storage_key
from .tensors import torch as torch
from .trees import MOST_TENSORS, tree

MOST_ITEMS = 200  # of one container; a batch is smaller, a million-item list is not read to the end

_MISSING = object()


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
        return _of_class(value, name)  # type: ignore[arg-type]
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
    if type(defined) is property and type(defined.fget) is types.FunctionType:
        found = value
        for attr in kept("getter", defined.fget.__code__, _read_by):
            if type(class_attribute(type(found), attr)) is property:
                raise LookupError(name)  # one that reads another may come round to itself
            found = attribute(found, attr)
        if found is not value:
            return found
    raise LookupError(name)


_QUIET = frozenset(("RESUME", "CACHE", "PRECALL", "NOP", "COPY_FREE_VARS"))


def _read_by(code: types.CodeType) -> list[str]:
    """The attributes that a getter such as `return self._model` reads, one of the other; empty for what does more."""
    steps = [step for step in islice(dis.get_instructions(code), 12) if step.opname not in _QUIET]
    if len(steps) < 3 or code.co_argcount != 1 or steps[-1].opname != "RETURN_VALUE":
        return []
    if not steps[0].opname.startswith("LOAD_FAST") or steps[0].argval != code.co_varnames[0]:
        return []
    reads = steps[1:-1]
    return [step.argval for step in reads] if all(step.opname == "LOAD_ATTR" for step in reads) else []


def _of_class(cls: type, name: str) -> Any:
    """`Class.name`: a class method is bound to the class, a static method is its function."""
    found = class_attribute(cls, name)
    if type(found) is classmethod:
        return types.MethodType(found.__func__, cls)
    return found.__func__ if type(found) is staticmethod else found


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
    for pair in _first(value):
        if not visit():
            return
        yield pair


def _first(value: object) -> Iterable[tuple[object, Any]]:
    kind = type(value)
    if issubclass(kind, dict):
        return first_entries(value, MOST_ITEMS)
    if issubclass(kind, list):
        return enumerate(list.__getitem__(value, slice(MOST_ITEMS)))  # type: ignore[call-overload]
    if issubclass(kind, tuple):
        return enumerate(tuple.__getitem__(value, slice(MOST_ITEMS)))  # type: ignore[call-overload]
    data = lookup(instance_dict(value), "data")
    return first_entries(data, MOST_ITEMS) if issubclass(type(data), dict) else ()


def size(value: object) -> int:
    """The number of items of a plain container; 0 of anything else."""
    for kind in (dict, list, tuple):
        if issubclass(type(value), kind):
            return kind.__len__(value)  # type: ignore[arg-type]
    return 0


def is_container(value: object) -> bool:
    kind = type(value)
    if issubclass(kind, (dict, list, tuple)):
        return True
    return issubclass(type(lookup(instance_dict(value), "data")), dict)


def describe(value: object) -> str:
    """A few words for the table: `float32[32, 784]`, `MLP, 4 parameters`."""
    if is_tensor(value):
        shape = shape_of(value)
        inside = ", ".join(map(str, shape)) if shape is not None else "?"
        return f"{dtype_of(value)}[{inside}]"
    if is_module(value):
        found = module_tensors(value)
        kinds = collections.Counter(kind for _, _, kind in found)
        more = "over " if len(found) >= MOST_TENSORS else ""
        counted = [
            f"{more}{kinds[k]} {k}{'' if kinds[k] == 1 else 's'}" for k in ("parameter", "buffer") if kinds[k]
        ]
        return ", ".join([type_name(value), *counted])
    return type_name(value)


def module_tensors(module: object) -> list[tuple[str, Any, str]]:
    """(dotted name, tensor, `parameter` or `buffer`) of a module tree, as `.to()` would reach them.

    At most `MOST_TENSORS`.
    """
    return kept("tensors", module, _module_tensors)


def _module_tensors(module: object) -> list[tuple[str, Any, str]]:
    return [
        (f"{path}.{name}" if path else name, tensor, kind)
        for path, _, name, tensor, kind in registered(module)
    ]


def submodules(module: object) -> list[tuple[str, Any]]:
    """(dotted path, module) of the tree, each module once, the root with an empty path."""
    return tree(module).modules


def registered(module: object) -> list[tuple[str, Any, str, Any, str]]:
    """(path of the module, module, name, tensor, `parameter` or `buffer`) of a tree."""
    return tree(module).registered


def plain_state(module: object) -> list[tuple[str, Any, str, Any]]:
    """(path of the module, module, name, value) of what the modules of a tree hold besides their registered state."""
    return tree(module).plain


def module_devices(module: object) -> dict[str, int]:
    """How many parameters and buffers of a module tree are on each device."""
    return kept("devices", module, _module_devices)


def _module_devices(module: object) -> dict[str, int]:
    return dict(collections.Counter(registered_devices(module)))


def registered_devices(module: object) -> list[str]:
    """The device of each of `registered(module)`; `?` where it cannot be told."""
    return kept("registered devices", module, _registered_devices)


def _registered_devices(module: object) -> list[str]:
    return [device_of(tensor) or "?" for _, _, _, tensor, _ in registered(module)]


def module_device(module: object) -> str | None:
    """The one device that all parameters and buffers of a module are on; None if none or several."""
    devices = module_devices(module)
    return next(iter(devices)) if len(devices) == 1 else None
