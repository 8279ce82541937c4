"""The whole way, left to right: read the message, gather the evidence, ask the causes, compose the explanation."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from . import messages
from .types import Cause, DeviceError, Explanation

if TYPE_CHECKING:
    from .causes._finding import Finding
    from .evidence.collect import Evidence

_QUOTES = "ChildFailedError"
"""A launcher's error, which quotes what its ranks died of. They have explained it where their frames were."""


def explain(exc: BaseException) -> Explanation | None:
    """Explain an exception while its frames are alive; None when it is no device error.

    Runs no torch operation and keeps no reference to a frame, tensor or module.
    """
    found = device_error(exc)
    if found is None:
        return None
    holder, error = found
    import torch

    from .evidence.bounds import bounded

    with torch._C.DisableTorchFunction(), bounded() as bounds:
        made = _explained(holder, error, exc)
        return (
            made._replace(notes=(*made.notes, *bounds.notes())) if made is not None and bounds.cuts else made
        )


def _explained(holder: BaseException, error: DeviceError, exc: BaseException) -> Explanation | None:
    """The explanation. What it was made of is gone on return, before the garbage collector may look at it."""
    from .compose import compose
    from .evidence.collect import collect
    from .following import join
    from .occasion import occasion

    evidence = collect(holder, error, exc)
    try:
        if evidence.error.ambiguous and not disagree(evidence):
            return None
        cause, finding = diagnose(evidence)
        also = join(evidence, finding, diagnose) if finding is not None else ()
        if finding is not None:
            finding.notes += occasion(evidence, finding)
        return compose(evidence, cause, finding, also)
    finally:
        evidence.release()


def device_error(exc: BaseException) -> tuple[BaseException, DeviceError] | None:
    """The device error in an exception or in those it was raised from: the deepest that has frames."""
    from .catch.prune import linked, traceback_of
    from .evidence.passive import class_name

    best: tuple[BaseException, DeviceError] | None = None
    for each in linked(exc, everything=False):
        name = class_name(type(each))
        if name == _QUOTES:
            continue
        error = messages.read(name, text_of(each)) or _bare_assert(each)
        if error is not None and (best is None or traceback_of(each) is not None):
            best = (each, error)
    return best


def text_of(exc: BaseException) -> str:
    """The text of an exception, as PyTorch wrote it, without calling a `__str__` of the user's."""
    args = BaseException.args.__get__(exc)  # type: ignore[attr-defined]
    return messages.own_text(args[0]) if args and type(args[0]) is str else ""


def _bare_assert(exc: BaseException) -> DeviceError | None:
    """`assert a.device == b.device` raises without a word: only the line that failed tells."""
    if type(exc) is not AssertionError or text_of(exc):
        return None
    from .catch.prune import traceback_of
    from .evidence.passive import code_file
    from .evidence.sources import Sources

    tb = traceback_of(exc)
    if tb is None:
        return None
    while tb.tb_next is not None:
        tb = tb.tb_next
    frame = tb.tb_frame
    source = Sources().get(code_file(frame.f_code), frame.f_globals)
    line = source.line(tb.tb_lineno or 0).strip() if source is not None else ""
    if not line.startswith("assert") or ".device" not in line or "torch" not in sys.modules:
        return None
    return DeviceError("AssertionError", "", "X1")


def disagree(evidence: Evidence) -> bool:
    """Whether the operands really are on several devices (else the wording meant a dtype)."""
    from .evidence.operands import flat

    devices = {d for one in [*flat(evidence.leaves), *flat(evidence.inner)] for d in one.devices()}
    return len(devices) > 1


def diagnose(evidence: Evidence) -> tuple[Cause | None, Finding | None]:
    """The first cause that the evidence proves, with what it found."""
    from . import causes
    from .certainty import certainty
    from .edits import EditError

    for module in causes.asked(evidence):
        try:
            finding = module.find(evidence)
        except EditError as error:
            if os.environ.get("WHYDEVICE_DEBUG"):
                print(f"whydevice: {module.NAME}: {error}", file=sys.stderr)
            continue
        if finding is not None:
            finding.certainty = certainty(evidence, finding)
            return causes.cause_of(module), finding
    return None, None
