"""Hostile code around the error rather than in its variables: its namespaces, its exception, its files and names."""

from __future__ import annotations

import linecache
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import hostile
import hostile_kinds
from hostile import Behaviour, _method, _names
from test_hostile import PROGRAMS, facts, failure
from whydevice import guard
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda

FUNCTION = "import torch\ndef f(x):\n    y = torch.ones(3)\n    return x + y\nf(torch.ones(3).cuda())\n"
MODULE = "import torch\nx = torch.ones(3)\ny = torch.ones(3).cuda()\nx + y\n"
BODY = (
    "import torch\n"
    "class Meta(type):\n    @classmethod\n    def __prepare__(meta, name, bases):\n        return space\n"
    "class Body(metaclass=Meta):\n    x = torch.ones(3)\n    y = torch.ones(3).cuda()\n    z = x + y\n"
)
SAYS = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
RAISES = "import torch\ndef f(x):\n    y = torch.ones(3)\n    raise error\nf(torch.ones(3).cuda())\n"
behaviours = pytest.mark.parametrize("behaviour", Behaviour, ids=lambda b: b.value)


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with simulate_cuda():
        yield


def run(
    text: str, names: Any = None, local: Any = None, path: Any = "<places>", kept: bool = True
) -> BaseException:
    """The error in which a program ends."""
    plain = str.__str__(path)
    linecache.cache.pop(plain, None)
    if kept:
        linecache.cache[plain] = (len(text), None, text.splitlines(keepends=True), plain)
    names = {"__name__": "program"} if names is None else names
    try:
        exec(compile(text, path, "exec"), names, *([] if local is None else [local]))
    except BaseException as exc:
        return exc
    raise AssertionError("the program did not fail")


def untouched(exc: BaseException) -> Any:
    """The explanation, during which nothing hostile was called, that does not fail, and whose text is harmless."""
    with hostile.armed() as calls:
        guard.suspect(exc)
        found = explain(exc)
        shown = "" if found is None else f"{found}{found.to_dict()}{found._repr_html_()}"
    assert calls == []
    assert "raises" not in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", str(found))
    return found


def plain(behaviour: Behaviour) -> Any:
    return type("Plain", (), _names("object", object, behaviour))()


# -- namespaces ----------------------------------------------------------------------------------------------------


def mapping(behaviour: Behaviour, base: type = dict) -> Any:
    """A namespace that answers for itself: a dict's subclass, or something that only behaves like one."""
    names = _names("space", base, behaviour)
    if base is object:
        names = {
            n: _method("space", n, behaviour, None) for n in ("__iter__", "keys", "items", "values", "get")
        }
        inner: dict[str, Any] = {}

        def get(self: Any, key: str) -> Any:
            return _method("space", "__getitem__", behaviour, lambda s, k: inner[k])(self, key)

        names |= {"__getitem__": get, "__setitem__": lambda self, key, value: inner.__setitem__(key, value)}
    return type("Space", (base,), names)()


@behaviours
@pytest.mark.parametrize("text", [FUNCTION, MODULE], ids=["function", "module"])
def test_globals_of_a_dict_of_ones_own(text: str, behaviour: Behaviour) -> None:
    names = mapping(behaviour)
    dict.__setitem__(names, "__name__", "program")
    found = untouched(run(text, names))
    assert found.cause is not None and found.cause.name == "tensor-without-device"


@behaviours
@pytest.mark.parametrize("base", [dict, object], ids=["dict", "object"])
def test_locals_of_a_mapping_of_ones_own(base: type, behaviour: Behaviour) -> None:
    untouched(run(MODULE, {"__name__": "program"}, mapping(behaviour, base)))
    untouched(run(BODY, {"__name__": "program", "space": mapping(behaviour, base)}))


@behaviours
@pytest.mark.parametrize("name", ["__name__", "__loader__", "__spec__", "__file__", "__package__", "__doc__"])
def test_what_a_module_says_of_itself(name: str, behaviour: Behaviour) -> None:
    names = {"__name__": "program", name: plain(behaviour)}
    assert untouched(run(FUNCTION, names)).cause is not None
    untouched(run(FUNCTION, names, path="/nonexistent/program.py", kept=False))


def test_a_loader_is_not_asked_for_a_source_unless_it_is_pythons_own() -> None:
    stand_ins = hostile_kinds.mocks()
    for each in stand_ins.values():
        names = {"__name__": "program", "__loader__": each, "__spec__": each}
        before = hostile_kinds.asked(stand_ins)
        untouched(run(FUNCTION, names, path="/nonexistent/program.py", kept=False))
        assert hostile_kinds.asked(stand_ins) == before


@behaviours
def test_keys_of_globals(behaviour: Behaviour) -> None:
    names = {"__name__": "program", hostile.text("torch2", behaviour): 1, plain(behaviour): 2, 3: 4}
    assert untouched(run(FUNCTION, names)).cause is not None


# -- variables -----------------------------------------------------------------------------------------------------


@behaviours
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_that_answers_for_itself(name: str, behaviour: Behaviour) -> None:
    more = hostile_kinds.kinds(behaviour)
    extra = {**hostile.specimens(behaviour), **more}
    exc = failure(PROGRAMS[name], extra, name)
    tame = facts(exc)
    with hostile.armed() as calls:
        found = facts(exc)
    assert calls == []
    assert found == tame
    assert found["cause"] is not None and found["culprit"] is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_stand_ins_are_not_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins = hostile_kinds.mocks()
    for key, each in stand_ins.items():
        monkeypatch.setitem(sys.modules, f"own_{key}", each)
    exc = failure(PROGRAMS[name], {**hostile.specimens(Behaviour.LIE), **stand_ins}, name)
    before = hostile_kinds.asked(stand_ins)
    assert facts(exc)["cause"] is not None
    assert hostile_kinds.asked(stand_ins) == before


