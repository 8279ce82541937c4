"""What plain python does, `python -m whydevice` and `import whydevice` do, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from processes import outcome, run, why

ORDINARY = {
    "value": "int('x')",
    "key": "{}['missing']",
    "index": "[1, 2][5]",
    "zero": "1 / 0",
    "name": "print(nothing)",
    "unbound": "def f():\n    print(a)\n    a = 1\nf()",
    "attribute": "(1).nothing",
    "import": "import nothing_of_that_name",
    "from_import": "from os import nothing_of_that_name",
    "type": "len(3)",
    "call": "def f(a): pass\nf()",
    "assert": "assert 1 == 2, 'not equal'",
    "bare_assert": "assert False",
    "runtime": "raise RuntimeError('the device of this text says nothing')",
    "not_implemented": "raise NotImplementedError",
    "os": "open('no/such/file')",
    "unicode": "b'\\xff'.decode()",
    "stop": "next(iter([]))",
    "recursion": "def f(): f()\nf()",
    "recursion_in_class": "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
    "syntax_eval": "eval('1 +')",
    "syntax": "def f(:\n    pass",
    "indentation": "def f():\npass",
    "tab": "if True:\n        x = 1\n\ty = 2",
    "latin": "# -*- coding: latin-1 -*-\nraise ValueError('ae \\xe4')",
    "cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from e",
    "context": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('b')",
    "hidden": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from None",
    "group": "raise ExceptionGroup('two', [ValueError(1), ExceptionGroup('in', [KeyError('a')])])",
    "note": "e = ValueError('x')\ne.add_note('a note')\nraise e",
    "user": "class Mine(Exception):\n    def __str__(self): return 'my own text'\nraise Mine(3)",
    "broken_str": "class Mine(Exception):\n    def __str__(self): 1 / 0\nraise Mine(3)",
    "base": "class Mine(BaseException): pass\nraise Mine('far')",
    "generator_exit": "raise GeneratorExit",
    "exit_0": "import sys; print('out'); sys.exit()",
    "exit_3": "raise SystemExit(3)",
    "exit_text": "import sys; sys.exit('a last word')",
    "exit_none": "raise SystemExit(None)",
    "exit_object": "raise SystemExit([1, 2])",
    "exit_hard": "import os; print('out', flush=True); os._exit(7)",
    "interrupt": "import atexit; atexit.register(print, 'bye')\nraise KeyboardInterrupt",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "abort": "import os; os.abort()",
    "thread": "import threading\nt = threading.Thread(target=int, args=('x',), name='t')\n"
    "t.start()\nt.join()\nprint('on')",
    "thread_exit": "import threading, sys\nt = threading.Thread(target=sys.exit)\nt.start(); t.join()",
    "unraisable": "class A:\n    def __del__(self): 1 / 0\na = A()\ndel a",
    "at_exit": "import atexit\natexit.register(int, 'x')\nprint('end')",
    "hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__, a[2].tb_lineno)\n1 / 0",
    "hook_gone": "import sys\ndel sys.excepthook\n1 / 0",
    "hook_none": "import sys\nsys.excepthook = None\n1 / 0",
    "hook_fails": "import sys\ndef hook(*a): {}['k']\nsys.excepthook = hook\n1 / 0",
    "hook_exits": "import sys\ndef hook(*a): sys.exit(9)\nsys.excepthook = hook\n1 / 0",
    "print_exc": "import traceback\ntry: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()",
    "warning": "import warnings; warnings.warn('careful')\nwarnings.warn('old', DeprecationWarning)",
    "stderr_none": "import sys\nsys.stderr = None\n1 / 0",
    "no_newline": "import sys; sys.stdout.write('no newline'); 1 / 0",
}

WITH_TORCH = {
    "shape": "import torch\ntorch.ones(3, 4) @ torch.ones(3, 4)",
    "dtype": "import torch\ntorch.nn.Linear(2, 2)(torch.ones(2, 2, dtype=torch.float64))",
    "device_word": "import torch\nraise RuntimeError('the device cuda:0 of this text says nothing')",
    "bare_assert": "import torch\nassert torch.ones(3).shape == 4",
    "torch_index": "import torch\ntorch.ones(3)[5]",
}


def _without_addresses(process: Any) -> tuple[Any, ...]:
    return tuple(re.sub(rb"0x[0-9a-f]+", b"0x", x) if isinstance(x, bytes) else x for x in outcome(process))


def _both(folder: Path, name: str, text: str, encoding: str = "utf-8") -> list[tuple[object, object, int]]:
    """The outcomes of plain python and of the command line."""
    (folder / f"{name}.py").write_bytes(text.encode("latin-1" if name == "latin" else encoding) + b"\n")
    plain = run(f"{name}.py", cwd=folder, text=False)
    ours = why(f"{name}.py", cwd=folder, text=False)
    return [_without_addresses(plain), _without_addresses(ours)]


@pytest.mark.parametrize("name", ORDINARY)
def test_the_command_line_adds_nothing_to_an_ordinary_end(name: str, tmp_path: Path) -> None:
    plain, ours = _both(tmp_path, name, ORDINARY[name])
    assert ours == plain


@pytest.mark.parametrize("name", WITH_TORCH)
def test_the_command_line_adds_nothing_to_an_ordinary_error_of_torch(name: str, tmp_path: Path) -> None:
    plain, ours = _both(tmp_path, name, WITH_TORCH[name])
    assert ours == plain
    assert ours[2] == 1


def test_importing_whydevice_adds_nothing_to_an_ordinary_error(tmp_path: Path) -> None:
    # Compared with a neutral import, so that the line numbers agree.
    script = tmp_path / "script.py"
    names = ("value", "cause", "group", "user", "broken_str", "exit_text", "thread", "unraisable", "hook")
    for name in names:
        ends = []
        for module in ("json", "whydevice"):
            script.write_text(f"import {module}\n{ORDINARY[name]}\n")
            stdout, stderr, code = _without_addresses(run("script.py", cwd=tmp_path, text=False))
            ends.append((stdout, stderr.replace(b"import whydevice", b"import json"), code))
        assert ends[0] == ends[1], name


GLOBALS = """
import os, sys
print({k: str(v) for k, v in globals().items() if k not in ("__loader__", "__builtins__", "v", "k")})
print(type(__loader__).__name__, type(__builtins__).__name__, getattr(__loader__, "path", None))
print(sys.argv, sys.path, sys.modules["__main__"].__dict__ is globals(), os.getcwd())
"""


@pytest.mark.parametrize("path", ["script.py", "./script.py", "../here/script.py", "link.py"])
def test_the_script_sees_what_plain_python_shows_it(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    (tmp_path / "there").mkdir()
    folder.mkdir()
    (folder / "script.py").write_text(GLOBALS)
    (tmp_path / "there" / "target.py").write_text(GLOBALS)
    (folder / "link.py").symlink_to("../there/target.py")
    for args in ([path, "--fix", "-m", "a b"], ["-P", path]):
        flags, rest = ([], args) if args[0] != "-P" else (["-P"], args[1:])
        plain = run(*flags, *rest, cwd=folder)
        ours = run(*flags, "-m", "whydevice", *rest, cwd=folder)
        assert outcome(ours) == outcome(plain)


def test_a_module_sees_what_plain_python_shows_it(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("import sys; print('parent', sys.argv)\n")
    (package / "part.py").write_text(GLOBALS)
    (package / "__main__.py").write_text("from . import part\n1 / 0\n")
    (package / "deep.py").write_text("def f(): f()\nf()\n")
    for module in ("package.part", "package", "package.deep"):
        plain = run("-m", module, "x", cwd=tmp_path, text=False)
        ours = why("-m", module, "x", cwd=tmp_path, text=False)
        assert _without_addresses(ours) == _without_addresses(plain)


def test_spawned_children_import_the_script_as_under_plain_python(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import multiprocessing as mp\n"
        "print('at import', __name__, __file__)\n"
        "def work(q):\n    q.put(__name__)\n"
        "if __name__ == '__main__':\n"
        "    context = mp.get_context('spawn')\n"
        "    q = context.Queue()\n"
        "    p = context.Process(target=work, args=(q,))\n"
        "    p.start(); print(q.get()); p.join(); print(p.exitcode)\n"
    )
    assert outcome(why("script.py", cwd=tmp_path)) == outcome(run("script.py", cwd=tmp_path))
    assert outcome(why("-m", "script", cwd=tmp_path)) == outcome(run("-m", "script", cwd=tmp_path))


def test_interpreter_options_reach_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys, warnings\nassert False\n")
    flags = ["-O", "-W", "error", "-X", "dev"]
    assert outcome(run(*flags, "-m", "whydevice", "script.py", cwd=tmp_path)) == outcome(
        run(*flags, "script.py", cwd=tmp_path)
    )
