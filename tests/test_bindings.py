"""Where names are bound: read from the statements alone where no `:=` is written, else from every node."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

import pytest

import whydevice
from whydevice.evidence.scopes import Binding, bindings_of
from whydevice.source import ScopeNode, Source
from whydevice.source.nodes import has_walrus, note_walrus

FILES = [
    *Path(whydevice.__file__).parent.rglob("*.py"),
    *(Path(inspect.getfile(module)) for module in (ast, inspect, textwrap)),
]


def scopes(tree: ast.AST) -> list[ScopeNode]:
    return [node for node in ast.walk(tree) if isinstance(node, ScopeNode)]


def as_plain(table: dict[str, list[Binding]]) -> dict[str, list[tuple[object, ...]]]:
    return {name: [tuple(each) for each in found] for name, found in table.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements_alone_give_the_same(path: Path) -> None:
    source = Source(str(path), path.read_text(), most_whole=10**6)
    for scope in scopes(source.tree):
        quick = as_plain(bindings_of(scope))
        note_walrus(scope, True)
        del scope._read  # type: ignore[union-attr]
        assert as_plain(bindings_of(scope)) == quick


BLOCKS = """\
def f(xs):
    a = 1
    for b in xs:
        c = b
    else:
        d = 2
    while a:
        with open(a) as e:
            g: int = 3
    try:
        h = 4
    except* ValueError as error:
        i = 5
    else:
        j = 6
    finally:
        k = 7
    match a:
        case [l, *m] if l:
            n = 8
        case {"o": o, **p}:
            q, (r, s) = 9, (10, 11)
    if a:
        t += 1
    elif xs:
        u = 12
    else:
        class V:
            inside = 13
        async def w(x):
            deep = 14
"""


def test_every_block_is_looked_into() -> None:
    (function,) = Source("blocks.py", BLOCKS).tree.body
    assert isinstance(function, ast.FunctionDef) and not has_walrus(function)
    found = set(bindings_of(function))
    assert found >= set("abcdeghijklmnopqrstu") | {"V", "w"}
    assert not found & {"inside", "deep", "x"}


def test_a_walrus_is_seen() -> None:
    tree = Source("walrus.py", "def f(x):\n    return (y := x) + [z := y]\n\ndef g(x):\n    a = x\n").tree
    first, second = scopes(tree)[1:]
    assert set(bindings_of(first)) >= {"y", "z"}
    assert set(bindings_of(second)) >= {"a"}


def test_a_walrus_in_one_part_of_a_long_class_is_seen() -> None:
    text = (
        "class C:\n    def f(self):\n        a = 1\n\n    if (b := 2):\n        c = 3\n" + "\n# filler" * 60
    )
    source = Source("long.py", text, most_whole=20)
    part = source.tree_at(3).body[0]
    assert isinstance(part, ast.ClassDef)
    assert set(bindings_of(source.whole(part))) >= {"f", "b", "c"}
