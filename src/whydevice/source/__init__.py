"""One source file: its text as it is, its tree, and where a node lies in the text.

Read once for an explanation and used from the first look at a frame to the last edit.
"""

from __future__ import annotations

from .nodes import COMPREHENSIONS, FunctionNode, Positioned, ScopeNode
from .text import EditError, Text, TooLong
from .tree import Source

__all__ = [
    "COMPREHENSIONS",
    "EditError",
    "FunctionNode",
    "Positioned",
    "ScopeNode",
    "Source",
    "Text",
    "TooLong",
]
