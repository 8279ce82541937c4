"""Situations that answer for themselves: replaced builtins, frames mid-run, tensors of torch's own wrapping kinds."""

from __future__ import annotations

import builtins
import io
import linecache
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import hostile
from hostile import Behaviour, _method, _names
from test_hostile_places import FUNCTION, SAYS, behaviours, plain, run, untouched
from whydevice import guard
from whydevice.simulate import simulate_cuda

MESH = "import torch\ndef f(x, other):\n    y = torch.ones(3)\n    z = other\n    return x + y\nf(torch.ones(3).cuda(), thing)\n"
"""A program that fails next to a thing of a kind of its own, which is in two of its frames."""


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with simulate_cuda():
        yield


def beside(thing: object) -> Any:
    """The explanation of an error in whose frames a thing lies: the cause is found all the same."""
    found = untouched(run(MESH, {"__name__": "program", "thing": thing, "things": [thing, {"k": thing}]}))
    assert found.cause is not None and found.cause.name == "tensor-without-device"
    assert found.culprit.expression == "y"
    return found


def noting(name: str, real: Any) -> Any:
    """A stand-in for a builtin: the same, but that it notes who calls it while the battery is armed."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if hostile._armed and sys._getframe(1).f_globals.get("__name__") != "hostile":
            hostile.calls.append(name)
        return real(*args, **kwargs)

    return stand_in


# -- classes -------------------------------------------------------------------------------------------------------


@behaviours
def test_a_class_whose_metaclass_answers_for_all_of_it(behaviour: Behaviour) -> None:
    meta = hostile._metaclass(behaviour)
    for name in (
        "__mro_entries__",
        "mro",
        "__subclasses__",
        "__prepare__",
        "__or__",
        "__ror__",
        "__iter__",
        "__len__",
    ):
        setattr(meta, name, _method("Meta", name, behaviour, getattr(type, name, None)))
    owner = meta("Owner", (nn.Module,), {"weight": 3})
    made = owner()
    made.layer = nn.Linear(3, 3)
    beside(made)
    beside(owner)


@behaviours
def test_a_callback_of_a_weak_reference(behaviour: Behaviour) -> None:
    called = _method("callback", "__call__", behaviour, lambda ref: None)
    things = [type("Referred", (), {})() for _ in range(3)]
    refs = [weakref.ref(each, called) for each in things]
    beside(
        [
            refs,
            weakref.WeakValueDictionary(enumerate(things)),
            weakref.WeakKeyDictionary(dict.fromkeys(things)),
        ]
    )


@behaviours
def test_names_of_functions_modules_and_files_that_are_of_a_subclass_of_str(behaviour: Behaviour) -> None:
    module = types.ModuleType("odd")
    for name in ("__name__", "__file__", "__package__"):
        module.__dict__[name] = hostile.text("odd", behaviour)

    def function() -> None: ...

    for name in ("__name__", "__qualname__", "__module__"):
        setattr(function, name, hostile.text("odd", behaviour))
    kind = type("Kind", (), {"__module__": hostile.text("odd", behaviour), "__qualname__": "Kind"})
    kind.__name__ = hostile.text("Kind", behaviour)
    beside([module, function, kind, kind()])


@behaviours
def test_a_lazy_module_among_the_loaded_ones(behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    names = _names("module", types.ModuleType, behaviour)
    lazy = type("Lazy", (types.ModuleType,), names)
    for name in (
        "transformers",
        "accelerate",
        "lightning",
        "torch_xla",
        "numpy.lazy",
        "torch.lazy",
        "diffusers",
    ):
        if name not in sys.modules:
            monkeypatch.setitem(sys.modules, name, lazy(name))
    untouched(run(FUNCTION))


# -- builtins ------------------------------------------------------------------------------------------------------

REPLACED = ["isinstance", "len", "open", "getattr", "hasattr", "type", "str", "repr", "sorted", "print", "id", "list",
            "dict", "issubclass", "vars", "any", "next", "__import__", "compile"]  # fmt: skip


@pytest.mark.parametrize("name", REPLACED)
def test_builtins_of_the_programs_own(name: str) -> None:
    """In the namespace of the program: what the program calls so is not what we call so."""
    own = dict(vars(builtins)) | {name: noting(name, getattr(builtins, name))}
    untouched(run(FUNCTION, {"__name__": "program", "__builtins__": own}))
    untouched(run(FUNCTION, {"__name__": "program", name: noting(name, getattr(builtins, name))}))


@pytest.mark.parametrize("name", ["isinstance", "len", "open", "getattr", "print", "__import__", "sorted"])
def test_builtins_that_fail_for_everybody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that breaks a builtin for all breaks us too: a line says so, and nothing is raised. There are two where
    the traceback could not be tidied either, one before it and one after it."""
    exc = run(FUNCTION)

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise hostile.OwnError(name)

    stream = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setattr(builtins, name, broken)
        guard.tidy(exc)
        guard.show(exc)
    lines = stream.getvalue().splitlines()
    if name == "print":
        assert lines[1].startswith("whydevice: `y` is on cpu"), lines  # the report does not need it
    else:
        assert lines and all(line.startswith("whydevice: failed while") for line in lines), lines


