"""IPython and Jupyter: IPython prints as always, our block comes after it.

IPython catches everything itself, so sys.excepthook is never reached. We take no exception from it
either: an event after each cell looks at what the cell raised. So `%debug`, `%tb`, `%xmode`, `%run`,
`%%time` and other tools' handlers (`set_custom_exc` holds only one) work as before.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import guard
from ..types import Explanation, Fix

_OURS = "_whydevice"
"""The shell keeps its watcher: embedded shells come and go, and what they hold must not stay."""


class _Watcher:
    """The event handlers of one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.before = id(_last_error())
        self.shown_by = shell.showtraceback

    def load(self) -> None:
        self.shell.events.register("pre_run_cell", self.pre_run_cell)
        self.shell.events.register("post_run_cell", self.post_run_cell)
        self.shell.register_magic_function(self.why, "line", "why")
        self.shell.showtraceback = self.showtraceback

    def unload(self) -> None:
        self.shell.events.unregister("pre_run_cell", self.pre_run_cell)
        self.shell.events.unregister("post_run_cell", self.post_run_cell)
        self.shell.magics_manager.magics["line"].pop("why", None)
        if self.shell.showtraceback == self.showtraceback:
            self.shell.showtraceback = self.shown_by

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The shell's own, without the entries of simulated CUDA in the traceback."""
        exc = exc_tuple[1] if type(exc_tuple) is tuple else sys.exc_info()[1]
        try:
            if isinstance(exc, BaseException):
                whole = exc.__traceback__
                guard.tidy(exc)
                if type(exc_tuple) is tuple and exc_tuple[2] is whole:
                    exc_tuple = (exc_tuple[0], exc, exc.__traceback__)
                whole = None
            return self.shown_by(exc_tuple, *args, **kwargs)
        finally:
            del exc, exc_tuple

    def pre_run_cell(self, info: Any = None) -> None:
        self.before = id(_last_error())

    def post_run_cell(self, result: Any = None) -> None:
        exc = getattr(result, "error_in_exec", None)
        try:
            if exc is None and id(_last_error()) != self.before:
                # `%run` and `%%time` print the error themselves and let the cell pass.
                exc = _last_error()
            self.show(exc)
        finally:
            del exc, result

    def show(self, exc: object, *, again: bool = False) -> bool:
        return guard.show(exc, self._write, again=again)

    def _write(self, explanation: Explanation) -> None:
        named = with_cell_names(explanation, self.shell.compile, _written(self.shell))
        if hasattr(self.shell, "kernel"):
            from IPython.display import display

            from ..render import html, plain

            # A front end takes the richest form that it can show.
            publish: Any = display
            publish({"text/plain": plain.text(named), "text/html": html.html(named)}, raw=True)
        else:
            from ..render import terminal

            # IPython writes its tracebacks to stdout; so that the order holds, so do we.
            terminal.write(named, sys.stdout, guard.settings.color)

    def why(self, line: str = "") -> None:
        """Explain the last error again."""
        exc = _last_error()
        try:
            if exc is None:
                print("whydevice: no error to explain yet")
            elif not self.show(exc, again=True):
                print(f"whydevice: the last error, {type(exc).__name__}, is not a device error")
        finally:
            del exc


def _last_error() -> BaseException | None:
    """What IPython's own `%tb` and `%debug` go by."""
    return getattr(sys, "last_value", None)


def running_shell() -> Any:
    """The IPython shell of this process, if there is one; IPython is not imported for this."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext whydevice`. A second time does no harm."""
    if _OURS not in vars(shell):
        vars(shell)[_OURS] = _Watcher(shell)
        vars(shell)[_OURS].load()


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext whydevice`."""
    watcher = vars(shell).pop(_OURS, None)
    if watcher is not None:
        watcher.unload()


def install() -> None:
    """Watch the running shell, if there is one."""
    shell = running_shell()
    if shell is not None:
        load_ipython_extension(shell)


def uninstall() -> None:
    shell = running_shell()
    if shell is not None:
        unload_ipython_extension(shell)


def _written(shell: Any) -> list[str]:
    """What the user typed into each cell, by its number."""
    typed = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    return typed if isinstance(typed, list) else []


def with_cell_names(explanation: Explanation, compiler: Any, written: list[str]) -> Explanation:
    """The explanation with the files of cells named as the user sees them: `cell [3]`.

    A fix of a cell gets the cell's new text, made from what was written into it.
    """

    def named(file: str | None) -> Any:
        name = compiler.format_code_name(file) if file and hasattr(compiler, "format_code_name") else None
        return f"cell {name[1].removeprefix('In')}" if name else file

    def places(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(item._replace(file=named(item.file)) for item in items)

    def in_cells(fix: Fix) -> Fix:
        from ..edits import cell_text

        cells = []
        for file in dict.fromkeys(edit.file for edit in fix.edits):
            name, ran = named(file), explanation.sources.get(file)
            if name == file or ran is None:
                continue
            number = name.removeprefix("cell [").removesuffix("]")
            typed = written[int(number)] if number.isdigit() and int(number) < len(written) else None
            text = cell_text(fix.edits, file, ran, typed)
            if text is not None:
                cells.append((name, text))
        if not cells:
            return fix._replace(edits=places(fix.edits))
        return fix._replace(edits=places(fix.edits), diff="", cells=tuple(cells))

    return explanation._replace(
        culprit=explanation.culprit and explanation.culprit._replace(file=named(explanation.culprit.file)),
        root=explanation.root and explanation.root._replace(file=named(explanation.root.file)),
        trail=places(explanation.trail),
        operands=places(explanation.operands),
        also=places(explanation.also),
        fixes=tuple(in_cells(fix) for fix in explanation.fixes),
        sources={named(file): text for file, text in explanation.sources.items()},
    )
