"""Properties that only hand out an attribute: read off their code, never called."""

from __future__ import annotations

from typing import Any

import pytest

from whydevice.evidence import values


class Holder:
    def __init__(self) -> None:
        self._kept = ["kept"]
        self.inner = self

    @property
    def kept(self) -> Any:
        return self._kept

    @property
    def deep(self) -> Any:
        return self.inner.inner._kept

    @property
    def absent(self) -> Any:
        return self._nothing  # type: ignore[attr-defined]

    @property
    def copied(self) -> Any:
        return self._kept.copy()

    @property
    def constant(self) -> Any:
        return 3

    @property
    def round(self) -> Any:
        return self.round

    @property
    def tested(self) -> Any:
        return self._kept if self.inner else None


@pytest.mark.parametrize("name", ["kept", "deep"])
def test_what_it_hands_out(name: str) -> None:
    holder = Holder()
    assert values.attribute(holder, name) is holder._kept


@pytest.mark.parametrize("name", ["absent", "copied", "constant", "round", "tested"])
def test_what_does_more_is_not_known(name: str) -> None:
    with pytest.raises(LookupError):
        values.attribute(Holder(), name)
