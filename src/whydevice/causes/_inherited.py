"""A subclass has a tensor that the move which it inherits does not know: the subclass extends that move."""

from __future__ import annotations

import ast

from .. import edits
from ..evidence.attributes import Assignment, assignments, class_source
from ..evidence.collect import Evidence
from ..evidence.passive import class_name
from ..evidence.scopes import MISSING, Scope, own_nodes
from ..evidence.ways import Gap
from ._finding import Mend
from ._moves import text_of_move
from ._partly import left_out


def added_by_subclass(evidence: Evidence, gap: Gap) -> dict[str, Assignment]:
    """Where a subclass made the attributes that a base's method leaves out, the one that failed first.

    None where the class is the method's own, has a method of that name itself, or the base makes the attribute too.
    """
    held, function = gap.way[0].value, gap.scope.node
    base = gap.scope.source.enclosing_class(function)
    if held is MISSING or base is None or gap.kind not in ("names", "statement"):
        return {}
    own = class_source(type(held), evidence.sources)
    if own is None or own[1].name == base.name or not isinstance(function, ast.FunctionDef):
        return {}
    if any(isinstance(m, ast.FunctionDef) and m.name == function.name for m in own[1].body):
        return {}
    found: dict[str, Assignment] = {}
    for key in left_out(gap, evidence):
        made = assignments(held, key, evidence.sources)
        if len(made) == 1 and made[0].method is not None and made[0].method in own[1].body:
            found[key] = made[0]
        elif not found:
            return {}  # the one that failed
    return found


def extension(gap: Gap, added: dict[str, Assignment]) -> Mend | None:
    """The subclass's own `to`: what the base's does, and the same for its attributes."""
    function, first = gap.scope.node, next(iter(added.values()))
    source, method = first.source, first.method
    if gap.sibling is None or method is None or not isinstance(function, ast.FunctionDef):
        return None
    given, receiver = _passed_on(function), _first_parameter(function)
    returned = [n.value for n in own_nodes(function) if isinstance(n, ast.Return) and n.value is not None]
    gives_itself = [value for value in returned if isinstance(value, ast.Name) and value.id == receiver]
    if given is None or receiver is None or len(gives_itself) < len(returned):
        return None
    moved = [*gap.sibling.args, *(k.value for k in gap.sibling.keywords)]
    names = {n.id for a in moved for n in ast.walk(a) if isinstance(n, ast.Name)}
    outside = names - {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    # In another file the names of its module mean something else, those of annotations and defaults too.
    if outside or (
        source is not gap.scope.source and any(isinstance(n, ast.Name) for n in ast.walk(function.args))
    ):
        return None
    places = [f"{receiver}.{key}" for key in added if key.isidentifier()]
    lines = [f"super().{function.name}({given})"]
    lines += [f"{place} = {place}{text_of_move(gap.sibling, gap.scope)}" for place in places]
    lines += [f"return {receiver}"] if returned else []
    body = "".join(f"\n    {line}" for line in lines)
    text = f"def {function.name}({ast.unparse(function.args)}):{body}"
    title = f"move it too where a {class_name(first.cls)} is moved"
    return Mend(title, edits.insert_after(source, method, text), first.node, scope_of(first, gap))


def _first_parameter(function: ast.FunctionDef) -> str | None:
    return next((p.arg for p in (*function.args.posonlyargs, *function.args.args)), None)


def scope_of(made: Assignment, gap: Gap) -> Scope:
    """The scope of the method that made the attribute."""
    assert made.method is not None
    return Scope(made.source, made.method, getattr(made.function, "__globals__", gap.scope.globals))


def _passed_on(function: ast.FunctionDef) -> str | None:
    """The arguments with which a method hands its own to the same method of its base."""
    a = function.args
    if function.decorator_list or not (a.posonlyargs or a.args):
        return None
    given = [p.arg for p in (*a.posonlyargs, *a.args)][1:]
    given += [f"*{a.vararg.arg}"] if a.vararg is not None else []
    given += [f"{p.arg}={p.arg}" for p in a.kwonlyargs]
    given += [f"**{a.kwarg.arg}"] if a.kwarg is not None else []
    return ", ".join(given)
