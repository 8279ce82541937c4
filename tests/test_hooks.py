"""sys.excepthook, threads and the guard: our block comes after the traceback, and nothing else changes."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from processes import LIGHT, LIGHT_MISMATCH, MISMATCH, environment, outcome, run, why

BLOCK = "\nwhydevice: "


def _run(folder: Path, text: str, *, cli: bool = False, **env: str) -> Any:
    (folder / "script.py").write_text(textwrap.dedent(text))
    return (why if cli else run)("script.py", cwd=folder, env=environment(**env))


def _blocks(text: str) -> int:
    return text.count(BLOCK)


@pytest.mark.parametrize("cli", [False, True])
def test_the_block_follows_the_untouched_traceback(cli: bool, tmp_path: Path) -> None:
    script = MISMATCH if cli else LIGHT_MISMATCH
    plain = _run(tmp_path, "import json\n" + script)
    ours = _run(tmp_path, ("import json\n" if cli else "import whydevice\n") + script, cli=cli)
    assert ours.stderr.startswith(plain.stderr)
    assert _blocks(ours.stderr) == 1
    assert (ours.stdout, ours.returncode) == (plain.stdout, 1)


def test_a_thread_and_an_unraisable(tmp_path: Path) -> None:
    script = """\
    import threading
    class A:
        def __del__(self): shifted(3)
    t = threading.Thread(target=shifted, args=(3,), name="worker"); t.start(); t.join()
    a = A()
    del a
    """
    script = LIGHT + textwrap.dedent(script)
    plain = _run(tmp_path, "import json\n" + script)
    ours = _run(tmp_path, "import whydevice\n" + script)
    assert plain.stderr.count("Traceback") == ours.stderr.count("Traceback") == 2
    assert _blocks(ours.stderr) == 2
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)


ASYNCIO = """
import asyncio, gc
async def task(call): call()
async def main():
    loop = asyncio.get_running_loop()
    for call in CALLS:
        running = asyncio.create_task(task(call))
        await asyncio.sleep(0.01)
        del running
        gc.collect()
    loop.set_exception_handler(lambda loop, context: print("mine", type(context["exception"]).__name__))
    loop.call_soon(CALLS[0])
    await asyncio.sleep(0.01)
asyncio.run(main())
"""


def test_what_asyncio_reports(tmp_path: Path) -> None:
    # whydevice comes first and last: asyncio is wrapped once it is loaded.
    calls = "CALLS = [lambda: shifted(3), lambda: 1 / 0]\n"
    for before, after in (("import whydevice\n", ""), ("import asyncio\n", "import whydevice\n")):
        done = _run(tmp_path, before + LIGHT + after + calls + ASYNCIO)
        assert done.stdout == "mine RuntimeError\n"
        assert done.stderr.count("Task exception was never retrieved") == 2
        assert _blocks(done.stderr) + done.stderr.startswith(BLOCK[1:]) == 2
        assert done.stderr.index("RuntimeError: ") < done.stderr.index(BLOCK) < done.stderr.index("ZeroDiv")
    calls = "CALLS = [lambda: int('x'), lambda: 1 / 0]\n"
    plain, ours = (
        re.sub(r"0x\w+|Task-\d+", "", _run(tmp_path, f"import {module}\n" + LIGHT + calls + ASYNCIO).stderr)
        for module in ("json", "whydevice")
    )
    assert ours == plain


UNITTEST = """
import unittest
class Tests(unittest.TestCase):
    def test_a(self): CALL()
    def test_b(self): 1 / 0
    def test_c(self):
        with self.subTest(n=1): CALL()
