"""Which files are a library's, which are ours, and which are the user's."""

from __future__ import annotations

import os
import site
import sys
from functools import lru_cache

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


_KERNELS = ("_refs", "_prims", "_prims_common", "_decomp", "_meta_registrations.py")


def _library_roots() -> tuple[str, ...]:
    # Where `sysconfig` says too, without loading it: the other folders of its scheme are named site-packages.
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    roots = {os.path.dirname(os.__file__), os.path.join(sys.base_exec_prefix, sys.platlibdir, version)}
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch, "__file__", None):
        roots.add(os.path.dirname(str(torch.__file__)))
    roots.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    return tuple(os.path.realpath(root) + os.sep for root in roots)


_ROOTS: tuple[str, ...] = ()


@lru_cache(maxsize=1000)
def is_library(path: str) -> bool:
    """Whether a file is a library's: never edited, never the root when a line of the user's can be named."""
    global _ROOTS
    if path.startswith("<"):
        # A cell of IPython's has a name of its own; `<string>` and frozen modules are nobody's to edit.
        return path.startswith(("<frozen", "<__array_function__", "<torch", "<eval_with_key"))
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts or "transformers_modules" in parts:
        return True
    _ROOTS = _ROOTS or _library_roots()
    try:
        return os.path.realpath(path).startswith(_ROOTS)
    except ValueError:  # no path can have that name: a character that no file system encodes
        return False


def is_kernel(path: str) -> bool:
    """Whether a file computes PyTorch's operations in Python, below the dispatcher."""
    torch = sys.modules.get("torch")
    folder = os.path.dirname(str(getattr(torch, "__file__", None) or ""))
    return bool(folder) and path.startswith(tuple(os.path.join(folder, name) for name in _KERNELS))


def is_ours(path: str) -> bool:
    return path.startswith(_PACKAGE)
