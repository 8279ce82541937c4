"""When it fails: the branch that this run took and others need not take, in one note, where that is proven."""

from __future__ import annotations

import ast
import os

from .causes._finding import Finding
from .certainty import walked
from .evidence.collect import Evidence
from .evidence.forks import Choice, Guard, choice, guards
from .evidence.libraries import is_library
from .evidence.questions import Subject, asked_empty, asked_none, subject
from .evidence.scopes import LOOPS, Scope
from .evidence.turns import earlier_turns, unconditional

LONGEST = 40
"""Characters of a test that is quoted; of a longer one only the line is named."""


def occasion(evidence: Evidence, finding: Finding) -> tuple[str, ...]:
    """The note that says in which branch alone the error arises; none where that is not proven."""
    if finding.certainty == "possible" or evidence.user is None or evidence.wanted is None:
        return ()
    return _of_origin(evidence, finding, evidence.wanted) or _of_failure(evidence, finding)


def _of_origin(evidence: Evidence, finding: Finding, wanted: str) -> tuple[str, ...]:
    """One branch made the wrong tensor, and each other way gives one on the wanted device."""
    assert evidence.user is not None
    if not walked(evidence, finding):
        return ()
    steps = evidence.steps  # beyond the root too: it may be mended before
    chosen = [choice(evidence.tracer, step, wanted) for step in steps]
    found = [each for each in chosen if each is not None and not is_library(each.scope.source.path)]
    if not found:
        return ()
    nearest = found[-1]  # to the root
    about = _about(nearest.guard, nearest.scope)
    if about == "environment" or isinstance(_asked(nearest.guard), ast.Constant):
        return ()
    said = (
        _kept(evidence, nearest, about, wanted)
        if nearest.negated
        else _made(evidence, nearest, about, wanted)
    )
    if len(found) == 1 and evidence.node is not None:
        sites = (nearest.guard.fork, nearest.scope), (evidence.node, evidence.user)
        said += _before(evidence, sites, "took another branch")
    return (said,)


def _made(evidence: Evidence, chosen: Choice, about: Subject, wanted: str) -> str:
    guard, scope = chosen.guard, chosen.scope
    given = (
        f"the other branch gives {wanted}." if chosen.others == 1 else f"the other branches give {wanted}."
    )
    if about == "data":
        return f"This happens only {_when(evidence, guard, scope, chosen.step.stmt)}{given}"
    line = _line(evidence, chosen.step.stmt or chosen.step.node, scope).removeprefix("l")
    if _taken(guard):
        return f"L{line} is in {_branch(evidence, guard, scope)}: {given}"
    return f"L{line} runs only when {_test(evidence, guard, scope)} is false: {given}"


def _when(evidence: Evidence, guard: Guard, scope: Scope, stmt: ast.AST | None) -> str:
    """`when x is empty: line 14 is in the branch ..., and `, or the branch alone, where no word for the test is known."""
    told = _in_words(guard, scope)
    branch, line = _branch(evidence, guard, scope), _line(evidence, stmt or guard.fork, scope)
    if _taken(guard):
        return f"when {told}: {line} is in {branch}, and " if told else f"in {branch}: "
    test = _test(evidence, guard, scope)
    return f"when {told}: {test} is false then, and " if told else f"when {test} is false: "


def _kept(evidence: Evidence, chosen: Choice, about: Subject, wanted: str) -> str:
    """The value from above a branch that would have replaced it."""
    guard, scope = chosen.guard, chosen.scope
    if isinstance(guard.fork, LOOPS):
        return f"This happens only when the loop in {_line(evidence, guard.fork, scope)}, which gives {wanted}, has no turn."
    branch = f"{_branch(evidence, guard, scope)}, which gives {wanted},"
    if about == "data":
        told = _in_words(Guard(guard.fork, 1), scope)
        return f"This happens only when {told}: {branch} is not taken then." if told else (
            f"This happens only when {branch} is not taken."
        )  # fmt: skip
    line = _line(evidence, chosen.step.stmt or chosen.step.node, scope)
    return f"What {line} makes is kept, because {branch} is not taken."


def _of_failure(evidence: Evidence, finding: Finding) -> tuple[str, ...]:
    """The failing line stands in a branch that the data decides, and what is wrong was made in that branch too."""
    user, node = evidence.user, evidence.node
    if user is None or node is None:
        return ()
    guard = next(iter(guards(node, user.source)), None)
    if guard is None or isinstance(guard.fork, LOOPS) or _about(guard, user) != "data":
        return ()
    if not unconditional(node, user, guard.fork) or not _made_within(evidence, finding, guard, user):
        return ()
    before = _before(evidence, ((guard.fork, user),), "did not go there")
    if not before:
        return ()  # where every pass goes is no condition
    return (f"This happens only {_alone(evidence, guard, user, node)}.{before}",)


