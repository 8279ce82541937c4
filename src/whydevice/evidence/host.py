"""What NumPy was given: the operands of the failing call that it reads, each as the value of its whole expression."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..types import DeviceError
from .infer import NOT_A_TENSOR
from .operands import Leaf
from .scopes import MISSING

FAMILIES = ("K1", "K2")
_LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)


def reads_host(error: DeviceError) -> bool:
    """Whether it is NumPy that could not read a tensor."""
    return error.family.startswith(FAMILIES)


def given(found: Iterable[Leaf]) -> Iterator[Leaf]:
    """The operands; of a list that is written out, its items. Never what an operand was computed from: that was
    where its own operation wanted it."""
    for one in found:
        if one.value is MISSING and isinstance(one.node, _LITERALS):
            yield from given(one.parts)
        elif one.value is MISSING and isinstance(one.node, _COMPREHENSIONS):
            yield from given(one.parts[:1])
        else:
            yield one


def on_accelerator(found: Iterable[Leaf]) -> list[Leaf]:
    """Those of the operands that are tensors on an accelerator, the ones at hand first."""
    there = [
        one
        for one in given(found)
        if one.device not in (None, "cpu", NOT_A_TENSOR) and (one.is_tensor or one.value is MISSING)
    ]
    return sorted(there, key=lambda one: one.value is MISSING)


def is_receiver(one: Leaf) -> bool:
    """Whether it is what `.numpy()` is called on, so a tensor."""
    parent = one.scope.source.parent(one.node)
    return isinstance(parent, ast.Attribute) and parent.attr == "numpy"
