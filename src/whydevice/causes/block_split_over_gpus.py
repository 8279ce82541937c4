"""What happened: a model was spread over several GPUs, and one of its blocks was cut in two.

The layers of a block with a residual connection (or any other sum of two paths) have to be on one GPU. Dispatching
libraries keep a block together when they know its class: `no_split_module_classes`, `_no_split_modules`.

How to recognise it: a block's own `forward` meets two GPUs, its layers are on both, and a library has placed them.

Before:

    device_map = infer_auto_device_map(model)

After:

    device_map = infer_auto_device_map(model, no_split_module_classes=["Block"])

Safe: only the cut moves. A `.to()` inside the block would hide it, and copy the activations twice for each block.
"""

from __future__ import annotations

import ast
import re
import types
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.attributes import class_source
from ..evidence.collect import Evidence
from ..evidence.libraries import is_library
from ..evidence.passive import bases, class_entries, class_module, code_file
from ..evidence.scopes import MISSING, Scope
from ._facts import owners
from ._finding import Finding, Mend
from ._user_calls import UserCall, user_calls

NAME = "block-split-over-gpus"
TITLE = "a block of the model was cut in two, over several GPUs"
_WHOLE = re.compile(
    r"no_?split|unsplit|dont_split|whole|intact|keep_together|indivisible|atomic", re.IGNORECASE
)
_ATTRIBUTE = "_no_split_modules"


def find(evidence: Evidence) -> Finding | None:
    devices = {evidence.wanted, evidence.wrong_device}
    if not all(d is not None and d.startswith("cuda") for d in devices) or len(devices) < 2:
        return None
    block = _block(evidence)
    if block is None or not devices <= set(values.module_devices(block)):
        return None
    whole = _placed_whole(evidence, block)
    if whole is None:
        return None
    kind = values.type_name(block)
    finding = Finding(
        certainty="likely",  # that the library reads what does not name the block is not seen
        either=True,
        culprit=_expression(evidence),
        headline=f"`{kind}` is cut in two: its layers are on {' and '.join(sorted(values.module_devices(block)))}",
    )
    for one in user_calls(evidence):
        if one.library and _at_call(finding, one, kind):
            return finding
    if _at_class(evidence, finding, whole, kind):
        return finding
    return None


def _expression(evidence: Evidence) -> str | None:
    return evidence.wrong.expression if evidence.wrong is not None else None


def _block(evidence: Evidence) -> Any:
    """The module whose own code met the two devices: the innermost receiver that is not torch's."""
    for scope in reversed(evidence.scopes):
        if values.is_module(scope.receiver) and not class_module(type(scope.receiver)).startswith("torch."):
            return scope.receiver
    return None


def _placed_whole(evidence: Evidence, block: Any) -> Any:
    """The larger module that a library placed and the block is a part of; None where nothing managed its place."""
    managed = any(_managed(sub) for _, sub in values.submodules(block))
    outermost: Any = None
    for owner, _, _ in owners(evidence):
        if not values.is_module(owner) or owner is block:
            continue
        if not any(part is block for _, part in values.submodules(owner)):
            continue
        if values.lookup(values.instance_dict(owner), "hf_device_map") is not None:
            return owner
        outermost = owner if managed else outermost
    return outermost


def _managed(module: Any) -> bool:
    """Whether a library wrapped a module's `forward`, or hooked it."""
    own = values.instance_dict(module)
    if any(values.lookup(own, name) is not None for name in ("_hf_hook", "forward")):
        return True
    hooks = values.lookup(own, "_forward_pre_hooks")
    return any(is_library(_file(hook)) for _, hook in values.items(hooks))


def _file(hook: Any) -> str:
    for function in (hook, values.class_attribute(type(hook), "__call__")):
        if type(function) is types.FunctionType:
            return code_file(function.__code__)
    return ""


def _at_call(finding: Finding, one: UserCall, kind: str) -> bool:
    """Name the block's class at the call that places the model."""
    name = next((n for n in [*one.absent, *one.given] if _WHOLE.search(n)), None)
    if name is None:
        return False
    source = one.scope.source
    finding.root_node, finding.root_scope = one.node, one.scope
    finding.root_note = f"may cut `{kind}`: `{name}` does not name it"
    given = one.given.get(name)
    if given is None:
        made = edits.add_keyword(source, one.node, name, f"[{_quoted(kind)}]")
    elif isinstance(given, ast.List | ast.Tuple | ast.Set) and given.elts:
        kept = [one.scope.source.one_line(e) for e in given.elts]
        made = edits.replace_node(source, given, f"[{', '.join([*kept, _quoted(kind)])}]")
    elif isinstance(given, ast.List | ast.Constant):
        made = edits.replace_node(source, given, f"[{_quoted(kind)}]")
    else:
        return True
    finding.mends.append(Mend("keep the block whole", made, one.node, one.scope))
    return True


def _at_class(evidence: Evidence, finding: Finding, whole: Any, kind: str) -> bool:
    """Name the block's class in the class attribute that the library reads."""
    cls = type(whole)
    if all(values.lookup(class_entries(base), _ATTRIBUTE, MISSING) is MISSING for base in bases(cls)):
        return False
    located = class_source(cls, evidence.sources)
    if located is None or is_library(located[0].path) or evidence.user is None:
        return False
    file, node = located
    scope = Scope(file, node, evidence.user.globals, receiver=MISSING)
    source = scope.source
    finding.root_node, finding.root_scope = node, scope
    finding.root_note = f"`{_ATTRIBUTE}` does not name `{kind}`"
    for member in node.body:
        if isinstance(member, ast.Assign) and ast.unparse(member.targets[0]) == _ATTRIBUTE:
            finding.root_node = member
            kept = [file.one_line(e) for e in member.value.elts] if isinstance(member.value, ast.List) else []
            made = edits.replace_node(source, member.value, f"[{', '.join([*kept, _quoted(kind)])}]")
            break
    else:
        made = edits.insert_before(source, node.body[0], f"{_ATTRIBUTE} = [{_quoted(kind)}]")
    finding.mends.append(Mend("keep the block whole", made, node, scope))
    return True


def _quoted(kind: str) -> str:
    return f'"{kind}"'
