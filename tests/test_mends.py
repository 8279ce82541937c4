"""What is written is what a careful reviewer would merge: in the words of the code around it."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from runner import Runner
from whydevice.edits import plan
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
LOADER = "[(torch.randn(3, 4), torch.tensor([0, 1, 1]))]"

# What the script is, and the lines that the mend writes.
STYLES = {
    "cuda beside cuda": (
        "net = nn.Linear(4, 2).cuda()\ndef train(loader):\n    for x, y in loader:\n        x = x.cuda()\n"
        f"        F.cross_entropy(net(x), y)\ntrain({LOADER})\n",
        ["        y = y.cuda()"],
    ),
    "its index": (
        "gpu = 1\nnet = nn.Linear(4, 2).cuda(gpu)\ndef step(x, y):\n    x = x.cuda(gpu, non_blocking=True)\n"
        "    F.cross_entropy(net(x), y)\nstep(torch.randn(3, 4), torch.tensor([0, 1, 1]))\n",
        ["    y = y.cuda(gpu, non_blocking=True)"],
    ),
    "non_blocking kept": (
        "device = torch.device('cuda')\nnet = nn.Linear(4, 2).to(device)\ndef train(loader):\n    for x, y in loader:\n"
        "        x = x.to(device, non_blocking=True)\n        F.cross_entropy(net(x), y)\n"
        f"train(torch.utils.data.DataLoader({LOADER[1:-1]} and list(zip(torch.randn(3, 4), [0, 1, 1])), batch_size=3))\n",
        ["        y = y.to(device, non_blocking=True)"],
    ),
    "no non_blocking for a module": (
        "def main(x):\n    device = torch.device('cuda')\n    x = x.to(device, non_blocking=True)\n    net = nn.Linear(4, 2)\n"
        "    net(x)\nmain(torch.randn(3, 4))\n",
        ["    net = nn.Linear(4, 2).to(device)"],
    ),
    "a device of the configuration": (
        "from types import SimpleNamespace\ndef main(args):\n    net = nn.Linear(4, 2).to(args.device)\n"
        "    x = torch.rand(3, 4)\n    net(x)\nmain(SimpleNamespace(device='cuda:0'))\n",
        ["    x = torch.rand(3, 4, device=args.device)"],
    ),
    "a device of the object": (
        "class Agent:\n    def __init__(self, device):\n        self.device = device\n        self.net = nn.Linear(4, 2).to(device)\n"
        "    def act(self, state):\n        state = torch.tensor(state)\n        return self.net(state)\n"
        "Agent('cuda').act([0.1, 0.2, 0.3, 0.4])\n",
        ["        state = torch.tensor(state, device=self.device)"],
    ),
    "a property that names the device": (
        "class Accelerator:\n    @property\n    def device(self):\n        return torch.device('cuda')\n"
        "def main(accelerator, x, y):\n    net = nn.Linear(4, 2).cuda()\n    x = x.to(accelerator.device)\n"
        "    F.cross_entropy(net(x), y)\nmain(Accelerator(), torch.randn(3, 4), torch.tensor([0, 1, 1]))\n",
        ["    y = y.to(accelerator.device)"],
    ),
    "strings beside strings": (
        "net = nn.Linear(4, 2).to('cuda')\nbias = torch.zeros(2, device='cuda')\ndef predict(features):\n"
        "    x = torch.tensor(features)\n    return net(x) + bias\npredict([[1.0, 2.0, 3.0, 4.0]])\n",
        ['    x = torch.tensor(features, device="cuda")'],
    ),
    "like what has the size": (
        "def sample(mu):\n    eps = torch.randn(mu.size())\n    return mu + eps\nsample(torch.ones(3, device='cuda'))\n",
        ["    eps = torch.randn_like(mu)"],
    ),
    "a constructor that takes no device": (
        "import numpy as np\ndevice = 'cuda'\nnet = nn.Linear(4, 2).to(device)\ndef run(n):\n"
        "    x = torch.from_numpy(np.ones((n, 4), dtype='float32'))\n    return net(x)\nrun(3)\n",
        ["    x = torch.from_numpy(np.ones((n, 4), dtype='float32')).to(device)"],
    ),
    "an unpacked batch as a whole": (
        "device = torch.device('cuda')\nnet = nn.Bilinear(4, 4, 2).to(device)\n"
        "for batch in torch.utils.data.DataLoader(list(zip(torch.randn(3, 4), torch.randn(3, 4), [0, 1, 1])), batch_size=3):\n"
        "    a, b, y = batch\n    F.cross_entropy(net(a, b), y)\n",
        ["    a, b, y = a.to(device), b.to(device), y.to(device)"],
    ),
    "a dict batch as a whole": (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.emb = nn.Embedding(4, 2)\n"
        "    def forward(self, ids, labels):\n        return F.cross_entropy(self.emb(ids).mean(1), labels)\n"
        "device = torch.device('cuda')\nmodel = Model().to(device)\n"
        "rows = [{'ids': torch.tensor([1, 2]), 'labels': torch.tensor(1)}] * 2\n"
        "for batch in torch.utils.data.DataLoader(rows, batch_size=2):\n    model(**batch)\n",
        ["    batch = {k: v.to(device) for k, v in batch.items()}"],
    ),
    "a dataclass batch": (
        "from dataclasses import dataclass\n@dataclass\nclass Batch:\n    x: torch.Tensor\n    y: torch.Tensor\n"
        "device = torch.device('cuda')\nnet = nn.Linear(4, 2).to(device)\ndef batches():\n"
        "    yield Batch(torch.randn(3, 4), torch.tensor([0, 1, 1]))\nfor batch in batches():\n"
        "    F.cross_entropy(net(batch.x), batch.y)\n",
        ["    batch.x = batch.x.to(device)", "    batch.y = batch.y.to(device)"],
    ),
    "a batch that has its own to": (
        "from collections import UserDict\nclass Encoding(UserDict):\n    def to(self, device):\n"
        "        return Encoding({k: v.to(device) for k, v in self.data.items()})\n"
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.emb = nn.Embedding(4, 2)\n"
        "    def forward(self, ids, mask):\n        return self.emb(ids) * mask\n"
        "device = torch.device('cuda')\nmodel = Model().to(device)\n"
        "def encode(ids):\n    return Encoding({'ids': torch.tensor(ids), 'mask': torch.ones(len(ids), 1)})\n"
        "encoded = encode([1, 2])\nmodel(**encoded)\n",
        ["encoded = encode([1, 2]).to(device)"],
    ),
    "no second move of what is moved at its use": (
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n        self.device = device\n"
        "    def forward(self, h, lengths):\n        h = h.to(self.device)\n"
        "        return torch.arange(h.size(1))[None] < lengths.to(self.device)[:, None]\n"
        "Net('cuda')(torch.ones(2, 3), torch.tensor([1, 3]))\n",
        ["        return torch.arange(h.size(1), device=self.device)[None] < lengths.to(self.device)[:, None]"],
    ),
    "the weight that the function reads": (
        "def freeze(emb):\n    mask = torch.ones(emb.num_embeddings, 1)\n    emb.weight.register_hook(lambda g: g * mask)\n"
        "emb = nn.Embedding(4, 2).to('cuda')\nfreeze(emb)\nemb(torch.tensor([1], device='cuda')).sum().backward()\n",
        ["    mask = torch.ones(emb.num_embeddings, 1, device=emb.weight.device)"],
    ),
    "no attribute that is set only later": (
        "class Meter:\n    def __init__(self):\n        self.base = self.gain = None\n    def begin(self, n):\n"
        "        self.base = torch.zeros(n)\n    def observe(self, x):\n        self.gain = x.abs()\n"
        "        return self.base + self.gain\nmeter = Meter()\nmeter.begin(3)\nmeter.observe(torch.ones(3).cuda())\n",
        ["        return self.base.to(x.device) + self.gain"],
    ),
    "no attribute that a call below sets": (
        "class Smoother:\n    def __init__(self, width):\n        self.last = torch.zeros(width)\n    def keep(self, x):\n"
        "        self.last = x * 2\n    def run(self, rows):\n        level = torch.zeros(3)\n        for x in rows:\n"
        "            self.keep(x)\n            level = level + self.last\n        return level\n"
        "Smoother(3).run([torch.ones(3).cuda()])\n",
        ["        level = torch.zeros(3, device=rows[0].device)"],
    ),
    "what a returned dict holds": (
        "def build(n):\n    layers = {'act': nn.Tanh(), 'out': nn.LazyLinear(n)}\n    layers['out'](torch.ones(2, 3))\n"
        "    return layers\ndef run(layers, name, x):\n    return layers[name](x)\ndevice = 'cuda'\nlayers = build(2)\n"
        "run(layers, 'out', torch.ones(2, 3, device=device))\n",
        ["layers = {name: module.to(device) for name, module in build(2).items()}"],
    ),
    "where it is made, as the dict holds other things": (
        "def build(n, device):\n    return {'act': (nn.Tanh(), 1), 'out': (nn.Linear(3, n), 2)}\n"
        "def run(table, x):\n    for layer, factor in table.values():\n        x = layer(x) * factor\n"
        "run(build(2, 'cuda'), torch.ones(2, 3, device='cuda'))\n",
        ["    return {'act': (nn.Tanh(), 1), 'out': (nn.Linear(3, n).to(device), 2)}"],
    ),
    "without the parentheses of a test that goes": (
        "KEYS = ('ids',)\ndef stage(batch, device):\n"
        "    return {k: (v.to(device) if k in KEYS else v) for k, v in batch.items()}\n"
        "emb = nn.Embedding(4, 2).cuda()\nbatch = stage({'ids': torch.tensor([1, 2]), 'mask': torch.ones(2, 1)}, 'cuda')\n"
        "emb(batch['ids']) * batch['mask']\n",
        ["    return {k: v.to(device) for k, v in batch.items()}"],
    ),
    "both fields of an object that one expression reads": (
        "from types import SimpleNamespace\ndef mixed(query, memory):\n    return query + memory.keys + 2 * memory.values\n"
        "def fresh(n):\n    return SimpleNamespace(keys=torch.ones(n), values=torch.ones(n))\n"
        "mixed(torch.ones(3, device='cuda'), fresh(3))\n",
        ["    return query + memory.keys.to(query.device) + 2 * memory.values.to(query.device)"],
    ),
    "what a second call of the same function gets": (
        "def picked(row, at):\n    return row.gather(0, at)\ndef both(low, high, at):\n"
        "    return picked(low, at) + picked(high, at)\n"
        "both(torch.ones(4), torch.zeros(4), torch.zeros(2, dtype=torch.long, device='cuda'))\n",
        [
            'both(torch.ones(4, device="cuda"), torch.zeros(4, device="cuda"),'
            " torch.zeros(2, dtype=torch.long, device='cuda'))"
        ],
    ),
    "each member of a tuple that a helper makes": (
        "class Cell(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.kind = 'lstm'\n"
        "        self.rnn = nn.LSTM(4, 4)\n    def start(self, like):\n        h = torch.zeros(1, 4)\n"
        "        if self.kind == 'gru':\n            return h\n        c = torch.ones(1, 4)\n        return h, c\n"
        "    def forward(self, x):\n        return self.rnn(x, self.start(x))\n"
        "Cell().cuda()(torch.ones(3, 4, device='cuda'))\n",
        ["        h = torch.zeros(1, 4, device=like.device)", "        c = torch.ones(1, 4, device=like.device)"],
    ),
}  # fmt: skip

WRAPPED = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Linear(4, 2)
model = DistributedDataParallel(model, device_ids=[0])
print(model(torch.randn(3, 4)).shape)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("text", "written"), STYLES.values(), ids=STYLES)
def test_a_mend_is_written_in_the_style_of_its_place(text: str, written: list[str], tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(HEAD + text)
    linecache.clearcache()
    with simulate_cuda(2):
        with pytest.raises(RuntimeError) as raised:
            exec(compile(HEAD + text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        found = explain(raised.value)
        assert found is not None and found.fixes
        [mended] = plan(found.fixes[0].edits).values()
        before = (HEAD + text).splitlines()
        assert [line for line in mended.splitlines() if line not in before] == written
        assert len(mended.splitlines()) - len(before) in (0, len(written))
        exec(compile(mended, "mended", "exec"), {"__name__": "__main__"})


def test_what_a_module_on_the_cpu_is_called_with_stays_there(command: Runner, tmp_path: Path) -> None:
    """Without a GPU the ids go, the module stays on the CPU, and so does its input."""
    script = tmp_path / "script.py"
    script.write_text(WRAPPED)
    assert command.run(["--fix", "script.py"], tmp_path).status == 1
    mended = script.read_text()
    assert "if torch.cuda.is_available() else None" in mended
    assert mended.endswith(WRAPPED[WRAPPED.index("print") :])
    assert command.run(["script.py"], tmp_path).status == 0
