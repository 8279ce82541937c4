"""Keys and names that a run completes, against what is written of them."""

from __future__ import annotations

import ast

import pytest

from whydevice.evidence.templates import is_written, may_be


@pytest.mark.parametrize(
    "written",
    [
        '"precond_3"',
        '"precond_%d" % axis',
        'f"precond_{axis}"',
        'f"{kind}_{axis}"',
        '"precond_" + str(axis)',
        '"{}_{:d}".format(kind, axis)',
        '"%(kind)s_%(axis)02d" % names',
        "name",
        "names[axis]",
        "make(axis)",
        '"pre" + "cond_{}".format(axis)',
    ],
)
def test_what_it_may_be(written: str) -> None:
    assert may_be(ast.parse(written, mode="eval").body, "precond_3")


@pytest.mark.parametrize(
    "written",
    [
        '"precond_"',
        '"inv_precond_%d" % axis',
        'f"precond{axis}x"',
        '"inv_" + str(axis)',
        '"{{}}_{}".format(axis)',
        '"100%%_%d" % axis',
        'f"precond_3{axis}"',
    ],
)
def test_what_it_cannot_be(written: str) -> None:
    assert not may_be(ast.parse(written, mode="eval").body, "precond_3")


def test_a_percent_sign_and_braces_stand_for_themselves() -> None:
    assert may_be(ast.parse('"100%%_%d" % n', mode="eval").body, "100%_7")
    assert may_be(ast.parse('"{{{}}}".format(n)', mode="eval").body, "{7}")


@pytest.mark.parametrize(
    ("written", "is_it"), [("name", False), ("str(n)", False), ('f"{a}{b}"', False), ('f"p{n}"', True)]
)
def test_whether_a_part_is_written(written: str, is_it: bool) -> None:
    assert is_written(ast.parse(written, mode="eval").body) is is_it
