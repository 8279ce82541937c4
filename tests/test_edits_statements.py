"""Statements put in, taken out, moved and given a target, in every layout."""

from __future__ import annotations

import ast

import pytest

from edit_helpers import edited, node
from whydevice.edits import (
    EditError,
    assign_result,
    delete_statement,
    insert_after,
    insert_at_suite_start,
    insert_before,
    move_statement,
)

X = "x = x.to(d)"


def _marked(source):
    """The statement that mentions `here`, the innermost one."""
    found = [n for n in ast.walk(source.tree) if isinstance(n, ast.stmt) and "here" in source.segment(n)]
    return found[-1]


# text, after, before, deleted; `here` is the statement that is meant.
STATEMENTS = [
    ("here\n", f"here\n{X}\n", f"{X}\nhere\n", ""),
    ("here", f"here\n{X}", f"{X}\nhere", ""),
    ("here  # c\nb\n", f"here  # c\n{X}\nb\n", f"{X}\nhere  # c\nb\n", "b\n"),
    ("# c\nhere\nb\n", f"# c\nhere\n{X}\nb\n", f"# c\n{X}\nhere\nb\n", "# c\nb\n"),
    ("a; here; b\n", f"a; here; {X}; b\n", f"a; {X}; here; b\n", "a; b\n"),
    ("a; here\n", f"a; here\n{X}\n", f"a; {X}; here\n", "a\n"),
    ("a; here;  # c\n", f"a; here;  # c\n{X}\n", f"a; {X}; here;  # c\n", "a;  # c\n"),
    ("here; b\n", f"here; {X}; b\n", f"{X}\nhere; b\n", "b\n"),
    ("here;\nb\n", f"here;\n{X}\nb\n", f"{X}\nhere;\nb\n", "b\n"),
    ("if a: here\n", f"if a: here; {X}\n", f"if a: {X}; here\n", "if a: pass\n"),
    ("if a: here;\n", f"if a: here; {X};\n", f"if a: {X}; here;\n", "if a: pass;\n"),
    ("if a: b; here  # c\n", f"if a: b; here; {X}  # c\n", f"if a: b; {X}; here  # c\n", "if a: b  # c\n"),
    (
        "if a: here\nelse: b\n",
        f"if a: here; {X}\nelse: b\n",
        f"if a: {X}; here\nelse: b\n",
        "if a: pass\nelse: b\n",
    ),
    (
        "if a:\n    b\nelse: here\n",
        f"if a:\n    b\nelse: here; {X}\n",
        f"if a:\n    b\nelse: {X}; here\n",
        None,
    ),
    ("try: a\nfinally: here\n", f"try: a\nfinally: here; {X}\n", f"try: a\nfinally: {X}; here\n", None),
    (
        "try: a\nexcept E as e: here\n",
        f"try: a\nexcept E as e: here; {X}\n",
        f"try: a\nexcept E as e: {X}; here\n",
        None,
    ),
    ("a = 1; \\\nhere\n", f"a = 1; \\\nhere\n{X}\n", f"a = 1; \\\n{X}; here\n", "a = 1\n"),
    ("if a: \\\n  here\n", f"if a: \\\n  here; {X}\n", f"if a: \\\n  {X}; here\n", "if a: \\\n  pass\n"),
    ("# a: \\\nhere\n", f"# a: \\\nhere\n{X}\n", f"# a: \\\n{X}\nhere\n", "# a: \\\n"),
    (
        "if a:  # b: \\\n    here\n",
        f"if a:  # b: \\\n    here\n    {X}\n",
        None,
        "if a:  # b: \\\n    pass\n",
    ),
    ("if a:\n\there\n", f"if a:\n\there\n\t{X}\n", f"if a:\n\t{X}\n\there\n", "if a:\n\tpass\n"),
    ("if a:\n  b\n  here\n", f"if a:\n  b\n  here\n  {X}\n", f"if a:\n  b\n  {X}\n  here\n", "if a:\n  b\n"),
    ("here\r\nb\r\n", f"here\r\n{X}\r\nb\r\n", f"{X}\r\nhere\r\nb\r\n", "b\r\n"),
    ("a\rhere\rb\r", f"a\rhere\r{X}\rb\r", f"a\r{X}\rhere\rb\r", "a\rb\r"),
    ("a\n\x0c\nhere\n", f"a\n\x0c\nhere\n{X}\n", f"a\n\x0c\n{X}\nhere\n", "a\n\x0c\n"),
    ("f(\n  here,\n)\nb\n", f"f(\n  here,\n)\n{X}\nb\n", f"{X}\nf(\n  here,\n)\nb\n", "b\n"),
    ("a = '''\nhere'''; b\n", f"a = '''\nhere'''; {X}; b\n", f"{X}\na = '''\nhere'''; b\n", "b\n"),
    (
        "@a\n@b(1)\ndef here(): pass\n",
        f"@a\n@b(1)\ndef here(): pass\n{X}\n",
        f"{X}\n@a\n@b(1)\ndef here(): pass\n",
        "",
    ),
    ("é = 'ü'; here; ß\n", f"é = 'ü'; here; {X}; ß\n", f"é = 'ü'; {X}; here; ß\n", "é = 'ü'; ß\n"),
    (
        "match a:\n    case 1: here\n",
        f"match a:\n    case 1: here; {X}\n",
        None,
        "match a:\n    case 1: pass\n",
    ),
    (
        "async def f():\n  async for a in b: here\n",
        f"async def f():\n  async for a in b: here; {X}\n",
        None,
        None,
    ),
    ("lambda: 0; here\n", f"lambda: 0; here\n{X}\n", f"lambda: 0; {X}; here\n", "lambda: 0\n"),
]


