"""Objects whose own code must never run while an error is explained.

Each specimen defines every special method there is a reason to call, and notes each call made while the battery is
armed. What a call then does is the behaviour: raise, exit, sleep, recurse or lie.
"""

from __future__ import annotations

import enum
import functools
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

calls: list[str] = []
_armed = False


@contextmanager
def armed() -> Iterator[list[str]]:
    """Note calls from here on; building the specimens calls some of their methods."""
    global _armed
    calls.clear()
    _armed = True
    try:
        yield calls
    finally:
        _armed = False


class Behaviour(enum.Enum):
    RAISE = "raises"
    EXIT = "exits"
    SLEEP = "sleeps"
    RECURSE = "recurses"
    LIE = "lies"


class OwnError(Exception):
    """What a raising specimen raises."""


METHODS = """
__repr__ __str__ __bytes__ __format__ __hash__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __bool__ __len__
__length_hint__ __iter__ __next__ __reversed__ __getitem__ __setitem__ __delitem__ __contains__ __missing__ __call__
__index__ __int__ __float__ __complex__ __neg__ __pos__ __invert__ __abs__ __add__ __radd__ __sub__ __mul__ __mod__
__and__ __or__ __matmul__ __enter__ __exit__ __fspath__ __dir__ __getattr__ __getattribute__ __setattr__ __delattr__
__copy__ __deepcopy__ __reduce__ __reduce_ex__ __sizeof__ __getstate__ __instancecheck__ __subclasscheck__
__truediv__ __rmul__ __iadd__ __imul__ __round__ __trunc__ __aiter__ __await__ __class_getitem__
__array__ __array_interface__ __cuda_array_interface__ __dlpack__ __rich__ __rich_repr__ _repr_html_ _repr_pretty_
""".split()
"""The special methods that a specimen defines."""

PLAIN_METHODS = """
keys values items get pop copy append index count startswith endswith partition split lower isidentifier join format
parameters named_parameters buffers named_buffers children named_children modules named_modules state_dict extra_repr
_get_name to cuda cpu size dim numel is_floating_point
""".split()
"""Ordinary methods that containers, text, modules and tensors have, and that a subclass may override."""

_LIES: dict[str, Any] = {
    "__repr__": "lie", "__str__": "cuda:7", "__bytes__": b"", "__format__": "lie", "__hash__": 1, "__eq__": True,
    "__ne__": False, "__bool__": True, "__len__": 10**9, "__length_hint__": 10**9, "__index__": 1, "__int__": 1,
    "__float__": 1.0, "__contains__": True, "__dir__": ["device"], "__sizeof__": 1, "__fspath__": "/nowhere",
    "__instancecheck__": True, "__subclasscheck__": True,
}  # fmt: skip


def _method(owner: str, name: str, behaviour: Behaviour, default: Any) -> Callable[..., Any]:
    """A method that answers as its base does until the battery is armed, then notes the call and misbehaves."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _armed:
            if name == "__call__" and args and default in (None, object.__call__):
                return args[0]  # as a transform does
            if default is None and name == "__getitem__":
                return torch.ones(3, 4)
            if default is None:
                raise AttributeError(name)
            return default(self, *args, **kwargs)
        calls.append(f"{owner}.{name}")
        if behaviour is Behaviour.RAISE:
            raise OwnError(name)
        if behaviour is Behaviour.EXIT:
            raise SystemExit(3)
        if behaviour is Behaviour.SLEEP:
            time.sleep(0.05)
        if behaviour is Behaviour.RECURSE and len(calls) < 50:
            return method(self, *args, **kwargs)
        if name in _LIES:
            return _LIES[name]
        if default is None:
            return torch.zeros(1)
        return default(self, *args, **kwargs)

    method.__name__ = name
    return method


def _names(owner: str, base: type, behaviour: Behaviour) -> dict[str, Any]:
    """The namespace of a class that overrides everything of `base`."""
    space: dict[str, Any] = {}
    for name in (*METHODS, *(n for n in PLAIN_METHODS if hasattr(base, n))):
        default = getattr(base, name, None)
        if default is not None or name in ("__getattr__", "__getitem__", "__iter__", "__len__", "__call__"):
            space[name] = _method(owner, name, behaviour, default)
    if base in (object, list, dict, tuple, str):
        for name in METHODS:
            space.setdefault(name, _method(owner, name, behaviour, getattr(base, name, None)))
    space["__class__"] = property(_method(owner, "__class__", behaviour, type))
    space["device"] = property(_method(owner, "device", behaviour, None))
    return space


class Descriptor:
    """An attribute of a class that computes its value: a data descriptor."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return _method("Descriptor", "__get__", self.behaviour, None)(self)

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError


