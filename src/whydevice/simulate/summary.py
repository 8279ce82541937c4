"""The summary at the end of a run: what was passed without being judged."""

from __future__ import annotations

from collections import Counter


def text(unjudged: Counter[tuple[str, str]]) -> str | None:
    """Lines for stderr, most frequent first; None when everything was judged."""
    if not unjudged:
        return None
    lines = ["whydevice: simulated CUDA could not judge these calls:"]
    for (op, why), times in sorted(unjudged.items(), key=lambda entry: (-entry[1], entry[0])):
        lines.append(f"  {op}: {times} call{'s' if times > 1 else ''}, {why}")
    return "\n".join(lines)
