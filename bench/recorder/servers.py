"""Servers that hold more than one thing: several models in one process, long contexts with a
cache of their prefixes, and a mixture of experts whose weights are compressed."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import (BF16, Autocast, Block, Linear, RMSNorm, attention, empty, indices, joined,
                    rotate)
from recorder import GIB
from vision import UNet

LOAD = 9  # the stream that copies weights from the host


class DecoderLayer(nn.Module):
    """A layer of a language model whose keys and values the caller keeps."""

    def __init__(self, width, inner, head_count, key_heads, head_width=128):
        super().__init__()
        options = {"bias": False, "device": "meta", "dtype": BF16}
        self.head_count, self.head_width = head_count, head_width
        self.sizes = (head_count * head_width, key_heads * head_width, key_heads * head_width)
        self.norm1 = RMSNorm(width, device="meta", dtype=BF16)
        self.qkv = Linear(width, sum(self.sizes), **options)
        self.project = Linear(self.sizes[0], width, **options)
        self.norm2 = RMSNorm(width, device="meta", dtype=BF16)
        self.feed = self.make_feed(width, inner, options)

    @staticmethod
    def make_feed(width, inner, options):
        return nn.ModuleDict({"gate_up": Linear(width, 2 * inner, **options),
                              "down": Linear(inner, width, **options)})

    def run_feed(self, x):
        gate, up = self.feed["gate_up"](x).chunk(2, -1)
        return self.feed["down"](F.silu(gate) * up)

    def forward(self, x, cosine, sine, store):
        """`store(keys, values)` keeps them and returns all that the queries see."""
        query, key, value = (part.view(x.shape[0], x.shape[1], -1, self.head_width).transpose(1, 2)
                             for part in self.qkv(self.norm1(x)).split(self.sizes, -1))
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        key, value = store(key, value)
        # Queries share heads by views: a kernel for grouped heads copies none.
        shared = [part[:, :1].expand(-1, self.head_count, -1, -1) for part in (key, value)]
        x = x + self.project(joined(attention(query, *shared, True)))
        return x + self.run_feed(self.norm2(x))


def angles(batch, tokens, width=128):
    phases = empty(batch, 1, tokens, width)
    return phases.cos(), phases.sin()


def move_weights(recorder, module):
    """The weights as a loader brings them: one tensor after the other, on a stream of its own."""
    with recorder.on_stream(LOAD):
        for part in module.modules():
            for name, weight in list(part._parameters.items()):
                if weight is not None:
                    part._parameters[name] = nn.Parameter(empty(*weight.shape), False)
    return module


class Assistant:
    """The work of the models for one request each, all on streams of their own."""

    def __init__(self, recorder, chance):
        self.recorder, self.chance = recorder, chance
        self.loaded = {}  # name: [modules, turn of its last use]
        self.makers = {
            "speech": (self.make_speech, self.hear, 1), "text": (self.make_text, self.write, 2),
            "picture": (self.make_picture, self.paint, 3),
            "search": (self.make_search, self.embed, 4),
            "rerank": (self.make_rerank, self.rerank, 4)}

    @staticmethod
    def make_speech():
        return nn.ModuleList(Block(1280, 20, dtype=BF16) for _ in range(32))

    @staticmethod
    def make_text():
        layers = nn.ModuleList(DecoderLayer(3584, 18944, 28, 4) for _ in range(28))
        return nn.ModuleList((layers, nn.Embedding(152064, 3584, device="meta", dtype=BF16)))

    @staticmethod
    def make_picture():
        text = nn.ModuleList(Block(768, 12, dtype=BF16) for _ in range(12))
        return nn.ModuleList((UNet().to(BF16), text))

    @staticmethod
    def make_search():
        return nn.ModuleList(Block(1024, 16, dtype=BF16) for _ in range(24))

    @staticmethod
    def make_rerank():
        return nn.ModuleList(Block(1024, 16, dtype=BF16) for _ in range(24))

    def hear(self, model):
        """Speech of any length, in windows of 30 seconds."""
        x = empty(self.chance.randint(1, 12), 1500, 1280)
        for block in model:
            x = block(x)
        return x.mean(1)

    def write(self, model):
        """A conversation: caches grow by concatenation."""
        layers, words = model
        prompt, batch = int(self.chance.lognormvariate(7.2, 0.8)), self.chance.choice((1, 1, 2, 4))
        caches = [None] * len(layers)

        def store_at(at):
            def store(key, value):
                if caches[at] is not None:
                    key = torch.cat((caches[at][0], key), 2)
                    value = torch.cat((caches[at][1], value), 2)
                caches[at] = key, value
                return key, value
            return store

        for turn in range(self.chance.randint(2, 9)):
            tokens = prompt if turn == 0 else 1
            x = words(indices(batch * tokens).view(batch, tokens))
            cosine, sine = angles(batch, tokens)
            for at, layer in enumerate(layers):
                x = layer(x, cosine, sine, store_at(at))
            ranks = F.linear(x[:, -1], words.weight).float().softmax(-1)
            torch.topk(ranks, 50)
        return ranks

    def paint(self, model):
        """Pictures of the size that was asked for, with and without the text."""
        net, text = model
        height, width = self.chance.choice(((64, 64), (64, 96), (96, 64), (72, 128), (96, 96)))
        batch = 2 * self.chance.choice((1, 1, 2, 4))
        context = empty(batch, 77, 768)
        for block in text:
            context = block(context)
        latents = empty(batch // 2, 4, height, width)
        for _ in range(self.chance.choice((1, 2, 4))):
            with Autocast.active():
                guess = net(torch.cat((latents, latents)), empty(batch, 320), context)
            latents = latents - guess.chunk(2)[0] * 0.1
            del guess
        return (latents * 127).to(torch.uint8)

    def embed(self, model):
        x = empty(self.chance.randint(1, 64), self.chance.randint(8, 64) * 8, 1024)
        for block in model:
            x = block(x)
        return F.normalize(x[:, 0].float(), dim=-1)

    def rerank(self, model):
        x = empty(self.chance.randint(10, 100), self.chance.randint(16, 64) * 8, 1024)
        for block in model:
            x = block(x)
        return x[:, 0].float().sum(-1).sort().indices

    def serve(self, name, turn):
        make, run, stream = self.makers[name]
        if name not in self.loaded:
            self.loaded[name] = [move_weights(self.recorder, make()), turn]
        self.loaded[name][1] = turn
        with self.recorder.on_stream(stream):
            return run(self.loaded[name][0])

    def forget(self, turn, limit_bytes):
        """Models that were unused for long leave, and sooner when memory is short."""
        short = self.recorder.live_bytes > limit_bytes
        for name, (_, used) in list(self.loaded.items()):
            if turn - used > (6 if short else 25):
                del self.loaded[name]


@torch.no_grad()
def models_one_process(recorder, seed, turns=130):
    """An assistant's five models in one process, each on a stream of its own: speech, a 7B language
    model, pictures, search, ranking. They are loaded when they are wanted, and dropped when
    idle."""
    chance = random.Random(seed)
    assistant = Assistant(recorder, chance)
    kinds = {"speech": 5, "text": 3, "picture": 2, "search": 8, "rerank": 4}
    answers = []
    for turn in range(turns):
        if turn % 45 == 0:  # what people want changes over the day
            weights = [many * chance.choice((0.05, 0.5, 1, 2)) for many in kinds.values()]
        name = chance.choices(list(kinds), weights)[0]
        answer = assistant.serve(name, turn)
        recorder.record_stream(answer, 0)
        answers.append(answer)
        del answer
        if len(answers) > chance.randint(3, 20):  # answers leave with the network
            del answers[:chance.randint(1, 4)]
        assistant.forget(turn, 22 * GIB)
    return assistant, answers


class Prefix:
    """A piece of text in the tree of prefixes, with the keys and values of all layers."""

    def __init__(self, layers, tokens, key_heads=8):
        self.tokens, self.children, self.used, self.users = tokens, [], 0, 0
        self.caches = [empty(2, key_heads, tokens, 128) for _ in range(layers)]

    def split(self, at):
        """The first `at` tokens become this piece, the rest a child with the old children."""
        rest = Prefix(0, self.tokens - at)
        rest.children, rest.used = self.children, self.used
        for layer, cache in enumerate(self.caches):
            rest.caches.append(cache[:, :, at:].clone())
            self.caches[layer] = cache[:, :, :at].clone()
        self.tokens, self.children = at, [rest]


class PrefixTree:
    def __init__(self, chance, layers, budget_tokens):
        self.chance, self.layers, self.budget = chance, layers, budget_tokens
        self.roots, self.turn = [], 0

    def pieces(self):
        waiting = list(self.roots)
        while waiting:
            piece = waiting.pop()
            waiting += piece.children
            yield piece

    def match(self):
        """The pieces that a request's text starts with: often none, often a whole conversation."""
        path, siblings = [], self.roots
        while siblings and self.chance.random() < (0.8 if not path else 0.65):
            piece = self.chance.choice(siblings[-6:])
            if piece.tokens > 2048 and self.chance.random() < 0.2:
                piece.split(self.chance.randint(4, piece.tokens // 256 - 1) * 256)
            piece.used = self.turn
            path.append(piece)
            siblings = piece.children
        return path

    def insert(self, path, caches, start, stop):
        piece = Prefix(0, stop - start)
        piece.caches = [cache[:, :, start:stop].clone() for cache in caches]
        piece.used = self.turn
        (path[-1].children if path else self.roots).append(piece)

    def shrink(self):
        """Leaves that were used longest ago go first."""
        while sum(piece.tokens for piece in self.pieces()) > self.budget:
            lists = [self.roots] + [piece.children for piece in self.pieces()]
            siblings, leaf = min(((pieces, piece) for pieces in lists for piece in pieces
                                  if not piece.children), key=lambda pair: pair[1].used)
            siblings.remove(leaf)


def prefill(layers, words, caches, start, tokens, chunk):
    """A prompt in chunks. Keys and values are written after the prefix."""
    while tokens > 0:
        now = min(tokens, chunk)
        x = words(indices(now).view(1, now))
        cosine, sine = angles(1, now)

        def store(key, value, at, end=start + now):
            caches[at][:, :, end - key.shape[2]:end] = torch.stack((key[0], value[0]))
            return caches[at][:1, :, :end], caches[at][1:, :, :end]

        for at, layer in enumerate(layers):
            x = layer(x, cosine, sine, lambda key, value, at=at: store(key, value, at))
        start, tokens = start + now, tokens - now
    return F.linear(x[:, -1], words.weight).float()


@torch.no_grad()
def longctx_prefix_cache(recorder, seed, requests=50, budget_tokens=250_000, chunk=8192):
    """Contexts of up to 128k tokens on an 8B model: a tree of known prefixes whose pieces are
    split, copied into each request's cache, and dropped when long unused. Decoding runs in graphs
    over static buffers and allocates almost nothing."""
    chance = random.Random(seed)
    layers = nn.ModuleList(DecoderLayer(4096, 14336, 32, 8) for _ in range(32))
    words = nn.Embedding(128256, 4096, device="meta", dtype=BF16)
    static = [indices(64), indices(64), empty(64, 128256), empty(64, 2048, dtype=torch.int32)]
    tree, running = PrefixTree(chance, len(layers), budget_tokens), []
    for tree.turn in range(1, requests + 1):
        path = tree.match()
        known = sum(piece.tokens for piece in path)
        room = max(0, 131_072 - 4096 - known)
        fresh = min(room, int(chance.lognormvariate(8.6, 1.1)), 65_536) // 16 * 16 + 16
        answer = chance.randint(32, 2048) // 16 * 16
        caches = [empty(2, 8, known + fresh + answer, 128) for _ in layers]
        start = 0
        for piece in path:
            for cache, part in zip(caches, piece.caches):
                cache[:, :, start:start + piece.tokens] = part
            start += piece.tokens
        ranks = prefill(layers, words, caches, known, fresh, chunk)
        running.append((path, caches, known, known + fresh + answer))
        del caches, ranks, path
        while len(running) > chance.randint(1, 3):  # which ends first depends on its answer
            path, caches, begin, end = running.pop(chance.randrange(len(running)))
            tree.insert(path, caches, begin, end)
            del caches, path
        for _ in range(chance.randint(5, 40)):  # decoding: only what the sampler makes
            ranks = static[2][:len(running) + 1].float()
            torch.sort(ranks, descending=True)
            del ranks
        tree.shrink()
    return layers, words, static, tree, running


class Packed4:
    """A weight in 4 bits with a scale for each 64, unpacked into a copy of 16 bits for large
    batches, read as it is by the kernel for small ones."""

    def __init__(self, into, out):
        self.shape = out, into
        self.bits = empty(out * into // 2, dtype=torch.uint8)
        self.scales = empty(out * into // 64)

    def __call__(self, x):
        if x.shape[0] <= 32:
            return empty(x.shape[0], self.shape[0])
        return F.linear(x, empty(*self.shape))


class Expert:
    def __init__(self, width, inner):
        self.gate_up, self.down = Packed4(width, 2 * inner), Packed4(inner, width)

    def __call__(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class ExpertLayer(DecoderLayer):
    """Attention, then two of eight experts for each token. Some experts wait on the host."""

    def __init__(self, recorder, chance, width=4096, inner=14336, experts=8):
        super().__init__(width, inner, 32, 8)
        self.recorder, self.chance, self.experts = recorder, chance, experts
        self.inner, self.width = inner, width
        self.router = Linear(width, experts, bias=False, device="meta", dtype=BF16)
        self.here = {at: Expert(width, inner) for at in range(experts - 3)}
        self.popular = [chance.paretovariate(1.2) for _ in range(experts)]

    @staticmethod
    def make_feed(width, inner, options):
        return nn.Identity()

    def expert(self, at):
        """Brings an expert from the host, in place of the one that was used longest ago."""
        if at in self.here:
            self.here[at] = self.here.pop(at)
            return self.here[at]
        del self.here[next(iter(self.here))]
        with self.recorder.on_stream(LOAD):
            self.here[at] = Expert(self.width, self.inner)
        return self.here[at]

    def run_feed(self, x):
        tokens = x.view(-1, self.width)
        weights, chosen = torch.topk(self.router(tokens).float().softmax(-1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        if tokens.shape[0] <= 64:
            return self.run_few(tokens).view_as(x)
        order = chosen.flatten().sort().indices
        total = torch.zeros_like(tokens)
        for at, count in self.loads(tokens.shape[0]):
            mine = order[:count] // 2
            part = self.expert(at)(tokens[mine])
            total.index_add_(0, mine, part * weights.flatten()[:count, None].to(BF16))
            del part, mine
        return total.view_as(x)

    def run_few(self, tokens):
        """One kernel for all experts of a small batch."""
        for at, _ in self.loads(tokens.shape[0]):
            self.expert(at)
        wide = empty(2 * tokens.shape[0], 2 * self.inner)
        gate, up = wide.chunk(2, -1)
        parts = empty(2, tokens.shape[0], self.width) + (gate * up)[:1, :1]
        return parts.sum(0)

    def loads(self, tokens):
        """How many tokens each expert has: uneven, and in another way each time."""
        shares = [many * self.chance.uniform(0.2, 1.8) for many in self.popular]
        for at, share in enumerate(shares):
            count = min(tokens, round(2 * tokens * share / sum(shares)))
            if count:
                yield at, count


@torch.no_grad()
def moe_serve_4bit(recorder, seed, steps=30):
    """Serving eight experts of 7B each, in 4 bits: each step joins decoding requests and a piece of
    a prompt, each layer sorts tokens by expert. Three experts of eight wait on the host and come on
    a second stream. Each request has one cache for all layers, which grows by blocks."""
    chance = random.Random(seed)
    layers = nn.ModuleList(ExpertLayer(recorder, chance) for _ in range(32))
    words = nn.Embedding(32000, 4096, device="meta", dtype=BF16)
    requests, finished = {}, 0
    for step in range(steps):
        arrivals = chance.choice((0, 0, 1, 3, 8)) if step % 24 < 10 else 0
        for at in range(arrivals):
            prompt = min(24_000, int(chance.lognormvariate(7.5, 1.0)))
            requests[step, at] = {"tokens": 0, "prompt": prompt, "blocks": [],
                                  "left": chance.randint(10, 60)}
        rows = 0
        for request in requests.values():
            now = 1
            if request["tokens"] < request["prompt"]:
                now = min(request["prompt"] - request["tokens"], max(0, 4096 - rows))
            request["tokens"] += now
            rows += now
            while len(request["blocks"]) * 512 < request["tokens"]:
                request["blocks"].append(empty(32, 2, 512, 8, 128))
        if rows == 0:
            continue
        x = words(indices(rows).view(1, rows))
        cosine, sine = angles(1, rows)
        for layer in layers:
            x = layer(x, cosine, sine, lambda key, value: (key, value))
        ends = x[0, :len(requests)]
        ranks = F.linear(ends, words.weight).float() / 0.7
        torch.multinomial(ranks.softmax(-1), 1)
        del x, ends, ranks, cosine, sine
        for name, request in list(requests.items()):
            if request["tokens"] >= request["prompt"]:
                request["left"] -= 1
            if request["left"] == 0:
                del requests[name]
                finished += 1
    return layers, words, requests