@behaviours
@pytest.mark.parametrize("name", ["of_mapping", "of_object", "of_none", "of_values"])
def test_the_map_of_a_module_whose_insides_are_wrong(name: str, behaviour: Behaviour) -> None:
    from whydevice.evidence.modules import audit

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model._modules["broken"] = hostile_kinds.kinds(behaviour)[name]
    with hostile.armed() as calls:
        found = audit(model)
        str(found)
    assert calls == []
    assert {"0.weight", "0.bias"} <= {entry.path for entry in found.entries}


# -- exceptions ----------------------------------------------------------------------------------------------------


def _own_error(behaviour: Behaviour, base: type, *args: Any) -> BaseException:
    names = _names("error", base, behaviour)
    for name in ("__traceback__", "__cause__", "__context__", "__notes__", "args", "exceptions"):
        names[name] = property(_method("error", name, behaviour, None))
    error: BaseException = type("OwnError", (base,), names)(*args)
    return error


@behaviours
def test_an_exception_that_answers_for_itself(behaviour: Behaviour) -> None:
    error = _own_error(behaviour, RuntimeError, SAYS)
    assert untouched(run(RAISES, {"__name__": "p", "error": error})) is not None
    group = _own_error(behaviour, ExceptionGroup, "several", [RuntimeError(SAYS), ValueError(1)])
    untouched(run(RAISES, {"__name__": "p", "error": group}))


@behaviours
def test_an_exception_whose_text_notes_or_mark_is_not_what_it_should_be(behaviour: Behaviour) -> None:
    for args in ((hostile.text(SAYS, behaviour),), (plain(behaviour), SAYS), (SAYS, plain(behaviour))):
        untouched(run(RAISES, {"__name__": "p", "error": RuntimeError(*args)}))
    for notes in (plain(behaviour), [plain(behaviour), hostile.text(SAYS, behaviour)]):
        error = RuntimeError(SAYS)
        error.__dict__["__notes__"] = notes
        error.__dict__["__whydevice__"] = plain(behaviour)
        exc = run(RAISES, {"__name__": "p", "error": error})
        assert untouched(exc) is not None
        with hostile.armed() as calls:
            assert guard.explain(exc) is not None
        assert calls == []


@behaviours
def test_an_exception_of_a_metaclass(behaviour: Behaviour) -> None:
    names = {
        name: _method("Meta", name, behaviour, getattr(type, name))
        for name in ("__eq__", "__hash__", "__instancecheck__", "__repr__", "__getattribute__")
    }
    names |= {
        n: property(_method("Meta", n, behaviour, lambda cls: "lie")) for n in ("__name__", "__module__")
    }
    kind = type("Meta", (type,), names)("OwnError", (RuntimeError,), {})
    assert untouched(run(RAISES, {"__name__": "p", "error": kind(SAYS)})) is not None


# -- names of files, types and attributes --------------------------------------------------------------------------


@behaviours
@pytest.mark.parametrize("base", [str], ids=["str"])
def test_a_file_name_of_a_subclass_of_str(base: type, behaviour: Behaviour) -> None:
    """As some libraries have for paths."""
    found = untouched(run(FUNCTION, path=hostile.text("<a path>", behaviour)))
    assert found.cause is not None and found.root.file == "<a path>"


@behaviours
def test_the_name_of_code_of_a_subclass_of_str(behaviour: Behaviour) -> None:
    code = compile(FUNCTION, "<places>", "exec")

    def renamed(one: types.CodeType) -> types.CodeType:
        inner = tuple(renamed(c) if isinstance(c, types.CodeType) else c for c in one.co_consts)
        name = hostile.text(one.co_name, behaviour)
        return one.replace(co_name=name, co_qualname=name, co_consts=inner)

    run(FUNCTION)
    try:
        exec(renamed(code), {"__name__": "program"})
    except RuntimeError as exc:
        assert untouched(exc).cause is not None


ODD = ["\ud800", "\x1b[31mred\x1b[0m", "\u202eyp.txt", "a\nb", "a\tb", "<img src=x onerror=1>", "[bold]x[/bold]",
       "x" * 5000, "é" * 300, "%s%d{0}", "\u2028x", "\r", "\u2066\u200b"]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=ascii)
@pytest.mark.parametrize("where", ["file", "message", "type", "attribute", "key"])
def test_odd_characters_in_a_name(where: str, odd: str) -> None:
    write: dict[str, Callable[[], BaseException]] = {
        "file": lambda: run(FUNCTION, path=f"/tmp/{odd}.py"),
        "message": lambda: run(RAISES, {"__name__": "p", "error": RuntimeError(odd + SAYS + odd)}),
        "type": lambda: run(RAISES, {"__name__": "p", "error": type(odd, (RuntimeError,), {})(SAYS)}),
        "attribute": lambda: run(
            "import torch\ndef f(n):\n    return n + torch.ones(3).cuda()\n"
            "def g(n):\n    return f([v for v in vars(n).values()][0])\n"
            "class N: pass\nn = N()\nvars(n)[odd] = torch.ones(3)\ng(n)\n",
            {"__name__": "p", "odd": odd},
        ),
        "key": lambda: run(
            "import torch\ndef f(d):\n    return torch.stack(list(d.values()))\n"
            "f({odd: torch.ones(3), 'y': torch.ones(3).cuda()})\n",
            {"__name__": "p", "odd": odd},
        ),
    }
    if where == "type" and odd == "\ud800":
        pytest.skip("no type has that name")
    untouched(write[where]())


def test_a_file_that_no_file_system_can_name(tmp_path: Path) -> None:
    assert untouched(run(FUNCTION, path=str(tmp_path / "\ud800.py"))).cause is not None
