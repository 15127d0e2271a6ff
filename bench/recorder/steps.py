"""Training of language models whose steps are not alike: reinforcement learning that hands its
weights to an engine, and accumulation over texts of any length."""
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import BF16, FP32, RMSNorm, adam, clip_gradients, empty, indices
from servers import DecoderLayer, angles

GATHER = 1  # the stream on which devices exchange weights and gradients
MIB = 1 << 20


class Policy(nn.Module):
    """A language model of 3B as its trainer keeps it."""

    def __init__(self, width=2048, depth=36, inner=11008, words=151936):
        super().__init__()
        self.words = nn.Embedding(words, width, device="meta", dtype=BF16)
        self.layers = nn.ModuleList(DecoderLayer(width, inner, 16, 2) for _ in range(depth))

    def forward(self, batch, length):
        x = self.words(indices(batch * length).view(batch, length))
        turns = angles(batch, length)
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(
                layer, x, *turns, lambda key, value: (key, value), use_reentrant=False)
        return x

    def ranks(self, x):
        """The log-probability of each word that was said, some thousand words at a time."""
        parts = []
        for piece in x.flatten(0, 1).split(4096):
            wide = F.linear(piece, self.words.weight).float()
            picked = wide.gather(1, indices(piece.shape[0])[:, None]).squeeze(1)
            parts.append(picked - torch.logsumexp(wide, -1))
        return torch.cat(parts)


