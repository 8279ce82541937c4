"""One running simulation: puts the patches in, activates the mode in each thread, takes everything out again."""

from __future__ import annotations

from typing import Any

from . import (
    amp_patches,
    autograd_patches,
    composite_patches,
    cuda_surface,
    factory_patches,
    legacy_patches,
    mode,
    nn_patches,
    parallel_patches,
    runtime_patches,
    script_patches,
    tensor_patches,
)
from .patching import Patches
from .state import STATE

_INSTALLED: tuple[Any, ...] = (
    tensor_patches,
    factory_patches,
    composite_patches,
    autograd_patches,
    nn_patches,
    cuda_surface,
    amp_patches,
    legacy_patches,
    parallel_patches,
    script_patches,
)


class Session:
    """Made by the outermost `simulate_cuda`."""

    def __init__(self, traffic: Any = None) -> None:
        self.patches = Patches()
        self.traffic = traffic

    def start(self) -> None:
        STATE.session = self
        try:
            for module in _INSTALLED:
                module.install(self.patches)
            runtime_patches.install(self.patches, mode.new_mode)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        mode.forget()
        self.patches.undo()
        STATE.session = None