unittest.main()
"""


def test_unittest(tmp_path: Path) -> None:
    done = _run(tmp_path, "import whydevice\n" + LIGHT + "CALL = lambda: shifted(3)" + UNITTEST)
    sections = done.stderr.split("=" * 70)[1:]
    assert [section.count("\nan explanation\n") for section in sections] == [1, 0, 1]
    assert "FAILED (errors=3)" in done.stderr
    assert done.returncode == 1
    plain, ours = (
        _run(tmp_path, f"import {module}\n" + LIGHT + "CALL = lambda: int('x')" + UNITTEST)
        for module in ("json", "whydevice")
    )
    assert re.sub(r"[\d.]+s", "", ours.stderr) == re.sub(r"[\d.]+s", "", plain.stderr)


def test_uninstall_takes_everything_back(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import asyncio, multiprocessing, sys, threading, traceback, unittest
        import torch._utils
        def hooks():
            return [sys.excepthook, threading.excepthook, sys.unraisablehook, list(sys.meta_path),
                    asyncio.BaseEventLoop.call_exception_handler, unittest.TestResult._exc_info_to_string,
                    torch._utils.ExceptionWrapper.__init__, traceback.TracebackException.__init__,
                    traceback.print_exc, traceback.format_exc, traceback.format_exception]
        before = hooks()
        import whydevice
        whydevice.install(everywhere=True)
        changed = [one is not other for one, other in zip(before, hooks())]
        assert changed[:3] + changed[4:8] == [True] * 7, changed
        whydevice.uninstall()
        assert hooks() == before
        """,
    )
    assert outcome(done) == ("", "", 0)


def test_an_object_that_fails_in_its_finalizer_does_not_start_us_again(tmp_path: Path) -> None:
    script = """\
    class Dies:
        def __del__(self): shifted(3)
    def explain(exc):
        Dies()
        return "an explanation"
    sys.modules["whydevice.explain"].explain = explain
    shifted(3)
    """
    done = _run(tmp_path, "import whydevice\n" + LIGHT + textwrap.dedent(script))
    assert done.stderr.count("Traceback") == 2
    assert _blocks(done.stderr) == 1
    assert done.stderr.endswith("\nwhydevice: an explanation\n")


def test_an_ordinary_unraisable_error_is_not_explained_by_what_is_being_handled(tmp_path: Path) -> None:
    script = """\
    class Dies:
        def __del__(self): 1 / 0
    try:
        shifted(3)
    except RuntimeError:
        Dies()
    """
    plain = _run(tmp_path, "import json\n" + LIGHT + textwrap.dedent(script))
    ours = _run(tmp_path, "import whydevice\n" + LIGHT + textwrap.dedent(script))
    assert "ZeroDivisionError" in plain.stderr
    assert [re.sub("at 0x[0-9a-f]+", "", done.stderr) for done in (ours, plain)] == [
        re.sub("at 0x[0-9a-f]+", "", plain.stderr)
    ] * 2


def test_the_thread_hook_is_there_whether_threading_is_loaded_before_or_after(tmp_path: Path) -> None:
    for order in ("import threading, whydevice", "import whydevice, threading"):
        done = _run(
            tmp_path,
            f"""\
            {order}
            assert hasattr(threading.excepthook, "__whydevice__")
            whydevice.uninstall()
            assert not hasattr(threading.excepthook, "__whydevice__")
            whydevice.install()
            assert hasattr(threading.excepthook, "__whydevice__")
            """,
        )
        assert outcome(done) == ("", "", 0)


