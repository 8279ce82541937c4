"""What a program calls: the public names, why() and watch()."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from processes import environment, outcome, run


def _run(folder: Path, text: str) -> Any:
    (folder / "script.py").write_text(textwrap.dedent(text))
    return run("script.py", cwd=folder, env=environment())


def test_public_names(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import sys
        import whydevice
        for heavy in ("torch", "rich", "stack_data", "dataclasses", "typing", "threading"):
            assert heavy not in sys.modules, heavy
        import whydevice.explain
        assert not isinstance(whydevice.explain, type(sys))
        assert whydevice.explain(ValueError("x")) is None
        for name in whydevice.__all__:
            assert getattr(whydevice, name) is not None, name
        assert set(whydevice.__all__) <= set(dir(whydevice))
        try:
            whydevice.nothing
        except AttributeError as error:
            assert "nothing" in str(error)
        """,
    )
    assert outcome(done) == ("", "", 0)


def test_why_explains_the_last_error_again(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import sys, torch, whydevice
        try:
            whydevice.why()
        except RuntimeError as error:
            print(error)
        try:
            torch.empty(3, device="meta").numpy()
        except TypeError as exc:
            sys.last_value = exc
        whydevice.why()
        whydevice.why()
        sys.last_value = ValueError()
        whydevice.why()
        """,
    )
    assert done.stdout == "no uncaught error to explain: sys.last_exc is not set\n"
    assert ("\n" + done.stderr).count("\nwhydevice: ") == 3
    assert "not a device error" in done.stderr


def test_watch_explains_once_and_re_raises(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """\
        import asyncio, torch, whydevice
        def bad():
            torch.empty(3, device="meta").numpy()
        watched = whydevice.watch()(bad)
        @whydevice.watch()
        async def coroutine():
            bad()
        @whydevice.watch()
        def generator():
            got = yield 1
            assert got == 5
            yield from [2]
            bad()
        @whydevice.watch()
        async def agenerator():
            got = yield 1
            assert got == 5
            try:
                yield 2
            except KeyError:
                yield 3
            bad()
        def drive():
            it = generator()
            assert [next(it), it.send(5)] == [1, 2]
            next(it)
        async def adrive():
            it = agenerator()
            assert [await anext(it), await it.asend(5), await it.athrow(KeyError())] == [1, 2, 3]
            await anext(it)
        def nested():
            with whydevice.watch(), whydevice.watch():
                watched()
        calls = [watched, lambda: asyncio.run(coroutine()), drive, lambda: asyncio.run(adrive()), nested]
        for number, call in enumerate(calls):
            try:
                call()
            except TypeError as exc:
                print(number, type(exc).__name__)
        assert watched.__wrapped__ is bad
        with whydevice.watch():
            pass
        """,
    )
    assert done.stdout == "".join(f"{n} TypeError\n" for n in range(5))
    assert ("\n" + done.stderr).count("\nwhydevice: ") == 5
    assert "Traceback" not in done.stderr
