"""Operators from outside PyTorch's own table: torch.library, custom_op, C++ extensions.

A kernel written in Python calls further operators, which must be seen: it is called by its dispatch key
with the mode active. A C++ kernel runs as it is, and what it compares inside is not known: mixed devices
are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .state import STATE
from .tags import WILD, read, write

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def runner(func: Any, signature: Any, new_mode: Callable[[], Any]) -> Run:
    """How to call `func`. `new_mode` makes a mode to activate around a Python kernel."""
    python = written_in_python(func)
    name = func._schema.name
    label = f"{func.namespace}::{signature.name.removeprefix(func.namespace + '::')}"

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        items = signature.items(args, kwargs)
        tag = next((item.tag for item in items if item.tag > 0), 0)
        if python:
            with new_mode():
                return func.redispatch(_key(name, label, tag), *args, **kwargs)
        if any(item.tag != tag and item.tag != WILD for item in items):
            STATE.count(label, "an extension's operator: the devices of its arguments were not compared")
        out = signature.op(*args, **kwargs)
        if tag and not signature.quiet:
            _mark(out, tag)
        return out

    return run


def written_in_python(func: Any) -> bool:
    """Whether Python registered a kernel for this operator."""
    name = func._schema.name
    prefix = name.replace("::", "/") + "/"
    registered: set[str] = getattr(torch.library, "_impls", set())
    definitions = getattr(getattr(torch, "_library", None), "custom_ops", None)
    return name in getattr(definitions, "OPDEFS", {}) or any(
        str(entry).startswith(prefix) for entry in registered
    )


def _key(name: str, label: str, tag: int) -> Any:
    """The dispatch key of the kernel that a call on this device reaches."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = torch._C.DispatchKey
    if tag > 0 and has(name, "CUDA"):
        return torch._C.DispatchKeySet(keys.CUDA)
    if tag > 0 and not has(name, "CompositeExplicitAutograd") and has(name, "CPU"):
        raise NotImplementedError(
            f"Could not run '{label}' with arguments from the 'CUDA' backend. This could be because the "
            f"operator "
            "doesn't exist for this backend, or was omitted during the selective/custom build process (if "
            "using "
            "custom build)."
        )
    return torch._C.DispatchKeySet(keys.CPU)


def _mark(out: Any, tag: int) -> None:
    if isinstance(out, torch.Tensor):
        if read(out) <= 0:
            write(out, tag)
    elif isinstance(out, (tuple, list)):
        for part in out:
            _mark(part, tag)
