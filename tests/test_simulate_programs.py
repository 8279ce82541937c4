"""Real programs, unchanged but for the device: a training step and inference, with the CPU's losses to the last bit."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import whydevice  # noqa: E402
from simulation import check_equals_the_cpu  # noqa: E402

Program = Callable[[Any], list[float]]


def steps(
    model: nn.Module, loss: Callable[[], Any], count: int = 2, kind: Any = torch.optim.SGD
) -> list[float]:
    optimizer, losses = kind(model.parameters(), lr=0.01), []
    for _ in range(count):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


class Block(nn.Module):
    """torchvision's BasicBlock."""

    def __init__(self, inside: int, outside: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


def resnet(device: Any) -> list[float]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Block(8, 8), Block(8, 16, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    model.to(device)
    x, y = torch.randn(2, 3, 32, 32).to(device), torch.tensor([1, 3]).to(device)
    losses = steps(model, lambda: F.cross_entropy(model(x), y))
    model.eval()
    with torch.no_grad():
        assert model(x).argmax(1).device.type == torch.device(device).type
    return losses


def packed_lstm(device: Any) -> list[float]:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 6, padding_idx=0)
            self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
            self.out = nn.Linear(10, 3)

        def forward(self, ids: Any, lengths: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embed(ids), lengths, batch_first=True, enforce_sorted=False
            )
            out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            return self.out(out)

    model = Tagger().to(device)
    ids = nn.utils.rnn.pad_sequence([torch.randint(1, 10, (n,)) for n in (3, 5)], batch_first=True).to(device)
    target = torch.randint(0, 3, (2, 5), device="cpu").to(device)
    return steps(
        model, lambda: F.cross_entropy(model(ids, torch.tensor([3, 5])).flatten(0, 1), target.flatten())
    )


def gan(device: Any) -> list[float]:
    make = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6)).to(device)
    judge = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)).to(device)
    first, second = torch.optim.Adam(judge.parameters(), 1e-3), torch.optim.Adam(make.parameters(), 1e-3)
    loss, out = nn.BCEWithLogitsLoss(), []
    real = torch.randn(5, 6).to(device)
    for _ in range(2):
        fake = make(torch.randn(5, 4).to(device))
        ones, zeros = torch.ones(5, 1, device=device), torch.zeros(5, 1, device=device)
        first.zero_grad()
        value = loss(judge(real), ones) + loss(judge(fake.detach()), zeros)
        value.backward()
        first.step()
        second.zero_grad()
        better = loss(judge(fake), ones)
        better.backward()
        second.step()
        out += [value.item(), better.item()]
    return out


def dqn(device: Any) -> list[float]:
    online = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    target = copy.deepcopy(online)
    memory: deque[Any] = deque(maxlen=50)
    state = torch.randn(3)
    for step in range(20):
        with torch.no_grad():
            action = online(state.to(device)).argmax().item()
        after = torch.randn(3)
        memory.append((state, action, float(step % 3), after, step % 5 == 0))
        state = after

    def loss() -> Any:
        states, actions, rewards, afters, done = zip(*list(memory)[-8:], strict=True)
        s, n = torch.stack(states).to(device), torch.stack(afters).to(device)
        a = torch.tensor(actions, device=device).unsqueeze(1)
        r, d = torch.tensor(rewards, device=device), torch.tensor(done, dtype=torch.float32, device=device)
        with torch.no_grad():
            wanted = r + 0.9 * (1 - d) * target(n).max(1).values
        return F.smooth_l1_loss(online(s).gather(1, a).squeeze(1), wanted)

    losses = steps(online, loss, kind=torch.optim.RMSprop)
    target.load_state_dict(online.state_dict())
    with torch.no_grad():
        for old, new in zip(target.parameters(), online.parameters(), strict=True):
            old.mul_(0.9).add_(new, alpha=0.1)
    return losses


def diffusion(device: Any) -> list[float]:
    betas = torch.linspace(1e-4, 0.02, 20, device=device)
    kept = torch.cumprod(1 - betas, 0)
    model = nn.Sequential(nn.Linear(7, 16), nn.SiLU(), nn.Linear(16, 6)).to(device)
    x, t, noise = (
        torch.randn(4, 6).to(device),
        torch.tensor([1, 5, 9, 19], device=device),
        torch.randn(4, 6).to(device),
    )

    def loss() -> Any:
        share = kept[t].unsqueeze(1)
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        return F.mse_loss(model(torch.cat([noisy, t.unsqueeze(1) / 20], 1)), noise)

    losses = steps(model, loss, kind=torch.optim.AdamW)
    sample = torch.randn(2, 6).to(device)
    with torch.no_grad():
        for i in reversed(range(20)):
            time = torch.full((2, 1), i / 20, device=device)
            guess = model(torch.cat([sample, time], 1))
            sample = (sample - betas[i] / (1 - kept[i]).sqrt() * guess) / (1 - betas[i]).sqrt()
            if i:
                sample = sample + betas[i].sqrt() * torch.randn_like(sample)
    return [*losses, sample.sum().item()]


