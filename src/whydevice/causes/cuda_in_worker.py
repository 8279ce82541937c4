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
from ..evidence.frames import is_library, is_ours
from ..evidence.scopes import Scope, own_nodes
from ..evidence.sources import is_regular_file
from ..messages import frames_in_text
from ._finding import Finding, Mend

NAME = "cuda-in-worker"
TITLE = "a DataLoader's worker used CUDA"
ORDER = 5


def find(evidence: Evidence) -> Finding | None:
    message = evidence.error.message
    if "Cannot re-initialize CUDA in forked subprocess" not in message:
        return None
    place = next(
        (p for p in reversed(frames_in_text(message)) if not is_library(p.file) and not is_ours(p.file)), None
    )
    if place is None:
        return None
    source = evidence.sources.get(place.file)
    if source is None:
        return None
    statement = source.statement_at(source.tree_at(place.line), place.line)
    node = source.scope(statement) if statement is not None else None
    if statement is None or node is None:
        return None
    names = next((s.globals for s in evidence.scopes if s.source.path == place.file), {})
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
    if here and not is_library(place.file) and is_regular_file(place.file):
        made = tuple(e for m in moves for e in edits.delete_method_call(scope.source, m))
        finding.mends.append(
            Mend("leave it on the CPU in the worker; the training loop moves the batch", made, here[0], scope)
        )
    return finding


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