class Engine:
    """The inference engine beside the trainer: weights of its own, and a cache of pages that takes
    all free memory. It sleeps while the trainer works."""

    def __init__(self, recorder, policy):
        self.recorder, self.policy = recorder, policy
        self.weights, self.pages = [], []

    def wake(self, page_bytes):
        self.weights = [torch.empty_like(p.detach()) for p in self.policy.parameters()]
        self.pages = [empty(2, page_bytes // 2 // len(self.policy.layers) // 2)
                      for _ in self.policy.layers]

    def take(self, bucket_bytes=512 * MIB):
        """Weights of the trainer, gathered in buckets on a second stream, go into the engine's."""
        bucket, size = [], 0
        for weight in self.weights:
            with self.recorder.on_stream(GATHER):
                bucket.append(torch.empty_like(weight))
            size += weight.numel() * 2
            if size >= bucket_bytes:
                for part in bucket:
                    self.recorder.record_stream(part, 0)
                bucket, size = [], 0
            part = None

    def sleep(self):
        self.weights, self.pages = [], []

    def generate(self, chance, running, tokens):
        """Decoding in graphs: only prompts and the sampler allocate."""
        for layer in self.policy.layers:
            y = layer.qkv(layer.norm1(empty(1, tokens, 2048)))
            y = layer.run_feed(layer.norm2(layer.project(y[..., :2048])))
        del y
        ended = []
        while running > 0:
            ranks = F.linear(empty(running, 2048), self.policy.words.weight).float() / 0.9
            ordered, where = ranks.sort(descending=True)
            kept = ordered.softmax(-1).cumsum(-1) < 0.95
            torch.multinomial((ordered * kept).softmax(-1), 1)
            del ranks, ordered, where, kept
            ending = min(running, chance.randint(0, max(1, running // 6)))
            ended.append(ending)
            running -= ending
        return ended


def update_policy(policy, optimizer, chance, rows):
    """One pass over the answers: micro-batches of as many answers as fit a number of tokens."""
    while rows > 0:
        length = chance.randint(10, 80) * 32
        batch = min(rows, max(1, 12_288 // length))
        rows -= batch
        ranks = policy.ranks(policy(batch, length))
        ratio = torch.exp(ranks - ranks.detach())
        gain = empty(batch * length, dtype=FP32)
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.28) * gain).mean()
        del ranks, ratio, gain
        loss.backward()
    clip_gradients(policy.parameters())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def move_state(optimizer, is_home):
    """The optimizer's state goes to the host while the engine works, and comes back."""
    for state in optimizer.state.values():
        for name in ("exp_avg", "exp_avg_sq"):
            kept = state[name]
            state[name] = None
            shape = getattr(kept, "shape", kept)
            state[name] = empty(*shape) if is_home else tuple(shape)
            del kept


def rl_weight_sync(recorder, seed, rounds=4, prompts=64):
    """Reinforcement learning of a 3B model: an engine generates with its own copy of the weights
    and a cache over half of the memory, and sleeps. Answers are scored by the old weights, the
    trainer makes its steps, and the new weights go to the engine through buckets on a second
    stream."""
    chance = random.Random(seed)
    policy = Policy()
    old = copy.deepcopy(policy).requires_grad_(False)
    optimizer = adam(policy.parameters())
    engine = Engine(recorder, policy)
    for _ in range(rounds):
        with torch.no_grad():
            engine.wake(chance.randint(22, 27) << 30)
            engine.take()
            for _ in range(4):
                engine.generate(chance, prompts, prompts * chance.randint(40, 200))
            engine.sleep()
            scores = []
            for _ in range(3):
                length = chance.randint(10, 80) * 32
                batch = max(1, 16_384 // length)
                scores.append(old.ranks(old(batch, length)))
        move_state(optimizer, True)
        for _ in range(2):
            update_policy(policy, optimizer, chance, prompts // 4)
        move_state(optimizer, False)
        del scores
    return policy, old, optimizer, engine


class Chunked(torch.autograd.Function):
    """The loss of some thousand words at a time: their ranks never exist at once, and the gradients
    are made on the way forward."""

    @staticmethod
    def forward(ctx, x, weight, chunk):
        whole, summed = torch.empty_like(x), torch.zeros_like(weight, dtype=FP32)
        for begin in range(0, x.shape[0], chunk):
            piece = x[begin:begin + chunk]
            wide = F.linear(piece, weight).float()
            wide = (wide - torch.logsumexp(wide, -1, keepdim=True)).exp().to(BF16)
            whole[begin:begin + chunk] = wide @ weight
            summed.add_(wide.t() @ piece)
        ctx.save_for_backward(whole, summed)
        return empty(1, dtype=FP32).mean()

    @staticmethod
    def backward(ctx, gradient):
        whole, summed = ctx.saved_tensors
        return whole * gradient.to(BF16), (summed * gradient).to(BF16), None


class Writer(nn.Module):
    """A language model of 1.5B whose words are tied to its ranks."""

    def __init__(self, width=1536, depth=28, inner=8960, words=151936):
        super().__init__()
        self.words = nn.Embedding(words, width, device="meta", dtype=BF16)
        self.layers = nn.ModuleList(DecoderLayer(width, inner, 12, 2) for _ in range(depth))
        self.norm = RMSNorm(width, device="meta", dtype=BF16)

    def forward(self, batch, length):
        x = self.words(indices(batch * length).view(batch, length))
        turns = angles(batch, length)
        for layer in self.layers:
            x = layer(x, *turns, lambda key, value: (key, value))
        return self.norm(x)

    def loss(self, batch, length):
        x = self(batch, length).flatten(0, 1)
        if x.shape[0] > 2048:
            return Chunked.apply(x, self.words.weight, 2048)
        return F.cross_entropy(F.linear(x, self.words.weight).float(), indices(x.shape[0]))


def batches_of(texts, tokens):
    """Texts of like length together, as many as fit into a number of tokens when padded."""
    batch, longest = 0, 0
    for length in sorted(texts):
        if batch and (batch + 1) * length > tokens:
            yield batch, longest
            batch = 0
        batch, longest = batch + 1, length
    yield batch, longest


def accumulate_lengths(recorder, seed, steps=9, tokens=7168):
    """Full fine-tuning of a 1.5B model: each step takes texts until it has enough words, sorts them
    into micro-batches of any number and length, and sums their gradients in 32 bits. The first
    micro-batch of a step makes new ones. Each third step is followed by an evaluation."""
    chance = random.Random(seed)
    model = Writer()
    parameters = list(model.parameters())
    masters = [nn.Parameter(empty(*p.shape, dtype=FP32)) for p in parameters]
    optimizer = adam(masters)
    for step in range(1, steps + 1):
        texts, wanted = [], chance.choice((8_000, 16_000, 24_000))
        while sum(texts) < wanted:
            texts.append(max(16, min(7168, int(chance.lognormvariate(5.9, 0.9)))))
        for batch, length in batches_of(texts, tokens):
            model.loss(batch, -(-length // 8) * 8).backward()
            for master, parameter in zip(masters, parameters):
                if master.grad is None:
                    master.grad = parameter.grad.float()
                else:
                    master.grad.add_(parameter.grad)
                parameter.grad = None
        clip_gradients(masters)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for parameter, master in zip(parameters, masters):
                parameter.copy_(master)
            if step % 3 == 0:
                for _ in range(3):
                    x = model(chance.randint(1, 16), chance.randint(8, 100) * 8)
                    F.linear(x[:, -1], model.words.weight).float().log_softmax(-1)
                    del x
    return model, masters, optimizer
