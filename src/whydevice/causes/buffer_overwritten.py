"""What happened: a registered buffer was replaced by a new CPU tensor after the module was moved.

`self.count = torch.zeros(8)` in a method puts a new tensor in the buffer's place. It is still a buffer, but where
`torch.zeros` made it.

How to recognise it: the name is among the module's buffers, the module was moved, and a method assigns the name.

Before:

    def reset(self):
        self.count = torch.zeros(8)

After:

    def reset(self):
        self.count = torch.zeros(8, device=self.count.device)

Safe: the values are the same, on the device where the buffer was. All buffers that the method overwrites are mended at once;
where `__init__` calls it to make them, there is no old one to ask, and another tensor of the module is asked instead.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from .. import edits
from ..evidence import attributes, building, values
from ..evidence.collect import Evidence
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._mend import mend_value
from ._refilled import all_held, moved_there, refilled

NAME = "buffer-overwritten"
TITLE = "a buffer was replaced by a tensor on another device"


def find(evidence: Evidence) -> Finding | None:
    step = next((s for s in evidence.steps if s.kind == "attribute" and values.is_module(s.owner)), None)
    if step is None or attributes.kind_in(step.owner, step.name) != "buffer":
        return None
    if step.extra.get("method") is None and not step.extra.get("outside"):
        return None
    if building.built_by(step.owner, step.extra.get("method"), evidence.sources):
        return None  # it ran before any move
    wrong = evidence.wrong
    said = wrong.expression if wrong is not None and not wrong.leaf.is_module else step.name
    by = f"{step.extra['method']}()" if step.extra.get("method") else f"line {step.line}"
    finding = Finding(
        culprit=said,
        headline=f"`{said}` is on {evidence.wrong_device}: {by} replaced the buffer after the module was moved",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note=f"a new tensor, on {evidence.wrong_device}, takes the buffer's place",
    )
    mend = _where_it_was(evidence, step)
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _where_it_was(evidence: Evidence, step: Step) -> Mend | None:
    """Make the new tensor, and those that replace the module's other buffers beside it, where the old ones are."""
    root, old = evidence.root, _old(step)
    if old is None or not step.editable or root is None:
        return None
    overwritten = refilled(evidence, step, old)
    if root.kind == "factory" and root.scope.node is step.scope.node and _bare(root.node):
        if _alone(evidence, step) and all_held(evidence, step, overwritten):
            made = edits.add_keyword(step.scope.source, root.node, "device", f"{old}.device")
            for one in overwritten:
                if _bare(one.value) and evidence.inference.call_kind(one.value, step.scope)[0] == "factory":
                    made += edits.add_keyword(step.scope.source, one.value, "device", f"{one.old}.device")
            return Mend("make it where the buffer is", tuple(dict.fromkeys(made)), root.node, step.scope)
    if _remade(step, old):
        return mend_value(evidence, evidence.steps)
    return moved_there(evidence, step, overwritten)


def _alone(evidence: Evidence, step: Step) -> bool:
    """Whether nothing else that the method makes on the wrong device is put together with the tensor on its way."""
    return not any(scope.node is step.scope.node for _, scope in evidence.branches)


def _bare(call: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(call, ast.Call) and not any(k.arg in ("device", "generator") for k in call.keywords)


def _remade(step: Step, old: str) -> bool:
    """Whether the statement computes the buffer from the old one (`self.n = self.n + x`): it stayed where it was."""
    return any(isinstance(n, ast.Attribute) and ast.unparse(n) == old for n in ast.walk(step.node))


def _old(step: Step) -> str | None:
    """How the statement that replaces a buffer can name the old one."""
    statement = step.stmt
    receiver = step.scope.parameters()[0].arg if step.scope.parameters() else ""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "setattr" and len(call.args) == 3:
        return f"getattr({ast.unparse(call.args[0])}, {ast.unparse(call.args[1])})"
    if isinstance(call, ast.Call):
        return f"{receiver}.{step.name}" if receiver and step.name.isidentifier() else None
    for target in getattr(statement, "targets", []):
        for leaf in ast.walk(target):
            if isinstance(leaf, ast.Attribute) and leaf.attr == step.name:
                return ast.unparse(leaf)
    return None
