"""The command line: read the options, run the script, then do with its explanations what was asked."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from . import guard, run
from .options import HELP, Options, UsageError, for_ranks, parse

if TYPE_CHECKING:
    from .types import Explanation


def main(argv: list[str] | None = None) -> None:
    """Entry of `python -m whydevice` and of the console script. Raises SystemExit if the script fails."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        run.stop(str(error))
    guard.settings.color = options.color
    try:
        _dispatch(options)
    except run.NotRunnable as error:
        run.stop(str(error))


def _dispatch(options: Options) -> None:
    if options.help:
        print(HELP)
    elif options.version:
        print(f"whydevice {_version()}")
    elif options.explain is not None:
        _page(options.explain)
    elif options.enable_site or options.disable_site:
        from .catch import site

        print(site.enable() if options.enable_site else site.disable())
    elif (options.fix or options.diff) and options.simulate_cuda is not None:
        from . import fixloop

        _check_target(options)
        sys.exit(fixloop.loop(options))
    else:
        _run(options)


def _version() -> str:
    from . import __version__

    return __version__


def _page(name: str) -> None:
    from . import causes
    from .render import pages

    if not name:
        print(pages.listing(causes.all_causes()))
        return
    cause = causes.by_name(name)
    if cause is None:
        import difflib

        near = difflib.get_close_matches(name, [each.name for each in causes.all_causes()], 1)
        hint = f"the nearest is {near[0]}" if near else "--explain lists them"
        run.stop(f"no cause is called {name!r}; {hint}")
    print(pages.page(cause))


def _check_target(options: Options) -> bytes:
    """The script's source, once all that could be wrong with the command line was looked at."""
    try:
        source = b"" if options.script is None else run.read_script(options.script)
    except run.NotRunnable as error:
        if options.simulate_cuda is not None and (options.script or "").isdigit():
            raise run.NotRunnable(f"{error}; the option is --simulate-cuda={options.script}") from None
        raise
    if (options.fix or options.diff) and options.simulate_cuda is None and _launches(options):
        raise run.NotRunnable("under a launcher --fix and --diff need --simulate-cuda")
    if (options.fix or options.diff) and _is_one_of_several():
        # Each rank would write the same files, and run the result as one rank of its own.
        raise run.NotRunnable(
            "in a rank there is no --fix or --diff: give them before the launcher "
            "(python -m whydevice --simulate-cuda --fix -m torch.distributed.run ... script.py)"
        )
    if options.json not in (None, "-"):
        options.json = os.path.abspath(options.json)
        if _is_first():
            _write_json(options.json, [])
    return source


def _launches(options: Options) -> bool:
    """True when what is to run starts the ranks of a distributed run: the explanations are made in them."""
    from .catch import launchers

    return launchers.is_launcher(options.module, options.script)


def _is_one_of_several() -> bool:
    """True in a rank of a distributed run of more than one process."""
    if not guard.launched():
        return False
    from .catch import ranks

    return ranks.rank() is not None


def _is_first() -> bool:
    """False for a rank other than the first: they write one file, and the others must not empty it."""
    if not guard.launched():
        return True
    from .catch import ranks

    return ranks.number() in (None, 0)


def _run(options: Options) -> None:
    if options.overlay is not None:
        from .source import overlay

        overlay.load(options.overlay)
    source = _check_target(options)
    found: list[Explanation] = []
    if guard.enabled():
        from .catch import install, wants_everywhere

        guard.listeners.append(found.append)
        if options.json not in (None, "-"):
            path = options.json
            guard.listeners.append(lambda _: _write_json(path, found))
        if options.outcome is not None and not _launches(options):
            _leave_outcome(options.outcome, found)
        install(everywhere=wants_everywhere())
    stack = ExitStack()
    # Registered before any handler of the script, so that it runs after all of them.
    atexit.register(_finish, options, found, stack, os.getpid())
    if options.simulate_cuda is not None:
        from .simulate import simulate_cuda

        stack.enter_context(simulate_cuda(options.simulate_cuda, traffic=options.traffic))
    if options.trace:
        from .evidence.tracing import Tracing

        stack.enter_context(Tracing())
    if guard.enabled():
        from .catch import children, launchers

        settings = {"color": options.color, "devices": options.simulate_cuda or 0, "overlay": options.overlay}
        children.plant(settings)
        if _launches(options):
            launchers.hand_on(for_ranks(options))
    if options.module is not None:
        run.module(options.module, options.args)
    else:
        assert options.script is not None
        run.script(options.script, source, options.args)


def _leave_outcome(path: str, found: list[Explanation]) -> None:
    """Tell the `--fix` that started this process how it ends, as soon as it is known: it may end hard."""
    from . import outcome

    ending = outcome.Outcome(found)

    def explained(_: Explanation) -> None:
        outcome.write(path, ending)

    def failed(exc: BaseException) -> None:
        ending.failure = outcome.failure_of(exc)
        outcome.write(path, ending)

    guard.listeners.append(explained)
    run.witnesses.append(failed)


def _finish(options: Options, found: list[Explanation], stack: ExitStack, pid: int) -> None:
    """What is due after the script has ended. A forked child that ends by itself owes nothing."""
    now, failure = guard.attempt(os.getpid)
    if failure is None and now != pid:
        return
    for step in (stack.close, lambda: _simulation_report(options), lambda: _output(options, found)):
        _, failure = guard.attempt(step)
        if failure is not None:
            guard.complain(failure)


def _simulation_report(options: Options) -> None:
    if options.simulate_cuda is None:
        return
    from . import simulate

    texts = [simulate.report(), simulate.traffic_report() if options.traffic else ""]
    for text in texts:
        if text:
            print(text, file=sys.stderr, flush=True)


def _output(options: Options, found: list[Explanation]) -> None:
    if _launches(options):
        return
    if options.json == "-":
        from .render.json import document

        print(document(found), file=sys.__stdout__, flush=True)
    elif options.json is not None and (found or not guard.launched()):
        _write_json(options.json, found)
    if options.diff or options.fix:
        from . import fixloop

        fixloop.once(options, found)


def _write_json(path: str, found: list[Explanation]) -> None:
    from .render.json import write
    from .signals import held

    try:
        with held():
            write(path, found)
    except OSError as error:
        raise run.NotRunnable(f"cannot write {path}: {error.strerror or error}") from None
