"""What happened: a model runs over several GPUs, so its output is on the last one, and the target is on the first.

How to recognise it: a loss failed, its input was computed on one GPU and its target is on another.

Before:

    loss = criterion(model(x), y)

After:

    logits = model(x)
    loss = criterion(logits, y.to(logits.device))

Safe: the target is the small one of the two; the logits stay where backward() needs them.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.anchors import anchors
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import NOT_A_TENSOR
from ..evidence.libraries import is_library
from ..evidence.scopes import MISSING, Argument, Scope, bindings_of, own_nodes, reaching
from ..evidence.sources import is_regular_file
from ..evidence.steps import Step
from ._facts import requires_grad
from ._finding import Finding, Mend

NAME = "loss-on-last-gpu"
TITLE = "the target is not on the GPU that the output is on"
LOSSES = frozenset(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
    "binary_cross_entropy_with_logits gaussian_nll_loss poisson_nll_loss soft_margin_loss multi_margin_loss "
    "multilabel_margin_loss multilabel_soft_margin_loss".split()
)


def find(evidence: Evidence) -> Finding | None:
    devices = {d for d in evidence.error.devices if d.startswith("cuda")}
    loss = next((s for s in evidence.scopes if s.function in LOSSES and _is_torch(s)), None)
    if loss is None or len(devices) < 2 or evidence.user is None:
        return None
    output, target = (loss.locals.get(name) for name in ("input", "target"))
    if not (values.is_tensor(output) and values.is_tensor(target)):
        return None
    wanted, wrong = values.device_of(output), values.device_of(target)
    if wanted == wrong or not {wanted, wrong} <= devices or wrong is None or wanted is None:
        return None
    evidence.wanted, evidence.wrong_device = wanted, wrong
    place = _outward(loss, wrong, evidence)
    if place is None:
        return None
    finding = _finding(evidence, place, wanted, wrong)
    if requires_grad(target) and not requires_grad(output):
        _unnamed(finding, wanted, wrong)
    return finding


def _unnamed(finding: Finding, wanted: str, wrong: str) -> None:
    """`mse_loss(y, prediction)`: what came as the target is what is trained, so neither is called by the parameter's name."""
    finding.headline = f"`{finding.culprit}` is on {wrong}, but what the loss compares it with is on {wanted}"
    finding.root_note = f"on {wrong}, and compared with what is on {wanted}"
    for mend in finding.mends:
        mend.title = "move it to the GPU of the other"


def _is_torch(scope: Scope) -> bool:
    return scope.module_name == "torch.nn.functional"


def _outward(loss: Scope, wrong: str, evidence: Evidence) -> tuple[Argument, Scope] | None:
    """The user's expression that became the target, as far out as the output is at hand too."""
    target, output = loss.bound.get("target"), loss.bound.get("input")
    best: tuple[Argument, Scope] | None = None
    while target is not None and output is not None:
        scope = target.scope
        steps = evidence.tracer.trace(target.node, scope, wrong)
        if _own(scope):
            best = (target, output.scope)
        came = _parameter(steps, scope)
        if came is None:
            break
        if _own(scope) and not _given(output.node, scope):
            break  # the output is made in here: outside, its device has no name
        target = came
        output = _given(output.node, scope) or output
        if output.scope is not came.scope:
            output = Argument(came.node, came.scope)
    return best


def _parameter(steps: list[Step], scope: Scope) -> Argument | None:
    """The argument that the value came in with, when nothing but the function's own work lies between."""
    bound = scope.bound
    for step in steps:
        if step.kind == "parameter" and step.extra.get("callee") is scope and not step.extra.get("default"):
            return bound.get(step.name)
    return None


def _given(node: ast.AST, scope: Scope) -> Argument | None:
    """The argument that an expression was computed from, by way of at most one name; `self` does not count."""
    own = scope.parameters()[0].arg if scope.receiver is not MISSING and scope.parameters() else ""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    for name in list(names):
        found = bindings_of(scope.node).get(name.id)
        binding = reaching(scope.source, found, name) if found else None
        if binding is not None and binding.value is not None:
            names += [n for n in ast.walk(binding.value) if isinstance(n, ast.Name)]
    for name in names:
        argument = scope.bound.get(name.id)
        if argument is not None and name.id != own:
            return argument
    return None


def _own(scope: Scope) -> bool:
    return not is_library(scope.source.path) and is_regular_file(scope.source.path)


def _finding(evidence: Evidence, place: tuple[Argument, Scope], wanted: str, wrong: str) -> Finding:
    argument, _ = place
    scope = argument.scope
    text = scope.source.one_line(argument.node)
    if argument.spread and type(argument.key) is str:
        text = f'{text}["{argument.key}"]'
    finding = Finding(
        culprit=text,
        culprit_at=(argument.node, scope),
        culprit_device=wrong,
        headline=f"`{text}` is on {wrong}, but the output that the loss compares it with is on {wanted}",
        root_node=argument.node,
        root_scope=scope,
        root_note=f"a target on {wrong}, for an output on {wanted}",
    )
    device = _device(evidence, argument, scope, wanted)
    source = scope.source
    if not argument.spread:
        made = edits.append_method(source, argument.node, f".to({device})")
    elif type(argument.key) is str and isinstance(argument.node, ast.Name):
        statement = scope.source.statement(argument.node)
        if statement is None:
            return finding
        made = edits.insert_before(source, statement, f"{text} = {text}.to({device})")
    else:
        return finding
    for other in _other_targets(evidence, argument, wrong):
        made += edits.append_method(scope.source, other.node, f".to({device})")
    finding.mends.append(Mend("move the target to the GPU of the output", made, argument.node, scope))
    return finding


def _other_targets(evidence: Evidence, argument: Argument, wrong: str) -> list[Argument]:
    """The further arguments of the same call that go into a loss in the function that was called: the next to fail."""
    callee = next((s for s in evidence.scopes if argument in s.bound.values()), None)
    if callee is None or argument.spread or callee.live is None:
        return []
    failed = callee.live.node
    loss = ast.unparse(failed.func) if isinstance(failed, ast.Call) else ""
    found: list[Argument] = []
    for node in own_nodes(callee.node):
        if (
            isinstance(node, ast.Call)
            and len(node.args) > 1
            and node is not failed
            and ast.unparse(node.func) == loss
        ):
            other = _given(node.args[1], callee)
            if other is None or other is argument or other.spread or other.scope is not argument.scope:
                continue
            held = try_evaluate(other.node, other.scope)
            if values.is_tensor(held) and values.device_of(held) == wrong:
                found.append(other)
    return found


def _device(evidence: Evidence, argument: Argument, scope: Scope, wanted: str) -> str:
    """The device of the output beside it in the call; else what names that GPU in the scope; else its name."""
    call = scope.source.parent(argument.node)
    beside = [a for a in call.args if a is not argument.node] if isinstance(call, ast.Call) else []
    for node in beside:
        held = try_evaluate(node, scope)
        device = values.device_of(held) if values.is_tensor(held) else evidence.inference.device(node, scope)
        if isinstance(node, ast.Name | ast.Attribute) and device == wanted and device != NOT_A_TENSOR:
            return f"{scope.source.one_line(node)}.device"
    found = anchors(scope, argument.node, wanted, evidence.inference)
    named = next((a.text for a in found if not a.base), None)
    return named or f'"{wanted}"'
