"""Training whose model runs in captured graphs, one for each shape, with eager work beside."""
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import (Autocast, Block, Linear, adam, average_into, clip_gradients, empty,
                    indices)

CAPTURE = 1  # the stream on which steps are captured
MIB = 1 << 20


class PrivatePool:
    """The allocations of captured graphs, as PyTorch's pool for graphs requests them: segments of
    which tensors are cut. Later captures use them again. Nothing is released while a graph is
    there."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.segments = []  # each: (is for small ones, free parts [begin, end] in their order)

    def take(self, size):
        """The smallest free part that is large enough, or a new segment."""
        is_small = size <= MIB
        fits = [(part[1] - part[0], at, part) for at, (kind, parts) in enumerate(self.segments)
                for part in parts if kind == is_small and part[1] - part[0] >= size]
        if not fits:
            whole = 2 * MIB if is_small else 20 * MIB
            if size >= 10 * MIB:
                whole = -(-size // (2 * MIB)) * 2 * MIB
            self.recorder.segment(whole)
            self.segments.append((is_small, [[0, whole]]))
            return self.take(size)
        _, at, part = min(fits)
        begin = part[0]
        part[0] += size
        if part[0] == part[1]:
            self.segments[at][1].remove(part)
        return at, begin, begin + size

    def give(self, place):
        at, begin, end = place
        is_small, parts = self.segments[at]
        joined = []
        for part in sorted(parts + [[begin, end]]):
            if joined and joined[-1][1] == part[0]:
                joined[-1][1] = part[1]
            else:
                joined.append(part)
        self.segments[at] = is_small, joined


class Encoder(nn.Module):
    """An encoder of 24 layers: the part that graphs are captured of."""

    def __init__(self, width=1024, depth=24):
        super().__init__()
        self.words = nn.Embedding(50265, width, device="meta")
        self.places = nn.Embedding(514, width, device="meta")
        self.blocks = nn.ModuleList(Block(width, 16) for _ in range(depth))
        self.norm = nn.LayerNorm(width, device="meta")

    def forward(self, words):
        x = self.words(words) + self.places(indices(words.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Ranks(nn.Module):
    """The head: eager, since each step hides another number of words."""

    def __init__(self, width=1024):
        super().__init__()
        self.mix = Linear(width, width, device="meta")
        self.norm = nn.LayerNorm(width, device="meta")
        self.out = Linear(width, 50265, device="meta")

    def forward(self, x, where, chosen):
        hidden = x.flatten(0, 1).index_select(0, where)
        ranks = self.out(self.norm(F.gelu(self.mix(hidden))))
        return F.cross_entropy(ranks.float(), chosen)


class Graphed:
    """A captured forward and backward of the encoder for one shape. The input, the output, the
    gradients that come in and go out are static: a step copies into them and out of them."""

    def __init__(self, recorder, pool, encoder, batch, length):
        self.encoder = encoder
        self.words = empty(batch, length, dtype=torch.int64)
        parameters = list(encoder.parameters())
        with recorder.on_stream(CAPTURE):
            for _ in range(2):  # libraries choose their kernels in steps that are not captured
                with Autocast.active():
                    x = encoder(self.words)
                torch.autograd.grad(x, parameters, torch.empty_like(x))
                del x
            with recorder.from_pool(pool):
                with Autocast.active():
                    x = encoder(self.words)
                self.incoming = torch.empty_like(x)
                self.gradients = torch.autograd.grad(x, parameters, self.incoming)
                self.output = x.detach()

    def step(self, head):
        """Replays allocate nothing. The head between them does."""
        self.words.copy_(empty(*self.words.shape, dtype=torch.int64))
        hidden = self.output.detach().requires_grad_()
        return hidden, head(hidden)

    def backward(self, loss, hidden):
        loss.backward()
        self.incoming.copy_(hidden.grad)
        for parameter, gradient in zip(self.encoder.parameters(), self.gradients):
            parameter.grad = gradient


BUCKETS = [(24, 512), (32, 384), (48, 256), (96, 128), (150, 80), (192, 64)]


def graphs_by_length(recorder, seed, steps=70, adaptation=35):
    """Masked-word training of a 355M encoder that is captured in a CUDA graph for each length of
    text, when a text of that length first comes. Graphs share one pool. The head, the optimizer, a
    moving average and evaluations of any length are eager."""
    chance = random.Random(seed)
    encoder, head = Encoder(), Ranks()
    average = copy.deepcopy(encoder).requires_grad_(False)
    parameters = list(encoder.parameters()) + list(head.parameters())
    optimizer = adam(parameters)
    pool, graphs = PrivatePool(recorder), {}
    for step in range(1, steps + 1):
        known = 3 if step < adaptation else len(BUCKETS)  # short texts come later
        batch, length = chance.choices(BUCKETS[:known], [8, 5, 4, 3, 2, 1][:known])[0]
        if (batch, length) not in graphs:
            graphs[batch, length] = Graphed(recorder, pool, encoder, batch, length)
        graph = graphs[batch, length]
        hidden_words = int(batch * length * chance.uniform(0.12, 0.3))

        def lose(x, count=hidden_words):
            with Autocast.active():
                return head(x, indices(count), indices(count))

        hidden, loss = graph.step(lose)
        graph.backward(loss, hidden)
        del hidden, loss
        clip_gradients(parameters)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 5 == 0:
            average_into(average, encoder)
        if step % 14 == 0:
            with torch.no_grad(), Autocast.active():
                for _ in range(4):
                    rows, words = chance.randint(16, 400), chance.randint(2, 60) * 8
                    x = average(empty(rows, words, dtype=torch.int64))
                    count = int(rows * words * 0.15)
                    head(x, indices(count), indices(count))
                    del x
    return encoder, head, average, optimizer, pool, graphs
