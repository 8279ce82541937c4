"""What happened: the tensors of a batch, dict, tuple or object were moved together, and one was left out.

A `.to()` method that forgets a field, a helper that has no case for tuples, a comprehension that moves some keys only.

How to recognise it: the tensor is an item of a container whose other tensors are on the wanted device, and the code that
moved those let this one through.

Before:

    def to(self, device):
        self.features = self.features.to(device)
        return self

After:

    def to(self, device):
        self.features = self.features.to(device)
        self.weights = self.weights.to(device)
        return self

Safe: `.to()` of a tensor that is there already returns it as it is.
"""

from __future__ import annotations

import ast

from ..evidence import values
from ..evidence.attributes import Assignment
from ..evidence.collect import Evidence
from ..evidence.passive import shown_key
from ..evidence.ways import Gap
from ._finding import Finding
from ._inherited import added_by_subclass, extension, scope_of
from ._partly import gap_of, mend_gap

NAME = "container-partly-moved"
TITLE = "a container was moved, and one of its tensors was not"


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or evidence.wanted in (None, "cpu") or wrong.leaf.is_module:
        return None
    gap = gap_of(evidence)
    if gap is None:
        return None
    added = added_by_subclass(evidence, gap)
    if added:
        return _of_subclass(evidence, gap, added)
    mend = mend_gap(evidence, gap)  # may find a better place in what moved the others
    finding = Finding(
        certainty="certain" if wrong.proven or values.is_tensor(gap.way[-1].value) else "likely",
        root_node=gap.node,
        root_scope=gap.scope,
        root_note=_note(gap),
    )
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _of_subclass(evidence: Evidence, gap: Gap, added: dict[str, Assignment]) -> Finding:
    """The method that moves the others is a base's, and right for the base."""
    assert evidence.wrong is not None and isinstance(gap.scope.node, ast.FunctionDef)
    name = f"{gap.scope.node.name}()"
    mend, made = extension(gap, added), next(iter(added.values()))
    return Finding(
        certainty="certain" if evidence.wrong.proven or values.is_tensor(gap.way[-1].value) else "likely",
        root_node=made.stmt,
        root_scope=scope_of(made, gap),
        root_note=f"made by the subclass; the {name} that it inherits does not move it",
        trail=[(gap.node, gap.scope, _note(gap))],
        mends=[mend] if mend is not None else [],
    )


def _note(gap: Gap) -> str:
    key = next(
        (f"`{link.key}`" for link in gap.way if type(link.key) is str and shown_key(link.key) != "[...]"),
        "this one",
    )
    notes = {
        "element": "what stands beside it is moved here, this is not",
        "condition": "moves the others only: this test leaves it out",
        "names": f"moves what is listed here, and {key} is not",
        "statement": f"moves the others, but not {key}",
        "keyword": f"moves the others, but not {key}",
        "branch": f"has no case for a {values.type_name(gap.way[0].value)}, which is given back as it is",
    }
    return notes[gap.kind]