# -- frames --------------------------------------------------------------------------------------------------------


def _mid_run() -> Iterator[int]:
    kept = torch.ones(3)
    yield 1
    hostile.calls.append("generator resumed")
    yield int(kept[0])


def test_generators_that_stand_in_the_middle() -> None:
    generator = _mid_run()
    next(generator)

    async def waiting() -> None:
        await _once()

    coroutine = waiting()
    coroutine.send(None)
    beside([generator, coroutine, generator.gi_frame, coroutine.cr_frame])
    coroutine.close()


@types.coroutine
def _once() -> Iterator[None]:
    yield


def test_a_generator_that_fails_in_the_middle() -> None:
    text = (
        "import torch\ndef g(x):\n    y = torch.ones(3)\n    yield x\n    yield x + y\n"
        "def f(x):\n    return [v for v in g(x)]\nf(torch.ones(3).cuda())\n"
    )
    found = untouched(run(text))
    assert found.culprit is not None and found.culprit.expression == "y"


def test_frames_whose_variables_are_views_or_are_written_to() -> None:
    text = (
        "import torch, sys\ndef f(x, n):\n    y = torch.ones(3)\n    own = sys._getframe().f_locals\n"
        "    views = [own, sys._getframe(), vars()]\n    return x + y\nf(torch.ones(3).cuda(), 1)\n"
    )
    found = untouched(run(text))
    assert found.culprit is not None and found.culprit.expression == "y"


ODD_FILES = ["", "<>", "<string>", ".", "/", "/dev/stdin", "/dev/zero", "/proc/self/mem", "C:\\x.py", "http://x/y.py", "a\0b.py",
             "~/x.py", "-", "zipped.zip/inner.py", "<frozen importlib._bootstrap>", "x" * 300]  # fmt: skip


@pytest.mark.parametrize("path", ODD_FILES, ids=ascii)
@pytest.mark.parametrize("kept", [True, False])
def test_code_that_says_it_is_from_an_odd_file(path: str, kept: bool) -> None:
    code = compile(FUNCTION, "<odd>", "exec")

    def moved(one: types.CodeType) -> types.CodeType:
        inner = tuple(moved(c) if isinstance(c, types.CodeType) else c for c in one.co_consts)
        return one.replace(co_filename=path, co_consts=inner)

    linecache.cache.pop(path, None)
    if kept:
        linecache.cache[path] = (len(FUNCTION), None, FUNCTION.splitlines(keepends=True), path)
    try:
        exec(moved(code), {"__name__": "program"})
    except RuntimeError as exc:
        untouched(exc)
    finally:
        linecache.cache.pop(path, None)


@behaviours
def test_what_is_no_line_in_the_line_cache(behaviour: Behaviour) -> None:
    path = "<program>"
    code = compile(FUNCTION, path, "exec")
    for lines in (
        plain(behaviour),
        [plain(behaviour)],
        [hostile.text(FUNCTION, behaviour)],
        None,
        "text",
        [b"x"],
    ):
        linecache.cache[path] = (1, None, lines, path)  # type: ignore[assignment]
        try:
            exec(code, {"__name__": "program"})
        except RuntimeError as exc:
            assert untouched(exc) is not None
        finally:
            del linecache.cache[path]


