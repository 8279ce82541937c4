"""Which tests have to run in one process of pytest-xdist, because a later one looks at what an earlier one did."""

from __future__ import annotations

import re

FIXTURE = re.compile(r"test_fixtures\.py::\w+\[(.+)\]$")
"""Each fixture's script runs once, for several tests (test_fixtures.Runs)."""
FILES = {
    "test_programs.py": "programs",  # the last test counts what the others saw
    "test_simulate_rules.py": "op_db",  # PyTorch's own database of operators takes seconds to load
    "test_cuda_ops.py": "op_db",
}


def group_of(nodeid: str) -> str:
    """The name of the tests that share a process with this one; its own id where it is alone."""
    found = FIXTURE.search(nodeid)
    if found:
        return found[1]
    return FILES.get(nodeid.partition("::")[0].rpartition("/")[2], nodeid)
