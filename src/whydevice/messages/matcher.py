"""Finds the wording that a text is, and reads its fields. The one matcher for all families."""

from __future__ import annotations

from collections.abc import Mapping

from . import fields, ops
from .families import FAMILIES
from .family import Family

Found = tuple[Family, dict[str, str], tuple[str, ...]]
_RANK = {"meta": 0, "cpu": 1}


def find(exc_type: str, text: str) -> Found | None:
    """The family that the text is, its fields, and its devices; None when it is none of them."""
    for family in FAMILIES:
        if family.anchor in text and (not family.only or family.only == exc_type):
            found = _match(family, text)
            if found:
                return found
    return None


def argument(family: Family, values: Mapping[str, str], devices: tuple[str, ...]) -> str | None:
    """The name of the argument that the message points at."""
    if isinstance(family.argument, tuple):
        at = picked(family, devices)
        return family.argument[at].format_map(values) or None if at is not None else None
    return _filled(family.argument, values)


def op(family: Family, values: Mapping[str, str]) -> str | None:
    """The op, without its overload where the text names a wrapper."""
    wrapper = values.get("wrapper")
    if wrapper:
        return (ops.oldest if family.id in ("A4", "A5") else ops.op_of)(wrapper).partition(".")[0]
    filled = _filled(family.op, values)
    return filled.removesuffix("()") if filled else None


def picked(family: Family, devices: tuple[str, ...]) -> int | None:
    """The index, in `devices`, of the device of the named argument; None when the text does not say."""
    if not isinstance(family.argument, tuple):
        return family.holds if family.holds is not None and family.holds < len(devices) else None
    if family.pick == "second":
        return next((i for i, d in enumerate(devices) if d != devices[0]), None)
    if family.pick == "odd":
        alone = [i for i, d in enumerate(devices) if devices.count(d) == 1]
        return alone[0] if len(alone) == 1 and family.argument[alone[0]] else None
    ranks = [_RANK.get(d.partition(":")[0], 2) for d in devices]
    return len(ranks) - 1 - ranks[::-1].index(min(ranks)) if ranks else None


def _match(family: Family, text: str) -> Found | None:
    if not all(need in text for need in family.needs):
        return None
    pattern, kinds = fields.compiled(family.template, family.whole)
    match = pattern.search(text)
    if not match:
        return None
    values = match.groupdict()
    for template in family.extra:
        pattern, more = fields.compiled(template)
        found = pattern.search(text)
        if found:
            values |= {name: value for name, value in found.groupdict().items() if name not in values}
            kinds = more | kinds
    devices = _devices(family, values, kinds)
    return None if devices is None else (family, values, devices)


def _devices(family: Family, values: dict[str, str], kinds: Mapping[str, str]) -> tuple[str, ...] | None:
    """The devices in the order of the text, or None when the types named differ in dtype alone."""
    known = {}
    for name in ("a", "b", "c"):
        if name in values and kinds[name] != "list":
            one = fields.device(values[name], kinds[name])
            if one is None:
                return None
            known[name] = one
    if [kinds.get(name) for name in known] == ["type", "type"] and known["a"] == known["b"]:
        return None
    if family.devices is None:
        return tuple(known.values())
    filling = values | known
    devices: list[str] = []
    for wanted in family.devices:
        if wanted.endswith("*}"):
            new = fields.devices_of_list(filling.get(wanted[1:-2], ""))
        else:
            new = [_filled(wanted, filling) or ""]
        devices += [d for d in new if d and d not in devices]
    return tuple(devices)


def _filled(template: str | None, values: Mapping[str, str]) -> str | None:
    """The template with its fields; None when one of them was not found."""
    if template is None or "{" not in template:
        return template
    try:
        return template.format_map(values)
    except KeyError:
        return None
