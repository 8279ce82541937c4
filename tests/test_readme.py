"""The README lists the causes that there are."""

from __future__ import annotations

import re
from pathlib import Path

from whydevice.causes import all_causes

README = Path(__file__).resolve().parents[1] / "README.md"


def test_readme_lists_every_cause_with_its_title(bless: bool) -> None:
    text = README.read_text(encoding="utf-8")
    found = re.search(r"(?<=\n## Causes\n\n\| name \| what happened \|\n\|---\|---\|\n)(\|.*\n)+", text)
    assert found
    rows = "".join(f"| `{cause.name}` | {cause.title} |\n" for cause in all_causes())
    if bless:
        README.write_text(text[: found.start()] + rows + text[found.end() :], encoding="utf-8")
    else:
        assert found[0] == rows, "pytest --bless tests/test_readme.py rewrites the table"
