"""Evidence taken away: an explanation gets less sure and says less, never more; it never crashes, nor claims what is false."""

from __future__ import annotations

import importlib.util
import linecache
import py_compile
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import claims
from processes import HANGS
from whydevice.types import Explanation

torch = pytest.importorskip("torch")

SOURCE = """\
import torch
from torch import nn


class Scaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        bias = torch.zeros(4)
        return self.fc(x) * 2 + bias


def step(model, x):
    assert x is not None
    return model(x).sum()


def main():
    model = Scaler().to("cuda")
    batch = torch.ones(2, 4, device="cuda")
    return step(model, batch)
"""


@pytest.fixture(autouse=True)
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import whydevice

    monkeypatch.chdir(tmp_path)
    linecache.clearcache()
    with whydevice.simulate_cuda():
        yield
    linecache.clearcache()


def failure(run: Callable[[], Any]) -> tuple[BaseException, Explanation | None]:
    from whydevice import guard

    try:
        run()
    except Exception as exc:
        said = guard._pipeline(exc)
        if said is not None:
            str(said), said.to_dict(), said._repr_html_()
            assert claims.broken(exc, said) == [], said
        return exc, said
    raise AssertionError("nothing failed")


def module_of(code: types.CodeType, path: str) -> types.ModuleType:
    module = types.ModuleType("program")
    module.__file__ = path
    exec(code, module.__dict__)
    return module


def strip(code: types.CodeType, **changes: Any) -> types.CodeType:
    """The code with something taken out, in all its functions."""
    inner = tuple(strip(c, **changes) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=inner, **changes)


def without_lines(code: types.CodeType) -> types.CodeType:
    """The code with a location table that knows no line, as some bytecode tools write it."""
    table, units = b"", len(code.co_code) // 2
    while units > 0:
        table += bytes([0x80 | 15 << 3 | min(units, 8) - 1])
        units -= 8
    inner = tuple(without_lines(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=inner, co_linetable=table)


def written(folder: Path, text: str = SOURCE, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def unsure(said: Explanation | None, exc: BaseException) -> None:
    """What has to hold where no source can be had: an answer, but no cause, no edit and no certainty."""
    assert said is not None, exc
    assert said.certainty == "possible"
    assert said.cause is None and said.root is None and said.fixes == (), said


def test_all_evidence_is_certain(tmp_path: Path) -> None:
    path = written(tmp_path)
    _, said = failure(module_of(compile(SOURCE, str(path), "exec"), str(path)).main)
    assert said is not None and said.culprit is not None and said.root is not None
    assert (said.certainty, said.culprit.expression, said.root.line) == ("certain", "bias", 11)


@pytest.mark.parametrize("optimize", [1, 2])
def test_optimised_bytecode(tmp_path: Path, optimize: int) -> None:
    path = written(tmp_path)
    _, said = failure(module_of(compile(SOURCE, str(path), "exec", optimize=optimize), str(path)).main)
    assert said is not None and said.culprit is not None and said.root is not None
    assert (said.certainty, said.culprit.expression, said.root.line) == ("certain", "bias", 11)


def test_no_source_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    code = compile(SOURCE, str(path), "exec")
    path.unlink()
    exc, said = failure(module_of(code, str(path)).main)
    unsure(said, exc)


def test_pyc_only(tmp_path: Path) -> None:
    path = written(tmp_path)
    compiled = py_compile.compile(str(path), cfile=str(tmp_path / "program.pyc"), doraise=True)
    path.unlink()
    spec = importlib.util.spec_from_file_location("program", compiled)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exc, said = failure(module.main)
    unsure(said, exc)


@pytest.mark.parametrize(
    "name", ["<string>", "", "program.py", "<ipython-input-3-0123456789ab>", "\u2603.py"]
)
def test_code_without_a_file(name: str) -> None:
    exc, said = failure(module_of(compile(SOURCE, name, "exec"), name).main)
    unsure(said, exc)


def test_names_of_functions_and_files_stripped(tmp_path: Path) -> None:
    code = strip(compile(SOURCE, "program.py", "exec"), co_filename="", co_name="", co_qualname="")
    exc, said = failure(module_of(code, "").main)
    unsure(said, exc)


def test_no_line_table(tmp_path: Path) -> None:
    path = written(tmp_path)
    code = without_lines(compile(SOURCE, str(path), "exec"))
    _, said = failure(module_of(code, str(path)).main)
    assert said is None or said.certainty == "possible"


def test_no_columns(tmp_path: Path) -> None:
    """What `python -X no_debug_ranges` leaves: lines, but not where in them."""
    path = written(tmp_path)
    import subprocess

    run = (
        "import sys, claims, whydevice\n"
        "from whydevice import guard\n"
        "import program\n"
        "whydevice.simulate_cuda().__enter__()\n"
        "try:\n    program.main()\n"
        "except RuntimeError as exc:\n"
        "    said = guard._pipeline(exc)\n"
        "    print(said.certainty, said.culprit.expression, said.root and said.root.line, claims.broken(exc, said))\n"
    )
    here = Path(__file__).parent
    code = f"import sys; sys.path[:0] = {[str(here.parent / 'src'), str(here), str(path.parent)]!r}\n{run}"
    done = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", "-c", code], capture_output=True, text=True, timeout=HANGS
    )
    assert done.stdout.split(" ", 3)[1:] in (["bias", "11", "[]\n"], ["bias", "None", "[]\n"]), done


CHANGES = {
    "lines put in": lambda text: "# one\n# two\n# three\n" + text,
    "lines taken out": lambda text: text.replace("    assert x is not None\n", "").replace("\n\n\n", "\n"),
    "renamed": lambda text: text.replace("bias", "offset"),
    "another maker": lambda text: text.replace("torch.zeros(4)", "torch.ones(4)"),
    "another file": lambda text: "print('hello')\n" * 40,
    "cut short": lambda text: text[:120],
    "empty": lambda text: "",
    "no Python": lambda text: "def (:\n" * 30,
    "no text": lambda text: "\x00\ud800" * 50,
}


@pytest.mark.parametrize("change", CHANGES)
def test_source_changed_since_it_was_loaded(tmp_path: Path, change: str) -> None:
    path = written(tmp_path)
    module = module_of(compile(SOURCE, str(path), "exec"), str(path))
    changed = CHANGES[change](SOURCE)
    path.write_text(changed, encoding="utf-8", errors="surrogatepass")
    linecache.checkcache()
    exc, said = failure(module.main)
    assert said is not None, exc
    if (
        change == "another maker"
    ):  # the same names on the same lines: nothing tells, and all that is said holds
        return
    assert said.certainty == "possible" and said.fixes == (), said


def test_source_in_a_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("zipped_program.py", SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path / "lib.zip"))
    import zipped_program  # type: ignore[import-not-found]

    exc, said = failure(zipped_program.main)
    assert said is not None and said.culprit is not None, exc
    assert said.culprit.expression == "bias"
    assert not any(fix.edits for fix in said.fixes), "a file in an archive cannot be edited"


