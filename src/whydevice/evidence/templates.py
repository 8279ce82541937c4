"""Whether a text can be what an expression makes of a written one: a key or a name that the run completed."""

from __future__ import annotations

import ast
import re

from ..patterns import pattern
from .passive import exactly

# `%d`, `%-5.2f`, `%(name)s`, and `%%`, which stands for itself.
_PERCENT = pattern(r"%(?:\(\w*\))?[-#0 +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?([diouxXeEfFgGcrsa%])")
_BRACES = pattern(r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_ANY = ".+"


def may_be(node: ast.expr, text: str) -> bool:
    """False where what is written in the expression rules the text out; True also where nothing is known of it."""
    return re.fullmatch(_pattern(node), text, re.DOTALL) is not None


def is_written(node: ast.expr) -> bool:
    """Whether at least a part of the text is written in the expression."""
    return _pattern(node).replace(_ANY, "") != ""


def _pattern(node: ast.expr) -> str:
    """A regular expression for what a string expression can give."""
    if isinstance(node, ast.Constant):
        return re.escape(str(node.value))
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part) if isinstance(part, ast.Constant) else _ANY for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left) + _pattern(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
        return _filled(node.left.value, _PERCENT, {"%%": "%"})  # type: ignore[attr-defined]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and _is_text(node.func.value)
    ):
        return _filled(node.func.value.value, _BRACES, {"{{": "{", "}}": "}"})  # type: ignore[attr-defined]
    return _ANY


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and exactly(node.value, str)


def _filled(template: str, fields: re.Pattern[str], plain: dict[str, str]) -> str:
    made, done = "", 0
    for match in fields.finditer(template):
        made += re.escape(template[done : match.start()])
        made += re.escape(plain[match.group()]) if match.group() in plain else _ANY
        done = match.end()
    return made + re.escape(template[done:])
