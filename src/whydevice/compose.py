"""From evidence and finding to the frozen Explanation: the last step that sees live frames."""

from __future__ import annotations

import ast
import os
import platform
import sys

from . import propose
from .catch import ranks
from .causes._finding import Finding
from .evidence import values
from .evidence.collect import Evidence
from .evidence.evaluate import try_evaluate
from .evidence.infer import NOT_A_TENSOR
from .evidence.operands import Leaf, flat, held_tensors
from .evidence.scopes import MISSING, Scope
from .types import Also, Cause, Culprit, Environment, Explanation, Kind, Operand, Place

MOST_TRAIL = 6
MOST_ITEMS = 4


def compose(
    evidence: Evidence, cause: Cause | None, finding: Finding | None, also: tuple[Also, ...] = ()
) -> Explanation:
    """Every field of the explanation, from what is known; with no cause, the table and no fix."""
    culprit = _culprit(evidence, finding)
    root = _root(finding)
    return Explanation(
        error=evidence.error,
        certainty=finding.certainty if finding is not None else "possible",
        headline=_headline(evidence, finding, culprit),
        environment=environment(),
        cause=cause,
        culprit=culprit,
        root=root,
        trail=_trail(evidence, finding, root),
        operands=_operands(evidence, culprit),
        also=tuple(dict.fromkeys((*_also(evidence, culprit), *also))),
        fixes=propose.fixes(evidence, finding) if finding is not None else (),
        notes=(
            *(finding.notes if finding is not None else _notes(evidence)),
            *_since(evidence),
            *evidence.notes,
        ),
        sources=_sources(evidence),
    )


def environment() -> Environment:
    """The versions, whether CUDA is simulated, and the rank in a distributed run."""
    torch = values.torch()
    simulate = sys.modules.get("whydevice.simulate")
    gpus = simulate.active() if simulate is not None else 0
    return Environment(
        platform.python_version(),
        str(torch.__version__) if torch is not None else "",
        bool(gpus),
        ranks.number(),
        gpus,
    )


def _culprit(evidence: Evidence, finding: Finding | None) -> Culprit | None:
    wrong = evidence.wrong
    expression = finding.culprit if finding is not None else None
    if expression is None and wrong is not None:
        expression = wrong.expression
    if expression is None or evidence.user is None:
        return None
    given = finding.culprit_at if finding is not None else None
    node, scope = given or _where(expression, evidence, finding)
    device = wrong.device if wrong is not None else evidence.wrong_device
    if finding is not None and finding.culprit_device is not None:
        told = finding.culprit_device
        wanted = evidence.wanted if told != evidence.wanted else evidence.wrong_device
        return Culprit(expression, told, wanted, scope.source.path, getattr(node, "lineno", None))
    wanted = evidence.wanted
    if wrong is None or node is not wrong.leaf.node:
        known = _devices(node, scope)
        if known and device not in known:
            # The cause names something else than the operand: it is where it is, not where the operand is.
            device = ", ".join(sorted(known))
    if device == wanted:
        wanted = None
    return Culprit(expression, device, wanted, scope.source.path, getattr(node, "lineno", None))


def _where(expression: str, evidence: Evidence, finding: Finding | None) -> tuple[ast.AST | None, Scope]:
    """The node that is the culprit, and its scope: the wrong operand, another one, or where the cause points."""
    user = evidence.user
    assert user is not None
    around: list[tuple[ast.AST | None, Scope]] = []
    if evidence.wrong is not None:
        around.append((evidence.wrong.leaf.node, evidence.wrong.leaf.scope))
    around += [(one.node, one.scope) for one in flat(evidence.leaves)]
    if finding is not None and finding.root_node is not None and finding.root_scope is not None:
        around.append((finding.root_node, finding.root_scope))
    around.append((user.live.statement if user.live is not None else None, user))
    for node, scope in around:
        if node is not None and scope.source.one_line(node) == expression:
            return node, scope
    for node, scope in around:
        for inside in ast.walk(node) if node is not None else ():
            if isinstance(inside, ast.expr) and scope.source.one_line(inside) == expression:
                return inside, scope
    return evidence.node, user


def _devices(node: ast.AST | None, scope: Scope) -> set[str]:
    """The devices of what a node is or holds; empty when that cannot be told."""
    held = try_evaluate(node, scope) if node is not None else MISSING
    return {one.device for one in held_tensors(held)} if held is not MISSING else set()


def _headline(evidence: Evidence, finding: Finding | None, culprit: Culprit | None) -> str:
    if finding is not None and finding.headline:
        return finding.headline
    if culprit is None:
        devices = " and ".join(evidence.error.devices) or "different devices"
        return f"operands are on {devices}"
    holds = _holds_several(evidence, culprit)
    if holds:
        return f"`{culprit.expression}` holds tensors on {', '.join(holds[:-1])} and {holds[-1]}"
    if evidence.direction == "wording":
        return f"`{_named(evidence, culprit)}` is on {culprit.device}, but it has to be on {culprit.wanted}"
    other = _other(evidence)
    where = f"`{other}` is on {culprit.wanted}" if other else f"the other operands are on {culprit.wanted}"
    return f"`{_named(evidence, culprit)}` is on {culprit.device}, but {where}"


