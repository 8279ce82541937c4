"""What a cause reports: plain words and places, and the edits that mend it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ..types import Applicability, Certainty, Edit


@dataclass(repr=False, eq=False)
class Mend:
    """Edits and the place they change."""

    title: str
    edits: tuple[Edit, ...]
    node: ast.AST
    scope: Scope
    applicability: Applicability = "safe"
    reason: str = ""
    stays: bool = False  # whether the culprit stays where it is, and the others come to it
    note: str = ""  # what the report says at the place, where that is not what the cause says


@dataclass(repr=False, eq=False)
class Finding:
    """A proven or likely cause. Empty fields are filled in from the evidence by the pipeline."""

    certainty: Certainty = "certain"
    culprit: str | None = None
    culprit_at: tuple[ast.AST, Scope] | None = None  # where it stands, when that is not in the failing call
    either: bool = False  # true whichever of the two devices, and of the operands, is the right one
    culprit_device: str | None = None  # where that is not the wrong operand's
    root: Step | None = None
    root_node: ast.AST | None = None
    root_scope: Scope | None = None
    headline: str | None = None
    root_note: str = ""
    mends: list[Mend] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trail: list[tuple[ast.AST, Scope, str]] = field(default_factory=list)
    also: list[tuple[ast.AST, Scope]] = field(
        default_factory=list
    )  # what would fail next for the same reason
