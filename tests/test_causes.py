"""Each cause has its name, its page, fixtures on which it fires and near misses on which it is silent."""

from __future__ import annotations

import pkgutil
import re
from collections import Counter

import pytest

from fixture_cases import cases, near_misses
from whydevice import causes

MODULES = causes.modules()
NAMES = [module.NAME for module in MODULES]
FIXTURES, NEAR_MISSES = cases(), near_misses()


def test_each_file_has_its_place_in_the_order() -> None:
    files = [info.name for info in pkgutil.iter_modules(causes.__path__) if not info.name.startswith("_")]
    assert sorted(causes.ORDER) == files
    assert set(causes.ONLY) <= set(causes.ORDER)


def test_names_are_distinct() -> None:
    assert [name for name, count in Counter(NAMES).items() if count > 1] == []


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_has_its_page(module: object) -> None:
    page = causes.cause_of(module).page  # type: ignore[arg-type]
    assert page.startswith("What happened: "), "a page begins with what happened"
    assert "How to recognise it:" in page
    assert re.search(r"^Before( and after)?:", page, re.M), "what it looks like before and after"
    assert re.search(r"\b(un)?safe\b", page, re.I), "whether its fix is safe"


@pytest.mark.parametrize("name", NAMES)
def test_names_the_thing_and_no_remedy(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
    assert not name.startswith(("use-", "move-", "call-", "add-", "fix-")), "a name says what was found"


def lacks(name: str) -> str:
    """What a cause has too few of; test_fixtures.py runs them all."""
    found = [c for c in FIXTURES if name in (c.cause, *c.also_true)]
    if len(found) < 3:
        return "three fixtures"
    if all({"raises", "explained"} & set(c.known_gap) for c in found):
        return "a fixture on which it fires"
    return "" if sum(n.near == name for n in NEAR_MISSES) >= 2 else "two near misses"


@pytest.mark.parametrize("name", NAMES)
def test_has_fixtures_and_near_misses(name: str) -> None:
    assert not lacks(name)


def test_every_fixture_is_of_a_cause_that_there_is() -> None:
    assert {c.cause for c in FIXTURES if "explained" not in c.known_gap} <= set(NAMES)
