"""Run a script or module as `__main__`, so that it sees what plain `python` would show it.

An uncaught exception goes through sys.excepthook as the interpreter would send it, without our frames; the
exit status is the one that plain `python` would end with.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, SourceFileLoader
from types import CodeType, ModuleType
from typing import NoReturn

from . import guard

witnesses: list[Callable[[BaseException], None]] = []
"""Called with an uncaught exception, without our frames, before it is printed."""


class NotRunnable(Exception):
    """The script cannot be run at all; the text is the line to print."""


def read_script(path: str) -> bytes:
    """The bytes of a script. Raises NotRunnable for what no Python can run."""
    if os.path.isdir(path):
        raise NotRunnable(f"{path} is a directory, not a script")
    overlay = sys.modules.get("whydevice.source.overlay")
    stands_in: bytes | None = overlay.bytes_of(path) if overlay is not None else None
    if stands_in is not None:
        return stands_in
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except FileNotFoundError:
        raise NotRunnable(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise NotRunnable(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if not _is_text(source):
        raise NotRunnable(f"{path} is not Python source")
    return source


def _is_text(source: bytes) -> bool:
    import tokenize

    if b"\0" in source:
        return False
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        source.decode(encoding)
    except UnicodeDecodeError:
        return False
    except SyntaxError as error:
        # A cookie that names no encoding is the script's own error; bytes that are no UTF-8 are no Python.
        return "unknown encoding" in str(error)
    return True


def script(path: str, source: bytes, args: list[str]) -> None:
    """Run `source` as `python path args` would. Raises SystemExit or KeyboardInterrupt if it fails."""
    full = _absolute(path)
    if not getattr(sys.flags, "safe_path", False) and sys.path:
        sys.path[0] = os.path.dirname(os.path.realpath(full))
    sys.argv[:] = [path, *args]
    main = _fresh_main()
    main.__file__ = full
    main.__loader__ = SourceFileLoader("__main__", full)
    main.__cached__ = None  # type: ignore[attr-defined]
    code, failure = guard.attempt(_compile, source, full)
    if failure is None:
        assert code is not None
        _deepen(calls=2)
        _as_python(exec, code, main.__dict__)
    else:
        _as_python(_fail, failure)


def module(name: str, args: list[str]) -> None:
    """Run a module as `python -m name args` would. Raises NotRunnable when there is none of that name."""
    import runpy

    sys.argv[:] = ["-m", *args]
    if not getattr(sys.flags, "safe_path", False) and sys.path:
        sys.path[0] = os.getcwd()
    _fresh_main()
    _deepen(calls=1)
    try:
        # The very function that `python -m` calls: its two frames belong in the traceback.
        _as_python(runpy._run_module_as_main, name)  # type: ignore[attr-defined]
    except SystemExit as failure:
        if _raised_by_runpy(failure):
            raise NotRunnable(str(failure.code).partition(": ")[2]) from None
        raise


def _compile(source: bytes, path: str) -> CodeType:
    return compile(source, path, "exec", dont_inherit=True)


def _fail(failure: BaseException) -> NoReturn:
    raise failure


def _absolute(path: str) -> str:
    """`path` made absolute as the interpreter does it: joined, not normalised."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _fresh_main() -> ModuleType:
    """A new `__main__`, as the interpreter makes it, in place of ours."""
    main = ModuleType("__main__")
    vars(main).update(__builtins__=builtins, __loader__=BuiltinImporter)
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    sys.modules["__main__"] = main
    return main


def _deepen(calls: int) -> None:
    """Raise the recursion limit by the frames below the script that plain `python` does not have.

    A runaway recursion then ends, and prints, as it would without us. `calls` is the number of calls of
    `exec` among them, which counted too before 3.12.
    """
    depth, frame = 0, sys._getframe()  # this frame stands for the one of `_as_python`
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    if sys.version_info < (3, 12):
        depth += calls
    sys.setrecursionlimit(sys.getrecursionlimit() + depth)


def _raised_by_runpy(failure: SystemExit) -> bool:
    """True when runpy itself found no module, rather than the module ending in SystemExit."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_name == "_run_module_as_main"


class _Ending:
    """What a script failed of, and how far that was told."""

    failure: BaseException | None = None
    printing = False  # the hook that prints the traceback was called
    by_ctrl_c = False


def _as_python(function: Callable[..., object], *args: object) -> None:
    """Call it, and leave as plain `python` leaves after it.

    A Ctrl-C is raised where a function begins or one of C returns, also when the script has failed already. All such
    places are in a `try` of this very frame, so that the traceback is printed in any case, and once.
    """
    ending = _Ending()
    try:
        function(*args)
    except BaseException as failure:
        ending.failure = failure
    try:
        if ending.failure is None:
            return
        try:
            _tell(ending)
        except BaseException as meanwhile:
            _came_between(meanwhile, ending)
        if ending.by_ctrl_c:
            # The interpreter ends itself by SIGINT when this reaches it. It is printed already.
            sys.excepthook = _is_printed
            raise ending.failure
        sys.exit(1)
    finally:
        ending.failure = None


def _is_printed(*_: object) -> None:
    """An excepthook."""


def _tell(ending: _Ending) -> None:
    assert ending.failure is not None
    if isinstance(ending.failure, SystemExit):
        raise ending.failure
    ending.by_ctrl_c = isinstance(ending.failure, KeyboardInterrupt)
    uncaught(ending.failure, ending)


def _came_between(meanwhile: BaseException, ending: _Ending) -> None:
    """Go on after a Ctrl-C between two steps; or end by the SystemExit that the script, or a hook of it, raised."""
    if not ending.printing and meanwhile is not ending.failure:
        _tell(ending)
    if isinstance(meanwhile, SystemExit):
        raise meanwhile
    guard.complain(meanwhile)


def uncaught(exc: BaseException, ending: _Ending) -> None:
    """Send `exc` through sys.excepthook as the interpreter does (`_PyErr_PrintEx` in pythonrun.c).

    `ending` is told when the hook is called.
    """
    guard.tidy(exc)
    for witness in witnesses:
        guard.attempt(witness, exc)
    for stream in (sys.stderr, sys.stdout):
        guard.attempt(lambda stream=stream: stream.flush())
    sys.last_type, sys.last_value, sys.last_traceback = type(exc), exc, exc.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = exc
    if not hasattr(sys, "excepthook"):
        print("sys.excepthook is missing", file=sys.stderr)
    hook = getattr(sys, "excepthook", sys.__excepthook__)
    sys.audit("sys.excepthook", hook, type(exc), exc, exc.__traceback__)
    kind, trace, failed = type(exc), exc.__traceback__, None
    ending.printing = True
    try:
        hook(kind, exc, trace)
    except BaseException as failure:
        failed = failure
    if failed is not None:
        _hook_failed(failed, exc)
    # A hook that never called ours: the script replaced it.
    guard.show(exc)


def _hook_failed(failure: BaseException, exc: BaseException) -> None:
    if isinstance(failure, SystemExit):
        raise failure
    guard.tidy(failure)
    print("Error in sys.excepthook:", file=sys.stderr)
    sys.__excepthook__(type(failure), failure, failure.__traceback__)
    print("\nOriginal exception was:", file=sys.stderr)
    sys.__excepthook__(type(exc), exc, exc.__traceback__)


def stop(line: str) -> NoReturn:
    """One clear line on stderr, exit status 2."""
    print(f"whydevice: {line}", file=sys.stderr)
    sys.exit(2)
