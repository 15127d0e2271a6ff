"""Serving programs: speech recognition by beam search, a language model over a paged cache, and
two language models that speculate."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import (FP32, INT64, Block, Linear, RMSNorm, attention, empty, heads, indices, joined,
                    rotate)


class SpeechDecoder(nn.Module):
    """One step of a decoder whose caches grow by concatenation."""

    def __init__(self, width, head_count, dtype):
        super().__init__()
        self.block = Block(width, head_count, width, dtype=dtype)
        self.width = width

    def cross_cache(self, sound, beams):
        key, value = (heads(part, self.block.head_count) for part in
                      self.block.cross_kv(sound).chunk(2, dim=-1))
        return key.repeat_interleave(beams, dim=0), value.repeat_interleave(beams, dim=0)

    def forward(self, x, cache, cross):
        block = self.block
        query, key, value = (heads(part, block.head_count) for part in
                             block.qkv(block.norm1(x)).chunk(3, dim=-1))
        if cache is not None:
            key = torch.cat((cache[0], key), dim=2)
            value = torch.cat((cache[1], value), dim=2)
        x = x + block.project(joined(attention(query, key, value)))
        query = heads(block.cross_q(block.norm_cross(x)), block.head_count)
        x = x + block.cross_project(joined(attention(query, *cross)))
        return x + block.feed(x), (key, value)


@torch.no_grad()
def whisper_beam(recorder, seed, batches=7, beams=5):
    """Speech recognition: batches of any number of segments, then beam search that reorders the
    caches of all layers after each token."""
    chance = random.Random(seed)
    half, width = torch.float16, 1024
    enter = nn.ModuleList((nn.Conv1d(80, width, 3, padding=1, device="meta", dtype=half),
                           nn.Conv1d(width, width, 3, 2, 1, device="meta", dtype=half)))
    encoder = nn.ModuleList(Block(width, 16, dtype=half) for _ in range(24))
    decoder = nn.ModuleList(SpeechDecoder(width, 16, half) for _ in range(10))
    words = nn.Embedding(51865, width, device="meta", dtype=half)
    for _ in range(batches):
        batch = chance.choice((3, 8, 12, 16, 24, 31, 40))
        x = empty(batch, 80, 3000, dtype=FP32).to(half)
        for layer in enter:
            x = F.gelu(layer(x))
        x = x.transpose(1, 2)
        for block in encoder:
            x = block(x)
        cross = [layer.cross_cache(x, beams) for layer in decoder]
        del x
        caches = [None] * len(decoder)
        scores = empty(batch * beams, dtype=FP32)
        for at in range(int(chance.lognormvariate(3.4, 0.45))):
            x = words(empty(batch * beams, 4 if at == 0 else 1, dtype=INT64))
            for layer, block in enumerate(decoder):
                x, caches[layer] = block(x, caches[layer], cross[layer])
            ranks = F.log_softmax(F.linear(x[:, -1], words.weight).float(), dim=-1)
            best, where = torch.topk((ranks + scores[:, None]).view(batch, -1), 2 * beams)
            scores = best[:, :beams].reshape(-1)
            order = (where[:, :beams] // 51865).reshape(-1)
            caches = [(key.index_select(0, order), value.index_select(0, order))
                      for key, value in caches]
            del ranks, best, where, order, x
        del cross, caches, scores
    return enter, encoder, decoder, words


class PagedLayer(nn.Module):
    """A layer of a language model over a paged cache: keys and values go where the pages are."""

    def __init__(self, width=4096, inner=14336, key_heads=8, head_width=128):
        super().__init__()
        options = {"bias": False, "device": "meta", "dtype": torch.bfloat16}
        self.kv_width = key_heads * head_width
        self.norm1 = RMSNorm(width, device="meta", dtype=torch.bfloat16)
        self.qkv = Linear(width, width + 2 * self.kv_width, **options)
        self.project = Linear(width, width, **options)
        self.norm2 = RMSNorm(width, device="meta", dtype=torch.bfloat16)
        self.gate_up = Linear(width, 2 * inner, **options)
        self.down = Linear(inner, width, **options)

    def adapted(self, layer, x, adapters, name):
        y = layer(x)
        for share, weights in adapters:
            rows = max(1, int(x.shape[0] * share))
            narrow = x[:rows] @ weights[name][0]
            y[:rows] += narrow @ weights[name][1]
        return y

    def forward(self, x, cosine, sine, adapters):
        y = self.adapted(self.qkv, self.norm1(x), adapters, "qkv")
        query, key, _ = y.split((x.shape[1], self.kv_width, self.kv_width), dim=-1)
        query = rotate(query.view(x.shape[0], -1, 128), cosine, sine)
        rotate(key.view(x.shape[0], -1, 128), cosine, sine)
        seen = torch.empty_like(query)  # what the paged attention kernel writes
        del y, query, key
        x = x + self.project(seen.view(x.shape[0], -1))
        gate, up = self.adapted(self.gate_up, self.norm2(x), adapters, "up").chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def load_adapter(layers, rank):
    """The weights of one low-rank adapter, for all layers."""
    return [{"qkv": (empty(4096, rank), empty(rank, 6144)),
             "up": (empty(4096, rank), empty(rank, 28672))} for _ in range(layers)]


def sample(logits, chance):
    """Temperature, then the smallest set of words that hold most of the probability."""
    logits = logits.float() / 0.8
    if chance.random() < 0.6:
        ordered, where = torch.sort(logits, dim=-1, descending=True)
        total = torch.softmax(ordered, dim=-1).cumsum(dim=-1)
        ordered = ordered.masked_fill(total > 0.95, float("-inf"))
        logits = torch.empty_like(logits).scatter_(-1, where, ordered)
    chances = torch.softmax(logits, dim=-1)
    return torch.argmax(chances / torch.empty_like(chances).exponential_(), dim=-1)


@torch.no_grad()
def paged_lora_prefill(recorder, seed, steps=60):
    """Language model serving over one preallocated paged cache. Prompts come in chunks beside
    running requests, adapters of any rank come and go, some requests want the probabilities of
    their prompt, and pictures are encoded between steps."""
    chance = random.Random(seed)
    layers = nn.ModuleList(PagedLayer() for _ in range(32))
    words = nn.Embedding(128256, 4096, device="meta", dtype=torch.bfloat16)
    eyes = nn.ModuleList(Block(1280, 16, dtype=torch.bfloat16) for _ in range(16))
    pages = [empty(2, 5000, 16, 8, 128) for _ in range(32)]
    adapters, seen_pictures = {}, {}
    for step in range(steps):
        if chance.random() < 0.12:
            patches = int(chance.lognormvariate(8.0, 0.7)) // 4 * 4
            x = empty(1, patches, 1280)
            for eye in eyes:
                x = eye(x)
            seen_pictures[step] = x.view(-1, 5120)[:, :4096].clone()
            del x
        name = int(chance.paretovariate(0.8)) % 40
        if name not in adapters:
            if len(adapters) >= 8:
                del adapters[next(iter(adapters))]
            adapters[name] = load_adapter(len(layers), chance.choice((8, 16, 32, 64, 128)))
        running = chance.randint(8, 160)
        prefill = chance.choice((0, 0, chance.randint(16, 700), 2048, chance.randint(1000, 4096)))
        tokens = running + prefill
        with recorder.on_stream(1):
            inputs = [indices(tokens) for _ in range(3)]
            table = empty(running + 4, 512, dtype=torch.int32)
        x = words(inputs[0])
        angles = empty(tokens, 1, 128)
        cosine, sine = angles.cos(), angles.sin()
        active = chance.sample(list(adapters), min(len(adapters), chance.randint(1, 3)))
        for at, layer in enumerate(layers):
            x = layer(x, cosine, sine, [(0.3, adapters[one][at]) for one in active])
        if prefill and chance.random() < 0.1:
            ranks = torch.log_softmax((x[:1024] @ words.weight.t()).float(), dim=-1)
            torch.topk(ranks, 20)
            del ranks
        sample(x[:running] @ words.weight.t(), chance)
        del x, angles, cosine, sine, inputs, table
        for old in [at for at in seen_pictures if at < step - chance.randint(2, 30)]:
            del seen_pictures[old]
    return layers, words, eyes, pages, adapters, seen_pictures
