"""What an explanation costs, beside other tools on the same frames in one run. Never a test: the figures are of one machine.

    python tests/benchmarks/bench_explain.py [--limit SECONDS] [--only WORD]

Prints markdown: DESIGN.md's budgets with what was measured, then each size with each tool that is installed. Every
figure is CPU time in milliseconds, of a process forked for it: first with the imports that it needs, then again; the
median of five rounds over all tools that take less than 300 ms. The tools print the traceback with the values of
variables; whydevice comes after the plain traceback.
"""

from __future__ import annotations

import argparse
import compileall
import io
import json
import linecache
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SRC = Path(__file__).resolve().parents[2] / "src"
sys.path.insert(0, str(SRC))

SPAN = 300
"""Milliseconds for which a quick tool is repeated."""
ROUNDS = 5
"""As often each tool that is done within SPAN is measured, in turn with the others: a machine's clock changes."""
Render = Callable[[BaseException], object]

# -- the failures: real ones, between the CPU and `meta` ---------------------------------------------------------

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([{blocks} for _ in range({count})])
        self.fc = nn.Linear(4, 4)
        self.shift = torch.ones(4, device="meta")

    def forward(self, x):
        return self.fc(x) + self.shift

model = Net()
"""


def deep(frames: int = 30, names: int = 50, lines: int = 1600) -> str:
    """Nested calls, each with many locals: what DESIGN.md measured the others on."""
    body = "import torch\n\n"
    for level in range(frames):
        body += f"def f{level}(x, y):\n"
        body += "".join(f"    v{i} = [{i}, 'text {i}', x]\n" for i in range(names - 2))
        body += f"    return f{level + 1}(x, y)\n\n\n"
    body += f"def f{frames}(x, y):\n    return x + y\n\n\n"
    body += "# filler\n" * max(0, lines - body.count("\n") - 1)
    return body + "f0(torch.ones(3), torch.ones(3, device='meta'))\n"


def long_file() -> str:
    filler = "".join(f"def g{i}(a, b):\n    c = a + b\n    return [c, {i}]\n\n\n" for i in range(6000))
    return filler + NET.format(blocks="nn.Identity()", count=1) + "model(torch.ones(2, 4))\n"


SIZES: dict[str, Callable[[], str]] = {
    "30 frames x 50 locals, 1,600 lines": deep,
    "one frame in a file of 30,000 lines": long_file,
    "a model of 10,000 modules": lambda: (
        NET.format(blocks="nn.Sequential(nn.Identity(), nn.Identity())", count=3330)
        + "model(torch.ones(2, 4))\n"
    ),
    "200,000 parameters": lambda: (
        "import torch\nfrom torch import nn\none = nn.Parameter(torch.ones(1))\n"
        "rest = [nn.ParameterList([one] * 200) for _ in range(1000)]\n"
        "model = nn.Sequential(nn.Linear(4, 4), *rest)\n"
        "x = torch.ones(2, 4, device='meta')\nmodel(x)\n"
    ),
    "locals of a million items": lambda: (
        "import torch\n\ndef step(batch, index):\n    return batch[3] + torch.ones(3, device='meta')\n\n"
        "one = torch.ones(3)\nstep([one] * 1_000_000, dict.fromkeys(range(1_000_000), 1))\n"
    ),
    "1,000 frames of recursion": lambda: (
        "import sys, torch\nsys.setrecursionlimit(3000)\n"
        "def down(n, x, y):\n    if n == 0:\n        return x + y\n    return down(n - 1, x, y)\n"
        "down(1000, torch.ones(3), torch.ones(3, device='meta'))\n"
    ),
}


def failure(text: str, folder: Path) -> BaseException:
    path = folder / "script.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    try:
        exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    except RuntimeError as exc:
        assert exc.__traceback__ is not None
        exc.__traceback__ = exc.__traceback__.tb_next
        return exc
    raise AssertionError("the script did not fail")


# -- the tools ---------------------------------------------------------------------------------------------------


def plain(exc: BaseException) -> object:
    import traceback

    return "".join(traceback.format_exception(exc))


def ours(exc: BaseException) -> object:
    from whydevice.explain import explain
    from whydevice.render import terminal

    found = explain(exc)
    assert found is not None and found.culprit is not None
    terminal.write(found, out := io.StringIO(), "never")
    return out.getvalue()


def analysis(exc: BaseException) -> object:
    from whydevice.explain import explain

    return explain(exc)


def with_rich(exc: BaseException) -> object:
    from rich.console import Console
    from rich.traceback import Traceback

    console = Console(file=io.StringIO(), width=100)
    console.print(Traceback.from_exception(type(exc), exc, exc.__traceback__, show_locals=True))
    return console.file


def with_stackprinter(exc: BaseException) -> object:
    import stackprinter

    return stackprinter.format(exc)


def with_stack_data(exc: BaseException) -> object:
    import stack_data

    return list(stack_data.Formatter(show_variables=True).format_exception(exc))


def with_ipython(exc: BaseException) -> object:
    from IPython.core.ultratb import VerboseTB

    return VerboseTB(theme_name="nocolor", include_vars=True).text(type(exc), exc, exc.__traceback__)


def with_friendly(exc: BaseException) -> object:
    from friendly_traceback.core import FriendlyTraceback

    made = FriendlyTraceback(type(exc), exc, exc.__traceback__)
    made.compile_info()
    return made.info


TOOLS: dict[str, tuple[str, Render]] = {
    "plain traceback": ("traceback", plain),
    "whydevice": ("whydevice", ours),
    "rich": ("rich", with_rich),
    "stackprinter": ("stackprinter", with_stackprinter),
    "stack_data": ("stack_data", with_stack_data),
    "IPython ultratb": ("IPython", with_ipython),
    "friendly_traceback": ("friendly_traceback", with_friendly),
}


# -- measuring ---------------------------------------------------------------------------------------------------


def clocked(call: Callable[[], object]) -> float:
    """Milliseconds of CPU time."""
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1000


def forked(work: Callable[[], Any]) -> Any:
    """The result of `work` in a forked process; None when it was stopped, or failed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else None