@pytest.mark.parametrize(("text", "after", "before", "deleted"), STATEMENTS)
def test_a_statement_is_put_in_and_taken_out(text, after, before, deleted):
    assert edited(text, lambda s: insert_after(s, _marked(s), X)) == after
    assert edited(after, lambda s: insert_after(s, _marked(s), X)) == after
    if before is not None:
        assert edited(text, lambda s: insert_before(s, _marked(s), X)) == before
        assert edited(before, lambda s: insert_before(s, _marked(s), X)) == before
    if deleted is not None:
        assert edited(text, lambda s: delete_statement(s, _marked(s))) == deleted


def test_a_block_is_put_in_at_the_files_own_indentation():
    block = "if a:\n    if b:\n        c"
    text = "def f():\n\there\n\tb\n"
    wanted = "def f():\n\there\n\tif a:\n\t\tif b:\n\t\t\tc\n\tb\n"
    assert edited(text, lambda s: insert_after(s, _marked(s), block)) == wanted
    assert edited(wanted, lambda s: insert_after(s, _marked(s), block)) == wanted


def test_the_lines_of_a_string_stay_as_they_are():
    text = "def f():\n    here\n"
    new = "a = '''\nb\n  c'''\nd"
    assert (
        edited(text, lambda s: insert_after(s, _marked(s), new))
        == "def f():\n    here\n    a = '''\nb\n  c'''\n    d\n"
    )


def test_several_lines_join_on_one_line():
    text = "for i in r: here"
    assert (
        edited(text, lambda s: insert_after(s, _marked(s), "a = 1\nb = 2"))
        == "for i in r: here; a = 1; b = 2"
    )
    with pytest.raises(EditError, match="cannot follow"):
        edited(text, lambda s: insert_after(s, _marked(s), "if a: b"))
    with pytest.raises(EditError, match="is not a statement"):
        edited(text, lambda s: insert_after(s, _marked(s), "x ="))


@pytest.mark.parametrize(
    "edit", [lambda s, n: insert_before(s, n, X), lambda s, n: insert_after(s, n, X), delete_statement]
)
def test_nothing_stands_around_an_elif(edit):
    with pytest.raises(EditError, match="elif"):
        edited("if a:\n    b\nelif c:\n    d\n", lambda s: edit(s, s.tree.body[0].orelse[0]))