def _metaclass(behaviour: Behaviour) -> type:
    """A metaclass that answers for its classes: their name, module, bases, dict, and what is an instance of them."""
    space: dict[str, Any] = {
        name: _method("Meta", name, behaviour, getattr(type, name, None))
        for name in METHODS
        if name not in ("__call__", "__setattr__", "__delattr__", "__dir__")
    }
    for name in ("__name__", "__module__", "__mro__", "__dict__", "__bases__"):
        slot = type.__dict__.get(name)
        default = (lambda cls, slot=slot: slot.__get__(cls)) if slot is not None else None
        space[name] = property(_method("Meta", name, behaviour, default))
    return type("Meta", (type,), space)


class _Function(torch.Tensor):
    """A tensor subclass in which every function of torch ends."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _armed:
            calls.append("Tensor.__torch_function__")
            raise OwnError("__torch_function__")
        return super().__torch_function__(func, types, args, kwargs or {})


class _Dispatch(torch.Tensor):
    """A wrapper subclass that answers for its own device and sizes."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            dtype=inner.dtype,
            device=inner.device,
            dispatch_device=True,
            dispatch_sizes_strides_policy="sizes",
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _armed:
            calls.append(f"Tensor.__torch_dispatch__ {func}")
            raise OwnError("__torch_dispatch__")
        if "device" in str(func):
            return torch.device("cpu")
        if "size" in str(func):
            return torch.Size([2])
        raise NotImplementedError(str(func))


def text(value: str, behaviour: Behaviour) -> Any:
    """A `str` of a subclass that overrides all of it."""
    space = _names("str", str, behaviour)
    return type("Text", (str,), space)(value)


def specimens(behaviour: Behaviour) -> dict[str, Any]:
    """One hostile object of each kind, by a short name."""
    meta = _metaclass(behaviour)
    plain = type("Plain", (), {**_names("object", object, behaviour), "weight": Descriptor(behaviour)})
    found: dict[str, Any] = {"plain": plain()}
    found["of_meta"] = meta("OfMeta", (), {})()
    found["meta_class"] = meta("MetaClass", (), {})
    found["dict_property"] = type(
        "DictProperty", (), {"__dict__": property(_method("object", "__dict__", behaviour, None))}
    )()
    slots = type("Slots", (), {"__slots__": ("x",), **_names("object", object, behaviour)})
    found["slots"] = slots()
    for base in (list, dict, tuple, str, set, float):
        found[f"a_{base.__name__}"] = type(
            f"Own{base.__name__}", (base,), _names(base.__name__, base, behaviour)
        )()
    list.append(found["a_list"], torch.ones(2, device="meta"))
    dict.__setitem__(found["a_dict"], "x", torch.ones(2, device="meta"))
    lazy = type("Lazy", (types.ModuleType,), _names("module", types.ModuleType, behaviour))
    found["lazy"] = lazy("lazy")
    sys.modules["lazy_of_the_battery"] = found["lazy"]
    found["function_tensor"] = torch.ones(2).as_subclass(_Function)
    found["dispatch_tensor"] = _Dispatch(torch.ones(2))
    overridden = _names("Module", torch.nn.Module, behaviour)
    for name in ("__setattr__", "__delattr__", "__call__"):
        overridden.pop(name)
    found["module"] = type("OwnModule", (torch.nn.Module,), overridden)()
    found["partial"] = type(
        "OwnPartial", (functools.partial,), _names("partial", functools.partial, behaviour)
    )(print)
    key = type("Key", (), _names("key", object, behaviour))
    found["keyed"] = {key(): torch.ones(2, device="meta"), "y": 1}
    found["holder"] = types.SimpleNamespace(inner=found["plain"], also=[found["of_meta"], found["a_dict"]])
    dict.__setitem__(found["holder"].__dict__, text("weight", behaviour), 3)
    cycle: list[Any] = [found["plain"]]
    cycle.append(cycle)
    found["cycle"] = cycle
    return found
