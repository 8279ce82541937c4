"""Puts the evidence together: which operand is on the wrong device, which device is right, where it came from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..types import DeviceError
from . import partials, values
from .calls import live_scopes
from .direction import devices_in_play, wanted_of
from .frames import LiveFrame, forget_locals, joined, live_frames, locate
from .host import on_accelerator, reads_host
from .infer import NOT_A_TENSOR, Inference
from .operands import Held, Leaf, flat, leaves, match, unmoved
from .origins import Tracer
from .scopes import MISSING, Scope
from .sources import Sources
from .steps import Step
from .swapped import Swap, swap

MOST_LIBRARY = 12  # frames below the user's own that are read: a call through a hooked module takes five


@dataclass(repr=False, eq=False)
class Wrong:
    """An operand on the wrong device. `held` is the tensor in it, when one was found."""

    leaf: Leaf
    held: Held | None
    device: str
    proven: bool = True

    @property
    def expression(self) -> str:
        """What the user's own frame calls it."""
        return self.leaf.expression

    @property
    def tensor(self) -> Any:
        """The tensor itself: the operand, or the one found in it. MISSING, or no tensor, when none is at hand."""
        return self.held.tensor if self.held is not None else self.leaf.value


@dataclass(repr=False, eq=False)
class Evidence:
    """All that is known of one error, while its frames are alive. Causes read it, nothing outlives it."""

    error: DeviceError
    frames: list[LiveFrame]
    scopes: list[Scope]
    sources: Sources
    inference: Inference
    tracer: Tracer
    user: Scope | None = None
    node: ast.AST | None = None
    leaves: list[Leaf] = field(default_factory=list)
    wanted: str | None = None
    wrong_device: str | None = None
    wrongs: list[Wrong] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    inner: list[Leaf] = field(default_factory=list)
    branches: list[tuple[ast.AST, Scope]] = field(
        default_factory=list
    )  # other operands on the wrong device on the way
    direction: str = ""  # why `wanted` is right: wording, meta, accelerator, module, name, majority
    library: LiveFrame | None = None
    notes: list[str] = field(default_factory=list)

    def release(self) -> None:
        """Drop every frame, tensor and module. The evidence is of no use afterwards."""
        self.sources.release()
        for live in self.frames:
            if "locals" in live.extra:
                forget_locals(live.frame)
            live.extra.clear()
            del live.frame
        self.frames, self.scopes, self.leaves, self.inner = [], [], [], []
        self.wrongs, self.steps, self.branches, self.user, self.library = [], [], [], None, None
        self.tracer.live = []

    @property
    def wrong(self) -> Wrong | None:
        return self.wrongs[0] if self.wrongs else None

    @property
    def root(self) -> Step | None:
        return self.steps[-1] if self.steps else None

    def trace(self, node: ast.AST, scope: Scope) -> list[Step]:
        return self.tracer.trace(node, scope, self.wrong_device)


def collect(exc: BaseException, error: DeviceError, outer: BaseException | None = None) -> Evidence:
    """Read the frames of a device error, and those of the exception that it was wrapped in (`outer`), whose
    traceback alone may reach the user's code. The caller drops the result before the error's handling ends."""
    sources = Sources()
    inference = Inference(sources)
    evidence = Evidence(error, [], [], sources, inference, Tracer(sources, inference, []))
    try:
        _gather(evidence, exc, outer)
    except BaseException:
        evidence.release()
        raise
    return evidence


