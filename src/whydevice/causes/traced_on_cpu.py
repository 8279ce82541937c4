"""What happened: a module was traced on the CPU and moved afterwards. A trace keeps the devices that it saw as constants.

How to recognise it: the traced module and its input are on the GPU, and `torch.jit.trace` or `fx.symbolic_trace` ran
before the move.

Before:

    traced = torch.jit.trace(net, example).to(device)

After:

    traced = torch.jit.trace(net.to(device), example.to(device))

Safe: the trace is the same, with the device on which it runs.
"""

from __future__ import annotations

import ast
import sys

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.scopes import MISSING, Scope, own_nodes, position
from ._finding import Finding, Mend
from ._moves import move_text
from ._order import user_scopes, value_now

NAME = "traced-on-cpu"
TITLE = "the module was traced on the CPU"


def find(evidence: Evidence) -> Finding | None:
    torch = values.torch()
    kinds = [torch.jit.ScriptModule]
    if "torch.fx" in sys.modules:
        kinds.append(sys.modules["torch.fx"].GraphModule)
    module = next((o for o in evidence.leaves if o.is_module and values.is_a(o.value, *kinds)), None)
    if module is None or module.device not in (evidence.wanted, None):
        return None
    if any(o is not module and evidence.wrong_device in o.devices() for o in evidence.leaves):
        return None
    for scope in user_scopes(evidence, []):
        for node in sorted((n for n in own_nodes(scope.node) if isinstance(n, ast.Assign)), key=position):
            if not isinstance(node.value, ast.Call) or value_now(node.targets[0], scope) is not module.value:
                continue
            if _traces(node.value, scope) and not _there_already(evidence, node.value, scope):
                return _finding(evidence, module.expression, node.value, scope)
    return None


def _there_already(evidence: Evidence, call: ast.Call, scope: Scope) -> bool:
    """Whether the example was on the wanted device: then so was the trace, and what is elsewhere came there later."""
    examples = (
        call.args[1].elts if len(call.args) > 1 and isinstance(call.args[1], ast.Tuple) else call.args[1:2]
    )
    return any(evidence.inference.device(each, scope) == evidence.wanted for each in examples)


def _traces(call: ast.Call, scope: Scope) -> bool:
    """Whether a call is `torch.jit.trace(...)`, or one of your own that is given the module to trace."""
    if ast.unparse(call.func) in ("torch.jit.trace", "jit.trace"):
        return len(call.args) > 1
    if ast.unparse(call.func) in ("torch.jit.script", "jit.script"):
        return False  # compiled, not traced: it keeps the code, and no device that it saw
    first = call.args[0] if call.args else None
    made = try_evaluate(first.func, scope) if isinstance(first, ast.Call) else MISSING
    held = value_now(first, scope) if first is not None else MISSING
    return values.is_module(held) or (values.is_class(made) and issubclass(made, values.torch().nn.Module))


def _finding(evidence: Evidence, expression: str, call: ast.Call, scope: Scope) -> Finding:
    finding = Finding(
        culprit=expression,
        headline=f"`{expression}` was traced on {evidence.wrong_device}, and its trace keeps that device",
        root_node=call,
        root_scope=scope,
        root_note=f"traced on {evidence.wrong_device}",
    )
    text = move_text(evidence, scope, call)
    if text is not None:
        inputs = [e for a in call.args[1:2] for e in (a.elts if isinstance(a, ast.Tuple) else [a])]
        moved = [call.args[0], *(i for i in inputs if not isinstance(i, ast.Constant | ast.Dict))]
        made = tuple(e for a in moved for e in edits.append_method(scope.source, a, text))
        finding.mends.append(Mend("trace it where it runs", made, call, scope))
    return finding
