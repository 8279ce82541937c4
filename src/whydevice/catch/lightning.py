"""A callback for Lightning's Trainer: its teardown moves the module to the CPU before a hook is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .. import guard

if TYPE_CHECKING:
    _Callback = object
elif "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback as _Callback
else:
    from lightning.pytorch import Callback as _Callback


class WhyDevice(_Callback):
    """`Trainer(callbacks=[WhyDevice()])` explains a device error before the teardown."""

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Called by the Trainer with what it caught, before it re-raises it."""
        guard.show(exception)