def test_double_install_and_uninstall(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import sys
        before = sys.excepthook, sys.unraisablehook
        import whydevice
        whydevice.install()
        whydevice.install()
        assert sys.excepthook is not before[0]
        whydevice.uninstall()
        assert (sys.excepthook, sys.unraisablehook) == before
        whydevice.uninstall()
        whydevice.install()
        ours = sys.excepthook
        sys.excepthook = lambda *a: ours(*a)
        theirs = sys.excepthook
        whydevice.uninstall()
        assert sys.excepthook is theirs, "a hook put over ours stays"
        sys.excepthook = ours  # they go, and put back what they found
        whydevice.uninstall()
        assert sys.excepthook is before[0]
        whydevice.install()
        whydevice.install(everywhere=True)
        whydevice.uninstall()
        assert (sys.excepthook, sys.unraisablehook) == before
        """,
    )
    assert outcome(done) == ("", "", 0)


@pytest.mark.parametrize(
    "hooks",
    [
        "old = sys.excepthook\nsys.excepthook = lambda *a: (print('mine'), old(*a))\nwhydevice.install()",
        "sys.excepthook = lambda *a: sys.__excepthook__(*a)\nwhydevice.install()",
        "sys.excepthook = lambda *a: sys.__excepthook__(*a)",
        "import io\nold = sys.excepthook\nsys.excepthook = lambda *a: [old(*a)]\nwhydevice.install()",
    ],
)
def test_other_hooks_above_and_below_ours_show_it_once(hooks: str, tmp_path: Path) -> None:
    done = _run(tmp_path, f"import sys, whydevice\n{hooks}\n" + LIGHT_MISMATCH)
    assert _blocks(done.stderr) == 1
    assert done.stderr.count("Traceback") == 1
    assert done.returncode == 1


def test_the_command_line_shows_it_though_the_script_replaced_the_hook(tmp_path: Path) -> None:
    hook = "import sys\nsys.excepthook = lambda *a: print('mine')\n"
    done = _run(tmp_path, hook + LIGHT_MISMATCH, cli=True)
    assert done.stdout == "mine\n"
    assert "Traceback" not in done.stderr
    assert _blocks("\n" + done.stderr) == 1


FAILURES = [
    "ZeroDivisionError()",
    "SystemExit(5)",
    "KeyboardInterrupt()",
    "RecursionError()",
    "MemoryError()",
    "GeneratorExit()",
    "ExceptionGroup('a', [ValueError()])",
]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("where", ["explain", "render"])
def test_our_own_failure_is_one_line(failure: str, where: str, tmp_path: Path) -> None:
    fails = {"explain": "whydevice.explain", "render": "whydevice.render.terminal"}[where]
    text = LIGHT + f"def fails(*args): raise {failure}\n_fake('{fails}', explain=fails, write=fails)\n"
    text += "shifted(3)\n"
    plain = _run(tmp_path, "import json\n" + text)
    for cli in (False, True):
        ours = _run(tmp_path, ("import json\n" if cli else "import whydevice\n") + text, cli=cli)
        assert ours.stderr.startswith(plain.stderr)
        rest = ours.stderr[len(plain.stderr) :]
        assert rest.count("\n") == 1
        assert rest.startswith("whydevice: ")
        assert ours.returncode == 1
    shown = _run(tmp_path, "import whydevice\n" + text, WHYDEVICE_DEBUG="1")
    assert shown.stderr.startswith(plain.stderr)
    assert "in fails" in shown.stderr


@pytest.mark.parametrize(
    "breakage",
    [
        "sys.stderr = None",
        "sys.stderr.close()",
        "os.close(2)",
        "class Broken:\n    def write(self, text): raise OSError(28, 'No space left')\n    flush = write\n"
        "sys.stderr = Broken()",
    ],
)
def test_a_broken_stderr_changes_no_exit_status(breakage: str, tmp_path: Path) -> None:
    plain = _run(tmp_path, f"import os, sys, json\n{breakage}\n" + LIGHT_MISMATCH)
    for cli in (False, True):
        done = _run(tmp_path, f"import os, sys, whydevice\n{breakage}\n" + LIGHT_MISMATCH, cli=cli)
        assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)


def test_an_exception_keeps_no_frame(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import copy, gc, io, pickle, sys, weakref
        import torch, whydevice
        class Big: pass
        def fail():
            big = Big()
            fail.ref = weakref.ref(big)
            torch.empty(3, device="meta").numpy()
        try:
            fail()
        except TypeError as exc:
            whydevice.explain(exc)
            copied = pickle.loads(pickle.dumps(exc)), copy.copy(exc), copy.deepcopy(exc)
            kept = exc.__dict__
        gc.collect()
        assert fail.ref() is None, "frames die with the exception"
        """,
    )
    assert outcome(done) == ("", "", 0)
