"""One running simulation: puts the patches in, activates the mode in each thread, takes everything out again."""

from __future__ import annotations

from typing import Any

import torch

from . import (
    amp_patches,
    autograd_patches,
    composite_patches,
    cuda_surface,
    device_patches,
    distributed_patches,
    exchange_patches,
    factory_patches,
    fake_patches,
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
from .traffic import Traffic, note_print

_INSTALLED: tuple[Any, ...] = (
    device_patches,
    tensor_patches,
    factory_patches,
    composite_patches,
    autograd_patches,
    nn_patches,
    cuda_surface,
    amp_patches,
    legacy_patches,
    parallel_patches,
    distributed_patches,
    exchange_patches,
    script_patches,
    fake_patches,
)


class Session:
    """Made by the outermost `simulate_cuda`."""

    def __init__(self, traffic: bool = False) -> None:
        self.patches = Patches()
        self.traffic = Traffic() if traffic else None

    def start(self) -> None:
        STATE.session = self
        STATE.traffic = self.traffic
        try:
            for module in _INSTALLED:
                _install(module, self.patches)
            if self.traffic is not None:
                for name in ("__repr__", "tolist"):
                    self.patches.wrap(torch.Tensor, name, _noted)
            runtime_patches.install(self.patches, mode.new_mode)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        mode.forget()
        self.patches.undo()
        STATE.session = None


def _install(module: Any, patches: Patches) -> None:
    """Put a module's patches in. Raises RuntimeError that names the torch whose inside is another than they expect."""
    try:
        module.install(patches)
    except Exception as error:
        part = module.__name__.rpartition(".")[2]
        raise RuntimeError(
            f"whydevice cannot simulate CUDA in torch {torch.__version__}: {part} meets {type(error).__name__}: {error}"
        ) from error


def _noted(original: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        note_print(self)
        return original(self, *args, **kwargs)

    return method
