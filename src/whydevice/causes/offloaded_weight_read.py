"""What happened: a weight was read past the hooks that put it in place.

An offloaded module has its weights only while it runs: a hook loads them before `forward` and puts placeholders on
the meta device in their place afterwards. `self.embed.weight` outside of `self.embed(...)` is the placeholder.

How to recognise it: the operand is on `meta`, and the module that it was read from has a hook (`_hf_hook`). Or the
module rests on the CPU and a method that is not its `forward` was called (`pipe.vae.encode(x)`), or a part of it
(`vae.decoder(z)`), for which no hook runs.

Before:

    pad = self.embed.weight[self.pad_id]

After:

    pad = self.embed(torch.tensor(self.pad_id, device=ids.device))

Safe: calling the module gives the same row. A `.to()` cannot help: a meta tensor has no data.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import canonical
from ..evidence.operands import flat
from ..evidence.scopes import Scope
from ..types import Edit
from ._finding import Finding, Mend

NAME = "offloaded-weight-read"
TITLE = "a weight was read while its module was offloaded"


def find(evidence: Evidence) -> Finding | None:
    if "meta" not in (evidence.wrong_device, *evidence.error.devices):
        from ._offload import past_forward

        return past_forward(evidence)
    evidence.wrong_device = "meta"
    for node, scope in _reads(evidence):
        module = try_evaluate(node.value, scope)
        text = scope.source.one_line(node)
        here = evidence.user is not None and scope.node is evidence.user.node
        finding = Finding(
            culprit=text if here or evidence.wrong is None else evidence.wrong.expression,
            headline=f"`{text}` is on meta: its module is offloaded, and has its weights only while it runs",
            root_node=node,
            root_scope=scope,
            root_note="reads the placeholder, past the hook that loads the weight",
        )
        finding.mends += _mends(evidence, node, scope, module)
        return finding
    return None


def _reads(evidence: Evidence) -> Iterator[tuple[ast.Attribute, Scope]]:
    """The reads of an offloaded module's own weights in the user's code, nearest to the failure first."""
    places: list[tuple[ast.AST, Scope]] = []
    for one in flat(evidence.leaves):
        places.append((one.node, one.scope))
        for step in evidence.tracer.trace(one.node, one.scope, "meta"):
            places.append((step.node, step.scope))
            if step.kind == "parameter":
                continue
    seen: set[int] = set()
    for place, scope in places:
        for node in ast.walk(place):
            if id(node) in seen or not isinstance(node, ast.Attribute):
                continue
            seen.add(id(node))
            module = try_evaluate(node.value, scope)
            if values.is_module(module) and _offloaded(module, node.attr):
                yield node, scope


def _offloaded(module: Any, name: str) -> bool:
    own = values.instance_dict(module)
    tables = (values.lookup(own, table) for table in ("_parameters", "_buffers"))
    held = next((t for t in (values.lookup(table, name) for table in tables) if t is not None), None)
    hooked = any(values.lookup(own, mark) is not None for mark in ("_hf_hook", "forward"))
    return hooked and values.is_tensor(held) and values.device_of(held) == "meta"


def _mends(evidence: Evidence, node: ast.Attribute, scope: Scope, module: Any) -> list[Mend]:
    manual = Mend(
        "call the module instead",
        (),
        node,
        scope,
        "manual",
        "Let the module compute with its own weight: only a call of the module loads it.",
    )
    if evidence.user is None or not _editable(scope):
        return [manual]
    made = _device_read(evidence, node, scope, module)
    if made:
        return [Mend("name the device on which the module runs", made, node, scope)]
    made = _called(evidence, node, scope, module)
    return [Mend("call the module, which loads its weight", made, node, scope)] if made else [manual]


def _editable(scope: Scope) -> bool:
    from ..evidence.libraries import is_library
    from ..evidence.sources import is_regular_file

    return not is_library(scope.source.path) and is_regular_file(scope.source.path)


def _device_read(evidence: Evidence, node: ast.Attribute, scope: Scope, module: Any) -> tuple[Edit, ...]:
    """`m.weight.device`: the hook knows where the module runs."""
    from ._moves import best_anchor

    parent = scope.source.parent(node)
    if not (isinstance(parent, ast.Attribute) and parent.attr == "device"):
        return ()
    hook = values.lookup(values.instance_dict(module), "_hf_hook")
    runs_on = canonical(values.lookup(values.instance_dict(hook), "execution_device"))
    if runs_on is not None and runs_on != "meta":
        text = f"{scope.source.one_line(node.value)}._hf_hook.execution_device"
    else:
        anchor = best_anchor(evidence, scope, node)
        if anchor is None:
            return ()
        text = anchor.text
    return edits.replace_node(scope.source, parent, text)


def _called(evidence: Evidence, node: ast.Attribute, scope: Scope, module: Any) -> tuple[Edit, ...]:
    """A row of an embedding, a lookup or a product as a call of the module itself."""
    nn = values.torch().nn
    source = scope.source
    name = scope.source.one_line(node.value)
    parent = scope.source.parent(node)
    if isinstance(parent, ast.Subscript) and parent.value is node and issubclass(type(module), nn.Embedding):
        index = _index(evidence, parent, scope)
        return edits.replace_node(source, parent, f"{name}({index})") if index is not None else ()
    if isinstance(parent, ast.Call) and len(parent.args) >= 2 and parent.args[1] is node:
        function = ast.unparse(parent.func).rpartition(".")[2]
        first = scope.source.one_line(parent.args[0])
        if function == "embedding" and issubclass(type(module), nn.Embedding):
            return edits.replace_node(source, parent, f"{name}({first})")
        if (
            function == "linear"
            and issubclass(type(module), nn.Linear)
            and _same_bias(parent, module, node.value)
        ):
            return edits.replace_node(source, parent, f"{name}({first})")
    return _product(node, scope, module, name)


def _product(node: ast.Attribute, scope: Scope, module: Any, name: str) -> tuple[Edit, ...]:
    """`x @ m.weight.T` of a Linear without a bias."""
    turned = scope.source.parent(node)
    if isinstance(turned, ast.Attribute) and turned.attr == "t":
        turned = scope.source.parent(turned)
    product = scope.source.parent(turned) if turned is not None else None
    if not (
        isinstance(turned, ast.Call | ast.Attribute)
        and isinstance(product, ast.BinOp)
        and isinstance(product.op, ast.MatMult)
        and product.right is turned
        and issubclass(type(module), values.torch().nn.Linear)
        and _bias(module) is None
    ):
        return ()
    return edits.replace_node(scope.source, product, f"{name}({scope.source.one_line(product.left)})")


def _index(evidence: Evidence, read: ast.Subscript, scope: Scope) -> str | None:
    from ._moves import best_anchor

    if isinstance(read.slice, ast.Slice | ast.Tuple):
        return None
    text = scope.source.one_line(read.slice)
    held = try_evaluate(read.slice, scope)
    if values.is_tensor(held):
        return text
    if type(held) is not int:
        return None
    anchor = best_anchor(evidence, scope, read)
    return f"torch.tensor({text}, device={anchor.text})" if anchor is not None else f"torch.tensor({text})"


def _same_bias(call: ast.Call, module: Any, name: ast.expr) -> bool:
    bias = _bias(module)
    given = (
        call.args[2]
        if len(call.args) > 2
        else next((k.value for k in call.keywords if k.arg == "bias"), None)
    )
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return bias is None
    return ast.unparse(given) == f"{ast.unparse(name)}.bias"


def _bias(module: Any) -> Any:
    return values.lookup(values.lookup(values.instance_dict(module), "_parameters"), "bias")
