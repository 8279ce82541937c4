"""Holds an explanation against the live frames of its error: every false or contradictory claim, in words.

Shares no code with what it checks, but for reading a simulated device. Tests may do what the product may not:
run properties and `__getattr__` of the script's own objects. Calls and operations are never run again; what only
they could tell counts as unproven, which `certain` explanations may not rest on.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import sys
import types
from typing import Any

DEVICE = r"(?:cpu|meta|(?:cuda|mps|xpu)(?::\d+)?)"
IS_ON = re.compile(rf"`([^`\n]+)`(?: \([^`]*?\))? (?:is|is still|are all|are) on ({DEVICE})\b")
KEEPS = re.compile(rf"`([^`\n]+)`(?: \([^`]*?\))? (?:keeps its state on|was moved to) ({DEVICE})\b")
HOLDS = re.compile(rf"`([^`\n]+)` holds tensors on ({DEVICE}(?:(?:, | and ){DEVICE})*)")
DESCRIBED = re.compile(rf"\w+\[[\d, ]*\] on ({DEVICE})$")
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
        if _is_tensor(base) and node.attr in VIEWS:
            return base, False
        try:
            return getattr(base, node.attr), exact
        except Exception:
            raise Unproven(node.attr) from None
    if isinstance(node, ast.Subscript):
        base, exact = look_up(node.value, frame)
        if _is_tensor(base):
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


def _is_tensor(value: Any) -> bool:
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
    if _is_tensor(value):
        return {device_of(value)}
    if type(value) is torch.Generator:
        return {str(value.device)}
    if len(seen) > 50_000 or id(value) in seen or isinstance(value, type | types.ModuleType | str | int):
        return set()
    seen.add(id(value))
    inside: list[Any] = []
    if isinstance(value, dict):
        inside += [*dict.values(value), *[k for k in dict.keys(value) if _is_tensor(k)]]
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


def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        return None


class Check:
    """One explanation against its frames. `broken` collects what does not hold."""

    def __init__(self, exc: BaseException, explanation: Any) -> None:
        self.frames, self.said = Frames(exc), explanation
        self.broken: list[str] = []
        self.facts: dict[tuple[str, int, str], set[str]] = {}
        self._lines: dict[str, list[str]] = {}

    def lines(self, file: str) -> list[str]:
        if file not in self._lines:
            import linecache

            self._lines[file] = [line.rstrip("\n") for line in linecache.getlines(file)]
        return self._lines[file]

    def run(self) -> list[str]:
        said = self.said
        self._whole()
        if said.culprit is not None:
            self._expression("culprit", said.culprit)
        for also in said.also:
            self._expression("also", also)
            if said.culprit is None or said.culprit.wanted not in (None, also.wanted):
                self.broken.append(f"also `{also.expression}` wants {also.wanted}, the culprit does not")
        for row in said.operands:
            self._row(row)
        for place in [*said.trail, *([said.root] if said.root is not None else [])]:
            self._place(place)
        for sentence in [said.headline, *said.notes]:
            self._sentence(sentence)
        self._contradictions()
        for fix in said.fixes:
            self._edits(fix)
        return self.broken

    # -- the parts ----------------------------------------------------------------------------------------

    def _whole(self) -> None:
        said = self.said
        if said.certainty == "certain" and None in (said.cause, said.culprit, said.root):
            self.broken.append("certain, but without a cause, a culprit or a root")
        if said.cause is None and said.fixes:
            self.broken.append("a fix without a cause")
        culprit = said.culprit
        if culprit is not None and culprit.device is not None and culprit.device == culprit.wanted:
            self.broken.append(f"the culprit is on {culprit.device}, where it is wanted")
        if any(also.device == also.wanted for also in said.also):
            self.broken.append("`also` names what is where it is wanted")
        if len({(a.expression, a.file, a.line) for a in said.also}) != len(said.also):
            self.broken.append("`also` names one thing twice")

    def _expression(self, what: str, one: Any) -> None:
        if one.file is None or one.line is None:
            self.broken.append(f"{what} `{one.expression}` has no place")
            return
        found = self._holds(what, one.expression, one.device, one.file, one.line)
        if found is None and not self._written(one.expression, one.file, one.line):
            self.broken.append(
                f"{what} `{one.expression}` is neither on line {one.line} nor in a frame that has it"
            )

    def _row(self, row: Any) -> None:
        if row.file is None or row.line is None:
            self.broken.append(f"operand `{row.expression}` has no place")
            return
        value = self._holds("operand", row.expression, row.device, row.file, row.line)
        if value is not None and _is_tensor(value[0]) and value[1] and row.shape is not None:
            tensor = value[0]
            torch = sys.modules["torch"]
            with torch._C.DisableTorchFunction():
                true = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            if (row.dtype, tuple(row.shape)) != true:
                self.broken.append(f"operand `{row.expression}` is {true}, not {row.dtype}{row.shape}")
            if (row.kind == "parameter") != isinstance(tensor, torch.nn.Parameter):
                self.broken.append(f"operand `{row.expression}` is said to be a {row.kind}")
        if row.culprit and self.said.culprit is not None and row.device is not None:
            if self.said.culprit.device not in row.device.split(", "):
                self.broken.append(f"the culprit's row says {row.device}, not {self.said.culprit.device}")

    def _place(self, place: Any) -> None:
        lines = self.lines(place.file)
        if not 1 <= place.line <= len(lines):
            if lines or not place.file.startswith("<"):
                self.broken.append(f"{place.file} has no line {place.line}")
            return
        source = lines[place.line - 1]
        if place.source and place.source.strip() != source.strip():
            self.broken.append(f"line {place.line} is shown as {place.source!r}, and is {source!r}")
        if place.column is None or (place.end_line or place.line) != place.line or place.end_column is None:
            return
        marked = source[place.column : place.end_column]
        described = DESCRIBED.search(place.note)
        if described is not None:
            self._holds("trail", marked, described[1], place.file, place.line)
        self._note(place, marked)

    def _note(self, place: Any, marked: str) -> None:
        node = _parsed(marked)
        if node is None:
            return
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        if "without device=" in place.note:
            if not calls or any(k.arg == "device" for k in calls[0].keywords):
                self.broken.append(f"`{marked}` is said to be made without device=")
        if re.match(r"moved to \S+ here", place.note):
            if not any(isinstance(c.func, ast.Attribute) and c.func.attr in MOVES for c in calls):
                self.broken.append(f"`{marked}` is said to move something")

    def _sentence(self, text: str) -> None:
        for pattern in (IS_ON, KEEPS):
            for expression, device in pattern.findall(text):
                self._said(expression, {device}, text)
        for expression, listed in HOLDS.findall(text):
            self._said(expression, set(re.split(", | and ", listed)), text)
        named = set(re.findall(rf"\b{DEVICE}\b(?![\w.(=\"'\]])", re.sub("`[^`]*`", "", text)))
        culprit, error = self.said.culprit, self.said.error
        known = {d for row in self.said.operands for d in (row.device or "").split(", ")} | set(error.devices)
        known |= {culprit.device, culprit.wanted} if culprit is not None else set()
        strange = {d for d in named if d not in known and not any(k and k.startswith(d) for k in known)}
        if strange and "backward" not in text:
            self.broken.append(f"the devices {sorted(strange)} come from nowhere: {text}")

    def _said(self, expression: str, devices: set[str], text: str) -> None:
        """A sentence about an expression: true in some frame of the user's, if any can tell."""
        node, judged = _parsed(expression), []
        culprit = self.said.culprit
        if culprit is not None and expression == culprit.expression and culprit.file and culprit.line:
            for device in devices:
                self._note_fact(expression, device, culprit.file, culprit.line)
        for frame in reversed(self.frames.frames if node is not None else []):
            try:
                value, _ = look_up(node, frame)  # type: ignore[arg-type]
            except Unproven:
                continue
            judged.append(devices <= devices_in(value))
        if judged and not any(judged):
            self.broken.append(f"not so in any frame: {text}")

    # -- what the frames say ------------------------------------------------------------------------------

    def _holds(
        self, what: str, expression: str, device: str | None, file: str, line: int
    ) -> tuple[Any, bool] | None:
        """The value that an expression has in a frame at the place, after checking it is where it is said to be."""
        node = _parsed(expression)
        frames = self.frames.at(file, line)
        if device is not None:
            self._note_fact(expression, device, file, line)
        found = []
        for frame in frames if node is not None else []:
            try:
                found.append(look_up(node, frame))  # type: ignore[arg-type]
            except Unproven:
                continue
        if not found or device is None:
            return found[0] if found else None
        for value, exact in found:
            inside = devices_in(value)
            true = inside == {device} if _is_tensor(value) else set(device.split(", ")) <= inside
            if true:
                return value, exact
        if any(devices_in(value) for value, _ in found):
            self.broken.append(
                f"{what} `{expression}` (line {line}) is on {[sorted(devices_in(v)) for v, _ in found]}, not {device}"
            )
        return found[0]

    def _written(self, expression: str, file: str, line: int) -> bool:
        """Whether the source has the expression at this line."""
        try:
            tree = ast.parse("\n".join(self.lines(file)))
        except SyntaxError:
            return False
        node = _parsed(expression)
        wanted = ast.unparse(node) if node is not None else ""
        return any(
            isinstance(n, ast.expr) and n.lineno <= line <= (n.end_lineno or n.lineno) and ast.unparse(n) == wanted
            for n in ast.walk(tree)
        )  # fmt: skip

    def _note_fact(self, expression: str, device: str, file: str, line: int) -> None:
        node = _parsed(expression)
        name = ast.unparse(node) if node is not None else expression
        self.facts.setdefault((file, line, name), set()).add(device)

    def _contradictions(self) -> None:
        for (_, line, expression), devices in self.facts.items():
            single = [d for d in devices if ", " not in d]
            if len(set(single)) > 1 and not HOLDS.search(self.said.headline):
                self.broken.append(f"`{expression}` (line {line}) is said to be on {sorted(devices)}")
            if any(not set(single) <= set(d.split(", ")) for d in devices if ", " in d):
                self.broken.append(f"`{expression}` (line {line}) is said to be on {sorted(devices)}")

    def _edits(self, fix: Any) -> None:
        for edit in fix.edits:
            if re.search(r"[/\\](site|dist)-packages[/\\]", edit.file):
                self.broken.append(f"an edit of a library: {edit.file}")
            if not 1 <= edit.line <= len(self.lines(edit.file)) + 1:
                self.broken.append(f"an edit of line {edit.line}, which {edit.file} does not have")


MOVES = ("to", "cpu", "cuda", "type", "type_as", "numpy", "tolist", "new_tensor")


def broken(exc: BaseException, explanation: Any) -> list[str]:
    """The claims of an explanation that do not hold, in words; empty for a true one."""
    check = Check(exc, explanation)
    try:
        return list(dict.fromkeys(check.run()))
    finally:
        check.frames.frames.clear()


def watch(path: str) -> None:
    """Check each explanation that this process makes from now on; a JSON line for each goes to a file."""
    from whydevice import guard

    made = guard._pipeline

    def checked(exc: BaseException) -> Any:
        explanation = made(exc)
        if explanation is not None:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(broken(exc, explanation)) + "\n")
        return explanation

    guard._pipeline = checked
