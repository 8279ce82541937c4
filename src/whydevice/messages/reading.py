"""Reads a text that has the words of some family: bare or inside an envelope."""

from __future__ import annotations

import re

from ..patterns import pattern
from ..types import DeviceError, Place
from . import envelopes, matcher
from .shorten import shorten

# `RuntimeError: ...` or `torch.cuda.OutOfMemoryError: ...` at the start of a line of a traceback.
_RAISED = pattern(r"^(?:[A-Za-z_][\w.]{0,200}\.)?([A-Za-z_]\w{0,120}): ", re.MULTILINE)
_QUOTED = re.compile(r"exception occurred : \(['\"]")
_HERE = pattern(r"torch\.(\w{1,80})\([^\n]{0,1000}\n[ \t~]{0,1000}<--- HERE")
_LONGEST_TRACEBACK = 1 << 17
_MOST_LINES = 200


def read_text(exc_type: str, text: str) -> DeviceError | None:
    """The device error that the text is; None when the words of a family turn out to be part of something
    else."""
    looked_at = shorten(text)
    found = _found(exc_type, looked_at)
    if found is None:
        return None
    family, values, devices = found
    around = envelopes.envelope(looked_at)
    return DeviceError(
        type=exc_type,
        message=text,
        family=around[0] if around and around[0] else family.id,
        devices=devices,
        argument=matcher.argument(family, values, devices),
        op=matcher.op(family, values) or _torchscript_op(looked_at),
        ambiguous=family.ambiguous,
        envelope=around[1] if around else None,
    )


def unwrapped(error: DeviceError) -> DeviceError:
    """The error inside the envelope, with its own class and family."""
    if error.envelope is None:
        return error
    text = shorten(error.message)
    offset, inner_type = _sentence(error.type, text)
    found = matcher.find(inner_type, text[offset:])
    if found is None:
        return error
    message = text[offset:].strip()
    return error._replace(type=inner_type, message=message, family=found[0].id, envelope=None)


def wanted(error: DeviceError) -> str | None:
    """The device that the wording asks for."""
    found = _found(error.type, shorten(error.message))
    if found is None or found[0].wants is None:
        return None
    wants, devices = found[0].wants, found[2]
    if isinstance(wants, str):
        return wants
    return devices[wants] if wants < len(devices) else None


def device_of_argument(error: DeviceError) -> str | None:
    """The device of the named argument."""
    found = _found(error.type, shorten(error.message))
    at = matcher.picked(found[0], found[2]) if found else None
    return found[2][at] if found and at is not None and at < len(found[2]) else None


def printed_by(error: DeviceError) -> str:
    """The versions that print this wording."""
    found = _found(error.type, shorten(error.message))
    return found[0].torch if found else ""


def places_in(text: str) -> tuple[Place, ...]:
    """The places of the traceback that leads to the device sentence, or of the last one."""
    text = shorten(text, _LONGEST_TRACEBACK)
    offset, _ = _sentence("", text)
    return envelopes.places(text, offset or None) or envelopes.places(text)


def _found(exc_type: str, text: str) -> matcher.Found | None:
    offset, inner_type = _sentence(exc_type, text)
    return matcher.find(inner_type, text[offset:])


def _torchscript_op(text: str) -> str | None:
    """The op on the line that TorchScript marks; it prints its own code, one op a line."""
    found = _HERE.search(text) if "<--- HERE" in text else None
    return found[1] if found else None


def _sentence(exc_type: str, text: str) -> tuple[int, str]:
    """Where the device sentence begins, and the class that it was raised with."""
    if "Traceback" in text:
        # The last error of the text that is one of ours: a chained traceback may end in another.
        for raised in [*_RAISED.finditer(text)][-_MOST_LINES:][::-1]:
            line = text[raised.end() : raised.end() + 4000]
            if matcher.find(raised[1], line):
                return raised.end(), raised[1]
    quoted = _QUOTED.search(text)
    return (quoted.end(), exc_type) if quoted else (0, exc_type)
