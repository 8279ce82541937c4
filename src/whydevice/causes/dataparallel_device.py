"""What happened: nn.DataParallel found a parameter or buffer that is not on the first of its GPUs, or did not copy a
tensor to the others.

DataParallel copies the parameters and buffers of its module from the first GPU of `device_ids` to the others for every
call, so they all have to be there. A tensor in a plain attribute is not copied: every replica has that of the first GPU.

How to recognise it: `module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of
them on device: ...`, or an operand in a replica's `forward` is a plain attribute on another GPU.

Before:

    model = nn.DataParallel(model)

After:

    model = nn.DataParallel(model.to("cuda:0"))

Or, for a plain attribute:

    self.scale = torch.ones(4).cuda()

After:

    self.register_buffer("scale", torch.ones(4).cuda(), persistent=False)

Safe for a module that was left behind, and for a buffer that is not saved. A module that is spread over GPUs on purpose runs without DataParallel.
"""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.scopes import MISSING, Scope
from ..evidence.steps import Step
from ..types import Edit
from . import tensor_attribute_not_buffer
from ._facts import is_replica
from ._finding import Finding, Mend
from ._modules import appended_move
from ._moves import appended, move_text, moves_in
from ._order import move_statements, moved, value_now
from ._user_calls import UserCall, user_calls
from ._wrapper_flag import flag_mend

NAME = "dataparallel-device"
TITLE = "DataParallel's module, or a tensor in it, is not on the GPU that it runs on"


def find(evidence: Evidence) -> Finding | None:
    kept = _not_replicated(evidence)
    if kept is not None:
        return kept
    if evidence.error.family != "N1" or len(evidence.error.devices) < 2:
        return None
    wrapper = _wrapper(evidence)
    if wrapper is None:
        return None
    module = values.attribute(wrapper, "module")
    first = evidence.error.devices[0]
    if "cuda" in first and ":" not in first:
        first = "cuda:0"
    evidence.wanted, evidence.wrong_device = first, evidence.error.devices[1]
    devices = values.module_devices(module)
    made = _construction(evidence, wrapper)
    if len(devices) == 1:
        return _elsewhere(evidence, made, next(iter(devices)))
    stray = [
        (path, t, kind) for path, t, kind in values.module_tensors(module) if values.device_of(t) != first
    ]
    if len(stray) == 1 or all(d == "cpu" or d == first for d in devices):
        return _left_behind(evidence, wrapper, stray[0][0])
    return _spread(evidence, made, wrapper, sorted(devices))


def _not_replicated(evidence: Evidence) -> Finding | None:
    """A tensor that all replicas share: a plain attribute, or one made outside the module. The first GPU has it."""
    user, wrong = evidence.user, evidence.wrong
    sides = (evidence.wanted, evidence.wrong_device)
    if user is None or wrong is None or not is_replica(user.receiver) or not evidence.steps:
        return None
    if not all(d is not None and d.startswith("cuda") for d in sides):
        return None
    said = f"`{wrong.expression}` is on {wrong.device} in the replica on {evidence.wanted}"
    if any(s.kind == "attribute" and is_replica(s.owner) for s in evidence.steps):
        finding = tensor_attribute_not_buffer.find(evidence)
        if finding is not None:
            finding.headline = f"{said}: DataParallel copies parameters and buffers only"
            finding.root_note = "a plain attribute: DataParallel copies parameters and buffers only"
        return finding
    made, leaf = evidence.steps[-1], wrong.leaf
    if made.scope.function is not None or not values.is_leaf(leaf.value):
        return None
    mend = appended(
        Step("use", leaf.node, leaf.scope),
        move_text(evidence, leaf.scope, leaf.node),
        "move it to the replica's GPU where it is used",
    )
    return Finding(
        headline=f"{said}: all replicas of DataParallel share it",
        root=made,
        root_note=f"one for all replicas, on {wrong.device}",
        mends=[mend] if mend is not None else [],
    )


def _wrapper(evidence: Evidence) -> Any:
    torch = values.torch()
    for scope in reversed(evidence.scopes):
        if issubclass(type(scope.receiver), torch.nn.DataParallel):
            return scope.receiver
    return None


def _construction(evidence: Evidence, wrapper: Any) -> UserCall | None:
    """The user's own call that wrapped the module."""
    found = [c for c in user_calls(evidence) if c.called is type(wrapper)]
    same = [c for c in found if c.result() is wrapper]
    return next(iter([*same, *found]), None)


def _expression(evidence: Evidence, wrapper: Any) -> str | None:
    """What the user's frame calls the wrapper, or the module in it: an operand, or an attribute of one."""
    module = values.attribute(wrapper, "module")
    for one in evidence.leaves:
        if one.value is wrapper:
            return one.expression
        for name, value in values.named(values.instance_dict(one.value))[:200]:
            if value is wrapper or value is module:
                return f"{one.expression}.{name}"
    return None