def _gather(evidence: Evidence, exc: BaseException, outer: BaseException | None) -> None:
    sources, inference = evidence.sources, evidence.inference
    evidence.frames = frames = live_frames(exc, sources)
    if outer is not None and outer is not exc and all(f.library for f in frames):
        evidence.frames = frames = joined(live_frames(outer, sources), frames)
    user_index = next((i for i in range(len(frames) - 1, -1, -1) if not frames[i].library), None)
    if user_index is None:
        return
    if len(frames) > user_index + 1:
        evidence.library = frames[-1]
        for live in frames[user_index + 1 :][-MOST_LIBRARY:]:
            locate(live, sources)
    between = [f for f in frames[: user_index + 1] if f.library]
    for live in between[-30:]:
        locate(live, sources)
    evidence.scopes = live_scopes([f for f in frames if f.source is not None], sources)
    evidence.tracer.live = [s for s in evidence.scopes if s.live is not None and not s.live.library]
    user = frames[user_index]
    evidence.user = next((s for s in reversed(evidence.scopes) if s.live is user), None)
    if evidence.user is None:
        return
    evidence.node = user.node
    evidence.leaves = leaves(user.node, evidence.user, inference)
    deeper = _in_text(evidence) if evidence.error.envelope is not None else None
    if deeper is not None:
        evidence.user, evidence.node = deeper
        evidence.leaves = evidence.inner = leaves(evidence.node, evidence.user, inference)
        evidence.scopes.append(evidence.user)
    last = evidence.scopes[-1]
    evidence.inner = (
        leaves(last.live.node, last, inference)
        if last.live is not None and last is not evidence.user
        else evidence.leaves
    )
    _judge(evidence)
    swapped = swap(evidence)
    if swapped is not None:
        _through_functional_call(evidence, swapped)
    elif evidence.direction == "accelerator" and _torn_down(evidence):
        inference.state_moved = True
        evidence.leaves = leaves(evidence.node, evidence.user, inference)
        evidence.inner = evidence.leaves if last is evidence.user else leaves(last.live.node, last, inference)  # type: ignore[union-attr]
        _judge(evidence)
    if not any(w.proven and w.held is not None for w in evidence.wrongs):
        _through_library(evidence)
    if evidence.wrongs and not evidence.steps:
        first = evidence.wrongs[0]
        evidence.steps = evidence.trace(first.leaf.node, first.leaf.scope)
        evidence.branches = list(evidence.tracer.branches)


def _in_text(evidence: Evidence) -> tuple[Scope, ast.AST] | None:
    from .textual import innermost_in_text

    return innermost_in_text(evidence)


def _torn_down(evidence: Evidence) -> bool:
    """Whether modules were moved since: their state contradicts the operands, or what they gave the failing frame."""
    from .teardown import moved_since, ran_elsewhere

    user, wanted, wrong = evidence.user, evidence.wanted, evidence.wrong_device
    if moved_since(evidence.leaves, wanted, wrong):
        return True
    own = user.receiver if user is not None else MISSING
    return (
        values.is_module(own)
        and values.module_device(own) == wrong
        and ran_elsewhere(own, user, wanted, wrong)
    )


def _through_functional_call(evidence: Evidence, swapped: Swap) -> None:
    """The module ran with tensors that it was given for the call: theirs are the devices, not those of its own."""
    given = leaves(swapped.call, swapped.caller, evidence.inference)
    put_in = swapped.put_in([*flat(evidence.inner), *flat(evidence.leaves)], given)
    if not put_in:
        return
    evidence.notes.append(swapped.note(given, put_in[0][0]))
    evidence.wrongs = [w for w in evidence.wrongs if not swapped.of(w.leaf)]
    found = [Wrong(one, held, held.device) for one, held in put_in if held.device == evidence.wrong_device]
    if found and not evidence.wrongs:
        evidence.user, evidence.node = swapped.caller, swapped.call
        evidence.leaves = evidence.inner = given
        evidence.wrongs = _unique(found)


def _through_library(evidence: Evidence) -> None:
    """An operand of a library's line that a function of the user's returned (an overridden method, a callback)."""
    if evidence.inner is evidence.leaves or evidence.wrong_device is None:
        return
    for one in flat(evidence.inner):
        if one.value is not MISSING or not isinstance(one.node, ast.Call):
            continue
        steps = evidence.tracer.trace(one.node, one.scope, evidence.wrong_device)
        own = next((s for s in steps if s.kind == "return" and s.editable), None)
        if own is None or evidence.tracer.is_bad(own.node, own.scope) is not True:
            continue
        evidence.steps = steps
        evidence.branches = list(evidence.tracer.branches)
        leaf_of = Leaf(own.node, own.scope, device=evidence.wrong_device, inferred=True)
        leaf_of.value = MISSING
        evidence.wrongs = [Wrong(leaf_of, None, evidence.wrong_device)]
        return


