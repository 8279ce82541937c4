"""Source edits by position: made on the text as it is, merged, written and shown as a diff.

Only the standard library, and plain data in and out. Every function raises EditError, with one plain
sentence, where it cannot make an edit that is right.

A module of it is loaded when a function of it is first used: the fix for an error needs one or two of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..source import EditError, Source

if TYPE_CHECKING:
    from .apply import edited, ignored, plan
    from .calls import add_keyword, rename_to_like
    from .cells import cell_text
    from .diff import diff_bytes, unified_diff
    from .expressions import append_method, delete_method_call, replace_node, wrap_call
    from .imports import torch_name
    from .lost import lost_update
    from .registration import attribute_to_buffer, dict_to_moduledict, list_to_modulelist
    from .running import runs_as
    from .scope import binds
    from .statements import (
        assign_result,
        delete_statement,
        insert_after,
        insert_at_suite_start,
        insert_before,
        move_statement,
    )
    from .style import Move, Style, device_text, move_text, same_device, siblings
    from .write import write_files

_MODULES = {
    "apply": ("edited", "ignored", "plan"),
    "calls": ("add_keyword", "rename_to_like"),
    "cells": ("cell_text",),
    "diff": ("diff_bytes", "unified_diff"),
    "expressions": ("append_method", "delete_method_call", "replace_node", "wrap_call"),
    "imports": ("torch_name",),
    "lost": ("lost_update",),
    "registration": ("attribute_to_buffer", "dict_to_moduledict", "list_to_modulelist"),
    "running": ("runs_as",),
    "scope": ("binds",),
    "statements": (
        "assign_result",
        "delete_statement",
        "insert_after",
        "insert_at_suite_start",
        "insert_before",
        "move_statement",
    ),
    "style": ("Move", "Style", "device_text", "move_text", "same_device", "siblings"),
    "write": ("write_files",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "EditError",
    "Move",
    "Source",
    "Style",
    "add_keyword",
    "append_method",
    "assign_result",
    "attribute_to_buffer",
    "binds",
    "cell_text",
    "delete_method_call",
    "delete_statement",
    "device_text",
    "dict_to_moduledict",
    "diff_bytes",
    "edited",
    "ignored",
    "insert_after",
    "insert_at_suite_start",
    "insert_before",
    "list_to_modulelist",
    "lost_update",
    "move_statement",
    "move_text",
    "plan",
    "rename_to_like",
    "replace_node",
    "runs_as",
    "same_device",
    "siblings",
    "torch_name",
    "unified_diff",
    "wrap_call",
    "write_files",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return found
