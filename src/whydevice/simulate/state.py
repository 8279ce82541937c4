"""What is true of the simulation now: how many GPUs, which one is current, whether CUDA was initialised. No
torch here.

The current device belongs to the thread, as in CUDA, and starts at 0. Initialisation belongs to the
process: a forked child inherits that it happened and, like CUDA, must not touch a GPU any more.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import Any


class _Thread(threading.local):
    """Per thread: the index of the current device, and the last error that a check raised."""

    current = 0
    refused: str | None = None  # the text alone: the error itself would keep its frames alive
    # Inside torch.batch_norm, which picks cuDNN or PyTorch's own kernel.
    chooses_backend = False
    # How many calls of TorchScript functions are running.
    scripted = 0


class State:
    """The one record of the running simulation. `devices` is 0 while none is running."""

    def __init__(self) -> None:
        self.devices = 0
        self.initialised_by: int | None = None
        self.unjudged: Counter[tuple[str, str]] = Counter()
        self.said: set[str] = set()
        self.session: Any = None
        self.traffic: Any = None
        self.thread = _Thread()

    def begin(self) -> None:
        """Forget what an earlier simulation found."""
        self.unjudged.clear()
        self.said.clear()
        self.traffic = None
        self.initialised_by = None
        self.thread.current = 0

    def in_bad_fork(self) -> bool:
        """CUDA was initialised by a process of which this one is a fork."""
        return self.initialised_by is not None and self.initialised_by != os.getpid()

    def initialise(self) -> None:
        """What `torch.cuda._lazy_init` does: the first use of a GPU in a process."""
        if self.initialised_by is None:
            self.initialised_by = os.getpid()
        elif self.in_bad_fork():
            # torch/cuda/__init__.py, _lazy_init: the same text, the same type.
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                "multiprocessing, you must use the 'spawn' start method"
            )

    def count(self, op: str, what: str) -> None:
        """Note that `op` could not be judged, and why: said by op at the end."""
        self.unjudged[(op, what)] += 1


STATE = State()
