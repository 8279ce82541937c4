"""`watch`: explain what passes through a block or a function, where no hook would see it."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, TypeVar, cast

from .. import guard
from . import formatting

if guard.enabled():
    formatting.tidy()  # the wrappers below are among the entries of a watched function

F = TypeVar("F")


class watch:
    """Explain a device error that passes through, and let it go on untouched.

    A context manager, and a decorator of functions, coroutines and both kinds of generators:

        with whydevice.watch():
            train()

        @whydevice.watch()
        def handler(request): ...

    The explanation goes to sys.stderr, once for each exception, however many blocks it passes.
    """

    def __enter__(self) -> watch:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            guard.show(exc)
        finally:
            del exc, trace

    def __call__(self, function: F) -> F:
        if not callable(function):
            raise TypeError(f"watch() decorates a function, not {type(function).__name__}")
        if inspect.iscoroutinefunction(function):
            wrapper = self._coroutine(function)
        elif inspect.isasyncgenfunction(function):
            wrapper = self._async_generator(function)
        elif inspect.isgeneratorfunction(function):
            wrapper = self._generator(function)
        else:
            wrapper = self._function(function)
        functools.update_wrapper(wrapper, function)
        return cast(F, wrapper)

    def _function(self, function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapper

    def _coroutine(self, function: Any) -> Any:
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return wrapper

    def _generator(self, function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return (yield from function(*args, **kwargs))

        return wrapper

    def _async_generator(self, function: Any) -> Any:
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            # There is no `yield from` for these: what the consumer sends and throws is handed on by hand.
            inner = function(*args, **kwargs)
            try:
                with self:
                    step = inner.__anext__()
                    while True:
                        try:
                            value = await step
                        except StopAsyncIteration:
                            return
                        try:
                            sent = yield value
                        except Exception as thrown:
                            step = inner.athrow(thrown)
                        else:
                            step = inner.asend(sent)
            finally:
                await inner.aclose()

        return wrapper
