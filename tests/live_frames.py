"""The live frames of an error, and what a name, attribute or item in them is: for claims.py.

Tests may do what the product may not: run properties and `__getattr__` of the script's own objects. Calls and
operations are never run again; what only they could tell is Unproven.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
import types
from typing import Any

VIEWS = ("T", "mT", "H", "mH", "data", "real", "imag")
"""Attributes of a tensor that are where the tensor is."""


class Unproven(Exception):
    """What an expression was at the time cannot be had from the frames."""


class Frames:
    """The frames that an exception and those behind it went through, innermost last."""

    def __init__(self, exc: BaseException) -> None:
        self.frames: list[types.FrameType] = []
        stack, seen = [exc], set()
        while stack:
            here = stack.pop()
            if id(here) in seen:
                continue
            seen.add(id(here))
            trace = here.__traceback__
            while trace is not None:
                self.frames.append(trace.tb_frame)
                trace = trace.tb_next
            behind = [here.__cause__, here.__context__, *getattr(here, "exceptions", ())]
            stack += [e for e in behind if isinstance(e, BaseException)]

    def at(self, file: str, line: int) -> list[types.FrameType]:
        """Those whose code has this line, the narrowest code first."""
        found = []
        for frame in self.frames:
            lines = [n for _, _, n in frame.f_code.co_lines() if n is not None]
            if os.path.abspath(frame.f_code.co_filename) == file and min(lines) <= line <= max(lines):
                found.append((max(lines) - min(lines), frame))
        return [frame for _, frame in sorted(found, key=lambda pair: pair[0])]


def look_up(node: ast.AST, frame: types.FrameType) -> tuple[Any, bool]:
    """(the value, whether it is the very object) of a name, attribute or item; Unproven for anything else."""
    if isinstance(node, ast.Name):
        for table in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in table:
                return table[node.id], True
        raise Unproven(node.id)
    if isinstance(node, ast.Constant):
        return node.value, True
    if isinstance(node, ast.Attribute):
        base, exact = look_up(node.value, frame)
        if is_tensor(base) and node.attr in VIEWS:
            return base, False
        try:
            return getattr(base, node.attr), exact
        except Exception:
            raise Unproven(node.attr) from None
    if isinstance(node, ast.Subscript):
        base, exact = look_up(node.value, frame)
        if is_tensor(base):
            return base, False
        if isinstance(node.slice, ast.Slice):
            return base, False
        try:
            return base[look_up(node.slice, frame)[0]], exact
        except Unproven:
            raise
        except Exception:
            raise Unproven(ast.unparse(node)) from None
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return ast.literal_eval(node), True
    if isinstance(node, ast.Tuple | ast.List):
        return [look_up(each, frame)[0] for each in node.elts], False
    raise Unproven(ast.unparse(node))


def is_tensor(value: Any) -> bool:
    torch = sys.modules["torch"]
    return issubclass(type(value), torch.Tensor)


def device_of(tensor: Any) -> str:
    """As PyTorch prints it, simulated or real."""
    simulate = sys.modules.get("whydevice.simulate")
    found = simulate.device_of(tensor) if simulate is not None else None
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        return found or str(torch._C.TensorBase.device.__get__(tensor))


def devices_in(value: Any, seen: set[int] | None = None) -> set[str]:
    """The devices of the tensors that a value is or holds."""
    torch = sys.modules["torch"]
    seen = set() if seen is None else seen
    if is_tensor(value):
        return {device_of(value)}
    if type(value) is torch.Generator:
        return {str(value.device)}
    if len(seen) > 50_000 or id(value) in seen or isinstance(value, type | types.ModuleType | str | int):
        return set()
    seen.add(id(value))
    inside: list[Any] = []
    if isinstance(value, dict):
        inside += [*dict.values(value), *[k for k in dict.keys(value) if is_tensor(k)]]
    elif isinstance(value, list | tuple | set | frozenset):
        inside += list(value)
    if isinstance(value, types.MethodType):
        inside.append(value.__self__)
    if type(value).__name__ == "partial":
        inside += [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        inside += [c.cell_contents for c in value.__closure__ or () if _filled(c)]
    try:
        inside.append(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        inside += [getattr(value, s) for s in getattr(type(value), "__slots__", ()) if hasattr(value, s)]
    return set().union(*(devices_in(each, seen) for each in inside)) if inside else set()


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