def test_lines_of_code_that_lie_outside_the_file() -> None:
    text = "\n" * 5 + FUNCTION
    path = "<short>"
    linecache.cache[path] = (3, None, ["x\n"], path)
    try:
        exec(compile(text, path, "exec"), {"__name__": "program"})
    except RuntimeError as exc:
        assert untouched(exc) is not None


# -- tensors and modules -------------------------------------------------------------------------------------------


def _fake() -> Any:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(3)


def _wrapped() -> Any:
    """What vmap and grad hand to a function, kept beyond the call: its level is gone."""
    kept: list[Any] = []
    torch.vmap(lambda x: kept.append(x) or x)(torch.ones(2, 3))
    torch.func.grad(lambda x: (kept.append(x) or x).sum())(torch.ones(3))
    return kept


KINDS: dict[str, Callable[[], Any]] = {
    "fake": _fake,
    "functorch": _wrapped,
    "masked": lambda: torch.masked.masked_tensor(torch.ones(3), torch.tensor([True, False, True])),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "sparse": lambda: torch.ones(3, 3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "uninitialized": lambda: nn.LazyLinear(3),
    "uninitialized_parameter": nn.UninitializedParameter,
    "freed": lambda: _freed(),
    "parametrized": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    "scripted": lambda: torch.jit.script(nn.Linear(3, 3)),
}


def _freed() -> Any:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_torchs_own_kinds(kind: str) -> None:
    with torch._C.DisableTorchFunction():
        thing = KINDS[kind]()
    beside(thing)
    holder = nn.Module()
    holder.__dict__["thing"] = thing
    beside(holder)


def test_an_error_inside_vmap() -> None:
    text = (
        "import torch\ndef f(x):\n    y = torch.ones(3)\n    return x + y\n"
        "torch.vmap(f)(torch.ones(2, 3).cuda())\n"
    )
    found = untouched(run(text))
    assert found is None or found.culprit is None or found.culprit.expression in ("y", "x")


@behaviours
def test_a_module_that_answers_for_its_members(behaviour: Behaviour) -> None:
    names = {
        name: _method("Module", name, behaviour, getattr(nn.Module, name))
        for name in (
            "parameters",
            "named_parameters",
            "named_modules",
            "modules",
            "children",
            "state_dict",
            "buffers",
        )
    }
    names["__dict__"] = property(_method("Module", "__dict__", behaviour, None))
    names["training"] = property(_method("Module", "training", behaviour, None), lambda self, value: None)
    kind = type("Answers", (nn.Module,), names)
    model = kind.__new__(kind)
    nn.Module.__init__(nn.Module())
    for part in ("_parameters", "_buffers", "_modules"):
        object.__setattr__(model, part, {})
    beside(model)


@behaviours
def test_the_failing_operand_is_of_a_class_that_answers_for_its_device(behaviour: Behaviour) -> None:
    class Own(torch.Tensor):
        device = property(_method("Own", "device", behaviour, None))  # type: ignore[assignment]

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if hostile._armed:
                hostile.calls.append("__torch_function__")
            return super().__torch_function__(func, types, args, kwargs or {})

    text = "import torch\ndef f(x, own):\n    raise RuntimeError(says)\nf(torch.ones(3).cuda(), own)\n"
    untouched(run(text, {"__name__": "program", "own": torch.ones(3).as_subclass(Own), "says": SAYS}))


@behaviours
def test_a_dict_whose_views_answer_for_themselves(behaviour: Behaviour) -> None:
    base: Any = dict
    names = _names("dict", base, behaviour)
    names["__or__"] = names["__ror__"] = _method("dict", "__or__", behaviour, None)
    batch = type("Batch", (dict,), names)()
    dict.__setitem__(batch, plain(behaviour), 1)
    dict.__setitem__(batch, hostile.text("x", behaviour), torch.ones(3))
    beside(batch)
