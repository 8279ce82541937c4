"""What happened: a DataLoader's worker process used CUDA. Workers are forked, and a fork cannot use its parent's CUDA.

How to recognise it: "Cannot re-initialize CUDA in forked subprocess", from the dataset's `__getitem__`, a transform
or the `collate_fn`.

Before:

    def __getitem__(self, i):
        return self.x[i].cuda(), self.y[i].cuda()

After:

    def __getitem__(self, i):
        return self.x[i], self.y[i]

Safe where the training loop moves the batch; `pin_memory=True` makes that copy quicker.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence.collect import Evidence
from ..evidence.libraries import is_library, is_ours
from ..evidence.scopes import Argument, Scope, own_nodes
from ..evidence.sources import is_regular_file
from ..messages import frames_in_text
from ._finding import Finding, Mend

NAME = "cuda-in-worker"
TITLE = "a DataLoader's worker used CUDA"


def find(evidence: Evidence) -> Finding | None:
    message = evidence.error.message
    if "Cannot re-initialize CUDA in forked subprocess" not in message:
        return None
    found = _place(evidence, message)
    if found is None:
        return None
    file, line = found
    source = evidence.sources.get(file)
    if source is None:
        return None
    statement = source.statement_at(source.module, line)
    node = source.scope(statement) if statement is not None else None
    if statement is None or node is None:
        return None
    names = next((s.globals for s in evidence.scopes if s.source.path == file), {})
    scope = Scope(source, node, names)
    moves = _moves(scope)
    here = [m for m in moves if source.statement(m) is statement]
    text = source.one_line(here[0]) if here else source.one_line(statement)
    finding = Finding(
        culprit=text,
        headline=f"`{text}` used CUDA in a DataLoader's worker process",
        root_node=here[0] if here else statement,
        root_scope=scope,
        root_note="runs in a worker, where CUDA cannot be used",
    )
    given = _given_device(evidence, here[0], node) if here else None
    if given is not None:
        finding.root_node, finding.root_scope = given.node, given.scope
        finding.root_note = f"goes to `{text}`, which runs in a worker"
        made = edits.replace_node(given.scope.source, given.node, '"cpu"')
        title = "leave it on the CPU in the worker; the training loop moves the batch"
        finding.mends.append(Mend(title, made, given.node, given.scope))
    elif here and not is_library(file) and is_regular_file(file):
        made = tuple(e for m in moves for e in edits.delete_method_call(scope.source, m))
        mend = Mend("leave it on the CPU in the worker", made, here[0], scope)
        if any(isinstance(source.parent(m), ast.Call | ast.keyword) for m in moves):
            mend.applicability, mend.reason = "unsafe", "what it is passed to has to run on the CPU too"
        finding.mends.append(mend)
        finding.notes.append("The training loop has to move the batch then.")
    return finding


def _place(evidence: Evidence, message: str) -> tuple[str, int] | None:
    """The innermost line of the user's in the worker: from its frames, else from the text that it sent."""
    if any(f.function == "_worker_loop" and f.library for f in evidence.frames):
        own = [f for f in evidence.frames if not f.library]
        return (own[-1].path, own[-1].line) if own else None
    places = [p for p in frames_in_text(message) if not is_library(p.file) and not is_ours(p.file)]
    return (places[-1].file, places[-1].line) if places else None


def _given_device(evidence: Evidence, move: ast.Call, function: ast.AST) -> Argument | None:
    """The argument of the user's that names the device of a move, where the function would stay on the CPU without it."""
    user, named = evidence.user, move.args[0] if move.args else None
    if user is None or user.node is not function or not isinstance(named, ast.Name):
        return None
    argument = user.bound.get(named.id)
    if argument is None or argument.default or argument.spread or is_library(argument.scope.source.path):
        return None
    default = _default_of(user, named.id)
    return argument if isinstance(default, ast.Constant) and default.value == "cpu" else None


def _default_of(scope: Scope, name: str) -> ast.expr | None:
    if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    a = scope.node.args
    positional = [*a.posonlyargs, *a.args]
    pairs = list(zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True))
    return next(
        (d for p, d in [*pairs, *zip(a.kwonlyargs, a.kw_defaults, strict=True)] if p.arg == name), None
    )


def _moves(scope: Scope) -> list[ast.Call]:
    """The `.cuda()` and `.to(device)` calls of a function; a `.to()` that only changes the dtype is none."""
    found = []
    for node in own_nodes(scope.node):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        target = ast.unparse(node.args[0]) if len(node.args) == 1 and not node.keywords else ""
        if node.func.attr == "cuda" or (node.func.attr == "to" and ("dev" in target or "cuda" in target)):
            found.append(node)
    return found
