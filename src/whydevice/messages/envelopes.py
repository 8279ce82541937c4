"""Messages that carry another error as text: a worker's traceback, TorchScript, torch.compile,
load_state_dict.

The frames of the inner error are gone; its text has their places.
"""

from __future__ import annotations

import re

from ..patterns import pattern
from ..types import Place

# (family of the catalogue or "" where it keeps the inner one, literal, what to call it)
_ENVELOPES = (
    ("T1", "Caught ", pattern(r"Caught (?P<exc>\w{1,100}) in (?P<where>[^\n]{1,120}?)\.\n")),
    ("T2", "operation failed in the TorchScript interpreter", "TorchScript interpreter"),
    (
        "T3",
        "an exception occurred : (",
        pattern(r'While copying the parameter named "(?P<where>[^"\n]{1,300})"'),
    ),
    ("", "terminated with the following error:", pattern(r"-- (?P<where>Process \d{1,6}) terminated")),
    ("", "from user code", "torch.compile"),
    ("", "Dynamo failed to run FX node", "torch.compile"),
    ("", "Failed running call_", "torch.compile"),
    ("", "Tensor device mismatch\n", "torch.compile"),
    ("", "LoweringException: ", "torch.compile"),
    ("", "On WorkerInfo(id=", pattern(r"On (?P<where>WorkerInfo\(id=\d{1,9}, name=[^)\n]{1,200}\)):")),
    ("", "Traceback (most recent call last):", "a traceback passed on as text"),
)
_PLACE = pattern(
    r'^[ \t]*File "([^"\n]{1,4096})", line (\d{1,9})(?:, in ([^\n]{1,300}))?[ \t]*(?:\n([^\n]{0,2000}))?',
    re.M,
)
_HEADER = "most recent call last)"
_USER_CODE = "from user code"
_MOST_PLACES = 1000


def envelope(text: str) -> tuple[str, str] | None:
    """The family (or "") and the name of the envelope around a message; None for a bare message."""
    for family, literal, name in _ENVELOPES:
        if literal not in text:
            continue
        if isinstance(name, str):
            return family, name
        found = name.search(text)
        if found:
            where = found["where"]
            return family, f"load_state_dict, parameter {where}" if family == "T3" else where
    return None


def places(text: str, until: int | None = None) -> tuple[Place, ...]:
    """The places of the last traceback before the offset `until` (by default the end), innermost last.

    What torch.compile lists under "from user code" comes after the sentence, and lies deeper.
    """
    head = text[:until]
    start = max(head.rfind(_HEADER), 0)
    found = [*_PLACE.finditer(head, start)]
    user = text.find(_USER_CODE, len(head) if until is not None else start)
    if user >= 0 and until is not None:
        found += _PLACE.finditer(text, user)
    return tuple(_place(one) for one in found[-_MOST_PLACES:])


def _place(found: re.Match[str]) -> Place:
    file, line, function, source = found.groups()
    if source is None or source.lstrip().startswith('File "'):
        source = ""
    return Place(file, int(line), source=source.strip(), function=function)
