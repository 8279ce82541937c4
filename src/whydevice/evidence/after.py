"""Where a value would be once edits are made: its way is read again, in the edited text.

An edit counts where it changes an expression on the value's way, what a name on it is bound to, or how an
attribute on it is registered. What the changed expression gives is inferred as everywhere else.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..source import EditError, Source
from ..source.nodes import first_line
from ..types import Edit
from . import values
from .building import asks_unmoved, while_built
from .evaluate import try_evaluate
from .infer import NOT_A_TENSOR, Inference, keyword
from .moveless import refuse
from .placed import constructing, moved, registered_part
from .scopes import (
    MISSING,
    Binding,
    Scope,
    always_past,
    bindings_of,
    dotted,
    position,
    reaching,
    same_binding,
)
from .steps import Step
from .vocabulary import MOVES

UNCHANGED = "unchanged"
_CARRY = (
    "use",
    "assign",
    "parameter",
    "loop",
    "item",
    "attribute",
    "return",
    "property",
    "loader",
    "library",
)
"""Steps over which a value comes as it is, so that it stays where an edit further back puts it."""
_ALONE = ("use", "assign", "parameter", "loop", "attribute")
"""Steps at which a value is not put together with others."""
_PLAIN = ("use", "assign", "parameter", "loop", "factory", "constructor", "move")
"""Steps at which nothing but the code that is seen there decides."""


class After:
    """The sources of an explanation as they would be with the edits."""

    def __init__(
        self,
        edits: Sequence[Edit],
        old: Mapping[str, Source],
        new: Mapping[str, Source],
        inference: Inference,
        modules: Sequence[Any] = (),
        scopes: Sequence[Scope] = (),
    ) -> None:
        self.edits, self.old, self.new, self.inference = edits, old, new, inference
        self.modules, self.scopes = modules, scopes
        self.whole = False  # whether nothing but the value is between the last edit found and its use
        self._named = False  # whether the last expression that was inferred names its device itself

    def device(self, steps: Sequence[Step], wanted: str) -> str | None:
        """Where the value at the first of its steps would be; UNCHANGED where no edit is on its way, None unknown."""
        carried = True
        unclear: list[Step] = []
        for index, step in enumerate(steps):
            carried = carried and not step.extra.get("unsure")
            if carried and registered_part(step) and self._with_its_module(step.owner, wanted):
                self.whole = not unclear
                return wanted
            if step.scope.source.path in self.new and self._touched(step.scope):
                found = self._at(
                    step, wanted, steps[index - 1] if index else step, steps[index + 1 : index + 2]
                )
                if found is None and carried and self.within(step.node, step.scope):
                    unclear.append(step)  # what stands further in, and is traced further back, may tell
                elif found != UNCHANGED:
                    self.whole = not unclear and all(before.kind in _ALONE for before in steps[:index])
                    if unclear and not (found == wanted and self._inside(unclear, step)):
                        return None
                    sure = found == wanted or (self._named and not self._circular(steps))
                    return found if carried and sure else None
            returned = steps[index + 1].kind == "return" if index + 1 < len(steps) else False
            carried = carried and (step.kind in _CARRY or (step.kind == "call" and returned))
        return None if unclear else UNCHANGED

    def within(self, node: ast.AST, scope: Scope) -> set[Edit]:
        """The edits in an expression."""
        if not isinstance(node, ast.expr):
            return set()
        source = scope.source
        try:
            start, end = source.span(node)
        except EditError:
            return set()  # in an f-string, where nothing is edited
        return {
            e
            for e in self.edits
            if e.file == source.path
            and start <= source.offset(e.line, e.column)
            and source.offset(e.end_line, e.end_column) <= end
        }

    def _inside(self, outer: Sequence[Step], inner: Step) -> bool:
        """Whether all that is edited in some expressions is edited in another one that is part of them."""
        within = self.within(inner.node, inner.scope)
        return all(self.within(step.node, step.scope) <= within for step in outer)

    def _touched(self, scope: Scope) -> bool:
        """Whether an edit lies in the function: in any other, nothing that it binds or reads has another text."""
        node = scope.node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return True
        last = (node.end_lineno or node.lineno) + 1  # what is put in below its last line
        return any(
            edit.file == scope.source.path and edit.line <= last and edit.end_line >= first_line(node)
            for edit in self.edits
        )

    def _circular(self, steps: Sequence[Step]) -> bool:
        """Whether an edit reads the device of the value itself, which is another one once the edit is made."""
        own = {dotted(step.node) or "" for step in steps} | {step.name for step in steps} - {""}
        ends = [f"{name.rpartition('.')[2]}.device" for name in own if name]
        return any(end in edit.text for edit in self.edits for end in ends)

    def untouched(self, steps: Sequence[Step]) -> bool:
        """Whether no edit can have to do with a value: they only put text in, and none of its names is in that text.
        Of what comes out of an object or a module that is not known: an edit may change those elsewhere."""
        if any(step.kind not in _PLAIN for step in steps):
            return False
        words = set()
        for edit in self.edits:
            if (edit.line, edit.column) != (edit.end_line, edit.end_column):
                return False
            words |= set(re.findall(r"[^\W\d]\w*", edit.text))
        names = {n.id for step in steps for n in ast.walk(step.node) if isinstance(n, ast.Name)}
        return not words & (names - {"torch", "np", "device"} | {step.name for step in steps})

    def _at(self, step: Step, wanted: str, use: Step, following: Sequence[Step]) -> str | None:
        if step.kind == "attribute" and self._registered(step):
            built = while_built(step.scope, self.inference.sources)
            return wanted if built and self._moved(step.owner, wanted) else None
        if not isinstance(step.node, ast.expr):
            return UNCHANGED
        name = dotted(step.node)
        if name is not None:
            came_from = following[0] if following and not following[0].extra.get("unsure") else None
            found = self._rebound(name, step, came_from.stmt if came_from is not None else None)
            if found != UNCHANGED:
                return found
        found = self.changed(step.node, step.scope)
        if found == UNCHANGED and isinstance(step.node, ast.Subscript):
            found = self._item(step)
        if found == UNCHANGED and step.name and isinstance(step.stmt, ast.For | ast.AsyncFor | ast.Assign):
            return self._below(step, use)
        return found

    def _moved(self, owner: Any, wanted: str) -> bool:
        """Whether the rest of a module, or where it has no state of its own a module that it is part of, is there."""
        if not values.is_module(owner):
            return False
        own = values.module_device(owner)
        if own is not None or values.module_devices(owner):
            return own == wanted
        holders = [m for m in self.modules if any(sub is owner for _, sub in values.submodules(m))]
        return any(values.module_device(m) == wanted for m in holders)

    def _with_its_module(self, owner: Any, wanted: str) -> bool:
        """Whether an edit moves a module, with all that it was built with, of which this one is a part."""
        for edit in self.edits:
            for module, call, scope in moved(edit, self.begin(edit), self.new[edit.file], self.scopes):
                if any(part is owner for _, part in values.submodules(module)):
                    at = scope.source.statement_at(scope.source.tree_at(edit.line), edit.line)
                    return at is not None and self._infer(call, scope, at) == wanted
        return False

    def _registered(self, step: Step) -> bool:
        """Whether an edit registers the attribute as a buffer, or its items as modules, where it is assigned."""
        name = re.escape(step.name)
        pattern = re.compile(
            rf"\.register_buffer\(\s*[\"']{name}[\"']|\.{name}\s*=\s*[\w.]*\bModule(List|Dict)\("
            if any("Module" in e.text for e in self.edits) and constructing(step.scope)
            else rf"\.register_buffer\(\s*[\"']{name}[\"']"
        )
        texts = (
            self.new[e.file].line(self._line(e.file, step.line)) for e in self.edits if e.file == step.file
        )
        return any(pattern.search(text) for text in texts)

    # An expression that became another

    def changed(self, node: ast.expr, scope: Scope) -> str | None:
        """The device of an expression that the edits change; UNCHANGED, or None where that cannot be told."""
        try:
            new = self._grown(node, scope)
            if new is None:
                return None if self.within(node, scope) else UNCHANGED
            if self._text(self.new, scope, new) == self._text(self.old, scope, node):
                return UNCHANGED
        except EditError:
            return None
        return self._infer(new, scope, node)

    def _text(self, sources: Mapping[str, Source], scope: Scope, node: ast.expr) -> str:
        return sources[scope.source.path].segment(node)

    def _grown(self, node: ast.expr, scope: Scope) -> ast.expr | None:
        """The expression of the edited text that stands where `node` stood, with what was put in behind it."""
        source, new = scope.source, self.new[scope.source.path]
        start, end = source.span(node)
        begin, behind = self._offset(source, start, after=True), self._offset(source, end, after=False)
        put_in = self._offset(source, end, after=True)
        found: ast.expr | None = None
        for other in ast.walk(new.tree_at(new.line_at(begin))):
            if isinstance(other, ast.expr) and new.start(other) == begin:
                if new.end(other) == behind and type(found) is not type(node):
                    found = other
                elif new.end(other) == put_in and found is None and type(other) is type(node):
                    found = other  # what was put in behind it belongs to its last part
        before = source.parent(node)
        while found is not None:
            up = new.parent(found)
            call = new.parent(up) if isinstance(up, ast.Attribute) else None
            if not isinstance(call, ast.Call) or not isinstance(up, ast.Attribute):
                break
            own = new.end(call) <= put_in
            if not own and (
                up.attr not in MOVES or (isinstance(before, ast.Attribute) and before.attr in MOVES)
            ):
                break
            found = call
        return found

    # A name that is bound to something else

    def _rebound(self, name: str, step: Step, gave: ast.AST | None) -> str | None:
        """The device of what a name that is read at a step is bound to, where an edit changed that; `gave` is the
        statement that its value came from.
        """
        source, new = step.scope.source, self.new[step.scope.source.path]
        use = self._twin(step.node, step.scope)
        scope_node = new.scope(use) if use is not None else None
        if use is None or scope_node is None:
            return UNCHANGED
        was = reaching(source, bindings_of(step.scope.node).get(name, []), step.node)
        now = reaching(new, bindings_of(scope_node).get(name, []), use)
        if now is None or (was is not None and same_binding(was, now)):
            return UNCHANGED
        same = self._is(now.stmt, gave, step.scope)
        if not same and not always_past(new, now.stmt, use):
            return None
        found = self._value_of(now, step.scope, step.node)
        return UNCHANGED if same and found is None else found  # what stands further in may tell

    def _is(self, edited: ast.AST, stmt: ast.AST | None, scope: Scope) -> bool:
        """Whether a statement of the edited text is one of the old text with something changed in it."""
        source, new = scope.source, self.new[scope.source.path]
        if not isinstance(stmt, ast.stmt | ast.expr) or type(edited) is not type(stmt):
            return False
        return new.start(edited) == self._offset(source, source.start(stmt), after=True)

    def _below(self, step: Step, use: Step) -> str | None:
        """A statement put below a loop's head or an unpacking and before the use, which binds the step's name anew."""
        assert isinstance(step.stmt, ast.stmt)
        source, new = step.scope.source, self.new[step.scope.source.path]
        start = self._offset(source, source.start(step.stmt), after=True)
        line = new.line_at(start)
        stmt = next(
            (
                s
                for s in ast.walk(new.tree_at(line))
                if type(s) is type(step.stmt) and isinstance(s, ast.stmt) and new.start(s) == start
            ),
            None,
        )
        if stmt is None:
            return UNCHANGED
        read = self._twin(use.node, use.scope) if use.scope is step.scope and use is not step else None
        if read is None:
            return UNCHANGED
        known = {ast.dump(b.stmt) for b in bindings_of(step.scope.node).get(step.name, [])}
        own = ast.dump(stmt)
        for binding in bindings_of(new.scope(stmt)).get(step.name, []):
            text = ast.dump(binding.stmt)
            follows = new.parent(binding.stmt) in (stmt, new.parent(stmt)) and (
                position(stmt) < binding.position < position(read)
            )
            if text not in known and text != own and follows and not isinstance(binding.stmt, ast.For):
                return self._value_of(binding, step.scope, step.node)
        return UNCHANGED

    def _item(self, step: Step) -> str | None:
        """A statement put in before the use, in the same block or one around it, which gives the item a new value."""
        read = self._twin(step.node, step.scope)
        if read is None:
            return UNCHANGED
        new, text = self.new[step.scope.source.path], ast.unparse(step.node)
        known = {ast.dump(n) for n in ast.walk(step.scope.node) if isinstance(n, ast.Assign)}
        for node in ast.walk(new.scope(read)):
            if (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == text
                and ast.dump(node) not in known
            ):
                if position(node) < position(read):
                    return (
                        self._infer(node.value, step.scope, step.node)
                        if always_past(new, node, read)
                        else None
                    )
        return UNCHANGED

    def _value_of(self, binding: Binding, scope: Scope, at: ast.AST) -> str | None:
        value: Any = binding.value
        for index in binding.path:
            if not isinstance(value, ast.Tuple | ast.List) or index >= len(value.elts):
                return None
            value = value.elts[index]
        return self._infer(value, scope, at) if isinstance(value, ast.expr) else None

    def _infer(self, node: ast.expr, scope: Scope, at: ast.AST) -> str | None:
        """The device of an expression of the edited text, read as if it stood at a place of the old one."""
        made = copy.deepcopy(node)
        parent = scope.source.parent(at)
        if parent is not None:
            scope.source.adopt(made, parent)
        for each in ast.walk(made):
            for child in ast.iter_child_nodes(each):
                scope.source.adopt(child, each)
            if isinstance(each, ast.expr | ast.keyword):
                ast.copy_location(each, at)
        refuse(made, scope, self.inference.sources)
        moved = (
            isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in MOVES
        )
        target = keyword(made, "device") if isinstance(made, ast.Call) else None
        self._named = moved or target is not None
        if moved and isinstance(made, ast.Call):
            target = target or (made.args[0] if made.args else None)
        if asks_unmoved(target, scope, self.inference.sources):
            return self.inference.default_device()
        if moved and isinstance(made, ast.Call):
            if target is not None and try_evaluate(target, scope) is MISSING:
                if self.inference.device_named(target, scope) is None:
                    other = self.inference.device(target, scope)
                    return None if other == NOT_A_TENSOR else other
            found = self.inference.moved_to(made, scope)
        else:
            found = self.inference.device(made.value if isinstance(made, ast.DictComp) else made, scope)
        return None if found == NOT_A_TENSOR else found

    def _twin(self, node: ast.AST, scope: Scope) -> ast.AST | None:
        """The same node in the edited text."""
        source, new = scope.source, self.new[scope.source.path]
        try:
            begin = self._offset(source, source.span(node)[0], after=True)  # type: ignore[arg-type]
            tree = new.tree_at(new.line_at(begin))
        except EditError:
            return None
        for other in ast.walk(tree):
            if type(other) is type(node) and new.start(other) == begin:  # type: ignore[arg-type]
                if ast.dump(other) == ast.dump(node):
                    return other
        return None

    def _offset(self, source: Source, offset: int, *, after: bool) -> int:
        """An offset in the edited text; of what was put in just there, `after` or before it."""
        moved = offset
        for edit in self.edits:
            if edit.file != source.path:
                continue
            start, end = source.offset(edit.line, edit.column), source.offset(edit.end_line, edit.end_column)
            if end < offset or (end == offset and (after or start < end)):
                moved += len(edit.text) - (end - start)
        return moved

    def begin(self, edit: Edit) -> int:
        """Where an edit's text starts in the edited text."""
        return self._offset(
            self.old[edit.file], self.old[edit.file].offset(edit.line, edit.column), after=False
        )

    def _line(self, path: str, line: int) -> int:
        source = self.old[path]
        return self.new[path].line_at(self._offset(source, source.offset(line, 0), after=True))
