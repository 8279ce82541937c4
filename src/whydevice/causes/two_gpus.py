"""What happened: two parts of a computation are on two GPUs, and what goes from one to the other was not moved.

How to recognise it: the operand was computed on one GPU, and the module or the tensors that it meets are on another.

Before:

    x = self.stage1(x.to(self.dev0))
    return self.stage2(x)

After:

    x = self.stage1(x.to(self.dev0))
    return self.stage2(x.to(self.dev1))

Safe: the gradient goes back the same way.
"""

from __future__ import annotations

import ast

from ..evidence import values
from ..evidence.collect import Evidence, Wrong
from ..evidence.scopes import MISSING
from ..evidence.steps import Step
from ._finding import Finding
from ._moves import appended, move_text
from ._values_shared import together

NAME = "two-gpus"
TITLE = "tensors on two GPUs meet"


def find(evidence: Evidence) -> Finding | None:
    sides = (evidence.wanted, evidence.wrong_device)
    wrong = evidence.wrong
    if not all(d is not None and d.startswith("cuda") for d in sides) or wrong is None:
        return None
    if wrong.leaf.is_module or evidence.user is None or not _computed(evidence, wrong):
        return None
    node = wrong.leaf.node
    finding = Finding(
        certainty="certain" if wrong.proven and evidence.direction else "likely",
        culprit=wrong.expression,
        root_node=node,
        root_scope=wrong.leaf.scope,
        root_note=f"on {wrong.device}, used on {evidence.wanted}",
    )
    each = _of_the_module(evidence, wrong)
    text = f".to({each})" if each is not None else move_text(evidence, wrong.leaf.scope, node)
    mend = appended(Step("use", node, wrong.leaf.scope), text, "move it to the GPU where it is used")
    if mend is not None:
        together(evidence, mend)
        finding.mends.append(mend)
    return finding


def _of_the_module(evidence: Evidence, wrong: Wrong) -> str | None:
    """In a loop the module called may be on another GPU each time: its own device, then, and no name or literal."""
    scope = wrong.leaf.scope
    if not any(isinstance(up, ast.For | ast.While) for up in scope.source.ancestors(wrong.leaf.node)):
        return None
    modules = [one for one in evidence.leaves if one.is_module and one.device == evidence.wanted]
    if not modules or not isinstance(modules[0].node, ast.Name):
        return None
    return f"next({modules[0].expression}.parameters()).device"


def _computed(evidence: Evidence, wrong: Wrong) -> bool:
    """Whether the operand was computed on its GPU, by a module or from other tensors there: it belongs there."""
    if not isinstance(wrong.leaf.node, ast.expr) or isinstance(wrong.leaf.node, ast.List | ast.Tuple):
        return False
    held = wrong.leaf.value
    if held is MISSING:
        return False
    if values.is_tensor(held) and not values.is_leaf(held):
        return True
    return any(
        step.kind == "module-call" or _calls_module(step) or _sent(step, wrong) for step in evidence.steps
    )


def _sent(step: Step, wrong: Wrong) -> bool:
    """Whether the user's code sent it there, or what it was computed from, by a name (`ids.to(self.first)`)."""
    return (
        step.kind == "move"
        and step.extra.get("to") == wrong.device
        and isinstance(step.node, ast.Call)
        and bool(step.node.args)
        and isinstance(step.node.args[0], ast.Name | ast.Attribute)
    )


def _calls_module(step: Step) -> bool:
    from ..evidence.evaluate import try_evaluate

    return isinstance(step.node, ast.Call) and values.is_module(try_evaluate(step.node.func, step.scope))
