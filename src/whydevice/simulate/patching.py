"""Set attributes, remember what was there, put it all back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """A stack of replaced attributes. `undo` restores them in reverse order, whatever happened in between."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._entries: list[tuple[dict[int, str], int, Any]] = []
        self._last: list[Callable[[], object]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner.name`; returns what an access found before (None when there was nothing)."""
        # What the owner itself holds, not what it inherits: an inherited attribute is restored by deleting
        # ours.
        own = vars(owner).get(name, _ABSENT) if hasattr(owner, "__dict__") else getattr(owner, name, _ABSENT)
        before = getattr(owner, name, None)
        setattr(owner, name, value)
        self._undo.append((owner, name, own))
        return before

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`, when the installed torch has it."""
        original = getattr(owner, name, None)
        if original is not None:
            self.set(owner, name, make(original))

    def stand_in(self, original: Any, wrapper: Any) -> Any:
        """Let `wrapper` pass for a builtin function: its name, module and text, and its place in TorchScript's table.

        TorchScript finds builtins by the identity of the function; the entry goes with the patch, before the
        address can belong to something else.
        """
        wrapper.__name__ = getattr(original, "__name__", "function")
        wrapper.__module__ = getattr(original, "__module__", None) or "torch._C"
        wrapper.__doc__ = original.__doc__
        wrapper.__wrapped__ = original
        from torch.jit._builtins import _get_builtin_table

        table: dict[int, str] = _get_builtin_table()  # type: ignore[no-untyped-call]
        if id(original) in table:
            table[id(wrapper)] = table[id(original)]
            self._entries.append((table, id(wrapper), wrapper))
        return wrapper

    def undo_with(self, call: Callable[[], object]) -> None:
        """Have `undo` make this call too."""
        self._last.append(call)

    def undo(self) -> None:
        while self._last:
            self._last.pop()()
        while self._entries:
            table, key, _ = self._entries.pop()
            table.pop(key, None)
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _ABSENT:
                if name in vars(owner):
                    delattr(owner, name)
            else:
                setattr(owner, name, value)
