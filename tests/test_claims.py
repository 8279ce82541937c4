"""claims.py finds what is false: an explanation with one claim turned into a lie does not pass."""

from __future__ import annotations

from typing import Any

import pytest

import claims
import whydevice
from whydevice.types import Also, Explanation

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.shift = torch.zeros(3)

    def forward(self, x: Any) -> Any:
        offset = torch.ones(3)
        return self.fc(x + offset + self.shift)


def explained() -> tuple[BaseException, Explanation]:
    with whydevice.simulate_cuda():
        net = Net().cuda()
        try:
            net(torch.ones(4, 3, device="cuda"))
        except RuntimeError as exc:
            found = whydevice.explain(exc)
            assert found is not None
            return exc, found
    raise AssertionError("nothing failed")


@pytest.fixture
def both() -> tuple[BaseException, Explanation]:
    return explained()


def _row(said: Explanation, **changes: Any) -> Explanation:
    (at,) = [n for n, row in enumerate(said.operands) if row.culprit]
    rows = list(said.operands)
    rows[at] = rows[at]._replace(**changes)
    return said._replace(operands=tuple(rows))


LIES = {
    "device": lambda e: e._replace(culprit=e.culprit._replace(device="cuda:1")),
    "wanted": lambda e: e._replace(culprit=e.culprit._replace(wanted="cpu")),
    "name": lambda e: e._replace(culprit=e.culprit._replace(expression="offsets")),
    "file": lambda e: e._replace(culprit=e.culprit._replace(file=claims.__file__)),
    "line": lambda e: e._replace(culprit=e.culprit._replace(line=1)),
    "row's device": lambda e: _row(e, device="cuda:0"),
    "row's shape": lambda e: _row(e, shape=(4,)),
    "row's dtype": lambda e: _row(e, dtype="int64"),
    "row's kind": lambda e: _row(e, kind="parameter"),
    "headline": lambda e: e._replace(headline="`offset` is on cuda:0, but the other operands are on cpu"),
    "another device": lambda e: e._replace(headline="`offset` is on cpu, but its input is on cuda:3"),
    "note": lambda e: e._replace(notes=("`self.shift` is on cuda:0",)),
    "line's text": lambda e: e._replace(trail=(e.trail[0]._replace(source="x = 1"), *e.trail[1:])),
    "a line too far": lambda e: e._replace(root=e.root._replace(line=9999)),
    "what was done": lambda e: e._replace(root=e.root._replace(note="moved to cpu here")),
    "also": lambda e: e._replace(also=(Also("x", "cpu", "cuda:0", e.culprit.file, e.culprit.line),)),
    "also elsewhere": lambda e: e._replace(
        also=(Also("self.shift", "cpu", "meta", e.culprit.file, e.culprit.line),)
    ),
    "no cause": lambda e: e._replace(cause=None),
}


class Pipe:
    def __call__(self, x: Any) -> Any:
        return x * 2


class Joined:
    def __init__(self) -> None:
        self.pipe = Pipe()

    def run(self, x: Any, kept: list[Any]) -> Any:
        for part in kept:
            return self.pipe(torch.cat([x.to("cuda"), part]))
        return None


def joined() -> tuple[BaseException, Explanation]:
    with whydevice.simulate_cuda():
        try:
            Joined().run(torch.ones(3), [torch.zeros(2)])
        except RuntimeError as exc:
            found = whydevice.explain(exc)
            assert found is not None
            return exc, found
    raise AssertionError("nothing failed")


def _at(said: Explanation, part: str, note: str) -> Explanation:
    """The explanation with a place more, which says this of that part of the failing line."""
    fails = said.trail[-1]
    start = fails.source.index(part)
    place = fails._replace(note=note, column=start, end_line=fails.line, end_column=start + len(part))
    return said._replace(trail=(place, *said.trail))


OF_A_LIST = {
    "the others": lambda e: e._replace(headline="`part` is on cpu, but the other operands are on cuda:0"),
    "also moved": lambda e: e._replace(also=(Also("x", "cpu", "cuda:0", e.culprit.file, e.culprit.line),)),
    "the owner": lambda e: _row(e, expression="self"),
    "kind of container": lambda e: e._replace(notes=("it is in the tuple `kept`",)),
    "left on the CPU": lambda e: _at(e, 'x.to("cuda")', "on cpu here"),
    "what is moved": lambda e: _at(e, 'x.to("cuda")', "moves `part`, but not `x`"),
}


@pytest.mark.parametrize("lie", OF_A_LIST)
def test_a_lie_about_a_list_is_found(lie: str) -> None:
    exc, said = joined()
    assert said.culprit is not None and said.culprit.expression == "part"
    assert claims.broken(exc, said) == []
    assert claims.broken(exc, OF_A_LIST[lie](said))


def test_a_module_is_not_made_by_another_class() -> None:
    """The losses of a dict: only the one that failed is the culprit, and only its class can have made it."""
    losses = {"l1": torch.nn.L1Loss(), "bce": torch.nn.BCEWithLogitsLoss(pos_weight=torch.ones(2))}
    with whydevice.simulate_cuda():
        try:
            losses["bce"](torch.ones(3, 2, device="cuda"), torch.ones(3, 2, device="cuda"))
        except RuntimeError as exc:
            said = whydevice.explain(exc)
            assert said is not None and said.culprit is not None
            source = 'losses = {"l1": torch.nn.L1Loss(), "bce": torch.nn.BCEWithLogitsLoss(pos_weight=torch.ones(2))}'
            assert claims.broken(exc, said) == []
            for part, true in (
                ("torch.nn.L1Loss()", False),
                ("torch.nn.BCEWithLogitsLoss(pos_weight=torch.ones(2))", True),
            ):
                place = _of_this_file(said, source, part)
                assert (claims.broken(exc, said._replace(trail=(place,))) == []) is true


def _of_this_file(said: Explanation, source: str, part: str) -> Any:
    """The place of a part of a line of this file, said to be where the culprit was made."""
    with open(__file__, encoding="utf-8") as file:
        line = next(n for n, text in enumerate(file, 1) if text.strip() == source)
    start = 4 + source.index(part)
    fails = said.trail[-1]
    return fails._replace(
        line=line,
        source=source,
        note="made here, on cpu",
        column=start,
        end_line=line,
        end_column=start + len(part),
    )


def test_a_true_explanation_passes(both: tuple[BaseException, Explanation]) -> None:
    exc, said = both
    assert said.certainty == "certain" and said.culprit is not None
    assert claims.broken(exc, said) == []


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(lie: str, both: tuple[BaseException, Explanation]) -> None:
    exc, said = both
    assert claims.broken(exc, LIES[lie](said))