def _alone(evidence: Evidence, guard: Guard, scope: Scope, node: ast.AST) -> str:
    return _when(evidence, guard, scope, node).removesuffix(", and ").removesuffix(": ")


def _made_within(evidence: Evidence, finding: Finding, guard: Guard, scope: Scope) -> bool:
    """Whether the root stands in the same arm, or in a function that was called from there."""
    node: ast.AST | None = finding.root_node
    where: Scope | None = finding.root_scope
    if node is None and finding.root is not None:
        node, where = finding.root.stmt or finding.root.node, finding.root.scope
    while where is not None and where is not scope:
        node, where = (where.call, where.caller) if where.frame is None else (None, None)
    return node is not None and any(guard.same(g) for g in guards(node, scope.source))


def _before(evidence: Evidence, sites: tuple[tuple[ast.AST, Scope], ...], did: str) -> str:
    found = earlier_turns(evidence.scopes, *sites)
    return f" Earlier turns of the loop in {_line(evidence, *found)} {did}." if found is not None else ""


# -- a test in words ----------------------------------------------------------------------------------------------


def _asked(guard: Guard) -> ast.expr | None:
    return guard.fork.test if isinstance(guard.fork, ast.If | ast.IfExp | ast.While) else None


def _taken(guard: Guard) -> bool:
    return guard.arm == 0 or not isinstance(guard.fork, ast.If | ast.IfExp)


def _about(guard: Guard, scope: Scope) -> Subject:
    test = _asked(guard)
    if test is not None:
        return subject(test, scope)
    return subject(guard.fork.subject, scope) if isinstance(guard.fork, ast.Match) else "data"


def _in_words(guard: Guard, scope: Scope) -> str:
    """`boxes` is empty, `mask` is None: what is so in this arm; empty for any other test."""
    test = _asked(guard)
    if test is None:
        return ""
    for found, said in ((asked_empty(test, scope), "is empty"), (asked_none(test), "is None")):
        if found is not None and found[1] == _taken(guard):
            text = scope.source.one_line(found[0])
            return f"`{text}` {said}" if 0 < len(text) <= LONGEST else ""
    return ""


def _test(evidence: Evidence, guard: Guard, scope: Scope) -> str:
    test = _asked(guard)
    text = scope.source.one_line(test) if test is not None else ""
    line = _line(evidence, guard.fork, scope)
    return f"`{text}` ({line})" if 0 < len(text) <= LONGEST else f"the test in {line}"


def _branch(evidence: Evidence, guard: Guard, scope: Scope) -> str:
    at, text = _head(guard, scope)
    line = _line(evidence, at, scope)
    return f"the branch `{text}` ({line})" if 0 < len(text) <= LONGEST else f"the branch in {line}"


def _head(guard: Guard, scope: Scope) -> tuple[ast.AST, str]:
    """The line that opens an arm, as it is written, without its colon."""
    fork, source = guard.fork, scope.source
    if isinstance(fork, ast.Match):
        case = fork.cases[guard.arm]
        also = f" if {source.one_line(case.guard)}" if case.guard is not None else ""
        first, last = source.column(case.pattern), source.end_column(case.pattern)
        one_line = case.pattern.lineno == case.pattern.end_lineno
        text = source.line(case.pattern.lineno)[first:last] if one_line else ast.unparse(case.pattern)
        return case.pattern, f"case {text}{also}"
    if isinstance(fork, ast.Try):
        handler = fork.handlers[guard.arm]
        return handler, f"except {source.one_line(handler.type)}" if handler.type is not None else "except"
    test = _asked(guard)
    assert test is not None
    written = source.line(test.lineno)[: source.column(test)].split()
    word = written[-1] if isinstance(fork, ast.If) and written and written[-1] == "elif" else "if"
    return test, f"{word} {source.one_line(test)}"


def _line(evidence: Evidence, node: ast.AST, scope: Scope) -> str:
    """`line 14`, and the file where it is another one than that of the failing line."""
    number = getattr(node, "lineno", 0)
    assert evidence.user is not None
    if scope.source.path == evidence.user.source.path:
        return f"line {number}"
    return f"line {number} of {os.path.basename(scope.source.path)}"
