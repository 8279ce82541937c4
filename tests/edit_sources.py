"""Python sources with every oddity of layout that an edit may meet, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from whydevice.edits import EditError, Source

_ATOMS = st.sampled_from(
    [
        "x",
        "é",
        "self.x",
        "1",
        "1.5",
        "'ü'",
        "'😀' 'b'",
        'f"{x}"',
        "f'{x!r:>{1 + 1}} {{}} {y[0]}'",
        "rf'''{x}\n  {y}'''",
        "rb'\\x00'",
        "'a\\\n b'",
        "'''a\n  b'''",
        "()",
        "[]",
        "{}",
        "{1: 2}",
        "...",
    ]
)


@st.composite
def _expression(draw, depth=2, brackets=False):
    """An expression; within brackets, it may have newlines and comments between its parts."""
    if depth == 0:
        return draw(_ATOMS)
    kind = draw(st.integers(0, 17))
    gap = draw(
        st.sampled_from([" ", "  ", "\n ", " # c: \\\n  ", " \\\n "] if brackets else [" ", " \\\n  "])
    )
    inner = _expression(depth - 1, brackets)
    within = _expression(depth - 1, True)
    break_ = draw(st.sampled_from(["", " ", "\n    ", "  # (c\n\t"]))
    comma = draw(st.sampled_from(["", ","]))
    if kind == 0:
        return draw(_ATOMS)
    if kind == 1:
        return f"{draw(inner)}{gap}+{gap}{draw(inner)}"
    if kind == 2:
        return f"({break_}{draw(within)}{break_})"
    if kind == 3:
        return f"f({break_}{draw(within)}{break_}{comma}{break_})"
    if kind == 4:
        return f"f({break_}{draw(within)},{break_}k={draw(within)},{break_}**q{break_}{comma}{break_})"
    if kind == 5:
        return f"x{gap}.cpu({break_})" if brackets else "x.cpu()"
    if kind == 6:
        return f"[{break_}{draw(within)}{break_}for x in{gap}y{break_}]"
    if kind == 7:
        return f"f({break_}x{break_}for x in y{break_})"
    if kind == 8:
        return f"[{break_}{draw(within)},{break_}{draw(within)}{break_}{comma}{break_}]"
    if kind == 9:
        return f"(lambda a, b=1: {draw(inner)})"
    if kind == 10:
        return f"{draw(inner)}{gap}if{gap}x{gap}else y"
    if kind == 11:
        return f"-{draw(_ATOMS)}"
    if kind == 12:
        return f"(y :={gap}{draw(within)})"
    if kind == 13:
        return f"x[{break_}{draw(within)}{break_}]"
    if kind == 14:
        return f"not{gap}x"
    if kind == 15:
        return f"await{gap}f({draw(within)})"
    if kind == 16:
        return f"torch.zeros({break_}x.size(){comma}{break_})"
    return f"f({break_})"


@st.composite
def _simple(draw):
    """A statement that may stand behind a semicolon."""
    value = draw(_expression())
    return draw(
        st.sampled_from(
            [value, f"x = {value}", f"x: int = {value}", f"self.a = {value}", f"self.a, b = {value}", "pass",
             f"x += {value}", f"assert {value}", "x.to(d)", "self.y.cuda()", f"x = y = {value}", f"del x, y[{value}]"]
        )
    )  # fmt: skip


_ENDS = st.sampled_from(["", "  ", "  # c", ";", " ; # c: ;", "\t# é\x0c", "  # type: int"])


@st.composite
def block(draw, indent, depth):
    """The lines of a block at one indentation."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(st.sampled_from([[], [""], [indent + "# c: \\"], ["\x0c"], ["  # odd"]]))
        kind = draw(st.integers(0, 6 if depth else 2))
        statements = draw(st.lists(_simple(), min_size=1, max_size=3))
        joined = draw(st.sampled_from(["; ", ";", " ;  \\\n "])).join(statements) + draw(_ENDS)
        if kind <= 2:
            lines.append(indent + joined)
            continue
        header = draw(
            st.sampled_from(
                ["for x in y:", "if x:", "while (x\n  # a: b\n  ):", "with a as x, b:", "def g(x, *, y: int = {1: 2}[1]):",
                 "@deco(lambda: 1)\n" + indent + "def g():", "@deco  # c\n" + indent + "@other\n" + indent + "async def g():",
                 "class C(M):", "async def g():", "async for x in y:", "async with a as b:", "try:"]
            )
        )  # fmt: skip
        header += draw(st.sampled_from(["", "  # c: d", "  # type: int"]))
        if "#" not in header.rpartition(":")[2] and header.endswith(":") and draw(st.booleans()):
            lines.append(f"{indent}{header} {joined}")
        else:
            lines.append(indent + header)
            deeper = indent + draw(st.sampled_from(["    ", "\t", "  "]))
            if header.lstrip().startswith(("def", "async", "@")) and draw(st.booleans()):
                lines.append(deeper + "'''doc\n  more'''")
            lines += draw(block(deeper, depth - 1))
        if "try:" in header:
            lines.append(f"{indent}except E as e: {joined}")
        elif header.startswith(("for", "if", "while")) and draw(st.booleans()):
            lines.append(f"{indent}else: {joined}")
    return lines


@st.composite
def sources(draw):
    lines = draw(block("", 2))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n# end"]))
    prefix = draw(
        st.sampled_from(
            ["", "#!/x\n", "# coding: utf-8\n", "'''doc'''\n", "from torch import nn\n", "import torch\n"]
        )
    )
    text = (prefix + text).replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    source = Source.from_text("a.py", text)
    try:
        source.tree  # noqa: B018
    except EditError:
        return None
    return source
