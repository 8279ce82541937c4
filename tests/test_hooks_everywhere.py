"""`WHYDEVICE=everywhere`: the explanation travels on the exception, and is never shown twice."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from processes import LIGHT, environment, outcome, run, why

TEXT = """\
class Text:
    def __str__(self): return "\\nwhydevice: an explanation\\n"
    def __radd__(self, text): return text + "an explanation"
"""

FRAMEWORKS = Path(__file__).parent / "data" / "frameworks"


def _run(folder: Path, text: str, **env: str) -> Any:
    (folder / "script.py").write_text(textwrap.dedent(text))
    return run("script.py", cwd=folder, env=environment(**({"WHYDEVICE": "everywhere"} | env)))


@pytest.mark.parametrize("name", sorted(path.name for path in FRAMEWORKS.glob("*.py")))
def test_each_framework_script_shows_it_once(name: str) -> None:
    done = why(name, cwd=FRAMEWORKS, env=environment(WHYDEVICE="everywhere"))
    text = "\n" + done.stderr
    assert text.count("\nwhydevice: ") + text.count("\n[rank0]: whydevice: ") == 1


REACHED = ("dataloader_worker.py", "process_group_hook.py", "spawned_rank.py")
"""Those whose error reaches a hook, in this process or in the child: `everywhere` is not needed."""


@pytest.mark.parametrize("name", REACHED)
def test_a_framework_script_that_reaches_a_hook_shows_it_once_by_default(name: str) -> None:
    done = why(name, cwd=FRAMEWORKS)
    text = "\n" + done.stderr
    assert text.count("\nwhydevice: ") + text.count("\n[rank0]: whydevice: ") == 1


# What Gradio, ComfyUI, Ray and web services do with an error; they themselves are no part of the tests' environment.
SWALLOWED = {
    "Gradio: print_exc in a worker thread": """
def handler():
    try:
        shifted(3)
    except Exception:
        traceback.print_exc()
thread = threading.Thread(target=handler); thread.start(); thread.join()
""",
    "ComfyUI: format_exc in a log": """
try:
    shifted(3)
except Exception as ex:
    logging.error("!!! Exception during processing !!! %s", ex)
    logging.error(traceback.format_exc())
""",
    "a web service: logger.exception in an executor": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    waiting = pool.submit(shifted, 3)
try:
    waiting.result()
except Exception:
    logging.getLogger("app").exception("request failed")
""",
    "Ray: the text and the pickled exception": """
import pickle
class TaskError(Exception): pass
try:
    shifted(3)
except Exception as exc:
    text, data = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__)), pickle.dumps(exc)
assert any("an explanation" in note for note in pickle.loads(data).__notes__)
raise TaskError(text) from pickle.loads(data)
""",
}


@pytest.mark.parametrize("name", SWALLOWED)
def test_what_frameworks_do_with_an_error_shows_it_once(name: str, tmp_path: Path) -> None:
    # Ray prints the text as the driver's error, and its cause below or above it.
    light = LIGHT.replace('lambda exc: "an explanation"', "lambda exc: Text()")
    text = "import logging, threading, traceback, whydevice\n" + TEXT + light + SWALLOWED[name]
    done = _run(tmp_path, text)
    assert done.stderr.count("\nwhydevice: an explanation\n") == 1, done.stderr
    assert done.returncode == (1 if name.startswith("Ray") else 0)
    plain = _run(tmp_path, text.replace("on device meta is not", "on no device is"), WHYDEVICE="0")
    assert plain.returncode == done.returncode
    assert "whydevice: " not in plain.stderr


MODULE = """\
import logging, sys, traceback
import {module}
import torch
from torch import nn

class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.mean = torch.empty(3, device="meta")

    def forward(self, x):
        return self.fc(x) - torch.from_numpy(self.mean.numpy())

model = nn.Sequential(nn.Identity(), Shift())
"""


def test_a_note_is_made_while_the_devices_are_true(tmp_path: Path) -> None:
    # The framework moves the evidence before anybody prints: what was said before that must stand.
    done = _run(
        tmp_path,
        MODULE.format(module="whydevice")
        + """
try:
    model(torch.ones(1, 3))
except TypeError as exc:
    model[1].mean = torch.ones(3)
    logging.exception("failed")
    text = traceback.format_exc()
    assert text.count("\\nwhydevice: ") == 1, text
    assert "meta" in text[text.index("\\nwhydevice: "):]
print("on")
""",
    )
    assert done.stdout == "on\n"
    assert done.stderr.count("\nwhydevice: ") == 1
    assert done.returncode == 0


def test_an_uncaught_error_shows_it_once(tmp_path: Path) -> None:
    done = _run(tmp_path, MODULE.format(module="whydevice") + "\nmodel(torch.ones(1, 3))\n")
    assert done.stderr.count("\nwhydevice: ") == 1
    assert done.returncode == 1


def test_wrapped_errors_and_groups_show_it_once(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        MODULE.format(module="whydevice")
        + """
try:
    model(torch.ones(1, 3))
except TypeError as exc:
    raise ValueError("the step failed") from exc
""",
    )
    assert done.stderr.count("\nwhydevice: ") == 1


def test_asyncio_and_executors(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import asyncio, gc, whydevice
        from concurrent.futures import ThreadPoolExecutor
        import torch
        def bad():
            torch.empty(3, device="meta").numpy()
        async def task():
            bad()
        async def main():
            running = asyncio.create_task(task())
            await asyncio.sleep(0.01)
            del running
            gc.collect()
        asyncio.run(main())
        with ThreadPoolExecutor(1) as pool:
            pool.submit(bad).result()
        """,
    )
    assert done.stderr.count("Task exception was never retrieved") == 1
    assert done.stderr.count("\nwhydevice: ") == 2


def test_ordinary_errors_and_the_happy_path_are_as_without_us(tmp_path: Path) -> None:
    rest = """
print(model[0](torch.ones(1, 3)))
model[1].mean = torch.ones(3)
print(model(torch.ones(1, 3)).shape)
try:
    model(torch.ones(1, 4))
except RuntimeError:
    traceback.print_exc()
model(torch.ones(1, 5))
"""
    plain = _run(tmp_path, MODULE.format(module="json") + rest)
    ours = _run(tmp_path, MODULE.format(module="whydevice") + rest)
    assert (ours.stdout, ours.returncode) == (plain.stdout, 1)
    # With any global hook torch calls a module by way of one more function of its own.
    frames = re.compile(r'  File "[^"]*nn/modules/module\.py", line .*\n(?:    .*\n)+')
    assert frames.sub("", ours.stderr) == frames.sub("", plain.stderr)


def test_it_imports_no_torch_and_uninstalls(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import sys, traceback
        before = traceback.TracebackException.__init__, list(sys.meta_path)
        import whydevice
        assert len(sys.meta_path) == len(before[1]) + 1
        assert "torch" not in sys.modules
        whydevice.install(everywhere=True)
        assert len(sys.meta_path) == len(before[1]) + 1
        whydevice.uninstall()
        assert (traceback.TracebackException.__init__, sys.meta_path) == before
        whydevice.install(everywhere=True)
        import torch
        from torch.nn.modules import module
        assert len(module._global_forward_hooks) == 1
        whydevice.install(everywhere=True)
        assert len(module._global_forward_hooks) == 1
        whydevice.uninstall()
        assert not module._global_forward_hooks
        assert sys.meta_path == before[1]
        """,
    )
    assert outcome(done) == ("", "", 0)
