"""More programs as people write them: the CPU's numbers to the last bit, and nothing that could not be judged."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler  # noqa: E402

from simulation import check_equals_the_cpu, trained  # noqa: E402


def resumed(device: Any) -> list[float]:
    """Stop, save everything, load it all in new objects, go on."""

    def parts() -> Any:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
        return model, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6)

    def run(model: Any, optimizer: Any, schedule: Any) -> list[float]:
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(6, 4).to(device)).pow(2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            found.append(loss.item())
        return found

    first = parts()
    losses, file = run(*first), io.BytesIO()
    state = {
        "model": first[0].state_dict(),
        "optimizer": first[1].state_dict(),
        "schedule": first[2].state_dict(),
    }
    torch.save(state | {"rng": torch.get_rng_state()}, file)
    file.seek(0)
    saved = torch.load(file, map_location=device, weights_only=True)
    second = parts()
    for part, name in zip(second, ("model", "optimizer", "schedule"), strict=True):
        part.load_state_dict(saved[name])
    torch.set_rng_state(saved["rng"].cpu())
    return losses + run(*second)


class Sentences(Dataset):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.items = [torch.randint(1, 20, (n,)) for n in (3, 5, 4, 6, 2, 5, 4, 3)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return {"ids": self.items[index], "label": index % 2}


def padded(batch: list[Any]) -> dict[str, Any]:
    ids = nn.utils.rnn.pad_sequence([item["ids"] for item in batch], batch_first=True)
    return {"ids": ids, "mask": ids != 0, "label": torch.tensor([item["label"] for item in batch])}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.register_buffer("positions", torch.arange(32).unsqueeze(0), persistent=False)
        self.where = nn.Embedding(32, 8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 2)

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.embed(ids) + self.where(self.positions[:, : ids.size(1)])
        x = self.norm(x + self.attend(x, x, x, key_padding_mask=~mask, need_weights=False)[0])
        return self.out((x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True))


def text(device: Any) -> list[float]:
    """Workers, a collate function, pinned memory, gradient accumulation, evaluation with a confusion matrix."""
    model = Encoder().to(device)
    loader = DataLoader(
        Sentences(), 2, num_workers=2, collate_fn=padded, pin_memory=device != "cpu", persistent_workers=True
    )
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=0.01), []
    for _ in range(2):
        for number, batch in enumerate(loader):
            batch = {key: value.to(device, non_blocking=True) for key, value in batch.items()}
            loss = (
                F.cross_entropy(model(batch["ids"], batch["mask"]), batch["label"], label_smoothing=0.1) / 2
            )
            loss.backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    model.eval()
    confusion = torch.zeros(2, 2, dtype=torch.long, device=device)
    with torch.inference_mode():
        for batch in loader:
            guess = model(batch["ids"].to(device), batch["mask"].to(device)).argmax(-1)
            pairs = batch["label"].to(device) * 2 + guess
            confusion += torch.bincount(pairs, minlength=4).view(2, 2)
    return losses + confusion.flatten().tolist()


def actor_critic(device: Any) -> list[float]:
    body, policy, value = (
        nn.Linear(4, 16).to(device),
        nn.Linear(16, 2).to(device),
        nn.Linear(16, 1).to(device),
    )
    model = nn.ModuleList([body, policy, value])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    states, actions, rewards, chosen = [], [], [], []
    state = torch.randn(4)
    for step in range(8):
        seen = torch.as_tensor(state.numpy(), dtype=torch.float32, device=device).unsqueeze(0)
        with torch.no_grad():
            shares = torch.distributions.Categorical(logits=policy(torch.tanh(body(seen))))
            action = shares.sample()
        states.append(seen)
        actions.append(action)
        chosen.append(shares.log_prob(action))
        rewards.append(1.0 if action.item() == step % 2 else 0.0)
        state = torch.randn(4)
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.9 * total
        returns.insert(0, total)
    wanted = torch.tensor(returns, device=device)
    batch, taken, old = torch.cat(states), torch.cat(actions), torch.cat(chosen)
    losses = []
    for _ in range(3):
        hidden = torch.tanh(body(batch))
        shares = torch.distributions.Categorical(logits=policy(hidden))
        worth = value(hidden).squeeze(-1)
        gain = wanted - worth.detach()
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        ratio = (shares.log_prob(taken) - old).exp()
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        loss = -clipped.mean() + 0.5 * F.mse_loss(worth, wanted) - 0.01 * shares.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8))
        self.down = nn.Conv2d(1, 8, 3, 2, 1)
        self.middle = nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.up = nn.ConvTranspose2d(16, 1, 4, 2, 1)

    def forward(self, x: Any, t: Any) -> Any:
        scale = torch.exp(torch.arange(4, device=t.device) * (-math.log(10000) / 3))
        angles = t[:, None].float() * scale[None]
        when = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        first = self.down(x)
        return self.up(torch.cat([self.middle(first + when[:, :, None, None]), first], 1))


def diffusion_unet(device: Any) -> list[float]:
    model = UNet().to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0).to(device)
    images = torch.randn(4, 1, 8, 8).to(device)

    def loss() -> Any:
        t = torch.randint(0, 50, (4,)).to(device)
        noise = torch.randn(4, 1, 8, 8).to(device)
        a = kept.gather(0, t)[:, None, None, None]
        return F.mse_loss(model(a.sqrt() * images + (1 - a).sqrt() * noise, t), noise)

    losses = trained(model, loss, torch.optim.AdamW(model.parameters(), 1e-3))
    for old, new in zip(average.parameters(), model.parameters(), strict=True):
        old.lerp_(new, 0.1)
    with torch.no_grad():
        return [*losses, average(images, torch.full((4,), 3, device=device)).std().item()]


def vae_and_experts(device: Any) -> list[float]:
    encode, decode = nn.Linear(6, 8).to(device), nn.Linear(4, 6).to(device)
    gate, experts = nn.Linear(6, 3).to(device), nn.ModuleList(nn.Linear(6, 6) for _ in range(3)).to(device)
    x = torch.randn(10, 6).to(device)

    def loss() -> Any:
        shares, picked = gate(x).softmax(-1).topk(2, dim=-1)
        routed = torch.zeros_like(x)
        for index, expert in enumerate(experts):
            rows, columns = torch.where(picked == index)
            if rows.numel():
                routed.index_add_(0, rows, shares[rows, columns, None] * expert(x[rows]))
        mean, spread = encode(routed).chunk(2, -1)
        code = mean + torch.randn(10, 4).to(device) * (0.5 * spread).exp()
        gap = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(-1)
        return F.mse_loss(decode(code), x) + 0.1 * gap.mean()

    return trained(nn.ModuleList([encode, decode, gate, experts]), loss)


def physics(device: Any) -> list[float]:
    """Second derivatives in the loss, and a closure for LBFGS."""
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    x = torch.linspace(0, 1, 12, device=device).unsqueeze(1).requires_grad_()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        u = model(x)
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        loss = (second + u).pow(2).mean() + (u[0] - 1).pow(2).sum()
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(2)]


def contrastive(device: Any) -> list[float]:
    left, right = nn.Linear(5, 4).to(device), nn.Linear(7, 4).to(device)
    scale = nn.Parameter(torch.tensor(2.0, device=device))
    a, b = torch.randn(6, 5).to(device), torch.randn(6, 7).to(device)
    labels = torch.arange(6, device=device)
    model = nn.ModuleList([left, right, nn.ParameterList([scale])])

    def loss() -> Any:
        one, two = F.normalize(left(a), dim=-1), F.normalize(right(b), dim=-1)
        logits = scale.exp().clamp(max=100) * one @ two.T
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    return trained(model, loss)


def speech(device: Any) -> list[float]:
    conv, rnn, out = (
        nn.Conv1d(33, 8, 3, 2, 1).to(device),
        nn.GRU(8, 8, batch_first=True).to(device),
        nn.Linear(8, 6).to(device),
    )
    sound = torch.randn(2, 512).to(device)
    window = torch.hann_window(64, device=device)
    targets, lengths = torch.tensor([1, 2, 3, 1, 4]).to(device), torch.tensor([3, 2])

    def loss() -> Any:
        spectrum = torch.stft(sound, 64, 32, window=window, return_complex=True).abs().log1p()
        x = conv(spectrum).transpose(1, 2)
        scores = out(rnn(x)[0]).log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(scores, targets, torch.full((2,), scores.size(0)), lengths)

    return trained(nn.ModuleList([conv, rnn, out]), loss)


def ensembles(device: Any) -> list[float]:
    from torch.func import functional_call, grad, stack_module_state, vmap

    models = [nn.Linear(3, 1).to(device) for _ in range(3)]
    params, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x, y = torch.randn(5, 3).to(device), torch.randn(5, 1).to(device)

    def loss(p: Any, b: Any) -> Any:
        return (functional_call(base, (p, b), (x,)) - y).pow(2).mean()

    slopes = vmap(grad(loss))(params, buffers)
    return [value for tensor in slopes.values() for value in tensor.flatten().tolist()]


def decorated(device: Any) -> list[float]:
    """Parametrisations, norms on weights, pruning, a weighted sampler, a custom Function, einsum, complex numbers."""
    from torch.nn.utils import parametrizations, prune

    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= 1)

    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(4, 6)),
        nn.PReLU(),
        parametrizations.spectral_norm(nn.Linear(6, 4)),
    ).to(device)
    prune.l1_unstructured(model[0], "bias", 0.5)
    data = TensorDataset(torch.randn(12, 4), torch.arange(12))
    sampler = WeightedRandomSampler(torch.ones(12), 8, generator=torch.Generator().manual_seed(1))
    losses = []
    for x, index in DataLoader(data, 4, sampler=sampler):
        x, index = x.to(device), index.to(device)
        wave = torch.fft.ifft(torch.fft.fft(x, dim=-1) * torch.polar(torch.ones(4, device=device), x[0])).real
        mixed = torch.einsum("bi,bj->ij", Clip.apply(model(x)), wave)
        values, places = mixed.flatten().sort(descending=True)
        picked = values.masked_fill(places % 2 == 0, 0.0)[: index.numel()]
        losses += trained(model, lambda p=picked, x=x: p.sum() + model(x).pow(2).mean(), count=1)
    return losses


def decoding(device: Any) -> list[float]:
    """A cache of keys and values, nucleus sampling, beams."""
    embed, attend, head = (
        nn.Embedding(12, 8).to(device),
        nn.Linear(8, 24).to(device),
        nn.Linear(8, 12).to(device),
    )
    ids, keys, values = torch.tensor([[1], [2]], device=device), None, None
    out = []
    with torch.no_grad():
        for _ in range(5):
            q, k, v = attend(embed(ids[:, -1:])).chunk(3, -1)
            keys = k if keys is None else torch.cat([keys, k], 1)
            values = v if values is None else torch.cat([values, v], 1)
            x = F.scaled_dot_product_attention(q, keys, values)
            probs, order = head(x[:, -1]).softmax(-1).sort(descending=True)
            probs[probs.cumsum(-1) - probs > 0.9] = 0
            pick = torch.multinomial(probs, 1)
            ids = torch.cat([ids, order.gather(-1, pick)], -1)
            best = torch.topk(probs.flatten(), 2).indices
            beams = torch.div(best, 12, rounding_mode="floor")
            keys, values = keys.index_select(0, beams), values[beams]
            out += ids[:, -1].tolist()
    return [float(value) for value in out]


PROGRAMS = [resumed, text, actor_critic, diffusion_unet, vae_and_experts, physics, contrastive, speech, ensembles, decorated, decoding]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Callable[[Any], list[float]]) -> None:
    check_equals_the_cpu(program)