def figures(text: str, render: Render, limit: float) -> tuple[float, float] | None:
    """(first, again) in milliseconds."""

    def work() -> Any:
        import gc

        with tempfile.TemporaryDirectory() as folder:
            exc = failure(text, Path(folder))
            # A fork of this process begins with all that it has made: the collector must not walk it meanwhile.
            gc.collect()
            gc.freeze()
            stop = int(time.process_time() + limit) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (stop, stop))
            first = clocked(lambda: render(exc))
            # The CPU clock ticks coarsely on some machines: a quick one is repeated until it shows.
            if first > 1000:
                return first, first
            times = min(50, max(1, int(SPAN / max(first, 1))))
            return first, clocked(lambda: [render(exc) for _ in range(times)]) / times

    return forked(work)


def rounds(text: str, tools: dict[str, Render], limit: float) -> dict[str, tuple[float, float] | None]:
    """(first, again) of each tool: in the median, where it is quick enough to be measured several times."""
    taken: dict[str, list[tuple[float, float] | None]] = {tool: [] for tool in tools}
    for _ in range(ROUNDS):
        for tool, render in tools.items():
            if all(each is not None and each[0] < SPAN for each in taken[tool]):
                taken[tool].append(figures(text, render, limit))
    found: dict[str, tuple[float, float] | None] = {}
    for tool, measured in taken.items():
        done = [each for each in measured if each is not None]
        whole = len(done) == len(measured)
        found[tool] = (
            (statistics.median(f for f, _ in done), statistics.median(a for _, a in done)) if whole else None
        )
    return found


