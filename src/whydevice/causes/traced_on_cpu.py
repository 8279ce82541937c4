"""What happened: a module was traced on the CPU and moved afterwards. A trace keeps the devices that it saw as constants.

How to recognise it: the error comes out of the TorchScript interpreter, the traced module and its input are on the
GPU, and `torch.jit.trace` ran before the move.

Before:

    traced = torch.jit.trace(net, example).to(device)

After:

    traced = torch.jit.trace(net.to(device), example.to(device))

Safe: the trace is the same, with the device on which it runs.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import own_nodes
from ._finding import Finding, Mend
from ._moves import move_text
from ._order import user_scopes, value_now

NAME = "traced-on-cpu"
TITLE = "the module was traced on the CPU"
ORDER = 7


def find(evidence: Evidence) -> Finding | None:
    torch = values.torch()
    module = next(
        (o for o in evidence.leaves if o.is_module and issubclass(type(o.value), torch.jit.ScriptModule)),
        None,
    )
    if module is None or module.device not in (evidence.wanted, None):
        return None
    if any(o is not module and evidence.wrong_device in o.devices() for o in evidence.leaves):
        return None
    for scope in user_scopes(evidence, []):
        for node in own_nodes(scope.node):
            if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
                continue
            call = node.value
            if ast.unparse(call.func) not in ("torch.jit.trace", "jit.trace") or len(call.args) < 2:
                continue
            if value_now(node.targets[0], scope) is not module.value:
                continue
            finding = Finding(
                culprit=module.expression,
                headline=f"`{module.expression}` was traced on {evidence.wrong_device}, and its trace keeps that device",
                root_node=call,
                root_scope=scope,
                root_note=f"traced on {evidence.wrong_device}",
            )
            text = move_text(evidence, scope, call)
            if text is not None and all(isinstance(a, ast.Name) for a in call.args[:2]):
                made = tuple(e for a in call.args[:2] for e in edits.append_method(scope.source, a, text))
                finding.mends.append(Mend("trace it where it runs", made, call, scope))
            return finding
    return None
