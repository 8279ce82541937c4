"""A stand-in for the pipeline that takes its explanation from the error's text, to test the fix loop.

A script calls `need(name, value, *fixes)`: unless the value is "cuda", that raises a device error whose
explanation, with the place of the first as its root, proposes the fixes, each `(applicability, line, column, end_line, end_column, text)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from processes import environment, why

SITE = """\
import builtins, contextlib, json, sys, types

def fake(name, **names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)

def need(name, value, *fixes):
    if value != "cuda":
        frame = sys._getframe(1)
        place = frame.f_code.co_filename, frame.f_lineno
        raise RuntimeError("device " + json.dumps([name, value, *place, fixes]))

def explain(exc):
    from whydevice.types import Culprit, DeviceError, Edit, Environment, Explanation, Fix, Place
    text = str(exc)
    if not text.startswith("device ["):
        return None
    name, value, file, line, fixes = json.loads(text.removeprefix("device "))
    return Explanation(
        DeviceError("RuntimeError", text, "A1"), "certain", f"`{name}` is on {value}",
        Environment("3", "2", True),
        culprit=Culprit(name, value, "cuda", file, line),
        root=Place(file, fixes[0][1]) if fixes else None,
        trail=(Place(file, line),),
        fixes=tuple(Fix(f"move {name}", kind, (Edit(file, *edit),)) for kind, *edit in fixes),
    )

def write(explanation, stream, color):
    print("\\nwhydevice: " + explanation.headline, file=stream)

builtins.need = need
fake("torch", __version__="0")
fake("whydevice.explain", explain=explain)
fake("whydevice.render.terminal", write=write)
fake("whydevice.simulate", simulate_cuda=lambda n, traffic=False: contextlib.nullcontext(),
     report=lambda: None, traffic_report=lambda: None, active=lambda: 1)
"""


def fix(
    folder: Path, text: str, *options: str, args: tuple[str, ...] = (), text_mode: bool = True, site: str = ""
) -> Any:
    """The finished process of `whydevice --simulate-cuda --fix` on the script; it lies in `folder/work`. `site` runs first in it."""
    packages, work = folder / "site", folder / "work"
    packages.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    (packages / "sitecustomize.py").write_text(site + SITE)
    (work / "script.py").write_text(text)
    env = environment()
    env["PYTHONPATH"] = f"{packages}:{env['PYTHONPATH']}"
    options = options or ("--simulate-cuda", "--fix")
    reading = {"errors": "surrogateescape"} if text_mode else {"text": False}
    return why(*options, "script.py", *args, cwd=work, env=env, **reading)
