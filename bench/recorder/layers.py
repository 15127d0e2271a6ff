"""Shared parts of the recorded programs: tensors, layers and optimizer steps as they run on a
GPU."""
import contextlib

import torch
import torch.nn.functional as F
from torch import nn

BF16 = torch.bfloat16
FP32 = torch.float32
INT64 = torch.int64


def empty(*shape, dtype=BF16):
    return torch.empty(shape, dtype=dtype, device="meta")


def indices(count):
    return empty(count, dtype=INT64)


class Autocast:
    """Weights in 32 bits, computed with in 16: one copy of each weight, kept until the block ends,
    as torch.autocast does (which knows no meta device)."""

    copies = None

    @classmethod
    @contextlib.contextmanager
    def active(cls):
        cls.copies = {}
        try:
            yield
        finally:
            cls.copies = None

    @classmethod
    def of(cls, weight):
        if cls.copies is None or weight is None or weight.dtype != FP32:
            return weight
        if weight not in cls.copies:
            cls.copies[weight] = weight.to(BF16)
        return cls.copies[weight]


class Linear(nn.Linear):
    def forward(self, x):
        if Autocast.copies is not None and x.dtype == FP32:
            x = x.to(BF16)
        return F.linear(x, Autocast.of(self.weight), Autocast.of(self.bias))


class Conv2d(nn.Conv2d):
    def forward(self, x):
        if Autocast.copies is not None and x.dtype == FP32:
            x = x.to(BF16)
        return F.conv2d(x, Autocast.of(self.weight), Autocast.of(self.bias), self.stride,
                        self.padding, self.dilation, self.groups)


class RMSNorm(nn.Module):
    """As language models write it out: in 32 bits, then back."""

    def __init__(self, width, **options):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, **options))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def attention(query, key, value, causal=False):
    """Flash attention over (batch, heads, length, width)."""
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal)[0]


def heads(x, count):
    """(batch, length, width) as (batch, heads, length, width of a head)."""
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def rotate(x, cosine, sine):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cosine + turned * sine


class Block(nn.Module):
    """A pre-norm transformer layer, with cross attention where `context` tells its width."""

    def __init__(self, width, head_count, context=0, ratio=4, dtype=FP32):
        super().__init__()
        options = {"dtype": dtype, "device": "meta"}
        self.head_count = head_count
        self.norm1 = nn.LayerNorm(width, **options)
        self.qkv = Linear(width, 3 * width, **options)
        self.project = Linear(width, width, **options)
        if context:
            self.norm_cross = nn.LayerNorm(width, **options)
            self.cross_q = Linear(width, width, **options)
            self.cross_kv = Linear(context, 2 * width, **options)
            self.cross_project = Linear(width, width, **options)
        self.norm2 = nn.LayerNorm(width, **options)
        self.up = Linear(width, ratio * width, **options)
        self.down = Linear(ratio * width, width, **options)

    def attend(self, x):
        query, key, value = (heads(part, self.head_count) for part in
                             self.qkv(self.norm1(x)).chunk(3, dim=-1))
        return self.project(joined(attention(query, key, value)))

    def attend_to(self, x, context):
        query = heads(self.cross_q(self.norm_cross(x)), self.head_count)
        key, value = (heads(part, self.head_count) for part in
                      self.cross_kv(context).chunk(2, dim=-1))
        return self.cross_project(joined(attention(query, key, value)))

    def feed(self, x):
        return self.down(F.gelu(self.up(self.norm2(x))))

    def forward(self, x, context=None):
        x = x + self.attend(x)
        if context is not None:
            x = x + self.attend_to(x, context)
        return x + self.feed(x)


def clip_gradients(parameters, norm=1.0):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norms = torch._foreach_norm(gradients)
    total = torch.linalg.vector_norm(torch.stack(norms))
    torch._foreach_mul_(gradients, torch.clamp(norm / (total + 1e-6), max=1.0))


@torch.no_grad()
def average_into(target, source, decay=0.999):
    """The moving average of a model's weights."""
    kept = [p.detach() for p in target.parameters()]
    new = [p.detach() for p in source.parameters()]
    torch._foreach_mul_(kept, decay)
    torch._foreach_add_(kept, new, alpha=1 - decay)


def adam(parameters, **options):
    return torch.optim.AdamW(parameters, lr=1e-4, foreach=True, **options)


def group_by_depth(model):
    """Parameter groups by the depth of their layer, as layer-wise learning rates need them."""
    groups = {}
    for name, parameter in model.named_parameters():
        layer = next((part for part in name.split(".") if part.isdigit()), "rest")
        groups.setdefault((layer, parameter.ndim > 1), []).append(parameter)
    return [{"params": list(members)} for members in groups.values()]
