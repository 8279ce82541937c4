"""A long file is parsed in parts, and what is found in the parts is what the whole file has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from whydevice.evidence.scopes import bindings_of, own_nodes
from whydevice.evidence.sources import Sources
from whydevice.source import Source
from whydevice.source.nodes import walk

FILES = [
    torch.nn.functional.__file__,
    torch.nn.modules.module.__file__,
    str(Path(torch.__file__).parent / "optim" / "optimizer.py"),
    str(Path(torch.__file__).parent / "_tensor.py"),
    ast.__file__,
]
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize("path", FILES, ids=[Path(path).stem for path in FILES])
def test_each_function_of_a_long_file_is_the_one_of_the_whole_tree(path: str) -> None:
    text = Path(path).read_text()
    whole = ast.parse(text)
    chains = dict(_chains(whole, ()))
    functions = [n for n in chains if isinstance(n, FUNCTION)]
    for function in functions[:: max(1, len(functions) // 60)]:
        source = Source.from_text(path, text)
        first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        found = source.function_at(first, function.name)
        assert found is not None
        assert ast.dump(found, include_attributes=True) == ast.dump(function, include_attributes=True)
        ups = [up for up in source.ancestors(found) if isinstance(up, FUNCTION | ast.ClassDef)]
        assert [up.name for up in ups] == [up.name for up in reversed(chains[function])]
        if source.long:
            assert "tree" not in source.__dict__, "the whole file was parsed"


def _chains(node: ast.AST, ups: tuple[ast.AST, ...]) -> list[tuple[ast.AST, tuple[ast.AST, ...]]]:
    found: list[tuple[ast.AST, tuple[ast.AST, ...]]] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTION | ast.ClassDef):
            found.append((child, ups))
            found += _chains(child, (*ups, child))
        else:
            found += _chains(child, ups)
    return found


def test_a_class_of_which_methods_were_read_is_completed_around_them() -> None:
    methods = "".join(f"    def m{n}(self):\n        return self.a{n}\n\n" for n in range(800))
    text = f"@deco\nclass Net(Base):\n    size = 3\n\n{methods}\nx = Net()\n"
    source = Source.from_text("a.py", text)
    first = source.function_at(5 + 3 * 700, "m700")
    second = source.function_at(5, "m0")
    cls = source.enclosing_class(first)
    assert cls is source.enclosing_class(second)
    assert [member.name for member in cls.body] == ["m0", "m700"]
    assert source.class_named("Net") is cls
    assert len(cls.body) == 801
    assert cls.body[1] is second
    assert cls.body[701] is first
    assert [ast.unparse(base) for base in cls.bases] == ["Base"]
    assert source.parent(cls.body[5].body[0]) is cls.body[5]


PADDING = {
    "constants": "".join(f"VALUE_{n} = {n}\n" for n in range(4000)),
    "functions": "".join(f"def helper_{n}(x):\n    return x + {n}\n\n" for n in range(1500)),
    "decorated": "".join(
        f"@cached(\n    {n},\n)\n@plain\ndef helper_{n}(x):\n    return x.to({n})\n\n" for n in range(800)
    ),
    "strings": '"""\nmodel = wrong()\n"""\n' * 1000,
    "quotes": "\"'''\"  # it's\nmodel_ = '\"\"\"'\n" * 1000,
    "comments": "# model = wrong()\n" * 4000,
}
CODE = """\
model = Net()
device = "cuda"
if device:
    extra = 1
move(model)
model.to(device)
unrelated = 5
class_weight = default_weight = weights()
def main(batch):
    return model(batch, LATER, class_weight)
out = main(first)
"""


@pytest.mark.parametrize("kind", PADDING)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_module_of_a_long_file_has_what_was_read_needs(kind: str, newline: str) -> None:
    text = ("first = load()\n" + PADDING[kind] + CODE + "LATER = 2\n" + PADDING[kind]).replace("\n", newline)
    source = Source.from_text("a.py", text)
    line = source.line_at(text.index("out = main"))
    source.tree_at(line)
    assert source.module.body
    main = source.function_at(line - 2, "main")
    bound = bindings_of(source.module)
    assert {"model", "first", "extra", "out", "LATER", "device", "class_weight"} <= set(bound)
    assert ast.unparse(bound["model"][0].value) == "Net()"
    assert len(bound["model"]) == 1
    assert main in own_nodes(source.module)
    calls = {ast.unparse(n) for n in own_nodes(source.module) if isinstance(n, ast.Call)}
    assert {"move(model)", "model.to(device)"} <= calls
    assert "unrelated" not in bound
    assert len(source.module.body) < 50


def test_a_frame_of_a_long_module_is_found_at_its_place() -> None:
    text = PADDING["functions"] + "y = f(a +\n      b)\n"
    source = Source.from_text("a.py", text)
    line = source.line_count - 2
    node = source.node_at(source.module, line, line + 1, 6, 7)
    assert ast.unparse(node) == "a + b"
    assert source.scope(node) is source.module
    assert source.statement_at(source.module, line) is source.statement(node)


def test_nodes_in_an_f_string_are_written_as_they_are() -> None:
    source = Source.from_text("a.py", "print(f'{a.b!r:>{w}} {x + y}')\n")
    names = [n for n in ast.walk(source.tree) if isinstance(n, ast.BinOp | ast.Attribute)]
    assert sorted(source.one_line(n) for n in names) == ["a.b", "x + y"]


SMALL = """\
@deco(1)
class Net(Base, metaclass=M):
    @property
    def size(self, a: int = 3, *args: int, b=[x for x in y if x], **kw) -> int:
        with open(a) as f, g(b) as (h, i): pass
        match a:
            case [1, *rest] if rest: return {**kw, 'a': f"{a!r:>{b}} {kw['x'].y}"}
            case {"k": v}: x = (y := v); z = x; return lambda q=1: q
        return not a < b <= 3 and -a
def other(): yield await_(1); del a[1:2], b
"""


@pytest.mark.parametrize("text", [SMALL, Path(ast.__file__).read_text()], ids=["small", "long"])
def test_the_parent_of_each_node_is_found_whichever_is_asked_for_first(text: str) -> None:
    source = Source.from_text("a.py", text)
    tree = source.tree
    places = [n.lineno for n in tree.body][:: 1 if len(tree.body) < 20 else 25]
    for line in places:
        top = next(s for s in source.tree_at(line).body if s.lineno <= line <= (s.end_lineno or line))
        real = {child: node for node in ast.walk(top) for child in ast.iter_child_nodes(node)}
        for node in reversed([n for n in walk(top) if n is not top]):
            assert source.parent(node) is real[node], ast.dump(node)
        assert source.parent(top) is source.module


def test_a_walk_leaves_out_operators_and_contexts_alone() -> None:
    for path in FILES:
        tree = ast.parse(Path(path).read_text() + SMALL)
        left_out = ast.operator | ast.cmpop | ast.boolop | ast.unaryop | ast.expr_context
        assert list(walk(tree)) == [n for n in ast.walk(tree) if not isinstance(n, left_out)]


def test_of_a_library_only_what_is_looked_at_is_parsed() -> None:
    source = Sources().get(torch.nn.modules.container.__file__)
    assert source is not None and source.long
    found = source.function_at(torch.nn.Sequential.forward.__code__.co_firstlineno, "forward")
    assert isinstance(found, FUNCTION)
    assert "tree" not in source.__dict__
