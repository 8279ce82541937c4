"""What looks at live objects keeps to `evidence/passive.py`: no construct that runs the object's own code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whydevice.evidence import passive

SRC = Path(passive.__file__).parents[1]
FILES = sorted(
    path
    for folder in ("evidence", "causes")
    for path in (SRC / folder).glob("*.py")
    if path.name not in ("tracing.py", "__init__.py")
)
OWN_KINDS = {"FunctionNode", "ScopeNode"}
"""Types of syntax trees under names of ours, besides constants: `isinstance` is asked of nodes only."""
ANSWERED_BY_A_METACLASS = {"__name__", "__module__", "__qualname__", "__mro__", "__bases__", "__class__"}


def _of_trees(kinds: ast.expr) -> bool:
    """Whether the second argument of `isinstance` names kinds of syntax nodes, or plain containers of them."""
    if isinstance(kinds, ast.BinOp):
        return _of_trees(kinds.left) and _of_trees(kinds.right)
    if isinstance(kinds, ast.Tuple):
        return all(map(_of_trees, kinds.elts))
    if isinstance(kinds, ast.Attribute):
        return isinstance(kinds.value, ast.Name) and kinds.value.id == "ast"
    return isinstance(kinds, ast.Name) and (kinds.id in OWN_KINDS or kinds.id.isupper())


def faults(text: str) -> list[str]:
    """What in a module of ours would run the code of an object that it looks at."""
    found = []
    for node in ast.walk(ast.parse(text)):
        written = ast.unparse(node) if isinstance(node, ast.Call | ast.Compare | ast.Attribute) else ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            block_of_statements = ast.unparse(node.args[1]) == "list" and "block" in ast.unparse(node.args[0])
            body = ast.unparse(node.args[0]).endswith((".body", ".slice.value"))  # parts of a tree
            if not _of_trees(node.args[1]) and not block_of_statements and not body:
                found.append(written)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            left = node.left
            if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "type":
                found.append(written)
        elif isinstance(node, ast.Attribute) and node.attr in ANSWERED_BY_A_METACLASS:
            if ast.unparse(node) not in ("function.__module__",):
                found.append(written)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_no_live_object_is_asked(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    ["isinstance(value, dict)", "type(x) in (int, str)", "type(value).__name__", "isinstance(held, type)"],
)
def test_the_check_sees_what_it_is_for(line: str) -> None:
    assert faults(line) != []


def test_names_and_bases_come_from_the_slots() -> None:
    class Meta(type):
        __name__ = property(lambda cls: "lie")  # type: ignore[assignment]
        __mro__ = property(lambda cls: ())  # type: ignore[assignment]

    cls = Meta("Real", (), {"x": 1})
    assert passive.class_name(cls) == "Real"
    assert passive.bases(cls)[-1] is object
    assert passive.class_attribute(cls, "x") == 1
    assert passive.class_module(cls) == __name__


def test_a_lookup_leaves_the_keys_alone() -> None:
    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

    entries = {Key("a"): 1, "b": 2, 3: 4}
    assert passive.lookup(entries, "a") == 1
    assert passive.lookup(entries, "b") == 2
    assert passive.lookup(entries, "c", "none") == "none"
    assert passive.find_key(entries, 3) == 4
    with pytest.raises(LookupError):
        passive.find_key(entries, 5)
    assert [type(name) for name, _ in passive.named(entries)] == [str, str]
