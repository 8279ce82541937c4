"""Edits sorted, merged and refused; how a script moves things; whether a source is what runs."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

from edit_helpers import PATH, call, edited
from processes import HANGS
from whydevice.edits import (
    EditError,
    Source,
    add_keyword,
    append_method,
    binds,
    device_text,
    ignored,
    insert_after,
    move_text,
    plan,
    runs_as,
    siblings,
)
from whydevice.edits import edited as sources_after
from whydevice.types import Edit


def _plan(text, *edits):
    return plan([Edit(PATH, *edit) for edit in edits], {PATH: Source.from_text(PATH, text)})


def test_edits_are_sorted_and_identical_ones_merged():
    edits = [(2, 0, 2, 1, "B"), (1, 0, 1, 1, "A"), (2, 0, 2, 1, "B")]
    assert _plan("a\nb\n", *edits) == {PATH: "A\nB\n"}
    assert plan([]) == {}


@pytest.mark.parametrize(
    "edits",
    [
        [(1, 0, 1, 3, "x"), (1, 2, 1, 4, "y")],
        [(1, 0, 1, 3, "x"), (1, 0, 1, 3, "y")],
        [(1, 0, 1, 3, "x"), (1, 1, 1, 1, "y")],
        [(1, 1, 1, 1, "x"), (1, 1, 1, 1, "y")],
        [(1, 4, 1, 4, ".to(d)"), (1, 4, 1, 4, ".cuda()")],
    ],
)
def test_edits_that_overlap_are_refused(edits):
    with pytest.raises(EditError, match="two edits of line 1"):
        _plan("abcd\n", *edits)


def test_an_edit_that_ends_before_it_starts_is_refused():
    with pytest.raises(EditError, match="ends before"):
        _plan("abcd\n", (1, 3, 1, 1, "x"))


def test_edits_may_touch_and_lines_may_share_a_place():
    assert _plan("ab\n", (1, 0, 1, 1, "x"), (1, 1, 1, 2, "y"), (1, 1, 1, 1, "+")) == {PATH: "x+y\n"}
    assert _plan("a\nb\n", (2, 0, 2, 0, "x\n"), (2, 0, 2, 0, "y\n")) == {PATH: "a\nx\ny\nb\n"}


def test_a_method_goes_before_what_closes_and_what_follows():
    def make(source):
        inner, outer = call(source, "g"), call(source, "f")
        return (*add_keyword(source, outer, "device", "d"), *append_method(source, inner, ".to(d)"))

    assert edited("f(g(1))", make) == "f(g(1).to(d), device=d)"


def test_a_result_that_does_not_parse_is_refused():
    with pytest.raises(EditError, match="would not parse"):
        _plan("a\n", (1, 1, 1, 1, " b"))


MARKED = [
    # text, edit, whether it is refused
    ("f(a)  # whydevice: ignore\n", (1, 3, 1, 3, ".to(d)"), True),
    ("f(a)  # x  #whydevice:ignore because\n", (1, 3, 1, 3, ".to(d)"), False),
    ("f(a)  #whydevice:ignore because\n", (1, 3, 1, 3, ".to(d)"), True),
    ("f(\n    a,\n)  # whydevice: ignore\n", (2, 5, 2, 5, ".to(d)"), True),
    ("f(\n    a,  # whydevice: ignore\n    b)\n", (3, 5, 3, 5, ".to(d)"), True),
    ("f(a)\nb  # whydevice: ignore\n", (1, 3, 1, 3, ".to(d)"), False),
    ("a  # whydevice: ignore\nf(a)\n", (2, 3, 2, 3, ".to(d)"), False),
    ("# whydevice: ignore\nf(a)\n", (2, 3, 2, 3, ".to(d)"), False),
    ("a  # whydevice: ignore\nb\n", (2, 0, 2, 0, "c\n"), False),
    ("b\na  # whydevice: ignore\n", (2, 0, 2, 0, "c\n"), False),
    ("b\na  # whydevice: ignore", (2, 22, 2, 22, "\nc"), False),
    ("b\na  # whydevice: ignore\nc\n", (2, 0, 3, 0, ""), True),
    ("b\na\nc  # whydevice: ignore\n", (2, 0, 3, 0, ""), False),
    ("f('# whydevice: ignore')\n", (1, 0, 1, 1, "g"), False),
    ("for a in b:  # whydevice: ignore\n    f(a)\n", (2, 7, 2, 7, ".to(d)"), False),
]


@pytest.mark.parametrize(("text", "edit", "refused"), MARKED)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_marked_lines_are_not_edited(text, edit, refused, newline):
    source = Source.from_text(PATH, text.replace("\n", newline))
    made = Edit(PATH, *edit)
    assert ignored([made], {PATH: source}) == ([made] if refused else [])
    if refused:
        with pytest.raises(EditError, match="is marked"):
            plan([made], {PATH: source})
    else:
        assert plan([made], {PATH: source})


def test_files_are_read_when_no_source_is_given(tmp_path):
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("a\n")
    other.write_bytes(b"\xef\xbb\xbfb\r\n")
    result = plan([Edit(str(one), 1, 0, 1, 1, "c"), Edit(str(other), 1, 0, 1, 1, "d")])
    assert result == {str(one): "c\n", str(other): "d\r\n"}


def _style(text, function=None):
    source = Source.from_text(PATH, text)
    node = next((n for n in ast.walk(source.tree) if getattr(n, "name", None) == function), None)
    return siblings(source, node)


HERE = [("device", "cuda:0"), ("x.device", "cuda:0"), ("other", "cuda:1")]


@pytest.mark.parametrize(
    ("text", "wanted", "batch", "result"),
    [
        ("", "cuda:0", False, ".to(device)"),
        ("", "cuda:1", False, ".to(other)"),
        ("", "cuda:2", False, '.to("cuda:2")'),
        ("", "cpu", False, ".cpu()"),
        ("m.cuda()", "cuda:0", False, ".cuda()"),
        ("m.cuda()", "cuda:1", False, ".to(other)"),
        ("m.cuda(1)", "cuda:1", False, ".cuda(1)"),
        ("m.cuda(gpu)", "cuda:0", False, ".cuda()"),
        ("m.to('cuda')", "cuda:0", False, ".to('cuda')"),
        ('m.to("cuda:0")', "cuda:0", False, '.to("cuda:0")'),
        ('m.to(torch.device("cuda"))', "cuda:0", False, '.to(torch.device("cuda"))'),
        ("m.to(x.device)", "cuda:0", False, ".to(x.device)"),
        ("m.to(args.device)", "cuda:0", False, ".to(device)"),
        ("m.to(torch.float16)", "cuda:0", False, ".to(device)"),
        ("m.to(device); x.cpu(); y.cpu()", "cuda:0", False, ".to(device)"),
        ("x = x.to(device, non_blocking=True)", "cuda:0", True, ".to(device, non_blocking=True)"),
        ("x = x.to(device, non_blocking=True)", "cuda:0", False, ".to(device)"),
        ("x = x.cuda(non_blocking=nb)", "cuda:0", True, ".cuda(non_blocking=nb)"),
        ("a.cuda(); b.cuda(); x = x.cuda(non_blocking=nb)", "cuda:0", True, ".cuda()"),
        ("x = torch.zeros(3, device='cuda')", "cuda:0", False, ".to('cuda')"),
    ],
)
def test_things_are_moved_as_their_siblings_are(text, wanted, batch, result):
    assert move_text(_style(text), HERE, wanted, batch=batch) == result


def test_the_nearest_siblings_decide():
    text = "m.to(device)\ndef f(x):\n    return x.cuda()\ndef g(x):\n    return x\n"
    assert move_text(_style(text, "f"), HERE, "cuda:0") == ".cuda()"
    assert (
        move_text(_style("a.to(device)\nb.to(device)\nc.cuda()\n" + text, "g"), HERE, "cuda:0")
        == ".to(device)"
    )
    assert device_text(_style(text, "g"), [], "cuda:0") == '"cuda"'
    assert device_text(_style(text, "g"), HERE[1:], "cuda:0") == "x.device"


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        ("here", True),
        ("def f(x): here", True),
        ("def f(): here", False),
        ("def f():\n    x = 1\n    def g(): here", False),
        ("def f():\n    def g():\n        nonlocal x\n        here\n    x = 1", True),
        ("def f():\n    import a.b as x\n    here", True),
        ("def f():\n    (x := 1)\n    here", True),
        ("def f():\n    [x for x in y]\n    here", False),
        ("def f():\n    [(x := 1) for z in y]\n    here", True),
        ("def f():\n    try: a\n    except E as x: here", True),
        ("def f():\n    class x: pass\n    here", True),
        ("def f():\n    match a:\n        case [x]: here", True),
        ("def f():\n    lambda x: 0\n    here", False),
        ("class A:\n    here", True),
    ],
)
def test_which_names_a_function_owns(text, owned):
    source = Source.from_text(PATH, text)
    statement = next(
        n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and source.segment(n) == "here"
    )
    assert binds(source, statement, "x") is owned


MODULE = '''
from __future__ import annotations
import functools

def outer(x: int):
    """Doc."""
    def inner(y):
        return x + y, [z for z in y if x], 1.0, f"{x}"
    return inner

class A:
    @functools.cache
    def m(self, a=lambda q: q):
        assert a
        return a
'''


def _code(text, *path):
    code = compile(text, PATH, "exec", dont_inherit=True)
    for name in path:
        code = next(c for c in code.co_consts if getattr(c, "co_name", None) == name)
    return code


@pytest.mark.parametrize("path", [(), ("outer",), ("outer", "inner"), ("A",), ("A", "m")])
def test_a_source_is_known_by_the_code_that_runs(path):
    code = _code(MODULE, *path)
    assert runs_as(Source.from_text(PATH, MODULE), code)
    assert runs_as(Source.from_text(PATH, MODULE.replace("\n", "\r\n")), code)
    assert not runs_as(Source.from_text(PATH, "\n" + MODULE), code)
    assert not runs_as(Source.from_text(PATH, "x = (" + MODULE), code)
    changed = MODULE.replace("x + y", "y + x").replace("return a", "return  a")
    assert not runs_as(Source.from_text(PATH, changed), code)
    # A change below does not matter to a function above it.
    assert runs_as(Source.from_text(PATH, MODULE + "\nq = 1\n"), code) is bool(path)


def test_a_constant_of_another_type_is_another_source():
    assert not runs_as(Source.from_text(PATH, MODULE.replace("1.0", "001")), _code(MODULE, "outer", "inner"))


def test_pytests_rewritten_assertions_count_as_the_source():
    source = Source.read(__file__)
    assert runs_as(source, test_pytests_rewritten_assertions_count_as_the_source.__code__)


def test_a_long_file_is_edited_without_parsing_all_of_it():
    block = "def f{0}(x):\n    y = torch.zeros(x)\n    return y\n\n\n"
    text = "import torch\n" + "".join(block.format(n) for n in range(2000))
    source = Source.from_text(PATH, text)
    function = source.tree_at(5 * 1000 + 4).body[-1]
    edits = add_keyword(source, function.body[0].value, "device", "x.device")
    edits += insert_after(source, function.body[0], "z = 1")
    assert "tree" not in source.__dict__
    assert plan(edits, {PATH: source})[PATH].count("device=x.device)\n    z = 1\n") == 1


@pytest.mark.parametrize(
    "module",
    ["argparse", "datetime", "doctest", "imaplib", "inspect", "pdb", "subprocess", "tarfile", "typing"],
)
def test_each_function_and_class_of_a_long_file_is_known_by_its_code(module):
    """Read by itself, it has to compile to what it is in its file: with its decorators, and where that imports names."""
    path = importlib.util.find_spec(module).origin
    raw = Path(path).read_bytes()
    source = Source.from_bytes(path, raw)
    assert source.long
    todo, unknown, count = [compile(raw, path, "exec", dont_inherit=True)], [], 0
    while todo:
        codes = [c for c in todo.pop().co_consts if isinstance(c, types.CodeType)]
        todo += codes
        unknown += [c.co_qualname for c in codes[::3] if not runs_as(source, c)]
        count += len(codes[::3])
    assert count > 20 and unknown == []
    assert "tree" not in source.__dict__


LONG_HEAD = """\
import sys
try:
    import torch