SUITES = [
    ("for a in b: f(a)", f"for a in b: {X}; f(a)"),
    ("for a in b:\n\tf(a)", f"for a in b:\n\t{X}\n\tf(a)"),
    ("for a in b:  # c\n    # d\n    f(a)", f"for a in b:  # c\n    {X}\n    # d\n    f(a)"),
    ("for a in b:  # type: int\n    f(a)", f"for a in b:  # type: int\n    {X}\n    f(a)"),
    ("for a in {1: 2}[lambda: 3]:\n    f(a)", f"for a in {{1: 2}}[lambda: 3]:\n    {X}\n    f(a)"),
    (
        "for a in (  # b:\n    c  # d:\n):  # e:\n    f(a)",
        f"for a in (  # b:\n    c  # d:\n):  # e:\n    {X}\n    f(a)",
    ),
    ("def f():\n    '''doc'''\n    g()", f"def f():\n    '''doc'''\n    {X}\n    g()"),
    ("def f():\n    '''doc\n    more'''  # c\n", f"def f():\n    '''doc\n    more'''  # c\n    {X}\n"),
    ("def f(): 'doc'; g()", f"def f(): 'doc'; {X}; g()"),
    ("def f(): 'doc'", f"def f(): 'doc'; {X}"),
    ("def f(a, *, b: int = 1, **c) -> int: g()", f"def f(a, *, b: int = 1, **c) -> int: {X}; g()"),
    ("def f(): return 1", f"def f(): {X}; return 1"),
    ("@a\ndef f(\n  b,  # c:\n  d):\n  # type: (int) -> int\n  g()", None),
    ("with a as b, \\\n  c as d:\n  g()", f"with a as b, \\\n  c as d:\n  {X}\n  g()"),
    ("with (\n    a as b,\n):\n    g()", f"with (\n    a as b,\n):\n    {X}\n    g()"),
    ("class A: a = 1", f"class A: {X}; a = 1"),
    ("class A(B, metaclass=C):\n\n    a = 1", f"class A(B, metaclass=C):\n    {X}\n\n    a = 1"),
    ("while (a := f()): g()", f"while (a := f()): {X}; g()"),
    ("if a:\r\n  b\r\n", f"if a:\r\n  {X}\r\n  b\r\n"),
    ("try:\n    a\nexcept B as c:\n    d", f"try:\n    {X}\n    a\nexcept B as c:\n    d"),
    ("async def f():\n    async with a: b", f"async def f():\n    {X}\n    async with a: b"),
]


@pytest.mark.parametrize(("text", "wanted"), SUITES)
def test_a_line_is_put_first_in_a_block(text, wanted):
    wanted = wanted or text.replace("  g()", f"  {X}\n  g()")
    assert edited(text, lambda s: insert_at_suite_start(s, s.tree.body[0], X)) == wanted
    assert edited(wanted, lambda s: insert_at_suite_start(s, s.tree.body[0], X)) == wanted


def test_a_line_is_put_first_in_an_else_and_in_a_module():
    text = "for a in b:\n    c\nelse:  # d\n    e\n"
    wanted = f"for a in b:\n    c\nelse:  # d\n    {X}\n    e\n"
    assert edited(text, lambda s: insert_at_suite_start(s, s.tree.body[0], X, "orelse")) == wanted
    text = "#!/bin/python\n'''doc'''\nfrom __future__ import annotations\n\nimport a\n"
    wanted = f"#!/bin/python\n'''doc'''\nfrom __future__ import annotations\n{X}\n\nimport a\n"
    assert edited(text, lambda s: insert_at_suite_start(s, s.tree, X)) == wanted
    handler = "try:\n    a\nexcept B as c:  # d\n    e\n"
    wanted = f"try:\n    a\nexcept B as c:  # d\n    {X}\n    e\n"
    assert edited(handler, lambda s: insert_at_suite_start(s, s.tree.body[0].handlers[0], X)) == wanted
    with pytest.raises(EditError, match="no `orelse`"):
        edited("if a: b", lambda s: insert_at_suite_start(s, s.tree.body[0], X, "orelse"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x.to(d)", "x = x.to(d)"),
        ("self.x[0].cuda(d)  # c", "self.x[0] = self.x[0].cuda(d)  # c"),
        ("x.float().to(d)", "x = x.float().to(d)"),
        ("(x\n .to(d))", "x = (x\n .to(d))"),
        ("if a: x.to(d); y", "if a: x = x.to(d); y"),
        ("def f(x):\n    x.to(d)", "def f(x):\n    x = x.to(d)"),
        ("def f(*x):\n    x.to(d)", "def f(*x):\n    x = x.to(d)"),
        ("def f():\n    for x in y:\n        x.to(d)", "def f():\n    for x in y:\n        x = x.to(d)"),
        ("def f():\n    global x\n    x.to(d)", "def f():\n    global x\n    x = x.to(d)"),
        (
            "def f():\n    with a as (b, x):\n        x.to(d)",
            "def f():\n    with a as (b, x):\n        x = x.to(d)",
        ),
        # An assignment would make the outer name a new local: UnboundLocalError.
        ("def f():\n    x.to(d)", None),
        ("def f(x):\n    def g():\n        x.to(d)", None),
        ("def f():\n    y = [x for x in z]\n    x.to(d)", None),
        ("f(x).to(d)", None),
        ("x[f()].to(d)", None),
        ("x = x.to(d)", None),
        ("x", None),
    ],
)
def test_a_discarded_result_is_assigned(text, wanted):
    def make(source):
        found = [n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and "(d)" in source.segment(n)]
        return assign_result(source, found[0] if found else source.tree.body[0])

    if wanted is None:
        with pytest.raises(EditError):
            edited(text, make)
    else:
        assert edited(text, make) == wanted


