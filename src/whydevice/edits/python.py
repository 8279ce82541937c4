"""The vocabulary of edits: each takes a Source and nodes, and returns edits or raises EditError."""

from __future__ import annotations

from .calls import add_keyword, rename_to_like
from .expressions import append_method, delete_method_call, replace_node, wrap_call
from .imports import torch_name
from .registration import attribute_to_buffer, dict_to_moduledict, list_to_modulelist
from .statements import (
    assign_result,
    delete_statement,
    insert_after,
    insert_at_suite_start,
    insert_before,
    move_statement,
)

__all__ = [
    "add_keyword",
    "append_method",
    "assign_result",
    "attribute_to_buffer",
    "delete_method_call",
    "delete_statement",
    "dict_to_moduledict",
    "insert_after",
    "insert_at_suite_start",
    "insert_before",
    "list_to_modulelist",
    "move_statement",
    "rename_to_like",
    "replace_node",
    "torch_name",
    "wrap_call",
]
