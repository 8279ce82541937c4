"""More objects whose own code must never run: each is of a kind that answers for itself in its own way."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import enum
import functools
import itertools
import sys
import types
import weakref
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

import hostile
from hostile import Behaviour, _method, _names


def kinds(behaviour: Behaviour) -> dict[str, Any]:
    """One object of each kind, by a short name. None of them holds what a program here fails for."""
    plain = type("Referred", (), _names("object", object, behaviour))()
    found = {
        "referred": plain,  # kept alive for those that refer to it
        "proxy": weakref.proxy(plain),
        "bound": types.MethodType(len, plain),
        "a_slice": slice(plain, plain, plain),
    }
    return found | _records(behaviour) | _lazy(plain) | _arrays(plain, behaviour) | _torch(plain, behaviour)


def mocks() -> dict[str, mock.MagicMock]:
    """Stand-ins that make an attribute, and answer a call, for any that they are asked for."""
    return {
        "mock": mock.MagicMock(),
        "mock_module": mock.MagicMock(spec=nn.Module),
        "mock_tensor": mock.MagicMock(spec=torch.Tensor),
        "mock_import": mock.MagicMock(spec=types.ModuleType),
    }


def asked(stand_ins: dict[str, mock.MagicMock]) -> int:
    """How much the stand-ins were asked for."""
    return sum(len(each._mock_children) + len(each.mock_calls) for each in stand_ins.values())


def _noted(name: str, result: Any = None) -> Any:
    """A function that notes that it was called while the battery is armed."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if hostile._armed:
            hostile.calls.append(name)
        return result

    return function


def _records(behaviour: Behaviour) -> dict[str, Any]:
    """Enums, named tuples, dataclasses, and subclasses of the containers of `collections`."""

    class Member(enum.Enum):
        ONE = 1

        def __eq__(self, other: object) -> bool:
            return bool(_noted("Member.__eq__", True)())

        __hash__ = _noted("Member.__hash__", 1)

    class Pair(collections.namedtuple("Pair", "x y")):
        __slots__ = ()
        x = property(_method("Pair", "x", behaviour, None))
        device = property(_method("Pair", "device", behaviour, None))
        _fields = property(_method("Pair", "_fields", behaviour, None))  # type: ignore[assignment]

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        value: object

        def __getattr__(self, name: str) -> Any:
            _noted(f"Frozen.{name}")()
            raise AttributeError(name)

    class Fields:
        __dataclass_fields__ = property(_method("Fields", "__dataclass_fields__", behaviour, None))

    found: dict[str, Any] = {
        "enum": Member.ONE,
        "by_enum": {Member.ONE: 1},
        "pair": tuple.__new__(Pair, (1, 2)),
        "frozen": Frozen(1),
        "fields": Fields(),
    }
    for base in (
        collections.OrderedDict,
        collections.defaultdict,
        collections.UserDict,
        collections.ChainMap,
    ):
        made: Any = base()  # type: ignore[operator]
        kind = type(f"Own{base.__name__}", (base,), _names(base.__name__, base, behaviour))
        try:
            made.__class__ = kind
        except TypeError:
            made = kind()
        found[base.__name__] = made
    return found


def _lazy(plain: object) -> dict[str, Any]:
    """What computes when it is advanced, and modules that find their names when they are asked."""

    def generator() -> Any:
        _noted("generator")()
        yield 1

    async def asynchronous() -> Any:
        _noted("asynchronous")()
        yield 1

    lazy: Any = types.ModuleType("lazy_by_function")
    lazy.__getattr__ = _noted("lazy.__getattr__")
    sys.modules["lazy_by_function"] = lazy
    sys.modules["no_module_at_all"] = plain  # type: ignore[assignment]
    return {
        "lazy_by_function": lazy,
        "generator": generator(),
        "coroutine": types.coroutine(generator)(),
        "asynchronous": asynchronous(),
        "a_map": map(_noted("map"), [1, 2]),
        "a_filter": filter(_noted("filter"), [1, 2]),
        "a_zip": zip(generator(), generator(), strict=False),
        "a_chain": itertools.chain(generator()),
        "numbered": enumerate(generator()),
        "backwards": reversed([1, 2]),
        "cached": functools.lru_cache(_noted("cached")),
        "later": functools.cached_property(_noted("later")),
    }


def _arrays(plain: object, behaviour: Behaviour) -> dict[str, Any]:
    """Memory of C's (one address is no memory at all), and NumPy's arrays of objects."""

    class Structure(ctypes.Structure):
        _fields_ = (("pointer", ctypes.POINTER(ctypes.c_int)), ("count", ctypes.c_int))

    class Array(np.ndarray):
        device = property(_method("Array", "device", behaviour, None))
        shape = property(_method("Array", "shape", behaviour, None))  # type: ignore[assignment]
        dtype = property(_method("Array", "dtype", behaviour, None))  # type: ignore[assignment]
        __array_finalize__ = _noted("Array.__array_finalize__")

    objects = np.empty(2, dtype=object)
    objects[1] = [plain]
    return {
        "structure": Structure(),
        "wild_pointer": ctypes.cast(1, ctypes.POINTER(ctypes.c_int)),
        "c_array": (ctypes.c_int * 4)(),
        "null_object": ctypes.py_object(),
        "objects": objects,
        "own_array": np.ones(3).view(Array),
        "memory": memoryview(b"abc"),
    }


def _torch(plain: object, behaviour: Behaviour) -> dict[str, Any]:
    """Tensors and modules that answer for their own metadata, and modules whose insides are not what they should be."""

    class Tensor(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    class Parameter(nn.Parameter):
        pass

    for kind in (Tensor, Parameter):
        for name in ("device", "shape", "dtype", "data", "grad", "is_cuda", "layout"):
            setattr(kind, name, property(_method(kind.__name__, name, behaviour, None)))
        for name in ("dim", "numel", "size", "__len__", "__repr__", "storage", "untyped_storage", "data_ptr"):
            setattr(kind, name, _noted(f"{kind.__name__}.{name}", 1))
    tensor = torch.ones(3).as_subclass(Tensor)
    found: dict[str, Any] = {"own_tensor": tensor, "own_parameter": Parameter(torch.ones(3))}
    mapping = type("Mapping", (dict,), _names("dict", dict, behaviour))
    broken = {
        "of_mapping": ("_parameters", mapping()),
        "of_object": ("_modules", plain),
        "of_none": ("_buffers", None),
    }
    for name, (part, value) in broken.items():
        found[name] = nn.Module()
        found[name].__dict__[part] = value
    held = found["of_values"] = nn.Module()
    held.__dict__["_parameters"] = {"weight": plain, hostile.text("bias", behaviour): plain, 3: None}
    held.__dict__["_modules"] = {"0": mock.MagicMock(), "1": None}
    return found