MOVES = [
    # The case of an optimizer made before the model is moved.
    ("m = M()\no = O(m)\nm.cuda()\nx\n", 2, "before", 1, "m = M()\nm.cuda()\no = O(m)\nx\n"),
    ("m = M()\no = O(m)\nm.cuda()\nx\n", 1, "after", 2, "m = M()\nm.cuda()\no = O(m)\nx\n"),
    (
        "m = M()\n\n# ema\ne = E(m)\n\n# move\nm.cuda()",
        2,
        "before",
        1,
        "m = M()\n\n# move\nm.cuda()\n# ema\ne = E(m)\n\n",
    ),
    ("o = O()  # c\nm.cuda()", 0, "after", 1, "m.cuda()\no = O()  # c"),
    ("o = O(\n    a,\n)\r\nm.cuda()\r\n", 0, "after", 1, "m.cuda()\r\no = O(\n    a,\n)\r\n"),
    ("o = O(); m.cuda()\n", 1, "before", 0, "m.cuda()\no = O()\n"),
    ("o = O(); m.cuda(); x\n", 0, "after", 1, "m.cuda(); o = O(); x\n"),
    ("o\nm\n", 0, "before", 1, "o\nm\n"),
    ("o\nm\n", 1, "after", 0, "o\nm\n"),
    ("m.cuda()\no\nm.cuda()\n", 0, "after", 1, "o\nm.cuda()\nm.cuda()\n"),
    ("m.cuda(); o; m.cuda()\n", 0, "after", 1, "o; m.cuda(); m.cuda()\n"),
    # What stands in between is needed, or needs it.
    ("o = O()\nd = D()\nm.to(d)\n", 2, "before", 0, None),
    ("o = O()\no.step()\nm.cuda()\n", 0, "after", 2, None),
    ("s.o = O()\ns.d = D()\ns.m.to(s.d)\n", 2, "before", 0, None),
    ("s.c = C()\nx\ns.m.to(s.c.d)\n", 2, "before", 0, None),
    ("s.o = O()\ns.o.step()\nm.cuda()\n", 0, "after", 2, None),
    ("s.o = O()\ns.d = D()\ns.m.to(s.d)\n", 0, "after", 2, "s.d = D()\ns.m.to(s.d)\ns.o = O()\n"),
]


@pytest.mark.parametrize(("text", "index", "side", "goal", "wanted"), MOVES)
@pytest.mark.parametrize("nested", [False, True])
def test_a_statement_is_moved_with_its_comments(text, index, side, goal, wanted, nested):
    def indent(value):
        lines = value.splitlines(keepends=True)
        return "def f(m):\n" + "".join("\t" + line if line.strip() else line for line in lines)

    def make(source):
        body = source.tree.body[0].body if nested else source.tree.body
        return move_statement(source, body[index], **{side: body[goal]})

    if nested:
        text, wanted = indent(text), wanted and indent(wanted)
    if wanted is None:
        with pytest.raises(EditError, match="keeps their order"):
            edited(text, make)
    else:
        assert edited(text, make) == wanted


def test_a_statement_stays_in_its_block():
    with pytest.raises(EditError, match="not in the same block"):
        edited(
            "if a:\n    b\nc\n", lambda s: move_statement(s, s.tree.body[1], before=s.tree.body[0].body[0])
        )
    with pytest.raises(ValueError, match="either"):
        edited("a\nb\n", lambda s: move_statement(s, s.tree.body[1]))
    with pytest.raises(EditError, match="goes over several"):
        edited("a; f(\n  b)\n", lambda s: move_statement(s, s.tree.body[1], before=s.tree.body[0]))
    text = "if a: b; c\n"
    wanted = "if a: c; b\n"
    assert (
        edited(text, lambda s: move_statement(s, node(s, ast.Expr, 1), before=node(s, ast.Expr, 0))) == wanted
    )