def _judge(evidence: Evidence) -> None:
    devices = devices_in_play(evidence)
    evidence.wanted, evidence.direction = wanted_of(evidence, devices)
    if evidence.wanted is None:
        return
    others = [d for d in devices if d != evidence.wanted]
    evidence.wrong_device = others[0] if others else None
    evidence.wrongs = _wrongs(evidence)
    if evidence.wrongs:
        evidence.wrong_device = evidence.wrongs[0].device


# -- which operand is wrong -----------------------------------------------------------------------------------


def _wrongs(evidence: Evidence) -> list[Wrong]:
    """The user's operands on another device than the wanted one, the likeliest culprit first."""
    found: list[Wrong] = []
    wanted = evidence.wanted or ""

    def is_wrong(device: str | None) -> bool:
        if device in (None, NOT_A_TENSOR, "?"):
            return False
        if wanted == "cpu":
            return device != "cpu"
        return device != wanted and (device == evidence.wrong_device or evidence.wrong_device is None)

    role = evidence.error.argument
    if reads_host(evidence.error):
        there = on_accelerator(evidence.leaves)
        found = [
            Wrong(one, one.held[0] if one.held else None, one.device or "", len(there) == 1) for one in there
        ]
        if found:
            return found
    if evidence.direction == "wording":
        found += _by_wording(evidence, role, is_wrong)
        if found:
            return _unique(found)  # the other operands are where they should be
    if not found and evidence.inner is not evidence.leaves:
        for one in evidence.inner:
            for held in one.held:
                if is_wrong(held.device) and not _is_legal_scalar(one, evidence):
                    matched = match(held.tensor, evidence.leaves)
                    if matched is not None:
                        found.append(Wrong(matched[0], matched[1], held.device))
    direct = [one for one in evidence.leaves if one.is_tensor and is_wrong(one.device)]
    sized = [one for one in direct if not one.is_scalar] or direct
    # The CPU is wanted of one argument: of several on the GPU, only the message tells which.
    told = evidence.direction != "wording" or bool(found) or len(sized) == 1
    found += [Wrong(one, one.held[0] if one.held else None, one.device or "", told) for one in sized]
    for one in evidence.leaves:
        if one.is_tensor:
            continue
        wrong_held = [h for h in one.held if is_wrong(h.device)]
        if wrong_held and not one.is_module and not _many(one):
            # What an object of the user's holds need not have been in the operation.
            proven = values.is_container(one.value) or _called_partial(one, evidence)
            found.append(Wrong(one, wrong_held[0], wrong_held[0].device, proven))
    for one in evidence.leaves:
        if one.is_module and is_wrong(one.device):
            found.append(Wrong(one, None, one.device or ""))
        elif one.is_module:
            wrong_held = [h for h in one.held if is_wrong(h.device)]
            if wrong_held:
                found.append(Wrong(one, wrong_held[0], wrong_held[0].device, proven=False))
    found += _inferred(evidence, is_wrong)
    return _unique(found)


def _called_partial(one: Leaf, evidence: Evidence) -> bool:
    """Whether an operand is the partial that failed when it was called: what it holds was given to the operation."""
    called = isinstance(evidence.node, ast.Call) and evidence.node.func is one.node
    return called and partials.is_partial(one.value)


def _many(one: Leaf) -> bool:
    return len(one.held) >= 4_000


