"""A file's text as it is: encodings, newlines, and positions in characters."""

from __future__ import annotations

import ast

import pytest

from whydevice.edits import EditError, Source
from whydevice.types import Edit


@pytest.mark.parametrize(
    ("raw", "encoding", "bom", "text"),
    [
        (b"x = 1\r\ny\r\n", "utf-8", False, "x = 1\r\ny\r\n"),
        (b"x\ry\r", "utf-8", False, "x\ry\r"),
        (b"\xef\xbb\xbfx = '\xc3\xa9'\n", "utf-8", True, "x = 'é'\n"),
        (
            b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
            "iso-8859-1",
            False,
            "# -*- coding: latin-1 -*-\nx = 'é'\n",
        ),
        (b"#!/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", "cp1252", False, None),
        (b"", "utf-8", False, ""),
    ],
)
def test_read_and_write_back_every_byte(tmp_path, raw, encoding, bom, text):
    path = tmp_path / "a.py"
    path.write_bytes(raw)
    source = Source.read(str(path))
    assert (source.encoding, source.bom) == (encoding, bom)
    assert text is None or source.text == text
    assert source.encode(source.text) == raw
    assert isinstance(source.tree, ast.Module)


@pytest.mark.parametrize("raw", [b"x = '\xff'\n", b"# coding: no-such\n", b"\xef\xbb\xbf# coding: latin-1\n"])
def test_what_python_cannot_decode_is_refused(tmp_path, raw):
    path = tmp_path / "a.py"
    path.write_bytes(raw)
    with pytest.raises(EditError, match="is not text in the encoding"):
        Source.read(str(path))


def test_a_missing_file_and_a_broken_one_are_refused(tmp_path):
    with pytest.raises(EditError, match="cannot be read: No such file"):
        Source.read(str(tmp_path / "none.py"))
    for text in ("x = (", "x = '\0'", "%timeit x"):
        with pytest.raises(EditError, match="does not parse"):
            Source.from_text("a.py", text).tree  # noqa: B018


def test_text_that_does_not_fit_the_encoding_is_refused():
    source = Source.from_bytes("a.py", b"# coding: ascii\n")
    with pytest.raises(EditError, match="does not fit the encoding"):
        source.encode("é")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_positions_count_characters(newline):
    text = newline.join(["# é", "\x0cé = f('😀', ab)", "\tif_ = 'a\x0bb\u2028c'", ""]).replace("\tif_", "if_")
    source = Source.from_text("a.py", text)
    assert source.line_count == 4
    call = source.tree.body[0].value
    assert source.segment(call) == "f('😀', ab)"
    assert source.segment(call.args[1]) == "ab"
    start, end = source.span(call.args[1])
    assert source.edit(start, end, "z") == Edit("a.py", 2, 12, 2, 14, "z")
    assert source.offset(2, 12) == start
    assert source.newline == source.newline_at(start) == newline
    assert source.line(3) == "if_ = 'a\x0bb\u2028c'"
    for offset in range(len(text) + 1):
        assert source.offset(*source.position(offset)) == offset


@pytest.mark.parametrize(("line", "column"), [(0, 0), (3, 0), (1, 4), (1, -1)])
def test_positions_outside_of_the_text_are_refused(line, column):
    with pytest.raises(EditError, match=r"has no (line|column)"):
        Source.from_text("a.py", "x\ny").offset(line, column)


def test_mixed_newlines_keep_to_their_neighbours():
    source = Source.from_text("a.py", "a\nb\r\nc\r\nd")
    assert [source.newline_at(source.line_start(n)) for n in range(1, 5)] == ["\n", "\r\n", "\r\n", "\r\n"]
    assert source.newline == "\r\n"


def test_indentation_starts_behind_a_form_feed():
    source = Source.from_text("a.py", "if x:\n\x0c\ty\n  # z\n")
    assert [source.indentation(n) for n in (1, 2, 3)] == ["", "\t", "  "]
    assert source.indent_unit == "\t"
    assert Source.from_text("a.py", "x\n").indent_unit == "    "


def test_nodes_of_another_parse_are_found_by_their_place():
    text = "def f():\n    return (a + b).c\n"
    source = Source.from_text("a.py", text)
    foreign = ast.parse(text)
    value = foreign.body[0].body[0].value
    assert source.own(value) is source.tree.body[0].body[0].value
    assert isinstance(source.parent(value), ast.Return)
    assert source.statement(value.value.left).lineno == 2
    with pytest.raises(EditError, match="is not in"):
        source.own(ast.parse("\n\n\nx").body[0])


def test_a_long_file_is_parsed_around_the_line_only():
    block = '@deco\ndef f{0}(x):\n    """doc\ndef not_this():\n    """\n    return torch.zeros(x)\n\n\n'
    text = "".join(block.format(n) for n in range(1000))
    source = Source.from_text("a.py", text)
    tree = source.tree_at(8 * 500 + 6)
    assert "tree" not in source.__dict__
    function = tree.body[-1]
    assert function.name == "f500"
    assert source.segment(function.body[1].value) == "torch.zeros(x)"
    assert source.segment(function).startswith("@deco\ndef f500")
    assert source.own(ast.parse(text).body[500].body[1]) is function.body[1]


@pytest.mark.parametrize("quote", ['"', "'"])
def test_nodes_in_an_f_string_are_refused_where_their_place_is_not_known(quote):
    import sys

    source = Source.from_text("a.py", f"print(f{quote}{{x.mean()}}{quote})\n")
    inner = source.tree.body[0].value.args[0].values[0].value
    if sys.version_info < (3, 12):
        with pytest.raises(EditError, match="f-string"):
            source.span(inner)
    else:
        assert source.segment(inner) == "x.mean()"
