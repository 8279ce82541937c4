"""`--explain`: the pages of the causes and their list, in 80 columns."""

from __future__ import annotations

import re

import pytest

from whydevice import causes
from whydevice.render import pages
from whydevice.types import Cause

PAGE = """A batch was not moved.

What happened: a DataLoader yields its batches on the cpu, whatever device the model is on, and `model(x)`
then has operands on two devices.

- the first item is long enough to be wrapped at the eightieth column, with a hanging indent below its
  own text
- the second

Before:

    for x, y in loader:
        model(x)

```python
x = x.to(device)
```
"""


def test_page() -> None:
    assert pages.page(Cause("batch-not-moved", "A batch was not moved", PAGE)) == (
        """\
batch-not-moved: A batch was not moved

What happened: a DataLoader yields its batches on the cpu, whatever device the
model is on, and `model(x)` then has operands on two devices.

- the first item is long enough to be wrapped at the eightieth column, with a
  hanging indent below its own text
- the second

Before:

    for x, y in loader:
        model(x)

    x = x.to(device)"""
    )


def test_listing() -> None:
    causes = [
        Cause("a", "first", ""),
        Cause("a-name-that-is-far-too-long-for-the-column", "second " * 20, ""),
    ]
    lines = pages.listing(causes).split("\n")
    assert lines[0] == "  a" + " " * 35 + "first"
    assert all(len(line) <= 80 for line in lines) and "--explain NAME" in lines[-1]
    assert pages.listing([])


EVERY = causes.all_causes()


@pytest.mark.parametrize("cause", EVERY, ids=[cause.name for cause in EVERY])
def test_every_page_fits_and_breaks_at_spaces(cause: Cause) -> None:
    shown = pages.page(cause)
    assert max(map(len, shown.split("\n"))) <= 80
    # Filling a paragraph keeps its words.
    assert re.sub(r"\s+", " ", cause.page.strip()) in re.sub(r"\s+", " ", shown)


def test_a_long_message_in_a_page_is_broken_between_words() -> None:
    message = "`" + "a message of many words " * 5 + "that ends here`"
    shown = pages.page(Cause("a", "b", f"How to recognise it: {message}."))
    assert all(row.split()[-1] in (*message.split(), "here`.", "it:") for row in shown.split("\n")[2:] if row)
