"""A bound for texts without one."""

from __future__ import annotations


def shorten(text: str, most: int = 1 << 14) -> str:
    """The text, or its first and last `most` characters: the sentence stands at one end, whatever hangs on
    it."""
    if len(text) <= 2 * most:
        return text
    return f"{text[:most]}\n{text[-most:]}"
