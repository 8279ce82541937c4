"""Source edits by position: made on the text as it is, merged, written and shown as a diff.

Only the standard library, and plain data in and out. Every function raises EditError, with one plain
sentence, where it cannot make an edit that is right.
"""

from __future__ import annotations

from ..source import EditError, Source
from .apply import edited, ignored, plan
from .cells import cell_text
from .diff import diff_bytes, unified_diff
from .lost import lost_update
from .python import (
    add_keyword,
    append_method,
    assign_result,
    attribute_to_buffer,
    delete_method_call,
    delete_statement,
    dict_to_moduledict,
    insert_after,
    insert_at_suite_start,
    insert_before,
    list_to_modulelist,
    move_statement,
    rename_to_like,
    replace_node,
    torch_name,
    wrap_call,
)
from .running import runs_as
from .scope import binds
from .style import Move, Style, device_text, move_text, same_device, siblings
from .write import write_files

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