def _by_wording(evidence: Evidence, role: str | None, is_wrong: Any) -> list[Wrong]:
    """Where the CPU is wanted: the argument that the message names, else every accelerator operand."""
    from .signatures import names_of

    named = [
        one
        for one in flat(evidence.leaves)
        if role is not None and role in names_of(one, evidence.node) and is_wrong(one.device)
    ]
    found = [Wrong(one, one.held[0] if one.held else None, one.device or "") for one in named]
    if evidence.inner is not evidence.leaves:
        for one in evidence.inner:
            if role is not None and one.expression == role and one.is_tensor and is_wrong(one.device):
                matched = match(one.value, evidence.leaves)
                if matched is not None:
                    found.append(Wrong(matched[0], matched[1], one.device or ""))
    return found


def _is_legal_scalar(one: Leaf, evidence: Evidence) -> bool:
    """A 0-dim CPU tensor is accepted by TensorIterator, so it is no culprit while a sized one is there."""
    if not one.is_scalar or evidence.error.family[:1] != "B":
        return False
    return any(o.is_tensor and not o.is_scalar and o.device == one.device for o in evidence.inner)


def _inferred(evidence: Evidence, is_wrong: Any) -> list[Wrong]:
    """Inner expressions whose value is gone: those whose device follows, and their wrong parts first."""
    operands = list(_itemised(evidence.leaves))
    # Those of which the value is known were looked at, but for what stands in a list that is written in the call.
    found = [
        wrong
        for one, listed in operands
        if one.value is MISSING or listed
        for wrong in _within(one, evidence, is_wrong)
    ]
    known = [one for one, _ in operands if one.device not in (None, NOT_A_TENSOR)]
    unknown = [one for one, _ in operands if one.device is None and one.value is MISSING]
    if (
        not found
        and known
        and len(unknown) == 1
        and evidence.wrong_device
        and all(o.device == evidence.wanted for o in known)
    ):
        found.append(Wrong(unknown[0], None, evidence.wrong_device, proven=False))
    return found


def _within(one: Leaf, evidence: Evidence, is_wrong: Any) -> list[Wrong]:
    """What is wrong of an operand, or in the expression that gave it: its parts of which the value is known first."""
    parts = [
        p
        for p in ([one] if one.value is not MISSING else unmoved(one, evidence.wanted))
        if is_wrong(p.device) and p.value is not MISSING and (p.is_tensor or p.is_module) and not p.is_scalar
    ]
    known = [Wrong(p, p.held[0] if p.held else None, p.device or "") for p in parts]
    if one.value is not MISSING:
        return known
    if isinstance(one.node, ast.Call) and is_wrong(one.device):
        return (
            known
            if known and _keeps_device(one, evidence)
            else [Wrong(one, None, one.device or "", proven=False)]
        )
    if known:
        return known
    if not is_wrong(one.device):
        return []
    inner = [p for p in unmoved(one, evidence.wanted) if is_wrong(p.device)]
    chosen = inner[-1] if inner and not isinstance(one.node, ast.Call | ast.Attribute) else one
    return [Wrong(chosen, None, one.device or "", proven=False)]


def _itemised(operands: Iterable[Leaf], listed: bool = False) -> Iterator[tuple[Leaf, bool]]:
    """The operands, and in place of a list or tuple that is written in the call what stands in it (`listed`)."""
    for one in operands:
        if one.value is MISSING and isinstance(one.node, ast.List | ast.Tuple):
            yield from _itemised(one.parts, True)
        else:
            yield one, listed


def _keeps_device(one: Leaf, evidence: Evidence) -> bool:
    """Whether a call's result is where its operands are (torch's own functions and tensor methods)."""
    assert isinstance(one.node, ast.Call)
    kind, _ = evidence.inference.call_kind(one.node, one.scope)
    return kind in ("torch", "method", "like")


def _unique(found: list[Wrong]) -> list[Wrong]:
    seen: set[tuple[int, str]] = set()
    unique = []
    for wrong in found:
        mark = (id(wrong.leaf.node), wrong.held.path if wrong.held else "")
        if mark not in seen:
            seen.add(mark)
            unique.append(wrong)
    return unique
