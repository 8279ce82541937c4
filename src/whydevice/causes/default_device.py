"""What happened: `torch.set_default_device` was called, and this tensor was made in a way that it does not reach.

The default device holds for factory calls (`torch.zeros`, `torch.tensor`) and for the parameters of new modules. It does
not reach `torch.from_numpy`, `torch.Tensor(...)`, tensors that a DataLoader's workers make, the generator with which a
DataLoader shuffles or `random_split` draws, or what is loaded from a file. As a context (`with torch.device("cuda"):`)
it ends with its block.

How to recognise it: the default device is the wanted one, and the tensor comes from such a call, or was made below the
block. Shuffling fails with "Expected a 'cuda' device type for generator but found 'cpu'".

Before:

    torch.set_default_device("cuda")
    x = torch.from_numpy(array)

After:

    x = torch.from_numpy(array).to("cuda")

Safe: `.to()` of a tensor that is there already returns it as it is.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.anchors import LITERAL, anchors
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import canonical, keyword
from ..evidence.scopes import own_nodes, position
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._loaders import drawing, made_by
from ._values_shared import value_finding

NAME = "default-device"
TITLE = "the default device does not reach this call"


def find(evidence: Evidence) -> Finding | None:
    if evidence.error.family[:1] == "J":
        return _shuffled(evidence)
    root = evidence.root
    if root is None or not isinstance(root.node, ast.expr) or evidence.wanted == "cpu":
        return None
    if root.kind == "factory":
        return _outside_context(evidence, root)
    if root.kind != "constructor" or evidence.inference.default_device() != evidence.wanted:
        return None
    finding = Finding(
        headline=f"`{evidence.wrong.expression if evidence.wrong else root.text()}` is on {evidence.wrong_device}: the default device {evidence.wanted} does not reach {root.name}()",
        root_node=root.node,
        root_scope=root.scope,
        root_note="makes a cpu tensor whatever the default device is",
    )
    found = anchors(root.scope, root.node, evidence.wanted or "", evidence.inference)
    anchor = next((a for a in found if a.rank == LITERAL), found[0] if found else None)
    if root.editable and anchor is not None:
        made = edits.append_method(root.scope.source, root.node, f".to({anchor.text})")
        finding.mends.append(Mend("move it where it is made", made, root.node, root.scope))
    return finding


def _shuffled(evidence: Evidence) -> Finding | None:
    """A sampler makes a generator of the CPU for itself, and the numbers that it draws are made on the default device."""
    wanted, found = (canonical(d) for d in evidence.error.devices[:2] or ("", ""))
    if wanted is None or wanted != evidence.inference.default_device() or found != "cpu":
        return None
    drawn = drawing(evidence)
    made = made_by(evidence, type(drawn[0])) if drawn else None
    if made is None:
        call = _with_default_generator(evidence)
        if call is None or evidence.user is None:
            return None
        scope, text, does, takes = evidence.user, ast.unparse(call.func), "draws", "takes the default one"
    else:
        loader, call, scope = made
        text, does, takes = scope.source.one_line(loader), "shuffles", "makes one"
    if keyword(call, "generator") is not None:
        return None
    evidence.wanted, evidence.wrong_device, evidence.wrongs = wanted, found, []
    finding = Finding(
        culprit=text,
        headline=f"`{text}` {does} with a generator on {found}, but the default device is {wanted}",
        root_node=call,
        root_scope=scope,
        root_note=f"given no generator, so it {takes} on {found}",
    )
    source = scope.source
    name, imports = edits.torch_name(source, "torch", "Generator", call)
    device = anchors(scope, call, wanted, evidence.inference)[0].text
    added = edits.add_keyword(source, call, "generator", f"{name}(device={device})")
    finding.mends.append(Mend("give it a generator on the default device", (*imports, *added), call, scope))
    return finding


def _with_default_generator(evidence: Evidence) -> ast.Call | None:
    """The user's call of a library's function whose parameter `generator` was left at torch's default generator."""
    user, node = evidence.user, evidence.node
    below = next((s for s in evidence.scopes if s.caller is user and s.call is node), None)
    if below is None or not isinstance(node, ast.Call) or not below.is_parameter("generator"):
        return None
    default = values.lookup(values.instance_dict(values.torch()), "default_generator")
    return node if default is not None and below.locals.get("generator") is default else None


def _outside_context(evidence: Evidence, root: Step) -> Finding | None:
    """Made without `device=` below a `with torch.device(...)` block of the wanted device, which has ended."""
    given = keyword(root.node, "device") if isinstance(root.node, ast.Call) else None
    everywhere = evidence.inference.default_device() == evidence.wanted  # then no block is the reason
    if given is not None or everywhere or _within_another(evidence):
        return None
    for step in [root, *evidence.steps]:
        for node in own_nodes(step.scope.node):
            if not isinstance(node, ast.With) or position(node) >= position(step.node):
                continue
            if node in step.scope.source.ancestors(step.node) or step.library:
                continue
            named = [i.context_expr for i in node.items if _names_default(evidence, i.context_expr, step)]
            if named:
                finding = value_finding(evidence, "outside of that block, so on cpu")
                if finding is not None:
                    finding.trail.append((named[0], step.scope, "the default device in this block only"))
                return finding
    return None


def _within_another(evidence: Evidence) -> bool:
    """Whether the way leads through a block that sets another default device."""
    for step in evidence.steps:
        for up in step.scope.source.ancestors(step.node):
            if isinstance(up, ast.With) and any(
                _default_of(evidence, i.context_expr, step) for i in up.items
            ):
                return True
    return False


def _names_default(evidence: Evidence, context: ast.expr, step: Step) -> bool:
    return _default_of(evidence, context, step) == evidence.wanted


def _default_of(evidence: Evidence, context: ast.expr, step: Step) -> str | None:
    """The default device that a context sets: `with torch.device("cuda"):`, `with device:`."""
    inner: ast.AST = context
    if isinstance(context, ast.Call):
        if try_evaluate(context.func, step.scope) is not values.torch().device or not context.args:
            return None
        inner = context.args[0]
    elif not isinstance(context, ast.Name | ast.Attribute):
        return None
    return evidence.inference.device_named(inner, step.scope)
