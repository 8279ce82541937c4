"""Questions to an object that none of its own code answers.

`isinstance` asks an object's `__class__`, `getattr` its `__getattribute__`, `type(x).__name__` the metaclass, a
lookup in a dict the `__eq__` and `__hash__` of its keys. All of that may be code of the user's. What is here goes
through the slots of C, past whatever a class defines.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from itertools import islice, repeat
from operator import is_
from typing import Any

from ..patterns import pattern

_NAME = type.__dict__["__name__"]
_MODULE = type.__dict__["__module__"]
_MRO = type.__dict__["__mro__"]
_DICT = type.__dict__["__dict__"]
_ABSENT = object()
OF_PYTHON = ("builtins", "types", "collections", "functools")
"""Modules whose objects are Python's own machinery, with no state of a user's in their `__dict__`."""
_FRAME_LOCALS = (lambda: type(sys._getframe().f_locals))()
"""What a function's `f_locals` is: since Python 3.13 a view of C's on its variables, before that a dict."""
_SCALARS = (str, int, bool, float, type(None))
_NO_SLOT = object()
_slots: dict[int, Any] = {}
"""By the id of a class: the descriptor that reads the `__dict__` of its instances."""
_named_by_strings: set[int] = set()
"""Ids of classes whose names are all plain strings: looking at torch's two hundred anew each time is slow."""


def is_a(value: object, *kinds: type) -> bool:
    """`isinstance`, by the true type alone."""
    return issubclass(type(value), kinds)


def exactly(value: object, *kinds: type) -> bool:
    """Whether the type is one of these. (`type(x) in kinds` would ask the `__eq__` of a metaclass.)"""
    kind = type(value)
    return any(kind is each for each in kinds)


def is_class(value: object) -> bool:
    return issubclass(type(value), type)


def class_name(cls: type) -> str:
    """`cls.__name__`, whatever a metaclass makes of it."""
    name = _NAME.__get__(cls)
    return name if type(name) is str else str.__str__(name)


def type_name(value: object) -> str:
    return class_name(type(value))


def class_module(cls: type) -> str:
    """The module that a class says it is defined in; empty when it says nothing usable."""
    try:
        module = _MODULE.__get__(cls)
    except AttributeError:
        return ""
    return module if type(module) is str else ""


def function_module(function: types.FunctionType | types.BuiltinFunctionType) -> str:
    """The module that a function was defined in; empty when something else was put there."""
    module: object = function.__module__
    return module if type(module) is str else ""


def plain_text(text: str) -> str:
    """The text that a `str` holds, past what a subclass (a path, as some libraries have them) makes of it."""
    return text if type(text) is str else str.__str__(text)


def code_file(code: types.CodeType) -> str:
    """The file that code says it was compiled from: whoever compiled it gave the name."""
    return plain_text(code.co_filename)


def code_name(code: types.CodeType) -> str:
    return plain_text(code.co_name)


def bases(cls: type) -> tuple[type, ...]:
    """The class and those it inherits from, in the order in which attributes are looked up."""
    found: tuple[type, ...] = _MRO.__get__(cls)
    return found


def class_attribute(cls: type, name: str) -> Any:
    """What the class or a base of it defines under this name (`None` if nothing), never bound."""
    for base in _MRO.__get__(cls):
        entries = _DICT.__get__(base)
        if id(base) in _named_by_strings:
            found = entries.get(name, _ABSENT)
        else:
            if only_strings(entries):
                _named_by_strings.add(id(base))
            found = lookup(entries, name, _ABSENT)
        if found is not _ABSENT:
            return found
    return None


def class_entries(cls: type) -> Any:
    """`cls.__dict__`, whatever a metaclass makes of it: for `lookup` and `named`."""
    return _DICT.__get__(cls)