def _named(evidence: Evidence, culprit: Culprit) -> str:
    """The culprit, or the item of it that is meant where a container holds tensors of several devices."""
    wrong = evidence.wrong
    if wrong is None or wrong.held is None or wrong.leaf.is_tensor or wrong.leaf.is_module:
        return culprit.expression
    if wrong.expression != culprit.expression or len(wrong.leaf.devices()) < 2:
        return culprit.expression
    return _item_of(culprit.expression, wrong.held.path)


def _item_of(expression: str, path: str) -> str:
    return f"{expression}{path}" if path.startswith("[") else f"{expression}.{path}"


def _holds_several(evidence: Evidence, culprit: Culprit) -> list[str]:
    """The devices of a module or object that is on no single one, where no part of it is known to be the one."""
    wrong = evidence.wrong
    if wrong is None or wrong.expression != culprit.expression or wrong.leaf.is_tensor:
        return []
    if wrong.proven and not wrong.leaf.is_module:
        return []
    devices = sorted(wrong.leaf.devices())
    return devices if len(devices) > 1 else []


def _other(evidence: Evidence) -> str | None:
    """The operand on the wanted device that the culprit disagrees with."""
    ranked = sorted(evidence.leaves, key=lambda one: not one.is_module)
    for one in ranked:
        if one.value is not MISSING and (one.is_tensor or one.is_module) and evidence.wanted is not None:
            if one.device == evidence.wanted and not one.is_scalar:
                return one.expression
    inferred = [one for one in evidence.leaves if one.inferred and one.device == evidence.wanted]
    if inferred:
        return inferred[0].expression
    # What a list or tuple in the call holds: named where it is the only one.
    lists = [one for one in evidence.leaves if isinstance(one.node, ast.List | ast.Tuple)]
    inside = [
        p for one in lists for p in one.parts if p.device == evidence.wanted and (p.is_tensor or p.inferred)
    ]
    return inside[0].expression if len(inside) == 1 else None


def place(node: ast.AST, scope: Scope, note: str = "") -> Place:
    """A node as a place, with the source of its line and its columns in characters."""
    line = int(getattr(node, "lineno", 0) or 0)
    source = scope.source
    has_end = getattr(node, "end_lineno", None) is not None
    one_line = has_end and node.end_lineno == line  # type: ignore[attr-defined]
    function = None
    if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        owner = source.enclosing_class(scope.node)
        function = f"{owner.name}.{scope.node.name}" if owner is not None else scope.node.name
    return Place(
        source.path,
        line,
        source.line(line),
        note,
        source.column(node) if has_end else None,
        node.end_lineno if one_line else None,  # type: ignore[attr-defined]
        source.end_column(node) if one_line else None,
        function,
    )


def _root(finding: Finding | None) -> Place | None:
    if finding is None:
        return None
    if finding.root_node is not None and finding.root_scope is not None:
        return place(finding.root_node, finding.root_scope, finding.root_note)
    if finding.root is not None:
        return place(finding.root.node, finding.root.scope, finding.root_note)
    return None


def _trail(evidence: Evidence, finding: Finding | None, root: Place | None) -> tuple[Place, ...]:
    """From where it was made to where it failed."""
    found: list[Place] = []
    if finding is not None:
        found += [place(node, scope, note) for node, scope, note in finding.trail]
        if root is not None:
            found.append(root)
    noted = _noted(evidence)
    if noted is not None and all((p.file, p.line) != (noted.file, noted.line) for p in found):
        found.insert(0, noted)
    if evidence.user is not None and evidence.node is not None:
        wrong = evidence.wrong
        target: ast.AST = evidence.node
        note = ""
        if wrong is not None and wrong.leaf.scope is evidence.user and hasattr(wrong.leaf.node, "lineno"):
            target = wrong.leaf.node
            note = _described(wrong.leaf)
        failing = place(target, evidence.user, note)
        if not any(
            p.file == failing.file and p.line == failing.line and p.column == failing.column for p in found
        ):
            found.append(failing)
    unique: list[Place] = []
    for each in found:
        if each.line and each not in unique:
            unique.append(each)
    return tuple(_kept(unique, (noted, root)))


def _kept(places: list[Place], wanted: tuple[Place | None, ...]) -> list[Place]:
    """At most `MOST_TRAIL` places in their order: those wanted and the last one stay, others go, the first ones first."""
    others = [p for p in places[:-1] if p not in wanted]
    gone = others[: max(len(places) - MOST_TRAIL, 0)]
    return [p for p in places if p not in gone]


def _noted(evidence: Evidence) -> Place | None:
    """The line that `--trace` noted for the wrong tensor."""
    tracing = sys.modules.get("whydevice.evidence.tracing")
    wrong = evidence.wrong
    if tracing is None or wrong is None:
        return None
    found = tracing.place_of(wrong.tensor)
    if found is None:
        return None
    path, line = os.path.abspath(found[0]), found[1]
    source = evidence.sources.get(found[0])
    text = source.line(line).rstrip() if source is not None else ""
    first = len(text) - len(text.lstrip())
    return Place(path, line, text, "made or last moved here (noted by --trace)", first, line, len(text))


