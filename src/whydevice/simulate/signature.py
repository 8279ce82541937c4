"""Which arguments of an op are tensors, and what its schema says about its results."""

from __future__ import annotations

from typing import Any

import torch

from .judge import Item
from .tags import read

Tensor = torch.Tensor


class Signature:
    """The tensor arguments of an op: (name, position, is a list, is written), and what else matters about it."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.op = func._op
        name = schema.name.removeprefix("aten::")
        self.name = name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.tensors: list[tuple[str, int, bool, bool]] = []
        self.keyword_tensors = False
        self.generator = self.device = False
        for position, argument in enumerate(schema.arguments):
            kind = str(argument.type)
            written = argument.alias_info is not None and argument.alias_info.is_write
            if kind in ("Tensor", "Optional[Tensor]"):
                self.tensors.append((argument.name, position, False, written))
                self.keyword_tensors |= argument.kwarg_only
            elif "Tensor" in kind:
                self.tensors.append((argument.name, position, True, written))
                self.keyword_tensors |= argument.kwarg_only
            elif argument.name == "generator":
                self.generator = True
            elif argument.name == "device":
                self.device = True
                self.device_position = position
        self.lists = any(is_list for _, _, is_list, _ in self.tensors)
        self.inplace = any(written for *_, written in self.tensors)
        returns = schema.returns
        self.view = not self.inplace and bool(returns) and all(r.alias_info is not None for r in returns)
        # Nothing new comes back: only arguments, or no tensor at all.
        self.quiet = all(r.alias_info is not None or "Tensor" not in str(r.type) for r in returns)

    def items(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Item]:
        """The tensors of a call with their tags."""
        found = []
        for name, position, is_list, written in self.tensors:
            value = args[position] if position < len(args) else kwargs.get(name)
            if is_list:
                found += [Item(name, written, t, read(t)) for t in value or () if isinstance(t, Tensor)]
            elif isinstance(value, Tensor):
                found.append(Item(name, written, value, read(value)))
        return found
