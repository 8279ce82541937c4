"""Fuzz with atheris (pip install atheris), from the corpus in this folder:

    python tests/fuzz/run.py messages -max_total_time=600
    python tests/fuzz/run.py edits -runs=1000000

Inputs that it finds go to build/fuzz/; one that fails belongs, made small, into corpus/ once it is mended.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

with atheris.instrument_imports(include=["whydevice"]):
    from targets import CORPUS, TARGETS


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"usage: run.py {'|'.join(TARGETS)} [libFuzzer options]")
    found = ROOT / "build" / "fuzz" / name
    found.mkdir(parents=True, exist_ok=True)
    # New inputs are written to the first folder; the second is only read.
    atheris.Setup([sys.argv[0], *sys.argv[2:], str(found), str(CORPUS / name)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
