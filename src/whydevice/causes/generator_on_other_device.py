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
from typing import TypeGuard

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import canonical, keyword
from ..evidence.operands import Leaf, flat
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._loaders import drawing, made_by
from ._moves import best_anchor

NAME = "generator-on-other-device"
TITLE = "a random generator is on another device than its tensor"


def find(evidence: Evidence) -> Finding | None:
    if evidence.error.family[:1] != "J" or evidence.user is None or len(evidence.error.devices) != 2:
        return None
    wanted, found = (canonical(d) for d in evidence.error.devices)
    leaf = next((one for one in flat(evidence.leaves) if _is_generator(one)), None)
    if wanted is None or found is None:
        return None
    if leaf is None:
        return _in_loader(evidence, wanted, found)
    evidence.wanted, evidence.wrong_device = wanted, found
    steps = evidence.trace(leaf.node, leaf.scope)
    finding = Finding(
        culprit=leaf.expression,
        headline=f"the generator `{leaf.expression}` is on {found}, but its tensor is on {wanted}",
        root_node=steps[-1].node,
        root_scope=steps[-1].scope,
        root_note=f"a generator on {found}",
    )
    made = _made(evidence, steps)
    if made is None and _contradicted(evidence, steps[-1]):
        finding.root_node, finding.root_scope = leaf.node, leaf.scope
    if made is not None:
        finding.root_node, finding.root_scope = made
        mend = _mend(evidence, *made)
        if mend is not None:
            finding.mends.append(mend)
    return finding


def _in_loader(evidence: Evidence, wanted: str, found: str) -> Finding | None:
    """The generator that a DataLoader or a sampler was given, and draws from."""
    kind = values.torch().Generator
    drawn = next(
        (d for d in drawing(evidence) if type(values.instance_dict(d).get("generator")) is kind), None
    )
    made = made_by(evidence, type(drawn)) if drawn is not None else None
    if made is None:
        return None
    loader, call, scope = made
    given = keyword(call, "generator")
    if given is None:
        return None
    evidence.wanted, evidence.wrong_device, evidence.wrongs = wanted, found, []
    text = scope.source.one_line(given)
    steps = evidence.trace(given, scope)
    finding = Finding(
        culprit=text,
        headline=f"the generator `{text}` is on {found}, but `{scope.source.one_line(loader)}` draws on {wanted}",
        root_node=given,
        root_scope=scope,
        root_note=f"draws its order on {wanted}",
    )
    where = _made(evidence, steps)
    if where is not None and not _given_elsewhere(given, scope):
        finding.root_node, finding.root_scope = where
        finding.root_note = f"a generator on {found}"
        mend = _mend(evidence, *where)
    else:
        mend = _own_generator(evidence, given, scope)
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _given_elsewhere(given: ast.expr, scope: Scope) -> bool:
    """Whether another call of the file is given this generator as well, which may want it where it is."""
    text = ast.unparse(given)
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "generator"
        and node.value is not given
        and ast.unparse(node.value) == text
        for node in scope.source.nodes_with("generator")
    )


def _own_generator(evidence: Evidence, given: ast.expr, scope: Scope) -> Mend | None:
    if not isinstance(given, ast.expr):
        return None
    source = scope.source
    name, imports = edits.torch_name(source, "torch", "Generator", given)
    where = "" if evidence.wanted == "cpu" else f'device="{evidence.wanted}"'
    made = edits.replace_node(source, given, f"{name}({where})")
    reason = "the other generator stays as it is for the other calls; this one has a seed of its own"
    return Mend(
        f"give it a generator on {evidence.wanted}", (*imports, *made), given, scope, "unsafe", reason
    )


def _is_generator(one: Leaf) -> bool:
    torch = values.torch()
    return torch is not None and type(one.value) is torch.Generator


def _made(evidence: Evidence, steps: list[Step]) -> tuple[ast.Call, Scope] | None:
    """The `torch.Generator(...)` call that the way leads to, also inside `torch.Generator().manual_seed(0)`; of several
    that it may be, one that makes a generator where this one is."""
    for step in reversed(steps):
        for node in ast.walk(step.node):
            if _makes(node) and _fits(evidence, node, step.scope):
                return (node, step.scope) if step.editable else None
    for branch, scope in evidence.branches:
        for node in ast.walk(branch):
            if _makes(node) and _fits(evidence, node, scope) and Step("use", node, scope).editable:
                return node, scope
    return None


def _makes(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Generator"


def _fits(evidence: Evidence, call: ast.Call, scope: Scope) -> bool:
    """Whether a call may have made a generator on the device that this one is on."""
    given = keyword(call, "device") or (call.args[0] if call.args else None)
    if given is None:
        return evidence.wrong_device == "cpu"
    return evidence.inference.device_named(given, scope) in (None, evidence.wrong_device)


def _contradicted(evidence: Evidence, step: Step) -> bool:
    return any(_makes(n) and not _fits(evidence, n, step.scope) for n in ast.walk(step.node))


def _mend(evidence: Evidence, call: ast.Call, scope: Scope) -> Mend | None:
    given = keyword(call, "device") or (call.args[0] if call.args else None)
    source = scope.source
    reason = "a GPU's generator gives other numbers from the same seed than the CPU's"
    title = f"make the generator on {evidence.wanted}"
    if evidence.wanted == "cpu":
        if given is None:
            return None
        reason = "a CPU's generator gives other numbers from the same seed than the GPU's"
        return Mend(title, edits.replace_node(source, given, '"cpu"'), call, scope, "unsafe", reason)
    anchor = best_anchor(evidence, scope, call)
    if anchor is None:
        return None
    if given is not None:
        return Mend(title, edits.replace_node(source, given, anchor.text), call, scope, "unsafe", reason)
    return Mend(title, edits.add_keyword(source, call, "device", anchor.text), call, scope, "unsafe", reason)