def gnn(device: Any) -> list[float]:
    nodes = torch.randn(5, 4).to(device)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]]).to(device)
    first, second = nn.Linear(4, 6).to(device), nn.Linear(6, 2).to(device)
    model = nn.ModuleList([first, second])
    target = torch.tensor([0, 1, 0, 1, 1]).to(device)

    def spread(x: Any) -> Any:
        out = torch.zeros_like(x).scatter_add_(0, edges[1].unsqueeze(1).expand(-1, x.size(1)), x[edges[0]])
        degree = torch.zeros(5, device=device).index_add_(0, edges[1], torch.ones(6, device=device))
        return out / degree.clamp(min=1).unsqueeze(1)

    return steps(model, lambda: F.cross_entropy(spread(second(spread(first(nodes)).relu())), target))


def checkpointed(device: Any) -> list[float]:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(3)), nn.Linear(4, 1)).to(
        device
    )
    x = torch.randn(6, 4).to(device)

    def loss() -> Any:
        value = x
        for block in model:
            value = checkpoint(block, value, use_reentrant=False)
        return value.pow(2).mean()

    return steps(model, loss)


def averaged(device: Any) -> list[float]:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to(device)
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    x = torch.randn(6, 3).to(device)
    losses = steps(model, lambda: model(x).pow(2).mean())
    ema.update_parameters(model)
    ema.update_parameters(model)
    return [*losses, ema(x).sum().item()]


def loader(device: Any) -> list[float]:
    model = nn.Linear(3, 2).to(device)
    data = TensorDataset(torch.randn(12, 3), torch.randint(0, 2, (12,)))
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in DataLoader(data, batch_size=4, num_workers=2):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def transformer(device: Any) -> list[float]:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2).to(device)
    x = torch.randn(2, 5, 8).to(device)
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=device)
    losses = steps(
        encoder, lambda: encoder(x, mask=mask, is_causal=True).pow(2).mean(), kind=torch.optim.Adam
    )
    encoder.eval()
    with torch.inference_mode():
        return [*losses, encoder(x).sum().item()]


PROGRAMS = [resnet, packed_lstm, gan, dqn, diffusion, gnn, checkpointed, averaged, loader, transformer]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Program) -> None:
    check_equals_the_cpu(program)


def test_mixed_precision() -> None:
    with whydevice.simulate_cuda():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
        ).cuda()
        optimizer, scaler = (
            torch.optim.AdamW(model.parameters(), 1e-2),
            torch.amp.GradScaler("cuda", init_scale=1024),
        )
        x, y = torch.randn(4, 1, 8, 8, device="cuda"), torch.tensor([0, 1, 2, 0], device="cuda")
        losses = []
        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        assert loss.dtype is torch.float32 and losses[-1] < losses[0]
        assert all(p.grad.is_cuda and p.grad.dtype is torch.float32 for p in model.parameters())


def bert(device: Any) -> list[float]:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    model = BertForSequenceClassification(config).to(device)
    ids, mask = (
        torch.randint(0, 50, (2, 6)).to(device),
        torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]]).to(device),
    )
    labels = torch.tensor([0, 1]).to(device)
    return steps(
        model, lambda: model(input_ids=ids, attention_mask=mask, labels=labels).loss, kind=torch.optim.AdamW
    )


def gpt2(device: Any) -> list[float]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)  # fmt: skip
    model = GPT2LMHeadModel(config).to(device)
    ids = torch.randint(3, 40, (2, 6)).to(device)
    losses = steps(model, lambda: model(ids, labels=ids).loss, kind=torch.optim.AdamW)
    model.eval()
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False, pad_token_id=0
    )
    return [*losses, *(float(v) for v in out.flatten().tolist())]


@pytest.mark.parametrize("program", [bert, gpt2], ids=lambda program: program.__name__)
def test_transformers(program: Program) -> None:
    pytest.importorskip("transformers")
    test_program(program)
