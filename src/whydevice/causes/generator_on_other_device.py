"""What happened: a random generator is on another device than the tensor that it is to fill.

`torch.Generator()` is a CPU generator. `torch.randn(..., device="cuda", generator=g)` wants one of the GPU, and a
DataLoader's shuffling wants one of the CPU.

How to recognise it: the message names the device that was expected of the generator, and the one it has.

Before:

    g = torch.Generator().manual_seed(0)
    noise = torch.randn(4, device="cuda", generator=g)

After:

    g = torch.Generator(device="cuda").manual_seed(0)
    noise = torch.randn(4, device="cuda", generator=g)

Unsafe: a GPU's generator gives other numbers from the same seed than the CPU's. To keep the numbers, make the tensor on
the CPU with the CPU's generator, and move it.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import canonical, keyword
from ..evidence.operands import Leaf, flat
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._moves import best_anchor

NAME = "generator-on-other-device"
TITLE = "a random generator is on another device than its tensor"
ORDER = 8


def find(evidence: Evidence) -> Finding | None:
    if evidence.error.family[:1] != "J" or evidence.user is None or len(evidence.error.devices) != 2:
        return None
    wanted, found = (canonical(d) for d in evidence.error.devices)
    leaf = next((one for one in flat(evidence.leaves) if _is_generator(one)), None)
    if leaf is None or wanted is None or found is None:
        return None
    evidence.wanted, evidence.wrong_device = wanted, found
    steps = evidence.trace(leaf.node, leaf.scope)
    finding = Finding(
        culprit=leaf.expression,
        headline=f"the generator `{leaf.expression}` is on {found}, but its tensor is on {wanted}",
        root_node=steps[-1].node,
        root_scope=steps[-1].scope,
        root_note=f"a generator of {found}",
    )
    made = _made(steps)
    if made is not None:
        finding.root_node, finding.root_scope = made
        mend = _mend(evidence, *made)
        if mend is not None:
            finding.mends.append(mend)
    return finding


def _is_generator(one: Leaf) -> bool:
    torch = values.torch()
    return torch is not None and type(one.value) is torch.Generator


def _made(steps: list[Step]) -> tuple[ast.Call, Scope] | None:
    """The `torch.Generator(...)` call that the way leads to, also inside `torch.Generator().manual_seed(0)`."""
    for step in reversed(steps):
        for node in ast.walk(step.node):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Generator":
                return (node, step.scope) if step.editable else None
    return None


def _mend(evidence: Evidence, call: ast.Call, scope: Scope) -> Mend | None:
    given = keyword(call, "device") or (call.args[0] if call.args else None)
    source = scope.source
    reason = "a GPU's generator gives other numbers from the same seed than the CPU's"
    title = f"make the generator on {evidence.wanted}"
    if evidence.wanted == "cpu":
        if given is None:
            return None
        return Mend(title, edits.replace_node(source, given, '"cpu"'), call, scope, "unsafe", reason)
    anchor = best_anchor(evidence, scope, call)
    if anchor is None:
        return None
    if given is not None:
        return Mend(title, edits.replace_node(source, given, anchor.text), call, scope, "unsafe", reason)
    return Mend(title, edits.add_keyword(source, call, "device", anchor.text), call, scope, "unsafe", reason)
