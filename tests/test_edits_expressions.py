"""Expressions and calls: methods appended, keywords added, calls wrapped and taken out, in every layout."""

from __future__ import annotations

import ast

import pytest

from edit_helpers import call, edited
from whydevice.edits import (
    EditError,
    Source,
    add_keyword,
    append_method,
    delete_method_call,
    rename_to_like,
    replace_node,
    wrap_call,
)

KEYWORDS = [
    ("f()", "f(device=d)"),
    ("f( )", "f(device=d)"),
    ("f(\n)", "f(device=d\n)"),
    ("f(  # c\n)", "f(device=d  # c\n)"),
    ("f(a)", "f(a, device=d)"),
    ("f(a,)", "f(a, device=d,)"),
    ("f(a, )", "f(a, device=d, )"),
    ("f((a, b))", "f((a, b), device=d)"),
    ("f((a))", "f((a), device=d)"),
    ("f(a, lambda q, r: 1)", "f(a, lambda q, r: 1, device=d)"),
    ("f(*a)", "f(*a, device=d)"),
    ("f(**k)", "f(device=d, **k)"),
    ("f(a, **k)", "f(a, device=d, **k)"),
    ("f(a, **k, b=1)", "f(a, **k, b=1, device=d)"),
    ("f(a, **k, **m,)", "f(a, device=d, **k, **m,)"),
    ("f(x for x in y)", "f((x for x in y), device=d)"),
    ("f( x for x in y )", "f( (x for x in y), device=d )"),
    ("f(\n    x  # one\n    for x in y  # two\n)", "f(\n    (x  # one\n    for x in y), device=d  # two\n)"),
    ("f((x for x in y))", "f((x for x in y), device=d)"),
    ("(f)(x)", "(f)(x, device=d)"),
    ("g(1)(2)[f(3)]", "g(1)(2)[f(3, device=d)]"),
    ("f ( a )", "f ( a, device=d )"),
    ("f('(', ')')", "f('(', ')', device=d)"),
    ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    device=d,\n)"),
    ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    device=d\n)"),
    ("f(\n    a,\n    b,  # n\n)", "f(\n    a,\n    b,  # n\n    device=d,\n)"),
    ("f(\n    a,\n    b  # n\n    # m\n)", "f(\n    a,\n    b,  # n\n    device=d\n    # m\n)"),
    ("f(\n    a\n)", "f(\n    a,\n    device=d\n)"),
    ("f(\n\ta,\n\t**k,\n)", "f(\n\ta,\n\tdevice=d,\n\t**k,\n)"),
    ("f(a,\n  b)", "f(a,\n  b,\n  device=d)"),
    ("f(a, b,\n  c, d)", "f(a, b,\n  c, d, device=d)"),
    ("f(a, b,\n  c, d  # n\n  )", "f(a, b,\n  c, d, device=d  # n\n  )"),
    ("f([\n    a,\n])", "f([\n    a,\n], device=d)"),
    ("f(\n    a,\n    [\n        b,\n    ],\n)", "f(\n    a,\n    [\n        b,\n    ],\n    device=d,\n)"),
    ("x = f(a) \\\n    + 1", "x = f(a, device=d) \\\n    + 1"),
    ("f(a \\\n  , b)", "f(a \\\n  , b, device=d)"),
    ("f(\r\n    a,\r\n    b,\r\n)\r\n", "f(\r\n    a,\r\n    b,\r\n    device=d,\r\n)\r\n"),
    ("f(\r    a,\r    b,\r)\r", "f(\r    a,\r    b,\r    device=d,\r)\r"),
    ("é = '😀'; f('ü')", "é = '😀'; f('ü', device=d)"),
    ("f('''\na, b\n''')", "f('''\na, b\n''', device=d)"),
    ("f(x := 1)", "f(x := 1, device=d)"),
    ("async def g():\n    await f(1)", "async def g():\n    await f(1, device=d)"),
    ("@f(1)\ndef g(): pass", "@f(1, device=d)\ndef g(): pass"),
    ("f(a, device=d)", "f(a, device=d)"),
]


@pytest.mark.parametrize(("text", "wanted"), KEYWORDS)
def test_a_keyword_is_added_in_the_layout_of_the_call(text, wanted):
    assert edited(text, lambda s: add_keyword(s, call(s, "f"), "device", "d")) == wanted
    assert edited(wanted, lambda s: add_keyword(s, call(s, "f"), "device", "d")) == wanted


def test_another_value_of_the_keyword_is_refused_or_replaced():
    with pytest.raises(EditError, match="has a `device=` already"):
        edited("f(device=e)", lambda s: add_keyword(s, call(s, "f"), "device", "d"))
    replaced = edited(
        "f(a, device=(\n  'cpu'), b=1)", lambda s: add_keyword(s, call(s, "f"), "device", "d", replace=True)
    )
    assert replaced == "f(a, device=d, b=1)"


