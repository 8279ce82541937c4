"""Fill the live objects of a failed run with hostile ones, then explain it again: the same words, no code run.

Run as a script on folders of fixtures, it forks for each and writes one JSON line: {case, calls, same, cut}.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src"), str(Path(__file__).resolve().parent)]

MOST = 4_000


def infest(exc: BaseException, specimens: dict[str, Any], behaviour: Any) -> int:
    """Put specimens into what the frames of the user hold: globals, attributes, containers, module trees."""
    import torch

    from hostile import text

    safe = {k: v for k, v in specimens.items() if not isinstance_of(v, torch.Tensor)}
    for each in ("a_list", "a_dict", "keyed"):
        safe.pop(each)  # these hold tensors, which would be evidence
    safe.pop("holder")
    seen: set[int] = set()
    count = 0
    todo: list[Any] = []
    trace: TracebackType | None = exc.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not frame.f_code.co_filename.startswith((sys.prefix, "<frozen")):
            for key, value in safe.items():
                frame.f_globals[f"hostile_{key}"] = value
            frame.f_globals[text("hostile_text", behaviour)] = safe["plain"]
            todo += list(frame.f_locals.values())
        trace = trace.tb_next
    while todo and count < MOST:
        value = todo.pop()
        if id(value) in seen or any(value is each for each in specimens.values()):
            continue
        seen.add(id(value))
        if type(value) is list:
            todo += value
            value += list(safe.values())
        elif type(value) is dict:
            todo += list(value.values())
            for key in ("plain", "of_meta"):
                value[safe[key]] = safe["plain"]
            value[text("hostile_text", behaviour)] = safe["plain"]
        elif issubclass(type(value), torch.nn.Module):
            own = value.__dict__
            todo += [*own.get("_modules", {}).values(), *(v for k, v in own.items() if not k.startswith("_"))]
            own.update({f"hostile_{key}": each for key, each in safe.items()})
            own[text("hostile_text", behaviour)] = safe["plain"]
        elif type(value).__module__ == "__main__" and type(getattr(value, "__dict__", None)) is dict:
            todo += list(value.__dict__.values())
            value.__dict__.update({f"hostile_{key}": each for key, each in safe.items()})
            value.__dict__[text("hostile_text", behaviour)] = safe["plain"]
        else:
            continue
        count += 1
    return count


def isinstance_of(value: Any, kind: type) -> bool:
    return issubclass(type(value), kind)


def _failure(folder: Path) -> BaseException | None:
    """The exception that a fixture's script ends in."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    if (folder / "site-packages").is_dir():
        sys.path.insert(0, str(folder / "site-packages"))
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(folder / "script.py"), __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.argv[:] = ["script.py"]
    try:
        exec(compile((folder / "script.py").read_bytes(), str(folder / "script.py"), "exec"), main.__dict__)
    except BaseException as exc:
        return exc
    return None


def examine(folder: Path) -> dict[str, Any]:
    """What infesting a fixture's failure changes: {calls, before, after}."""
    import hostile
    from whydevice import guard
    from whydevice.explain import explain
    from whydevice.simulate import simulate_cuda

    gpus = json.loads((folder / "case.json").read_text()).get("gpus") or 1
    simulation = simulate_cuda(gpus)
    simulation.__enter__()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exc = _failure(folder)
    if exc is None:
        return {"error": "did not fail"}
    guard.tidy(exc)
    before = explain(exc)
    kinds = list(hostile.Behaviour)
    behaviour = kinds[len(folder.name) % len(kinds)]
    filled = infest(exc, hostile.specimens(behaviour), behaviour)
    with hostile.armed() as calls:
        try:
            after = explain(exc)
        except BaseException as failure:
            return {"calls": calls, "error": f"{type(failure).__name__}: {failure}"}
    # The edits may differ: a literal that now holds other things is mended with more care.
    texts = [
        str({**each.to_dict(), "fixes": None}) if each is not None else "none" for each in (before, after)
    ]
    return {
        "calls": calls[:20],
        "filled": filled,
        "same": texts[0] == texts[1],
        "texts": texts,
        "behaviour": behaviour.value,
    }


def main(folders: list[str]) -> None:
    import numpy  # noqa: F401
    import torch._dynamo
    import torch.utils.data

    torch.set_num_threads(1)
    for name in folders:
        folder = Path(name).resolve()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            out = os.fdopen(os.dup(1), "w")
            found = examine(folder)
            print(json.dumps({"case": folder.name, **found}), file=out, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