def _elsewhere(evidence: Evidence, made: UserCall | None, device: str) -> Finding | None:
    """The module is as a whole on another device than `device_ids[0]`."""
    if made is None or not made.node.args:
        return None
    ids = keyword(made.node, "device_ids") or (made.node.args[1] if len(made.node.args) > 1 else None)
    finding = Finding(
        culprit=_name(evidence),
        headline=f"`{_name(evidence)}` is on {device}, but DataParallel runs it from {evidence.wanted} (device_ids[0])",
        root_node=made.node,
        root_scope=made.scope,
        root_note=f"wraps a module that is on {device}",
    )
    if device.startswith("cuda") and ids is not None:
        index = device.partition(":")[2] or "0"
        literal, scope = _literal(evidence, ids, made.scope)
        finding.root_node, finding.root_scope = literal, scope
        text = f"[{index}]"
        if isinstance(literal, ast.List) and len(literal.elts) > 1:
            rest = [scope.source.one_line(e) for e in literal.elts if scope.source.one_line(e) != index]
            text = f"[{', '.join([index, *rest])}]"
        finding.root_note = f"does not begin with {index}, where the module is"
        made_edits = edits.replace_node(scope.source, literal, text)
        begin = Mend("begin with the GPU that the module is on", made_edits, literal, scope)
        if not isinstance(literal, ast.List):  # how many they are is not written here
            begin.applicability, begin.reason = "unsafe", "runs on that GPU alone"
        finding.mends.append(begin)
        return finding
    if _was_moved(evidence, made):
        finding.certainty, finding.root_node, finding.root_scope = "likely", evidence.node, evidence.user
        finding.root_note = f"its module is on {device} by now"
        return finding
    evidence.wrong_device = device
    mend = appended_move(evidence, made.node.args[0], made.scope, "move the module before it is wrapped")
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _was_moved(evidence: Evidence, made: UserCall) -> bool:
    """Whether the script moves the module to that GPU, in the call or elsewhere: what took it away came later."""
    argument = made.node.args[0]
    if any(evidence.inference.moved_to(call, made.scope) == evidence.wanted for call in moves_in([argument])):
        return True
    held = value_now(argument, made.scope)
    return held is not MISSING and any(
        value_now(moved(call), made.scope) is held for call, _ in move_statements(evidence, made.scope)
    )


def _unwrapped(made: UserCall, argument: ast.expr) -> tuple[Edit, ...]:
    """The module in place of the wrapper; `net = DataParallel(net)` goes, with a test that asks for that alone."""
    source = made.scope.source
    statement = source.statement(made.node)
    if isinstance(statement, ast.Assign) and statement.value is made.node:
        if [ast.unparse(t) for t in statement.targets] == [ast.unparse(argument)]:
            test = source.parent(statement)
            alone = isinstance(test, ast.If) and test.body == [statement] and not test.orelse
            within = source.parent(test) if isinstance(test, ast.If) and alone else None
            if (
                isinstance(test, ast.If)
                and alone
                and not (isinstance(within, ast.If) and test in within.orelse)
            ):
                return edits.delete_statement(source, test)
            return edits.delete_statement(source, statement)
    return edits.replace_node(source, made.node, source.one_line(argument))


def _name(evidence: Evidence) -> str:
    wrapper = _wrapper(evidence)
    return _expression(evidence, wrapper) or "model"


def _literal(evidence: Evidence, ids: ast.expr, scope: Scope) -> tuple[ast.expr, Scope]:
    """The list that `device_ids` was written as, where the way to it can be followed."""
    called = scope if scope.frame is not None else evidence.tracer.scope_of(scope.node, scope)
    for step in reversed(evidence.tracer.trace(ids, called, None)):
        node = _under_key(step.node, ids) if isinstance(step.node, ast.Dict) else step.node
        if isinstance(node, ast.List) and step.editable:
            return node, step.scope
    return ids, scope


def _under_key(written: ast.Dict, ids: ast.expr) -> ast.expr | None:
    """The value that a dict was written with under the key of `config["gpus"]`."""
    key = ids.slice.value if isinstance(ids, ast.Subscript) and isinstance(ids.slice, ast.Constant) else None
    found = [
        v
        for k, v in zip(written.keys, written.values, strict=True)
        if isinstance(k, ast.Constant) and k.value == key
    ]
    return found[0] if len(found) == 1 and key is not None else None


def _left_behind(evidence: Evidence, wrapper: Any, path: str) -> Finding | None:
    """One tensor of the module is somewhere else: where its attribute was given its value."""
    user = evidence.user
    name = _expression(evidence, wrapper)
    if user is None or name is None or evidence.node is None:
        return None
    text = f"{name}.module.{path}"
    node = ast.parse(text, mode="eval").body
    ast.copy_location(node, evidence.node)
    for inner in ast.walk(node):
        ast.copy_location(inner, evidence.node)
    steps = evidence.tracer.trace(node, user, evidence.wrong_device)
    finding = Finding(
        culprit=text,
        headline=f"`{text}` is on {evidence.wrong_device}, but DataParallel runs its module from {evidence.wanted}",
        root=steps[-1] if len(steps) > 1 else None,
        root_note=f"on {evidence.wrong_device} here",
    )
    from ._mend import mend_value

    mend = mend_value(evidence, steps) if len(steps) > 1 else None
    if mend is not None:
        finding.mends.append(mend)
        finding.root_node, finding.root_scope, finding.root = mend.node, mend.scope, None
    return finding


def _spread(evidence: Evidence, made: UserCall | None, wrapper: Any, devices: list[str]) -> Finding | None:
    """The module's parts are on several GPUs on purpose: no replica can be made of it."""
    name = _expression(evidence, wrapper)
    finding = Finding(
        either=True,
        culprit=name,
        headline=f"DataParallel wraps a module that is spread over {' and '.join(devices)}",
        root_note="wraps a module whose parts are on several GPUs",
    )
    if made is not None and made.node.args:
        finding.root_node, finding.root_scope = made.node, made.scope
        argument = made.node.args[0]
        edit = _unwrapped(made, argument)
        finding.mends.append(
            Mend(
                "run it without DataParallel",
                edit,
                made.node,
                made.scope,
                "unsafe",
                "batches are no longer split over GPUs",
            )
        )
        return finding
    flag = flag_mend(evidence, wrapper)
    if flag is None:
        finding.certainty = "likely"
        finding.root_node, finding.root_scope = evidence.node, evidence.user
        return finding
    finding.root_node, finding.root_scope = flag.node, flag.scope
    finding.root_note = "lets the library wrap the model in DataParallel"
    finding.mends.append(flag)
    return finding
