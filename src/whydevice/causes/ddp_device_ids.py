"""What happened: DistributedDataParallel was given `device_ids`, and its module is not on one GPU.

`device_ids` names the one GPU on which the whole module is. A module on the CPU, or one that is spread over several
GPUs, takes no `device_ids`.

How to recognise it: `DistributedDataParallel device_ids and output_device arguments only work with ...`.

Before:

    model = DistributedDataParallel(model, device_ids=[rank])

After:

    model = DistributedDataParallel(model.to(rank), device_ids=[rank])

Safe: the module is then where `device_ids` says. Where there is no GPU, the arguments are left out instead.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import keyword
from ..evidence.scopes import MISSING
from ..types import Edit
from ._finding import Finding, Mend
from ._user_calls import UserCall, user_calls

NAME = "ddp-device-ids"
TITLE = "DistributedDataParallel got device_ids for a module that is not on one GPU"
GIVEN = ("device_ids", "output_device")


def find(evidence: Evidence) -> Finding | None:
    if evidence.error.family != "N6" or evidence.error.op != "DDP":
        return None
    made = _construction(evidence)
    if made is None or not made.node.args:
        return None
    argument = made.node.args[0]
    held = try_evaluate(argument, made.scope)
    devices = sorted(values.module_devices(held)) if values.is_module(held) else []
    name = made.scope.source.one_line(argument)
    where = " and ".join(devices) if devices else "not on one GPU"
    finding = Finding(
        either=len(devices) > 1,
        culprit=name,
        headline=f"`{name}` is on {where}, but DistributedDataParallel was given device_ids",
        root_node=made.node,
        root_scope=made.scope,
        root_note="device_ids names one GPU, which has to hold the whole module",
    )
    mend = _moved(made, argument) if devices == ["cpu"] and _has_cuda() else None
    if mend is None:
        evidence.wanted = None  # the module stays where it is, and so may what it is called with
        mend = _without(made)
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _construction(evidence: Evidence) -> UserCall | None:
    for one in user_calls(evidence):
        name = values.class_name(one.called) if values.is_class(one.called) else ""
        if name == "DistributedDataParallel" and (one.node is evidence.node or one.result() is MISSING):
            return one
    return next((c for c in user_calls(evidence) if c.node is evidence.node), None)


def _has_cuda() -> bool:
    torch = values.torch()
    return bool(torch.cuda.is_available())


def _moved(made: UserCall, argument: ast.expr) -> Mend | None:
    ids = keyword(made.node, "device_ids")
    if not isinstance(ids, ast.List) or len(ids.elts) != 1:
        return None
    device = made.scope.source.one_line(ids.elts[0])
    edit = edits.append_method(made.scope.source, argument, f".to({device})")
    return Mend("move the module before it is wrapped", edit, made.node, made.scope)


def _without(made: UserCall) -> Mend | None:
    """Without the arguments where there is no GPU, else without them at all."""
    source = made.scope.source
    edit: tuple[Edit, ...] = ()
    for name in GIVEN:
        given = keyword(made.node, name)
        if given is None:
            continue
        text = "None"
        if not _has_cuda():
            text = f"{made.scope.source.one_line(given)} if torch.cuda.is_available() else None"
        edit += edits.replace_node(source, given, text)
    if not edit:
        return None
    title = "give no device_ids" if _has_cuda() else "give device_ids only where there is a GPU"
    return Mend(title, edit, made.node, made.scope)