# The first argument of f, or the value assigned.
METHODS = [
    ("f(a)", "f(a.to(d))"),
    ("f((a))", "f((a.to(d)))"),
    ("f(a.b)", "f(a.b.to(d))"),
    ("f(a[0])", "f(a[0].to(d))"),
    ("f(g(1))", "f(g(1).to(d))"),
    ("f(a + b)", "f((a + b).to(d))"),
    ("f((a + b))", "f((a + b).to(d))"),
    ("f(((a + b)))", "f(((a + b).to(d)))"),
    ("f((a + b), c)", "f((a + b).to(d), c)"),
    ("f(a + b, c)", "f((a + b).to(d), c)"),
    ("f(-a)", "f((-a).to(d))"),
    ("f(not a)", "f((not a).to(d))"),
    ("f(a < b)", "f((a < b).to(d))"),
    ("f(a and b)", "f((a and b).to(d))"),
    ("f(a if b else c)", "f((a if b else c).to(d))"),
    ("f(lambda: 0)", "f((lambda: 0).to(d))"),
    ("f(x := 1)", "f((x := 1).to(d))"),
    ("f(1)", "f((1).to(d))"),
    ("f('a' 'b')", "f('a' 'b'.to(d))"),
    ("f([1,\n  2])", "f([1,\n  2].to(d))"),
    ("f(x for x in y)", "f((x for x in y).to(d))"),
    ("f((x for x in y), 1)", "f((x for x in y).to(d), 1)"),
    ("x = a, b", "x = (a, b).to(d)"),
    ("x = (a, b)", "x = (a, b).to(d)"),
    ("x = (a), (b)", "x = ((a), (b)).to(d)"),
    ("x = a + \\\n    b", "x = (a + \\\n    b).to(d)"),
    ("x = (a +\n     b)", "x = (a +\n     b).to(d)"),
    ("x = (  # one\n    a + b  # two\n)", "x = (  # one\n    a + b  # two\n).to(d)"),
    ("x = (a\n     .b()\n     )", "x = (a\n     .b().to(d)\n     )"),
    ("x = torch.rand(2) \\\n    .repeat(3)  # c", "x = torch.rand(2) \\\n    .repeat(3).to(d)  # c"),
    ("é = 'ü' + ß", "é = ('ü' + ß).to(d)"),
    ("def g():\n    x = yield 1", "def g():\n    x = (yield 1).to(d)"),
    ("async def g():\n    x = await h()", "async def g():\n    x = (await h()).to(d)"),
    ("for i in r: x = a - b; y = x", "for i in r: x = (a - b).to(d); y = x"),
]


def _value(source: Source) -> ast.expr:
    assigned = [n for n in ast.walk(source.tree) if isinstance(n, ast.Assign)]
    return assigned[0].value if assigned else call(source, "f").args[0]


@pytest.mark.parametrize(("text", "wanted"), METHODS)
def test_a_method_is_appended_with_the_parentheses_that_it_needs(text, wanted):
    assert edited(text, lambda s: append_method(s, _value(s), ".to(d)")) == wanted


def test_a_method_that_follows_already_is_not_appended_again():
    text = "f(a.to(d))"
    assert edited(text, lambda s: append_method(s, call(s, "to").func.value, ".to(d)")) == text
    text = "f((a + b).to(d))"
    assert edited(text, lambda s: append_method(s, call(s, "to").func.value, ".to(d)")) == text


@pytest.mark.parametrize("text", ["f(*a)", "f(a)[1:2]", "x.y = 1"])
def test_what_has_no_value_takes_no_method(text):
    def make(source):
        statement = source.tree.body[0]
        if isinstance(statement, ast.Assign):
            return append_method(source, statement.targets[0], ".to(d)")
        value = statement.value
        return append_method(
            source, value.slice if isinstance(value, ast.Subscript) else value.args[0], ".to(d)"
        )

    with pytest.raises(EditError):
        edited(text, make)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = [a, b]", "x = W([a, b])"),
        ("x = [\n    a,  # one\n    b,\n]  # two", "x = W([\n    a,  # one\n    b,\n])  # two"),
        ("x = a, b", "x = W((a, b))"),
        ("x = (a, b)", "x = W((a, b))"),
        ("x = a + b", "x = W(a + b)"),
        ("f(x for x in y)", "f(W(x for x in y))"),
        ("f( x for x in y )", "f(W( x for x in y) )"),
        ("f(lambda: 0)", "f(W(lambda: 0))"),
        ("def g():\n    x = yield", "def g():\n    x = W((yield))"),
        ("x = a or \\\n    b", "x = W(a or \\\n    b)"),
    ],
)
def test_an_expression_is_wrapped_once(text, wanted):
    assert edited(text, lambda s: wrap_call(s, _value(s), "W")) == wanted
    again = "x = W(q)"
    assert edited(again, lambda s: wrap_call(s, s.tree.body[0].value.args[0], "W")) == again


