"""TorchScript: its interpreter drops the text of a Python error, here that of a refused call.

On CUDA the same error comes from C++, and its text ends the message that the interpreter makes.
"""

from __future__ import annotations

from typing import Any

import torch

from .patching import Patches
from .state import STATE


def install(patches: Patches) -> None:
    for kind in (torch._C.ScriptMethod, torch._C.ScriptFunction):
        patches.wrap(kind, "__call__", _with_text)


def _with_text(original: Any) -> Any:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        STATE.thread.refused = None
        failure = None
        try:
            return original(self, *args, **kwargs)
        except RuntimeError as error:
            refused = STATE.thread.refused
            if refused is None or str(refused) in str(error):
                raise
            failure = type(error)(f"{str(error).rstrip()} {refused}\n")
        raise failure

    return __call__
