"""How a path is written: relative to the working directory where it lies below it, else absolute."""

from __future__ import annotations

import os


def relative(path: str) -> str:
    """The path as the JSON and the reports show it. Names that are no files (`<stdin>`) stay as they are."""
    if not path or path.startswith("<"):
        return path
    try:
        here = os.getcwd()
        if not os.path.isabs(path):
            return path
        below = os.path.relpath(path, here)
    except (OSError, ValueError):
        # The working directory is gone, or the file is on another drive.
        return path
    outside = below == os.pardir or below.startswith(os.pardir + os.sep)
    return path if outside else below


def place(path: str, line: int) -> str:
    """`train.py:14`, which terminals make a link of; a notebook's cell is no file: `cell [3], line 5`."""
    return f"{path}, line {line}" if path.startswith("cell [") else f"{path}:{line}"