except ImportError:
    pass
if sys:
    def helper():
        import os
        return os.sep


@register(
    "name",
)
def f(x):
    return torch.ones(3), os.path(x)
"""


def test_what_a_long_files_function_calls_may_be_imported_in_a_block_or_in_another_function():
    text = LONG_HEAD + "# filler\n" * 2000
    source = Source.from_text(PATH, text)
    assert runs_as(source, _code(text, "f"))
    assert source.function_at(12, "f") is not None
    assert not runs_as(Source.from_text(PATH, text.replace("ones(3)", "ones(4)")), _code(text, "f"))


def test_edits_import_the_standard_library_only():
    code = (
        "import sys; before = set(sys.modules); import importlib.util as u, types\n"
        "import whydevice.edits\n"
        "new = {n.partition('.')[0] for n in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'whydevice'}))"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[1] / "src"), "WHYDEVICE": "0"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS, env=environment
    )
    assert result.stdout == "[]\n", result.stderr


def test_the_same_edits_are_made_and_parsed_once():
    source = Source.from_text(PATH, "a = 1\nb = 2\n")
    edits = [Edit(PATH, 1, 4, 1, 5, "3")]
    made = sources_after(edits, {PATH: source})[PATH]
    assert made.text == "a = 3\nb = 2\n"
    assert sources_after(list(edits), {PATH: source})[PATH] is made
    assert sources_after([], {PATH: source}) == {}
