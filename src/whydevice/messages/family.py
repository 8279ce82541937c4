"""One wording of PyTorch as data: a template in PyTorch's own words, and what it names.

This module and the `families` folder import nothing, so that looking at an error that is not ours costs no
import.

A template is the message as PyTorch prints it, with fields in braces: `{a}`, `{b}` and `{c}` are
devices in the order of the text, `{arg}` the argument, `{op}` the op, `{wrapper}` the name of a generated
wrapper. `{a:type}` gives the field another kind (fields.py lists them); `{arg:query|key}` lists the words
that it may be.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Family:
    """A wording.

    id         letter and number of the catalogue; several wordings may share one
    template   see above; searched for anywhere in the text, or `whole`: it must be all of a line
    torch      versions that print it
    devices    what fills DeviceError.devices: fields in braces or constants; by default {a}, {b}, {c}
    argument   a constant or a field; a tuple with one name per device goes with `pick`
    pick       which of the names a tuple of arguments means: "stray" the one on the lesser device (meta, then
               cpu, then the accelerators), "odd" the one that differs from the others, "second" the first
               that differs from the first
    op         a constant or a field
    wants      the device that the wording itself asks for: a constant, or an index into `devices`; None: it
               does not say
    holds      index into `devices` of the device of the named argument
    only       exception classes (by name), when the same words mean another family under another class
    needs      further literals that must be in the text
    extra      further templates that add fields when they are found
    ambiguous  PyTorch uses the words for other problems (mostly dtype) as well: only the frames can tell
    """

    __slots__ = (
        "ambiguous",
        "anchor",
        "argument",
        "devices",
        "extra",
        "holds",
        "id",
        "needs",
        "only",
        "op",
        "pick",
        "template",
        "torch",
        "wants",
        "weight",
        "whole",
    )

    def __init__(
        self,
        id: str,
        template: str,
        torch: str,
        *,
        devices: Sequence[str] | None = None,
        argument: str | tuple[str, ...] | None = "{arg}",
        pick: str = "stray",
        op: str | None = "{op}",
        wants: str | int | None = None,
        holds: int | None = None,
        only: str = "",
        needs: tuple[str, ...] = (),
        extra: tuple[str, ...] = (),
        whole: bool = False,
        ambiguous: bool = False,
    ) -> None:
        self.id, self.template, self.torch = id, template, torch
        self.devices, self.argument, self.pick, self.op = devices, argument, pick, op
        self.wants, self.holds, self.only = wants, holds, only
        self.needs, self.extra, self.whole, self.ambiguous = needs, extra, whole, ambiguous
        literals = [piece.rpartition("}")[2] for piece in template.split("{")]
        # The longest literal is looked for first: it is absent from nearly every other error.
        self.anchor = max(literals, key=len)
        # Of two wordings that both match, the one with more words of its own is the right one.
        self.weight = sum(map(len, literals)) + sum(map(len, needs)) + len(only)

    def __repr__(self) -> str:
        return f"Family({self.id!r}, {self.template!r})"
