"""Holds an explanation against the live frames of its error: every false or contradictory claim, in words.

Shares no code with what it checks, but for reading a simulated device. Tests may do what the product may not:
run properties and `__getattr__` of the script's own objects. Calls and operations are never run again; what only
they could tell counts as unproven, which `certain` explanations may not rest on.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import types
from typing import Any

from live_frames import Frames, Unproven, devices_in, is_tensor, look_up

DEVICE = r"(?:cpu|meta|(?:cuda|mps|xpu)(?::\d+)?)"
IS_ON = re.compile(rf"`([^`\n]+)`(?: \([^`]*?\))? (?:is|is still|are all|are) on ({DEVICE})\b")
KEEPS = re.compile(rf"`([^`\n]+)`(?: \([^`]*?\))? (?:keeps its state on|was moved to) ({DEVICE})\b")
HOLDS = re.compile(rf"`([^`\n]+)` holds tensors on ({DEVICE}(?:(?:, | and ){DEVICE})*)")
DESCRIBED = re.compile(rf"\w+\[[\d, ]*\] on ({DEVICE})$")
KEPT_IN = re.compile(r"in the (\w+) `([^`\n]+)`")
OTHERS = re.compile(r"but the other operands are on")
MOVES_BUT = re.compile(r"moves `([^`]+)`, but not `([^`]+)`")
LEFT_ON = re.compile(r"(?:^|, )(?:on|made here, on) cpu(?: here)?$")


def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        return None


def _assigned(statement: str) -> ast.expr | None:
    """The value of an assignment."""
    try:
        body = ast.parse(statement.strip()).body
    except SyntaxError:
        return None
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Assign) else None


def _text(expression: str) -> str:
    node = _parsed(expression)
    return ast.unparse(node) if node is not None else expression


def _ends_in_move_to_accelerator(node: ast.expr) -> bool:
    """`x.to(device)`, `x.cuda()`: an expression that does not leave its value on the CPU."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "cuda" or (
        node.func.attr == "to" and not any("cpu" in ast.unparse(a) for a in [*node.args, *node.keywords])
    )


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
        if any(self._only_moved(also) for also in said.also):
            self.broken.append("`also` names what is only moved on its line")
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
        self._called(row)
        value = self._holds("operand", row.expression, row.device, row.file, row.line)
        if value is not None and is_tensor(value[0]) and value[1] and row.shape is not None:
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
        node = _parsed(marked) or _assigned(marked)
        if node is None:
            return
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        if "without device=" in place.note:
            if not calls or any(k.arg == "device" for k in calls[0].keywords):
                self.broken.append(f"`{marked}` is said to be made without device=")
        moved = {
            ast.unparse(c.func.value)
            for c in calls
            if isinstance(c.func, ast.Attribute) and c.func.attr in MOVES
        }
        for each in ast.walk(node):  # `[x.cuda() for x in xs]` moves `xs`
            if isinstance(each, ast.ListComp | ast.GeneratorExp):
                names = {ast.unparse(g.target): ast.unparse(g.iter) for g in each.generators}
                moved |= {names[name] for name in moved & set(names)}
        for taken, left in MOVES_BUT.findall(place.note):
            if _text(taken) not in moved or _text(left) in moved:
                self.broken.append(f"`{marked}` does not move `{taken}` alone")
        if LEFT_ON.search(place.note) and _ends_in_move_to_accelerator(node):
            self.broken.append(f"`{marked}` is said to be {place.note}, and moves what it names")
        if place.note.startswith("made here, on") and isinstance(node, ast.Call):
            self._makes(node, marked)
        if re.match(r"moved to \S+ here", place.note):
            if not any(isinstance(c.func, ast.Attribute) and c.func.attr in MOVES for c in calls):
                self.broken.append(f"`{marked}` is said to move something")

    def _makes(self, call: ast.Call, marked: str) -> None:
        """A module that is the culprit was not made by a call of another class, but for one that it is a part of."""
        torch = sys.modules["torch"]
        made = [c for c in self._anywhere(ast.unparse(call.func)) if isinstance(c, type)]
        held = self._anywhere(self.said.culprit.expression) if self.said.culprit is not None else []
        module = next((m for m in held if isinstance(m, torch.nn.Module)), None)
        if module is None or not made or not issubclass(made[0], torch.nn.Module):
            return
        around = [
            m for f in self.frames.frames for m in f.f_locals.values() if isinstance(m, torch.nn.Module)
        ]
        whole = [m for m in around if any(part is module for part in m.modules())]
        parts = [type(m) for owner in (module, *whole) for m in owner.modules()]
        if not any(issubclass(kind, made[0]) or issubclass(made[0], kind) for kind in parts):
            self.broken.append(f"`{marked}` makes no {type(module).__name__}")

    def _sentence(self, text: str) -> None:
        for pattern in (IS_ON, KEEPS):
            for expression, device in pattern.findall(text):
                self._said(expression, {device}, text)
        for expression, listed in HOLDS.findall(text):
            self._said(expression, set(re.split(", | and ", listed)), text)
        for kind, expression in KEPT_IN.findall(text):
            held = self._anywhere(expression)
            if held and all(type(each).__name__ != kind for each in held):
                self.broken.append(f"`{expression}` is no {kind}: {text}")
        if OTHERS.search(text) and self._beside_culprit() == 1:
            self.broken.append(f"there is one other operand: {text}")
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

    def _only_moved(self, also: Any) -> bool:
        """Whether each mention of a name on its line is in `name.to(...)`, so that nothing fails of it there."""
        found = self._mentions(also.expression, also.file, also.line)
        return bool(found) and all(
            isinstance(up[0], ast.Attribute) and up[0].attr in MOVES and isinstance(up[1], ast.Call)
            for up in found
        )

    def _called(self, row: Any) -> None:
        """`self` is no operand of `self.pipe(x)` where `self.pipe` is an object: the object is."""
        ups = self._mentions(row.expression, row.file, row.line)
        if not ups or not all(
            isinstance(up[0], ast.Attribute) and isinstance(up[1], ast.Call) and up[1].func is up[0]
            for up in ups
        ):
            return
        for value in self._anywhere(ast.unparse(ups[0][0])):
            if not isinstance(value, types.MethodType | types.BuiltinMethodType | types.FunctionType | type):
                self.broken.append(f"operand `{row.expression}` is only the owner of what is called")

    def _mentions(self, expression: str, file: str, line: int) -> list[tuple[ast.AST, ast.AST]]:
        """(parent, its parent) of each place on a line where an expression is read."""
        try:
            tree = ast.parse("\n".join(self.lines(file)))
        except SyntaxError:
            return []
        parents = {child: up for up in ast.walk(tree) for child in ast.iter_child_nodes(up)}
        return [
            (parents[n], parents.get(parents[n], tree))
            for n in ast.walk(tree)
            if isinstance(n, ast.expr)
            and n.lineno == line
            and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
            and ast.unparse(n) == _text(expression)
        ]

    def _anywhere(self, expression: str) -> list[Any]:
        """What an expression is in the frames that can tell, innermost first."""
        node, found = _parsed(expression), []
        for frame in reversed(self.frames.frames if node is not None else []):
            try:
                found.append(look_up(node, frame)[0])  # type: ignore[arg-type]
            except Unproven:
                continue
        return found

    def _beside_culprit(self) -> int | None:
        """How many others stand in the list or tuple in which the culprit does; None where it is in none."""
        culprit = self.said.culprit
        if culprit is None or culprit.file is None or culprit.line is None:
            return None
        for up, _ in self._mentions(culprit.expression, culprit.file, culprit.line):
            if isinstance(up, ast.List | ast.Tuple):
                return len(up.elts) - 1
        return None

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
            true = inside == {device} if is_tensor(value) else set(device.split(", ")) <= inside
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
