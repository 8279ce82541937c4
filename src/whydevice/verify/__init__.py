"""Whether the call that failed would pass with a fix: judged again, with the devices that the edits give.

Works on plain data: for each operand that was wrong, where it would be. `True` only where that is proven.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Operand(NamedTuple):
    """An operand on the wrong device. `after` is where the edits put it, None where that cannot be told.

    `blamed` marks the one that the error is about: it fails as long as it stays where it is.
    """

    expression: str
    before: str
    after: str | None
    blamed: bool = False


class Verdict(NamedTuple):
    """Whether the call passes; None where that cannot be judged. `left` are the operands that stay wrong.

    `parted` are operands of an operation that passed, away from which the edits move another one of it.
    """

    passes: bool | None
    left: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()


def judge(wanted: str, operands: Iterable[Operand], *, complete: bool) -> Verdict:
    """The verdict on a call whose operands have to be on `wanted`.

    `complete` says that every other operand of the call is known to be there, or to need no device.
    """
    operands = tuple(operands)
    left = tuple(one.expression for one in operands if one.after is not None and one.after != wanted)
    if any(one.blamed and one.after is not None and one.after != wanted for one in operands):
        return Verdict(False, left)
    if left or not operands or any(one.after is None for one in operands):
        return Verdict(None, left)
    return Verdict(True if complete else None)
