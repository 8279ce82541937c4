"""How a script moves things, so that an edit does it the same way: `.cuda()` beside `.cuda()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..source import EditError, Source

# Names that people give to a device, read or written as `device=`, an argument of `.to`, an attribute.
_DEVICE_WORDS = ("device", "dev", "gpu", "rank", "cuda")


class Move(NamedTuple):
    """One `.to(...)`, `.cuda(...)` or `.cpu()` as written, and the text of what it moves.

    `argument` is the device's text, None where none is given.
    """

    receiver: str
    method: str
    argument: str | None
    non_blocking: str | None
    line: int


class Style(NamedTuple):
    """The moves of a script, the nearest first, and the device expressions that it writes, the most used
    first.
    """

    moves: tuple[Move, ...] = ()
    devices: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The method that the nearest moves to a GPU use: `cuda` or `to`."""
        used = [move.method for move in self.moves if move.method != "cpu"]
        return max(dict.fromkeys(used), key=used.count) if used else "to"

    @property
    def non_blocking(self) -> str | None:
        """The text of `non_blocking=` where most moves give it."""
        used = [move for move in self.moves if move.method != "cpu"]
        given = [move.non_blocking for move in used if move.non_blocking is not None]
        return given[0] if given and 2 * len(given) > len(used) else None


def siblings(source: Source, function: ast.AST | None) -> Style:
    """How the code around moves things: the function's own moves, else those of its class, else the file's.

    `function` may be any node; None stands for the whole file.
    """
    node = source.own(function) if function is not None else source.module
    scopes = [node, *source.ancestors(node)]
    moves: tuple[Move, ...] = ()
    devices: list[str] = []
    for scope in scopes:
        found = tuple(_moves(source, scope))
        moves = moves or found
        written = [move.argument for move in found if move.argument is not None]
        written += [_text(source, value) for value in _device_keywords(scope)]
        devices += [
            text for text in sorted(set(written), key=written.count, reverse=True) if text not in devices
        ]
    return Style(moves, tuple(devices))


def move_text(
    style: Style, candidates: Sequence[tuple[str, str]], wanted: str, *, batch: bool = False
) -> str:
    """The method call to append so that something comes to the device `wanted`, as its siblings do it.

    `candidates` are expressions in scope with the device that each has, the best first. `batch` keeps the
    siblings' `non_blocking`, which is for data only. A device that none of them has is written as a string.
    """
    if wanted == "cpu":
        return ".cpu()"
    method = style.method
    arguments = []
    if method == "cuda":
        written = _cuda_argument(style, candidates, wanted)
        if written is None:
            method = "to"
        elif written:
            arguments.append(written)
    if method == "to":
        arguments.append(device_text(style, candidates, wanted))
    if batch and style.non_blocking:
        arguments.append(f"non_blocking={style.non_blocking}")
    return f".{method}({', '.join(arguments)})"


def _cuda_argument(style: Style, candidates: Sequence[tuple[str, str]], wanted: str) -> str | None:
    """What the siblings give to `.cuda()`, empty where they give nothing; None where neither leads to the
    device.
    """
    right = [expression for expression, device in candidates if same_device(device, wanted)]
    for move in style.moves:
        if move.method == "cuda" and move.argument is not None:
            index = move.argument if move.argument.isdecimal() else None
            if move.argument in right or (index is not None and same_device(wanted, f"cuda:{index}")):
                return move.argument
    return "" if same_device(wanted, "cuda") else None


def device_text(style: Style, candidates: Sequence[tuple[str, str]], wanted: str) -> str:
    """The device expression to write: one that the siblings write where it is right, else the first that is
    right.
    """
    right = [expression for expression, device in candidates if same_device(device, wanted)]
    for expression in style.devices:
        if expression in right or _names(expression, wanted):
            return expression
    return right[0] if right else f'"{_short(wanted)}"'


def same_device(one: str, other: str) -> bool:
    """Whether two device strings mean the same one; `cuda` is `cuda:0` unless the script changes the current
    device.
    """
    return _short(one) == _short(other)


def _short(device: str) -> str:
    return device.removesuffix(":0")


def _names(expression: str, wanted: str) -> bool:
    """Whether an expression is a string that names the device, or `torch.device` of one."""
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return False
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and not node.keywords
        and ast.unparse(node.func) == "torch.device"
    ):
        node = node.args[0]
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and same_device(node.value, wanted)


def _moves(source: Source, scope: ast.AST) -> Iterator[Move]:
    for node in ast.walk(scope):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method = node.func.attr
        if method not in ("to", "cuda", "cpu"):
            continue
        device = node.args[0] if node.args else _keyword(node, "device")
        if method == "to" and (device is None or not _looks_like_device(device)):
            continue
        flag = _keyword(node, "non_blocking")
        yield Move(
            ast.unparse(node.func.value),
            method,
            _text(source, device) if device is not None else None,
            ast.unparse(flag) if flag is not None else None,
            node.lineno,
        )


def _text(source: Source, node: ast.expr) -> str:
    """An expression as written; as `ast` writes it where it spans lines or its place is not known."""
    try:
        text = source.segment(node)
    except EditError:
        return ast.unparse(node)
    return ast.unparse(node) if "\n" in text or "\r" in text else text


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _device_keywords(scope: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and (value := _keyword(node, "device")) is not None:
            yield value


def _looks_like_device(node: ast.expr) -> bool:
    """`.to` also takes a dtype or another tensor; only what names a device counts."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) or (
            isinstance(node.value, str) and not node.value.startswith("float")
        )
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("device")
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return any(word in last.lower() for word in _DEVICE_WORDS)
