"""No code of the user's runs while an error is explained, whatever their objects do; and nothing is lost by it."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import hostile
from hostile import Behaviour
from processes import HANGS
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda

BATCH = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.config = extra
        self.parts = list(extra.values())
    def forward(self, x, *rest, scale=None, **named):
        hidden = [x, *rest]
        return self.fc(hidden[0])

def train(extra, plain, of_meta, a_dict, a_list, keyed, lazy, module, **others):
    device = torch.device("cuda")
    model = Net(extra).to(device)
    loader = [{"x": torch.ones(3, 4), "y": torch.ones(3), "extra": plain}]
    holder = {"plain": plain, "keyed": keyed}
    for batch in loader:
        inputs = batch["x"]
        local = [plain, of_meta, a_dict, a_list, lazy]
        out = model(inputs, plain, of_meta, a_dict, scale=keyed, more=lazy)
    return out
"""

ATTRIBUTE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, extra):
        super().__init__()
        for name, value in extra.items():
            if not isinstance(value, (torch.Tensor, nn.Module)):
                object.__setattr__(self, name + "_kept", value)
        self.fc = nn.Linear(4, 4)
        self.shift = torch.ones(4)
    def forward(self, x):
        return self.fc(x) + self.shift

def train(extra, **others):
    model = Net(extra).cuda()
    return model(torch.ones(3, 4, device="cuda"))
"""

CONTAINER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.heads = [nn.Linear(4, 4), nn.Linear(4, 2)]
        self.table = {"extra": extra, **extra}
        self.body = nn.Linear(4, 4)
    def forward(self, x):
        x = self.body(x)
        for head in self.heads:
            x = head(x)
        return x

def train(extra, **others):
    model = Net(extra).cuda()
    model.body._parameters.update()
    return model(torch.ones(3, 4, device="cuda"))
"""

CALLS = """
import functools
import torch
from torch import nn

def collate(transform, x, settings=None):
    return transform(x)

def train(extra, plain, of_meta, a_dict, a_list, a_str, keyed, partial, holder, slots, **others):
    device, dev = plain, slots
    config = {"device": plain, "dev": a_str}
    model = nn.Linear(4, 4).cuda()
    given = plain(torch.ones(3, 4))
    item = plain["x"]
    kept = keyed["y"]
    first = a_list[0] if a_list is None else given
    batch = {"x": collate(plain, first, settings=of_meta), plain: item}
    table = {}
    table[plain] = given
    table["b"] = batch["x"]
    bound = functools.partial(collate, plain)
    return model(bound(table["b"], settings=holder))
"""

PROGRAMS = {"calls": CALLS, "batch": BATCH, "attribute": ATTRIBUTE, "container": CONTAINER}


def failure(text: str, extra: dict[str, Any], name: str) -> BaseException:
    """The device error in which a program ends, with its frames."""
    path = f"<hostile {name}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, path, "exec"), space)
    for key, value in extra.items():
        space[f"global_{key}"] = value
    try:
        space["train"](extra, **{k: v for k, v in extra.items() if k != "extra"})
    except RuntimeError as exc:
        return exc
    raise AssertionError("the program did not fail")


def facts(exc: BaseException) -> dict[str, Any]:
    found = explain(exc)
    assert found is not None
    made = found.to_dict()
    assert "raises" not in str(made)
    return made


@pytest.mark.parametrize("behaviour", Behaviour, ids=lambda b: b.value)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_code_of_a_hostile_object_runs(name: str, behaviour: Behaviour) -> None:
    with simulate_cuda():
        exc = failure(PROGRAMS[name], hostile.specimens(behaviour), name)
        tame = facts(exc)
        with hostile.armed() as calls:
            found = facts(exc)
    assert calls == []
    assert found == tame
    assert found["cause"] is not None and found["culprit"] is not None


@pytest.mark.parametrize("behaviour", Behaviour, ids=lambda b: b.value)
def test_the_map_of_a_hostile_module_is_complete(behaviour: Behaviour) -> None:
    from whydevice.evidence.modules import audit

    specimens = hostile.specimens(behaviour)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model._modules["hostile"] = specimens["module"]
    model.__dict__[hostile.text("kept", behaviour)] = [torch.ones(1), specimens["plain"], specimens["a_dict"]]
    model.__dict__["others"] = list(specimens.values())
    with hostile.armed() as calls:
        found = audit(model)
        str(found)
    assert calls == []
    assert {"0.weight", "0.bias", "kept[0]", 'kept[2]["x"]'} <= {entry.path for entry in found.entries}


FIXTURES = sorted(p.parent for p in (Path(__file__).parents[1] / "fixtures").glob("*/*/fixed.py"))
SAMPLE = FIXTURES if os.environ.get("WHYDEVICE_NIGHTLY") else FIXTURES[5::32]


def test_fixtures_filled_with_hostile_objects_are_explained_as_before() -> None:
    """The whole way through the causes and edits: every container, module and global of the frames is filled."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("infest.py")), *map(str, SAMPLE)],
        capture_output=True,
        text=True,
        timeout=HANGS + 20 * len(SAMPLE),
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(SAMPLE), done.stderr
    assert [(f["case"], f.get("error"), f["calls"]) for f in found] == [(f["case"], None, []) for f in found]
    for one in found:
        before, after = one["texts"]
        assert after == before, one["case"]
    assert sum(one["filled"] for one in found) > len(SAMPLE)