@pytest.mark.parametrize(
    ("text", "new", "wanted"),
    [
        ("f(a, b)", "c + d", "f(c + d, b)"),
        ("f(a, b)", "c, d", "f((c, d), b)"),
        ("f(a, b)", "x := 1", "f((x := 1), b)"),
        ("f(a)", "yield", "f((yield))"),
        ("f((a))", "c + d", "f((c + d))"),
        ("f(x for x in y)", "z", "f(z)"),
        ("x = a", "c if d else e", "x = c if d else e"),
        ("x = a", "(", None),
        ("x = a", "a", "x = a"),
    ],
)
def test_a_replacement_keeps_its_neighbours(text, new, wanted):
    def make(source):
        return replace_node(source, _value(source), new)

    if wanted is None:
        with pytest.raises(EditError):
            edited(text, make)
    else:
        assert edited(text, make) == wanted


@pytest.mark.parametrize(
    ("text", "child", "new", "wanted"),
    [
        ("a * b", "left", "c + d", "(c + d) * b"),
        ("a * b", "left", "(c + d)", "(c + d) * b"),
        ("a * b", "right", "(c, d)", "a * (c, d)"),
        ("a.b", "value", "-c", "(-c).b"),
        ("a.b", "value", "1", "(1).b"),
        ("a(1)", "func", "b or c", "(b or c)(1)"),
        ("a[1]", "slice", "b + c", "a[b + c]"),
        ("[a]if b else c", "body", "d", "d if b else c"),
        ("a if b else[c]", "orelse", "d", "a if b else d"),
        ("a[1]", "value", "b + c", "(b + c)[1]"),
    ],
)
def test_a_replacement_is_put_in_parentheses_beside_an_operator(text, child, new, wanted):
    def make(source):
        return replace_node(source, getattr(source.tree.body[0].value, child), new)

    assert edited(text, make) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x.cpu()", "x"),
        ("y = x.cpu().numpy()", "y = x.numpy()"),
        ("y = x.cpu()if a else b", "y = x if a else b"),
        ("y = (a + b).cpu()", "y = (a + b)"),
        ("y = x . cpu ( )", "y = x"),
        ("y = (x\n     .cpu()  # n\n     .numpy())", "y = (x  # n\n     .numpy())"),
        ("y = (x  # m\n     .cpu()\n     .numpy())", "y = (x  # m\n     .numpy())"),
        ("y = (x  # m\n     .cpu().numpy())", "y = (x  # m\n     .numpy())"),
        ("y = x \\\n    .cpu() \\\n    .numpy()", "y = x \\\n    .numpy()"),
        ("return_ = f('.cpu()').cpu(\n)", "return_ = f('.cpu()')"),
    ],
)
def test_a_method_call_is_taken_out_of_its_chain(text, wanted):
    assert edited(text, lambda s: delete_method_call(s, call(s, "cpu"))) == wanted


@pytest.mark.parametrize("text", ["cpu(x)", "(x.cpu)()"])
def test_only_a_plain_method_call_is_taken_out(text):
    with pytest.raises(EditError):
        edited(text, lambda s: delete_method_call(s, call(s, "cpu")))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torch.f(x.size())", None),
        ("torch.randn(std.size())", "torch.randn_like(std)"),
        ("torch.zeros(x.shape)", "torch.zeros_like(x)"),
        ("torch.zeros(*x.shape, dtype=d)", "torch.zeros_like(x, dtype=d)"),
        ("th.empty(size=a.b[0].size())", "th.empty_like(a.b[0])"),
        ("torch.full(x.shape, 3)", "torch.full_like(x, 3)"),
        ("torch.zeros(x.size(0))", None),
        ("torch.zeros(x.shape, 3)", None),
        ("torch.zeros(x.shape, device=d)", None),
        ("torch.zeros(x.shape, **k)", None),
        ("torch.full((2, 3), 1)", None),
        ("zeros(x.shape)", None),
    ],
)
def test_the_like_form_needs_exactly_the_size_of_a_tensor(text, wanted):
    def make(source):
        return rename_to_like(source, source.tree.body[0].value)

    if wanted is None:
        with pytest.raises(EditError):
            edited(text, make)
    else:
        assert edited(text, make) == wanted
        with pytest.raises(EditError):
            edited(wanted, make)