def instance_dict(value: object) -> dict[str, Any]:
    """The `__dict__` of an instance, read past `__getattribute__` and past a property of that name; empty without one."""
    if type(value) is types.ModuleType:
        return types.ModuleType.__dict__["__dict__"].__get__(value)  # type: ignore[index, no-any-return]
    kind = type(value)
    slot = _slots.get(id(kind))
    if slot is None:
        slot = _slots[id(kind)] = _slot_of(kind)
    try:
        own = slot.__get__(value)
    except (TypeError, AttributeError):  # none, or that of a class which had this id before
        slot = _slots[id(kind)] = _slot_of(kind)
        own = slot.__get__(value) if slot is not _NO_SLOT else None
    return own if type(own) is dict else {}


def _slot_of(kind: type) -> Any:
    """The descriptor of C that reads `__dict__`: of the first base that has one."""
    for base in bases(kind):
        slot = _DICT.__get__(base).get("__dict__")
        if type(slot) is types.GetSetDescriptorType or type(slot) is types.MemberDescriptorType:
            return slot
    return _NO_SLOT


def lookup(entries: Any, name: str, default: Any = None) -> Any:
    """`entries[name]` of a dict, or of a class's, without a comparison that a key of the user's could answer."""
    kind = type(entries)
    if kind is not types.MappingProxyType and not issubclass(kind, dict):
        return default
    if only_strings(entries):
        if kind is types.MappingProxyType:
            return entries.get(name, default)
        return dict.get(entries, name, default)
    return next((value for key, value in named(entries) if key == name), default)


def only_strings(entries: Any) -> bool:
    """Whether all keys of a dict are exactly `str`: looking one up then runs no code of the user's."""
    keys = dict.__iter__(entries) if issubclass(type(entries), dict) else iter(entries)
    return all(map(is_, map(type, keys), repeat(str)))


def named(entries: Any) -> list[tuple[str, Any]]:
    """The entries of a dict, or of a frame's `f_locals`, whose key is text; none of what is neither.

    A subclass of `str` comes out as the plain text that it holds.
    """
    kind, found = type(entries), []
    if kind is not types.MappingProxyType and kind is not _FRAME_LOCALS and not issubclass(kind, dict):
        return []
    pairs = dict.items(entries) if issubclass(kind, dict) else entries.items()
    if only_strings(entries):
        return list(pairs)
    for key, value in list(pairs):
        if type(key) is str:
            found.append((key, value))
        elif issubclass(type(key), str):
            found.append((str.__str__(key), value))
    return found


def plain_names(entries: dict[str, Any]) -> dict[str, Any]:
    """The same dict where it is a plain one and all its keys are plain text, else a copy of what is named by text."""
    return entries if type(entries) is dict and only_strings(entries) else dict(named(entries))


def same_scalar(first: object, second: object) -> bool:
    """`first == second` for numbers and text; False for anything whose own code would have to compare."""
    return exactly(first, *_SCALARS) and exactly(second, *_SCALARS) and first == second


def find_key(entries: dict[Any, Any], key: object) -> Any:
    """`entries[key]` for a key that is a number, text or None, or the very same object; raises LookupError."""
    kind = type(key)
    if kind is str:
        found = lookup(entries, key, _ABSENT)  # type: ignore[arg-type]
    elif exactly(key, int, bool, float) and all(map(is_, map(type, dict.__iter__(entries)), repeat(kind))):
        found = dict.get(entries, key, _ABSENT)
    else:
        matches: Iterator[Any] = (v for k, v in list(dict.items(entries)) if k is key or same_scalar(k, key))
        found = next(matches, _ABSENT)
    if found is _ABSENT:
        raise LookupError(key)
    return found


_NAME_LIKE = pattern(r"[A-Za-z_][A-Za-z_]*\d{0,4}(?:[./][A-Za-z_\d]{1,24}){0,8}")


def shown_key(key: object) -> str:
    """A key in brackets, as source would write it, if it is a number or reads as the name of a field.

    Any other is a value of the program's, which no report shows: `[...]`.
    """
    if type(key) is int and abs(key) < 10**9:
        return f"[{key}]"
    if type(key) is str and len(key) <= 40 and _NAME_LIKE.fullmatch(key):
        return f'["{key}"]'
    return "[...]"


def first_entries(entries: Any, most: int) -> list[tuple[Any, Any]]:
    """The first entries of a dict, with the keys as they are: not to be compared, hashed or printed."""
    return list(islice(dict.items(entries), most))
