"""Explaining runs no operation, imports nothing foreign, writes nothing, and keeps nothing alive."""

from __future__ import annotations

import gc
import json
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import whydevice
from processes import environment, run
from whydevice import guard
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda


class Net(nn.Module):
    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.shift = torch.ones(3, device=device)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.fc(x) * scale + self.shift


class Token:
    """Something in a frame that a weak reference can watch."""


def fail(seen: list[weakref.ref[Any]]) -> None:
    token = Token()
    model, x = Net().cuda(), torch.ones(2, 3, device="cuda")
    batch = {"x": x, "token": token}
    seen += [weakref.ref(token), weakref.ref(model), weakref.ref(x), weakref.ref(model.shift)]
    model(batch["x"])


def fail_really(seen: list[weakref.ref[Any]]) -> None:
    """The same without a simulation, between the CPU and `meta`."""
    token = Token()
    model, x = Net("meta"), torch.ones(2, 3)
    batch = {"x": x, "token": token}
    seen += [weakref.ref(token), weakref.ref(model), weakref.ref(x), weakref.ref(model.shift)]
    model(batch["x"])


def caught(function: Callable[..., Any], *args: Any) -> BaseException:
    try:
        function(*args)
    except RuntimeError as exc:
        return exc
    raise AssertionError("nothing failed")


def test_no_operation_and_no_function_of_torch_runs() -> None:
    ran: list[str] = []

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(str(func))
            return func(*args, **(kwargs or {}))

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(str(func))
            return func(*args, **(kwargs or {}))

    with simulate_cuda():
        exc = caught(fail, [])
        with Operations(), Functions():
            torch.ones(1) + 1
            assert ran, "the modes see what runs"
            ran.clear()
            found = explain(exc)
            text, data, html = str(found), found.to_dict(), found._repr_html_()  # type: ignore[union-attr]
    assert ran == []
    assert "self.shift" in text and data["cause"] and html


def test_no_memory_of_torch_is_taken() -> None:
    with simulate_cuda():
        exc = caught(fail, [])
    with torch.profiler.profile(profile_memory=True) as profile:
        assert explain(exc) is not None
    assert [e.name for e in profile.events() or () if e.name.startswith(("aten::", "[memory]"))] == []
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.ones(3)
    assert [e.name for e in profile.events() or () if e.name.startswith("aten::")], "the profiler sees some"


@pytest.mark.parametrize("shown", ["nothing", "explain", "show", "watch", "failing"])
def test_frames_tensors_and_modules_die_at_once(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By reference counts alone: with the collector off, as in a loop that fills a GPU's memory."""
    seen: list[weakref.ref[Any]] = []
    # The first such error of a process imports a part of torch, which keeps the frames until the collector comes.
    caught(fail_really, [])
    gc.collect()
    gc.disable()
    try:
        exc = caught(whydevice.watch()(fail_really) if shown == "watch" else fail_really, seen)
        if shown == "failing":
            monkeypatch.setattr("whydevice.evidence.collect._judge", Callable_that_fails())
        if shown in ("explain", "failing"):
            assert (guard.explain(exc) is None) == (shown == "failing")
        elif shown == "show":
            assert guard.show(exc)
        assert all(ref() is not None for ref in seen)
        del exc
        assert [ref() for ref in seen] == [None] * len(seen)
    finally:
        gc.enable()


class Callable_that_fails:
    def __call__(self, *args: Any) -> Any:
        raise ZeroDivisionError


def test_what_a_function_has_from_locals_stays_its_own() -> None:
    """Before Python 3.13, `locals()` hands out the very dict that reading a frame fills."""
    taken: list[dict[str, Any]] = []

    def configured(lr: float, width: int) -> None:
        options = locals()
        taken.append(options)
        with whydevice.watch():
            torch.ones(3) + torch.ones(3, device="meta")

    exc = caught(configured, 0.1, 8)
    assert guard.mark_of(exc) is not None
    assert {"lr", "width"} <= set(taken[0])
    assert (taken[0]["lr"], taken[0]["width"]) == (0.1, 8)


def test_a_debugger_still_sees_the_locals() -> None:
    with simulate_cuda():
        exc = caught(fail, [])
        explain(exc)
    trace = exc.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_name != "fail":
        trace = trace.tb_next
    assert trace is not None
    assert {"model", "x", "batch", "token"} <= set(trace.tb_frame.f_locals)


SCRIPT = """\
import json, sys
import torch
import torch.utils.data
from torch import nn
events = []
active = False
def hook(name, args):
    if active:
        events.append((name, [str(a)[:200] for a in args[:3]]))
sys.addaudithook(hook)
import whydevice
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.shift = torch.ones(3)
    def forward(self, x):
        return self.fc(x) + self.shift
with whydevice.simulate_cuda():
    try:
        Net().cuda()(torch.ones(2, 3, device="cuda"))
    except RuntimeError as exc:
        before = set(sys.modules)
        active = True
        whydevice.guard.show(exc)
        found = whydevice.explain(exc)
        found.to_dict(), found._repr_html_(), str(found)
        active = False
        print(json.dumps({"new": sorted(set(sys.modules) - before), "events": events}))
"""


def test_nothing_is_imported_started_sent_or_written(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run("script.py", cwd=tmp_path, env=environment(PYTHONDONTWRITEBYTECODE="1"))
    assert "[tensor-attribute-not-buffer]" in done.stderr
    found = json.loads(done.stdout)
    own = {n for n in found["new"] if n.startswith("_sysconfigdata")}  # the interpreter's, by another name
    foreign = (
        {name.partition(".")[0] for name in set(found["new"]) - own}
        - set(sys.stdlib_module_names)
        - {"whydevice"}
    )
    assert foreign <= {"rich", "stack_data"}
    assert not [name for name in found["new"] if name.startswith("torch")]
    names = {name for name, _ in found["events"]}
    assert "open" in names, "the hook sees something"
    unwanted = ("socket", "subprocess", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename",
                "os.mkdir", "os.truncate", "shutil", "tempfile", "urllib", "ftplib", "http", "ctypes", "os.putenv")  # fmt: skip
    assert not [name for name in names if name.startswith(unwanted)]
    opened = [args for name, args in found["events"] if name == "open"]
    assert not [args for args in opened if any(sign in args[1] for sign in "wax+")]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "script.py"]