NAMES = ("wrong", "b", "self.b", "key.b", "[right, wrong]", "args")
BETWEEN = {
    "map": "list(map(lambda t: t + wrong, [right]))",
    "reduce": "functools.reduce(lambda a, b: a + b, [right, wrong])",
    "sorted": "sorted([right, right], key=lambda t: float((t * wrong).sum()))",
    "lambda only": "(lambda a: (lambda b: a * b)(wrong))(right)",
    "lambda in a call": "apply(lambda a, b: a - b, right, wrong)",
    "wrapper": "wrapped(right, wrong)",
    "wrapper without wraps": "unnamed(right, b=wrong)",
    "partial": "functools.partial(apply, operator.add)(right, wrong)",
    "method of a builtin": "operator.methodcaller('add', wrong)(right)",
    "generator": "sum(a + b for a, b in [(right, wrong)])",
    "sum": "sum([right, wrong])",
    "getattr": "getattr(right, 'add')(wrong)",
    "cached": "cached(Key(right, wrong))",
    "context": "inside(right, wrong)",
    "eval": "eval('right + wrong')",
    "exec": "exec('out = right * wrong')",
    "coroutine": "asyncio.run(later(right, wrong))",
    "thread": "pool.submit(apply, operator.add, right, wrong).result()",
    "property": "Key(right, wrong).total",
    "operator": "Key(right, wrong) + 1",
    "autograd": "Twice.apply(right, wrong)",
    "hook": "hooked(right, wrong)",
}
AROUND = """\
import asyncio, contextlib, functools, operator
from concurrent.futures import ThreadPoolExecutor
import torch

pool = ThreadPoolExecutor(1)

def apply(f, *args, **kwargs):
    return f(*args, **kwargs)

def deco(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs)
    return inner

def bare(f):
    return lambda *args, **kwargs: f(*args, **kwargs)

@deco
def wrapped(a, b):
    return torch.cat([a, b])

@bare
def unnamed(a, b):
    return torch.dot(a, b)

class Key:
    def __init__(self, a, b):
        self.a, self.b = a, b

    @property
    def total(self):
        return self.a + self.b

    def __add__(self, other):
        return self.a + self.b + other

@functools.lru_cache
def cached(key):
    return key.a @ key.b

@contextlib.contextmanager
def nothing():
    yield

def inside(a, b):
    with nothing():
        return a / b

async def later(a, b):
    await asyncio.sleep(0)
    return torch.maximum(a, b)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b

def hooked(a, b):
    layer = torch.nn.Identity()
    layer.register_forward_hook(lambda module, args, out: out + b)
    return layer(a)

def main():
    right = torch.ones(4, device="cuda")
    wrong = torch.arange(4).float()
    return {}
"""


@pytest.mark.parametrize("way", BETWEEN)
def test_what_stands_between_the_frames(tmp_path: Path, way: str) -> None:
    """Calls made by C, by wrappers and by one-line functions: what is named is the wrong one, or it is not sure."""
    text = AROUND.replace("return {}", f"return {BETWEEN[way]}")
    path = written(tmp_path, text)
    exc, said = failure(module_of(compile(text, str(path), "exec"), str(path)).main)
    assert said is not None, exc
    if said.certainty == "possible":
        return
    assert said.culprit is not None and said.culprit.device == "cpu"
    assert said.culprit.expression in NAMES, said
    if said.certainty == "certain":
        assert said.root is not None and said.root.source.strip() == "wrong = torch.arange(4).float()", said


def test_names_that_a_tool_puts_into_the_code_are_no_change() -> None:
    """pytest rewrites this very function, so that its code has names which the file does not."""

    def compared(a: Any, b: Any) -> None:
        assert (a + b).sum() > 0

    code = compared.__code__
    assert any(name.startswith("@") for name in code.co_varnames), code.co_varnames
    _, said = failure(lambda: compared(torch.ones(4, device="cuda"), torch.zeros(4)))
    assert said is not None and said.culprit is not None and said.culprit.expression == "b"
