"""Training programs with communication on streams of its own: a stage of a pipeline with tensor
parallel layers, and recommendation with embedding tables spread over devices."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import BF16, FP32, INT64, RMSNorm, attention, empty, heads, indices, joined, rotate

GATHER, SEND = 1, 2  # streams


class Gather(torch.autograd.Function):
    """Joins the parts of a sequence that the devices of a group hold. Back: sums and parts."""

    @staticmethod
    def forward(ctx, x, recorder, size):
        ctx.recorder, ctx.size = recorder, size
        with recorder.on_stream(GATHER):
            return empty(x.shape[0], x.shape[1] * size, x.shape[2])

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        ctx.recorder.record_stream(grad, GATHER)
        with ctx.recorder.on_stream(GATHER):
            return empty(grad.shape[0], grad.shape[1] // ctx.size, grad.shape[2]), None, None


class Scatter(torch.autograd.Function):
    """Sums over the group and keeps a part of the sequence. Back: joins."""

    @staticmethod
    def forward(ctx, x, recorder, size):
        ctx.recorder, ctx.size = recorder, size
        recorder.record_stream(x, GATHER)
        with recorder.on_stream(GATHER):
            return empty(x.shape[0], x.shape[1] // size, x.shape[2])

    @staticmethod
    def backward(ctx, grad):
        with ctx.recorder.on_stream(GATHER):
            return empty(grad.shape[0], grad.shape[1] * ctx.size, grad.shape[2]), None, None


class ParallelLayer(nn.Module):
    def __init__(self, recorder, size, width=6144, head_count=48, inner=16384):
        super().__init__()
        options = {"bias": False, "device": "meta", "dtype": BF16}
        self.recorder, self.size, self.head_count = recorder, size, head_count // size
        self.norm1 = RMSNorm(width, device="meta", dtype=BF16)
        self.qkv = nn.Linear(width, 3 * width // size, **options)
        self.project = nn.Linear(width // size, width, **options)
        self.norm2 = RMSNorm(width, device="meta", dtype=BF16)
        self.gate_up = nn.Linear(width, 2 * inner // size, **options)
        self.down = nn.Linear(inner // size, width, **options)

    def forward(self, x, cosine, sine):
        y = Gather.apply(self.norm1(x), self.recorder, self.size)
        query, key, value = (heads(part, self.head_count) for part in self.qkv(y).chunk(3, -1))
        y = attention(rotate(query, cosine, sine), rotate(key, cosine, sine), value, True)
        x = x + Scatter.apply(self.project(joined(y)), self.recorder, self.size)
        y = Gather.apply(self.norm2(x), self.recorder, self.size)
        gate, up = self.gate_up(y).chunk(2, -1)
        return x + Scatter.apply(self.down(F.silu(gate) * up), self.recorder, self.size)


def parallel_optimizer_step(parameters, state):
    """Gradients of a bucket are summed into a part on the gathering stream. The weights' masters
    are kept in 32 bits, a part a device, in one flat tensor."""
    flat, recorder = state["flat"], state["recorder"]
    with recorder.on_stream(GATHER):
        part = empty(flat.numel(), dtype=BF16)
    wide = part.float()
    state["first"].mul_(0.9).add_(wide)
    state["second"].mul_(0.95).addcmul_(wide, wide)
    flat.addcdiv_(state["first"], state["second"].sqrt().add_(1e-8))
    narrow = flat.to(BF16)
    with recorder.on_stream(GATHER):
        whole = empty(sum(p.numel() for p in parameters))
    torch._foreach_copy_([p.detach() for p in parameters],
                         [piece.view_as(p) for piece, p in
                          zip(whole.split([p.numel() for p in parameters]), parameters)])
    del narrow, whole


def pipeline_tensor_3stream(recorder, seed, steps=6, microbatches=10, depth=4, size=4):
    """A middle stage of a pipeline of tensor parallel layers, one forward and one backward in turn.
    Documents are packed to a length that changes with each microbatch. Layers gather on one stream,
    stages send on another."""
    chance = random.Random(seed)
    layers = nn.ModuleList(ParallelLayer(recorder, size) for _ in range(10))
    parameters = list(layers.parameters())
    sums = [torch.zeros_like(p, dtype=FP32) for p in parameters]
    count = sum(p.numel() for p in parameters) // 8
    state = {"recorder": recorder} | {name: empty(count, dtype=FP32)
                                      for name in ("flat", "first", "second")}

    def forward():
        length = chance.randint(8, 34) * 256
        with recorder.on_stream(SEND):
            received = empty(1, length // size, 6144).requires_grad_()
        angles = empty(1, 1, length, 128)
        cosine, sine = angles.cos(), angles.sin()
        x = received
        for layer in layers:
            x = layer(x, cosine, sine)
        recorder.record_stream(x, SEND)
        return received, x

    def backward(received, x):
        with recorder.on_stream(SEND):
            gradient = empty(*x.shape)
        torch.autograd.backward(x, gradient)
        recorder.record_stream(received.grad, SEND)
        for total, parameter in zip(sums, parameters):
            total.add_(parameter.grad)
            parameter.grad = None

    for _ in range(steps):
        under_way = []
        for at in range(microbatches + depth):
            if at < microbatches:
                under_way.append(forward())
            if at >= depth:
                backward(*under_way.pop(0))
        parallel_optimizer_step(parameters, state)
        torch._foreach_zero_(sums)
    return layers, sums, state


TABLE_ROWS = [int(10 ** (6.9 - at * 0.17)) for at in range(20)] + [9000, 1200, 60, 14, 3, 3]


class Interaction(nn.Module):
    """Dot products of all pairs of features, those below the diagonal kept."""

    def forward(self, dense, sparse):
        stacked = torch.cat([dense] + sparse, dim=1).view(dense.shape[0], -1, dense.shape[1])
        pairs = torch.bmm(stacked, stacked.transpose(1, 2))
        count = stacked.shape[1]
        picked = pairs.flatten(1).index_select(1, indices(count * (count - 1) // 2))
        return torch.cat((dense, picked), dim=1)


def tower(*sizes):
    parts = []
    for into, out in zip(sizes, sizes[1:]):
        parts += [nn.Linear(into, out, device="meta"), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def update_table(table, moment, gradient, unique):
    """Rows that were looked up: summed by row, then a row-wise step."""
    order = torch.empty_like(gradient[:, 0], dtype=INT64)
    summed = empty(unique, table.shape[1], dtype=FP32).index_add_(0, order, gradient)
    rows = indices(unique)
    scale = moment[rows] + summed.pow(2).mean(dim=1)
    moment[rows] = scale
    table.index_add_(0, rows, summed / scale.sqrt().unsqueeze(1))


def dlrm_tables(recorder, seed, steps=150, batch=16384):
    """Recommendation: lookups of any number of rows a sample in 26 tables, rows exchanged on a
    second stream while the next batch's indices arrive, sparse row-wise updates."""
    chance = random.Random(seed)
    tables = [empty(max(rows, 16), 128, dtype=FP32) for rows in TABLE_ROWS]
    moments = [empty(table.shape[0], dtype=FP32) for table in tables]
    bottom, top = tower(13, 512, 256, 128), tower(479, 1024, 1024, 512, 256, 1)
    mix = Interaction()
    dense_parameters = list(bottom.parameters()) + list(top.parameters())
    optimizer = torch.optim.Adagrad(dense_parameters, lr=0.01, foreach=True)
    hot = [chance.uniform(1, 12) for _ in tables]

    def load():
        with recorder.on_stream(1):
            return [indices(max(1, int(batch * many * chance.uniform(0.5, 1.5))))
                    for many in hot] + [empty(batch, 13, dtype=FP32)]

    following = load()
    for _ in range(steps):
        *lookups, numbers = following
        pooled = []
        for table, where in zip(tables, lookups):
            rows = table[where]
            pooled.append(empty(batch, 128, dtype=FP32).index_add_(0, where % batch, rows))
            del rows
        with recorder.on_stream(1):
            exchanged = [empty(batch, 128, dtype=FP32).requires_grad_() for _ in pooled]
        following = load()
        for part in pooled:
            recorder.record_stream(part, 1)
        del pooled, part
        score = top(mix(bottom(numbers), exchanged))
        loss = F.binary_cross_entropy_with_logits(score, empty(batch, 1, dtype=FP32))
        loss.backward()
        del score, loss
        for table, moment, where, part in zip(tables, moments, lookups, exchanged):
            with recorder.on_stream(1):
                back = torch.empty_like(part.grad)
            part.grad = None
            unique = min(table.shape[0], max(1, int(where.shape[0] * chance.uniform(0.3, 0.7))))
            update_table(table, moment, back[where % batch], unique)
            del back
        del lookups, numbers, exchanged, where, part, table, moment
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return tables, moments, bottom, top, optimizer, following
