"""Which of the devices that disagree is the right one."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from ..messages import wanted_side
from . import values
from .evaluate import try_evaluate
from .infer import canonical
from .operands import flat

if TYPE_CHECKING:
    from .collect import Evidence


def devices_in_play(evidence: Evidence) -> list[str]:
    """The devices that disagree: those that the message names, else those of the operands."""
    named = [d for d in (canonical(d) for d in evidence.error.devices) if d is not None]
    found = Counter(dict.fromkeys(named, 10))
    for one in [*flat(evidence.inner), *flat(evidence.leaves)]:
        for device in one.devices():
            if len(set(named)) < 2 or device in named:
                found[device] += 1
    return [d for d, _ in found.most_common()]


def wanted_of(evidence: Evidence, devices: list[str]) -> tuple[str | None, str]:
    """(the device on which the operands should be, why: `Evidence.direction`); (None, "") where that cannot be told."""
    side = wanted_side(evidence.error)
    if evidence.error.family == "X1" and evidence.library is not None and "cpu" in devices:
        return "cpu", "assertion"
    if side == "cpu" and not evidence.error.family.startswith("F1"):
        return "cpu", "wording"
    if len(devices) < 2:
        return (None, "") if not devices else _wanted_alone(evidence, devices[0])
    kinds = {d.partition(":")[0] for d in devices}
    if "meta" in kinds:
        rest = [d for d in devices if not d.startswith("meta")]
        return (rest[0], "meta") if rest else (None, "")
    accelerators = [d for d in devices if d != "cpu"]
    if "cpu" in kinds and len(accelerators) == 1:
        return accelerators[0], "accelerator"
    return _between_gpus(evidence, accelerators or devices)


def _wanted_alone(evidence: Evidence, device: str) -> tuple[str | None, str]:
    """One device in play (a table on the CPU indexed by something unseen): the frames' accelerator is wanted."""
    if device != "cpu":
        return None, ""
    seen: Counter[str] = Counter()
    for scope in evidence.scopes:
        for value in list(scope.locals.values())[:200] if scope.frame is not None else []:
            if values.is_tensor(value):
                seen[values.device_of(value) or ""] += 1
            elif values.is_module(value):
                seen.update(values.module_devices(value))
    accelerators = [d for d, _ in seen.most_common() if d and d not in ("cpu", "meta")]
    return (accelerators[0], "majority") if accelerators else (None, "")


def _takes_result(evidence: Evidence) -> str | None:
    """The device of the module that would have been called with the result of the failing operation at once."""
    user, child = evidence.user, evidence.node
    if user is None or child is None:
        return None
    up = user.source.parent(child)
    if not isinstance(up, ast.Call) or child not in up.args:
        return None
    called = try_evaluate(up.func, user)
    return values.module_device(called) if values.is_module(called) else None


def _between_gpus(evidence: Evidence, devices: list[str]) -> tuple[str | None, str]:
    """Two GPUs: the module that was called, else the frame's own module, else the named device, else most."""
    for one in evidence.leaves:
        if one.is_module and one.device in devices:
            return one.device, "module"
    taking = _takes_result(evidence)
    if taking in devices:
        return taking, "module"
    user = evidence.user
    if user is not None and values.is_module(user.receiver):
        own = values.module_device(user.receiver)
        if own in devices:
            return own, "module"
    if user is not None:
        for name in ("device", "dev"):
            named = canonical(user.locals.get(name, user.globals.get(name)))
            if named in devices:
                return named, "name"
    count: Counter[str] = Counter()
    for one in evidence.inner:
        if one.is_tensor and one.device in devices:
            count[one.device or ""] += 1
    for one in evidence.leaves:
        for device in one.devices():
            if device in devices:
                count[device] += 1
    ranked = count.most_common()
    if ranked and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]):
        return ranked[0][0], "majority"
    first = canonical(evidence.error.devices[-1]) if evidence.error.devices else None
    return (first if first in devices else devices[0]), ""