def fresh(code: str, times: int = 25) -> tuple[float, float]:
    """Milliseconds of CPU time that `code` takes in new processes: the median and the least of many."""
    text = f"import time; t = time.process_time()\n{code}\nprint((time.process_time() - t) * 1000)"
    env = os.environ | {"PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": ""}
    done = [
        subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True)
        for _ in range(times)
    ]
    taken = [float(each.stdout.split()[-1]) for each in done]
    return statistics.median(taken), min(taken)


OTHER_ERROR = """
import sys, io, traceback
sys.modules["torch"] = type(sys)("torch")
import whydevice.guard
def f(n):
    if n: return f(n - 1)
    raise ValueError("no such key: 'lr'")
try: f(30)
except ValueError as e: exc = e
whydevice.guard.tidy(exc), whydevice.guard.show(exc)
t = time.process_time()
for _ in range(1000): whydevice.guard.tidy(exc), whydevice.guard.show(exc)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10, help="seconds for one tool on one size")
    parser.add_argument("--only", default="", help="sizes whose name contains this")
    options = parser.parse_args()

    # Compiled once, as an installation has it.
    compileall.compile_dir(str(SRC), quiet=2)
    importing = fresh("import whydevice")
    other = fresh(OTHER_ERROR, 7)

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        failure(
            "import torch\ntorch.ones(1) + torch.ones(1, device='meta')\n", Path(folder)
        )  # what torch loads for it
    tools = {name: render for name, (module, render) in TOOLS.items() if find_spec(module)}
    sizes = {name: make() for name, make in SIZES.items() if options.only in name}
    table: dict[str, dict[str, tuple[float, float] | None]] = {}
    looked: dict[str, tuple[float, float] | None] = {}
    for size, text in sizes.items():
        found = rounds(text, {**tools, "": analysis}, options.limit)
        print(f"{size}: {found}", file=sys.stderr, flush=True)
        looked[size] = found.pop("")
        table[size] = found

    budgets(importing, other, looked, table, options.limit)
    comparison(table, tools, options.limit)
    for name in sorted(set(TOOLS) - set(tools)):
        print(f"\n{name} is not installed here.")


def budgets(
    importing: tuple[float, float], other: tuple[float, float], looked: Any, table: Any, limit: float
) -> None:
    print("| what | budget | measured |\n|---|---|---|")
    print(f"| `import whydevice`, median (least) of 25 | 5 ms | {importing[0]:.1f} ({importing[1]:.1f}) ms |")
    print(f"| an error that is not ours | 0.1 ms | {other[0] / 1000:.4f} ms |")
    for size, found in looked.items():
        if found is not None and table[size]["whydevice"] is not None:
            first = table[size]["whydevice"][0]
            print(f"| {size}: first, with imports and printing | 150 ms | {first:.0f} ms |")
            print(f"| {size}: analysis | 50 ms | {found[1]:.0f} ms |")
    for tool, times in (("rich", 5), ("stackprinter", 1)):
        ratios = [
            (least(row[tool], limit) / row["whydevice"][0], size, row[tool] is None)
            for size, row in table.items()
            if tool in row and row["whydevice"]
        ]
        if ratios:
            low, size, cut = min(ratios)
            more = "over " if cut else ""
            print(
                f"| first, against {tool}, at the worst size ({size}) | {times} times | {more}{low:.1f} times |"
            )


def least(found: tuple[float, float] | None, limit: float) -> float:
    """Milliseconds of the first time; of a tool that was stopped, those after which it was."""
    return found[0] if found is not None else limit * 1000


def comparison(table: Any, tools: Any, limit: float) -> None:
    print("\n| size | " + " | ".join(tools) + " |\n|---" * 1 + "|---" * len(tools) + "|")
    for size, row in table.items():
        cells = []
        for tool in tools:
            found = row[tool]
            cells.append(f"over {limit:.0f} s" if found is None else f"{found[0]:.0f} / {found[1]:.0f}")
        print(f"| {size} | " + " | ".join(cells) + " |")
    print("\nMilliseconds of CPU time: the first time, with imports / again (over a second: once).")


if __name__ == "__main__":
    main()