def _described(leaf: Leaf) -> str:
    if leaf.value is MISSING:
        return f"on {leaf.device}" if leaf.device not in (None, NOT_A_TENSOR) else ""
    if leaf.is_tensor:
        return f"{values.describe(leaf.value)} on {leaf.device}"
    if leaf.is_module:
        return f"{values.describe(leaf.value)}" + (f" on {leaf.device}" if leaf.device else "")
    return ""


def _operands(evidence: Evidence, culprit: Culprit | None) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for one in evidence.leaves:
        chosen = [one] if one.value is not MISSING or one.inferred else [one, *one.parts]
        for leaf in chosen:
            if leaf.device == NOT_A_TENSOR or (leaf.device is None and not leaf.held):
                continue
            found.append(_operand(leaf, culprit))
            if not (leaf.is_tensor or leaf.is_module):
                found += _items(leaf, evidence.wrong_device)
    return tuple(dict.fromkeys(found))


def _items(leaf: Leaf, wrong_device: str | None) -> list[Operand]:
    """The first few tensors in a container, those on the wrong device before any other, in their order."""
    order = sorted(range(len(leaf.held)), key=lambda at: (leaf.held[at].device != wrong_device, at))
    shown = [leaf.held[at] for at in sorted(order[:MOST_ITEMS])]
    return [
        Operand(
            _item_of(leaf.expression, h.path),
            h.device,
            "parameter" if values.is_parameter(h.tensor) else _kind(h.kind),
            None,
            values.dtype_of(h.tensor),
            values.shape_of(h.tensor),
            leaf.scope.source.path,
            getattr(leaf.node, "lineno", None),
            False,
            values.describe(h.tensor),
        )
        for h in shown
    ]


def _kind(text: str) -> Kind:
    return text if text in ("tensor", "parameter", "buffer", "attribute", "module") else "tensor"  # type: ignore[return-value]


def _operand(leaf: Leaf, culprit: Culprit | None) -> Operand:
    tensor = leaf.value if leaf.is_tensor else None
    kind: Kind = "module" if leaf.is_module else "unknown"
    if tensor is not None:
        kind = _tensor_kind(leaf)
    device = leaf.device
    is_culprit = culprit is not None and leaf.expression == culprit.expression
    if device is None or is_culprit:
        device = ", ".join(sorted(leaf.devices())) or device
    role = leaf.role if leaf.role is not None and not leaf.role.isdigit() else None
    what = (
        values.describe(leaf.value) if tensor is not None or leaf.is_module else values.type_name(leaf.value)
    )
    return Operand(
        leaf.expression,
        device,
        kind,
        role,
        values.dtype_of(tensor) if tensor is not None else None,
        values.shape_of(tensor) if tensor is not None else None,
        leaf.scope.source.path,
        getattr(leaf.node, "lineno", None),
        is_culprit,
        "" if leaf.value is MISSING else what,
        leaf.inferred,
    )


def _tensor_kind(leaf: Leaf) -> Kind:
    if values.is_parameter(leaf.value):
        return "parameter"
    if isinstance(leaf.node, ast.Attribute):
        from .evidence.attributes import kind_in

        held = kind_in(try_evaluate(leaf.node.value, leaf.scope), leaf.node.attr)
        if held is not None:
            return _kind(held)
    return "tensor"


def _also(evidence: Evidence, culprit: Culprit | None) -> tuple[Also, ...]:
    """The other operands of the same call that are on the wrong device."""
    found = []
    for wrong in evidence.wrongs[1:]:
        if culprit is None or wrong.expression == culprit.expression or evidence.user is None:
            continue
        if wrong.proven and wrong.leaf.is_tensor and evidence.wanted is not None:
            line = getattr(wrong.leaf.node, "lineno", 0)
            found.append(
                Also(wrong.expression, wrong.device, evidence.wanted, evidence.user.source.path, line)
            )
    return tuple(dict.fromkeys(found))


def _since(evidence: Evidence) -> tuple[str, ...]:
    if not evidence.inference.state_moved:
        return ()
    return (
        "The modules have been moved since it failed, as a trainer's teardown does: "
        "what the variables hold is what counts here.",
    )


def _notes(evidence: Evidence) -> tuple[str, ...]:
    if evidence.user is None:
        own = next((f for f in reversed(evidence.frames) if not f.library), None)
        if own is None:
            return ("No frame of your own code is in this traceback.",)
        return (f"The source of {os.path.basename(own.path) or 'the code'} that runs cannot be read.",)
    return ("What made the operands disagree could not be proven.",)


def _sources(evidence: Evidence) -> dict[str, str]:
    own = {s.source.path: s.source.text for s in evidence.scopes if s.live is not None and not s.live.library}
    return {path: text.replace("\r\n", "\n").replace("\r", "\n") for path, text in own.items()}
