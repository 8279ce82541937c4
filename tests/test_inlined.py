"""Comprehensions as Python 3.12 runs them: in the function's own frame, their variables gone when the error is caught."""

from __future__ import annotations

import ast
import linecache
import sys
from pathlib import Path
from typing import Any

import pytest

from whydevice.types import Explanation

torch = pytest.importorskip("torch")

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
x = torch.randn(6, 4).to(device)
"""
MEMBERS = """
class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.members = [nn.Linear(4, 2) for _ in range(3)]

    def forward(self, x):
        return [member(x) for member in self.members]

def main():
    return Ensemble().to(device)(x)
"""
KEYS = """
class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {name: nn.Linear(4, 2) for name in ("a", "b")}

    def forward(self, x, names=("b", "a")):
        return [self.heads[name](x) for name in names]

def main():
    return Tabular().to(device)(x)
"""
TARGETS = """
criterion = nn.CrossEntropyLoss()
targets = torch.randint(0, 4, (6,))

def main():
    return [criterion(o, t) for o, t in zip(x.chunk(3), targets.chunk(3))]
"""
SHADOWED = """
class Shift:
    def __call__(self, first, second):
        return first + second

def main():
    t, shift = x, Shift()
    return [shift(*(x, t)) for t in [torch.ones(4)]]
"""


class Inlined(ast.NodeTransformer):
    """A comprehension as PEP 709 compiles it: a loop in the function's own frame, whose variables are restored."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        last = node.body[-1]
        if not isinstance(last, ast.Return) or not isinstance(made := last.value, ast.ListComp):
            return node
        body: list[ast.stmt] = [ast.Expr(made.elt)]
        for clause in reversed(made.generators):
            body = [ast.For(clause.target, clause.iter, body, [])]
        mine = stored(ast.Tuple([clause.target for clause in made.generators]))
        own = stored(*node.body[:-1])
        kept = "".join(f"__{name} = {name}\n" for name in mine & own)
        back = "".join(f"{name} = __{name}\n" if name in own else f"del {name}\n" for name in mine)
        before, after = ast.parse(kept).body, ast.parse(back).body
        loop = ast.Try(body, [], [], after)
        for each in [loop, *(inner for part in [*before, *after] for inner in ast.walk(part))]:
            ast.copy_location(each, last)
        node.body[-1:] = [*before, loop]
        return node


def stored(*nodes: ast.AST) -> set[str]:
    """The names that are bound in there."""
    found = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]
    return {each.id for each in found if isinstance(each.ctx, ast.Store)}


def explained(text: str, folder: Path) -> Explanation:
    import whydevice

    file = folder / "model.py"
    file.write_text(HEAD + text)
    linecache.checkcache()
    tree = ast.parse(HEAD + text)
    if sys.version_info < (3, 12):
        tree = ast.fix_missing_locations(Inlined().visit(tree))  # what 3.12 does by itself
    names: dict[str, Any] = {"__name__": "model", "__file__": str(file)}
    with whydevice.simulate_cuda():
        exec(compile(tree, str(file), "exec"), names)
        with pytest.raises(RuntimeError) as caught:
            names["main"]()
        found = whydevice.explain(caught.value)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "cause", "culprit"),
    [
        (MEMBERS, "modules-in-list", "member"),
        (KEYS, "modules-in-dict", "self.heads[name]"),
        (TARGETS, "tensor-without-device", "t"),
    ],
    ids=["member", "key", "zipped"],
)
def test_variables_are_read_off_the_frame_that_was_called(
    text: str, cause: str, culprit: str, tmp_path: Path
) -> None:
    found = explained(text, tmp_path)
    assert found.cause is not None and found.cause.name == cause
    assert found.culprit is not None and found.culprit.expression == culprit
    assert found.certainty == "certain"


def test_variable_of_the_function_is_not_taken_for_the_lost_one(tmp_path: Path) -> None:
    """`t` of the function is on the GPU; the comprehension's own `t`, which failed, was on the CPU."""
    found = explained(SHADOWED, tmp_path)
    assert all(row.device != "cuda:0" or row.expression != "t" for row in found.operands)
    assert found.culprit is None or found.culprit.expression != "x"
