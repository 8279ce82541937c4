"""How far a function had come when the error was raised."""

from __future__ import annotations

import ast

from .scopes import Scope


def until(scope: Scope) -> tuple[int, int]:
    """Before which position bindings had happened: the failure, in a live frame outside of a loop."""
    live = scope.live
    if live is None or live.node is None or not hasattr(live.node, "lineno"):
        return scope.until
    inside = (
        any(isinstance(up, ast.For | ast.While | ast.AsyncFor) for up in live.source.ancestors(live.node))
        if live.source
        else False
    )
    end = (live.node.end_lineno or live.line, live.node.end_col_offset or 0)  # type: ignore[attr-defined]
    return (1 << 30, 0) if inside else end
