"""The plain data that flows from left to right: strings, ints and tuples, never a tensor, frame or module.

Lines count from 1 and columns from 0, in characters (not in UTF-8 bytes as `ast` counts them). Devices are
PyTorch's own strings (`cpu`, `cuda:0`, `meta`). Files are absolute paths here; `Explanation.to_dict` makes them
relative to the working directory where they lie below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

Certainty = Literal["certain", "likely", "possible"]
Applicability = Literal["safe", "unsafe", "manual"]
Kind = Literal["tensor", "parameter", "buffer", "attribute", "module", "unknown"]


class DeviceError(NamedTuple):
    """What an exception's text says, and nothing that it does not say.

    `family` is the letter and number of the message catalogue (`A1`, `B1`, `F1`, ...), `devices` in the order of the
    text. `ambiguous` marks a wording that PyTorch also uses for a dtype problem: only the frames can tell.
    """

    type: str
    message: str
    family: str
    devices: tuple[str, ...] = ()
    argument: str | None = None
    op: str | None = None
    ambiguous: bool = False
    envelope: str | None = None


class Place(NamedTuple):
    """A range of source text. `note` says what happened there; `function` is the qualified name, if any."""

    file: str
    line: int
    source: str = ""
    note: str = ""
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    function: str | None = None


class Operand(NamedTuple):
    """A value that took part in the failing call, named as the user's own source names it.

    `what` describes it in a few words (`float32[32, 784]`, `MLP, 4 parameters`). `inferred` says that the value itself
    was gone and its device follows from the others.
    """

    expression: str
    device: str | None
    kind: Kind = "tensor"
    role: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    file: str | None = None
    line: int | None = None
    culprit: bool = False
    what: str = ""
    inferred: bool = False


class Edit(NamedTuple):
    """Replace the text between two positions by `text`; equal positions insert."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def touches(self, other: Edit) -> bool:
        """Whether both change overlapping text, or put something in at the same place."""
        if self.file != other.file:
            return False
        first, last = (self.line, self.column), (self.end_line, self.end_column)
        return first <= (other.end_line, other.end_column) and (other.line, other.column) <= last


class Fix(NamedTuple):
    """Edits that belong together. `reason` says why it is not `safe`, or what it changes besides.

    `cells` holds the new text of each notebook cell that it edits, by the cell's name.
    """

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...] = ()
    diff: str = ""
    verified: bool | None = None
    reason: str = ""
    cells: tuple[tuple[str, str], ...] = ()


class Cause(NamedTuple):
    """The name and title of a cause, and the page that `--explain` prints."""

    name: str
    title: str
    page: str


class Culprit(NamedTuple):
    """What is on the wrong device, in the words of the user's innermost own frame."""

    expression: str
    device: str | None
    wanted: str | None
    file: str | None = None
    line: int | None = None


class Also(NamedTuple):
    """What would fail next in the same scope, once the culprit is mended."""

    expression: str
    device: str
    wanted: str
    file: str
    line: int


class Environment(NamedTuple):
    """Where the error happened. `rank` is the process's rank in a distributed run, `gpus` how many are simulated."""

    python: str
    torch: str
    simulated: bool = False
    rank: int | None = None
    gpus: int = 0


class Explanation(NamedTuple):
    """One explained exception. `headline` is one sentence in lower case; `notes` are further true sentences."""

    error: DeviceError
    certainty: Certainty
    headline: str
    environment: Environment
    cause: Cause | None = None
    culprit: Culprit | None = None
    root: Place | None = None
    trail: tuple[Place, ...] = ()
    operands: tuple[Operand, ...] = ()
    also: tuple[Also, ...] = ()
    fixes: tuple[Fix, ...] = ()
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = {}  # no part of the `repr`

    def __repr__(self) -> str:
        return f"Explanation({self.certainty}: {self.headline})"

    def to_dict(self) -> dict[str, Any]:
        """The entry of the JSON contract, with paths relative to the working directory where they lie below it."""
        from .render.json import to_dict

        return to_dict(self)

    def __str__(self) -> str:
        from .render.plain import text

        return text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from .render.terminal import renderables

        yield from renderables(self, width=options.max_width)

    def _repr_html_(self) -> str:
        from .render.html import html

        return html(self)
