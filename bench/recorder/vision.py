"""Training programs of vision: self-distillation over crops, and a diffusion model."""
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import (BF16, FP32, Autocast, Block, Conv2d, Linear, adam, attention, average_into,
                    clip_gradients, empty, group_by_depth, heads, indices, joined)


class VisionTransformer(nn.Module):
    def __init__(self, width, depth, head_count, patch=14):
        super().__init__()
        self.patch = patch
        self.embed = Conv2d(3, width, patch, patch, device="meta")
        self.mask = nn.Parameter(empty(width, dtype=FP32))
        self.blocks = nn.ModuleList(Block(width, head_count) for _ in range(depth))
        self.norm = nn.LayerNorm(width, device="meta")

    def forward(self, images, masks=None, drop=0.0):
        x = self.embed(images).flatten(2).transpose(1, 2)
        if masks is not None:
            x = torch.where(masks.unsqueeze(-1), self.mask.to(x.dtype), x)
        x = torch.cat((x[:, :1], x), dim=1)
        for block in self.blocks:
            x = self.residual(x, block.attend, drop)
            x = self.residual(x, block.feed, drop)
        return self.norm(x)

    @staticmethod
    def residual(x, function, drop):
        """Stochastic depth by leaving out part of the batch."""
        if drop == 0:
            return x + function(x)
        kept = torch.randperm(x.shape[0], device="meta")[:max(1, int(x.shape[0] * (1 - drop)))]
        part = function(x[kept])
        return torch.index_add(x, 0, kept, part.to(x.dtype), alpha=1 / (1 - drop))


class Head(nn.Module):
    def __init__(self, width, prototypes):
        super().__init__()
        sizes = (width, 2048, 2048, 384)
        self.layers = nn.ModuleList(Linear(a, b, device="meta") for a, b in zip(sizes, sizes[1:]))
        self.last = Linear(384, prototypes, bias=False, device="meta")

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.last(F.normalize(x, dim=-1))


@torch.no_grad()
def sinkhorn(scores):
    weights = torch.exp(scores.float() / 0.07).t()
    weights /= weights.sum()
    for _ in range(3):
        weights /= weights.sum(dim=1, keepdim=True)
        weights /= weights.sum(dim=0, keepdim=True)
    return weights.t()


def distill_loss(student, target):
    return -(target * F.log_softmax(student.float() / 0.1, dim=-1)).sum(-1).mean()


def dino_multicrop(recorder, seed, steps=12, batch=48):
    """Two global and eight local crops, teacher by moving average, a masked part of the patches
    whose number changes each step."""
    chance = random.Random(seed)
    student = nn.ModuleList((VisionTransformer(1024, 24, 16), Head(1024, 65536),
                             Head(1024, 65536)))
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = adam(group_by_depth(student))
    for _ in range(steps):
        tall, small = empty(2 * batch, 3, 224, 224, dtype=FP32), empty(8 * batch, 3, 98, 98,
                                                                      dtype=FP32)
        masked = sum(int(256 * chance.uniform(0.1, 0.5)) for _ in range(batch))
        masks = empty(2 * batch, 256, dtype=torch.bool)
        where = indices(masked)
        with torch.no_grad(), Autocast.active():
            seen = teacher[0](tall)
            target = sinkhorn(teacher[1](seen[:, 0]))
            patch_target = sinkhorn(teacher[2](seen[:, 1:].flatten(0, 1).index_select(0, where)))
            del seen
        with Autocast.active():
            whole = student[0](tall, masks, drop=0.3)
            local = student[0](small, drop=0.3)
            loss = distill_loss(student[1](local[:, 0]).view(8, batch, -1),
                                target[:batch].unsqueeze(0))
            loss = loss + distill_loss(student[1](whole[:, 0]), target)
            patches = whole[:, 1:].flatten(0, 1).index_select(0, where)
            loss = loss + distill_loss(student[2](patches), patch_target)
        del whole, local, patches, target, patch_target
        loss.backward()
        clip_gradients(student.parameters(), 3.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average_into(teacher, student)
    return student, teacher, optimizer


class ResidualBlock(nn.Module):
    def __init__(self, into, out, time=1280):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, into, device="meta")
        self.conv1 = Conv2d(into, out, 3, padding=1, device="meta")
        self.time = Linear(time, out, device="meta") if time else None
        self.norm2 = nn.GroupNorm(32, out, device="meta")
        self.conv2 = Conv2d(out, out, 3, padding=1, device="meta")
        self.skip = Conv2d(into, out, 1, device="meta") if into != out else None

    def forward(self, x, time=None):
        y = self.conv1(F.silu(self.norm1(x.float())))
        if self.time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y.float())))
        return (self.skip(x) if self.skip is not None else x) + y


class PictureAttention(nn.Module):
    def __init__(self, channels, context=768):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels, device="meta")
        self.block = Block(channels, channels // 64, context)

    def forward(self, x, context):
        batch, channels, height, width = x.shape
        y = self.norm(x.float()).to(x.dtype).view(batch, channels, -1).transpose(1, 2)
        y = self.block(y.contiguous(), context)
        return x + y.transpose(1, 2).reshape(batch, channels, height, width)


class UNet(nn.Module):
    """Four resolutions, two layers each, attention in the upper three, skips across."""

    def __init__(self, channels=(320, 640, 1280, 1280)):
        super().__init__()
        self.time = Linear(320, 1280, device="meta")
        self.enter = Conv2d(4, channels[0], 3, padding=1, device="meta")
        self.down, self.shrink, self.up, self.grow = (nn.ModuleList() for _ in range(4))
        skips, width = [channels[0]], channels[0]
        for level, out in enumerate(channels):
            for _ in range(2):
                self.down.append(self.pair(width, out, level < 3))
                skips.append(out)
                width = out
            if level < 3:
                self.shrink.append(Conv2d(out, out, 3, 2, 1, device="meta"))
                skips.append(out)
        self.middle = self.pair(width, width, True)
        for level, out in reversed(list(enumerate(channels))):
            for _ in range(3):
                self.up.append(self.pair(width + skips.pop(), out, level < 3))
                width = out
            if level > 0:
                self.grow.append(Conv2d(out, out, 3, padding=1, device="meta"))
        self.leave = Conv2d(channels[0], 4, 3, padding=1, device="meta")

    @staticmethod
    def pair(into, out, has_attention):
        parts = [ResidualBlock(into, out)] + ([PictureAttention(out)] if has_attention else [])
        return nn.ModuleList(parts)

    @staticmethod
    def run(pair, x, time, context):
        x = pair[0](x, time)
        return pair[1](x, context) if len(pair) > 1 else x

    def forward(self, x, steps, context):
        time = self.time(steps)
        x = self.enter(x)
        skips = [x]
        for at, pair in enumerate(self.down):
            x = self.run(pair, x, time, context)
            skips.append(x)
            if at % 2 == 1 and at < 6:
                x = self.shrink[at // 2](x)
                skips.append(x)
        x = self.run(self.middle, x, time, context)
        for at, pair in enumerate(self.up):
            x = self.run(pair, torch.cat((x, skips.pop()), dim=1), time, context)
            if at % 3 == 2 and at < 9:
                x = self.grow[at // 3](F.interpolate(x, size=skips[-1].shape[2:]))
        return self.leave(F.silu(x))


class Encoder(nn.Module):
    """Pixels to latents, as a diffusion model's autoencoder: it is only run, never trained."""

    def __init__(self):
        super().__init__()
        self.enter = Conv2d(3, 128, 3, padding=1, device="meta")
        self.levels = nn.ModuleList()
        for into, out in ((128, 128), (128, 256), (256, 512), (512, 512)):
            self.levels.append(nn.ModuleList((ResidualBlock(into, out, 0),
                                              ResidualBlock(out, out, 0))))
        self.shrink = nn.ModuleList(Conv2d(c, c, 3, 2, 1, device="meta") for c in (128, 256, 512))
        self.mix = Linear(512, 1536, device="meta")
        self.leave = Conv2d(512, 8, 3, padding=1, device="meta")

    def forward(self, x):
        x = self.enter(x)
        for at, level in enumerate(self.levels):
            x = level[1](level[0](x))
            x = self.shrink[at](x) if at < 3 else x
        flat = x.flatten(2).transpose(1, 2)
        query, key, value = (heads(part, 8) for part in self.mix(flat).chunk(3, dim=-1))
        flat = joined(attention(query, key, value))
        return self.leave(x + flat.transpose(1, 2).view_as(x))[:, :4]


SHAPES = [(512, 512), (448, 576), (576, 448), (640, 384), (384, 640), (768, 768), (704, 832),
          (832, 704), (640, 1024), (512, 960)]


def unet_ema(recorder, seed, steps=4, accumulate=4):
    """A diffusion U-Net with gradient accumulation and a moving average. Each batch has the shape
    of its bucket and as many pictures as the bucket's size allows."""
    chance = random.Random(seed)
    net, encoder = UNet(), Encoder().requires_grad_(False).to(BF16)
    text = nn.ModuleList(Block(768, 12, dtype=BF16) for _ in range(12)).requires_grad_(False)
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = adam(net.parameters())
    for _ in range(steps):
        for _ in range(accumulate):
            height, width = chance.choice(SHAPES)
            batch = max(2, int(8 * 512 * 512 / (height * width)))
            with torch.no_grad(), Autocast.active():
                latents = encoder(empty(batch, 3, height, width)).float() * 0.18
                context = empty(batch, 77, 768)
                for block in text:
                    context = block(context)
            noise = torch.randn_like(latents)
            mixed = latents * 0.7 + noise * 0.7
            with Autocast.active():
                guess = net(mixed, empty(batch, 320), context)
            loss = F.mse_loss(guess.float(), noise) / accumulate
            del guess, mixed, context, latents
            loss.backward()
            del loss, noise
        clip_gradients(net.parameters())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average_into(average, net)
    return net, encoder, text, average, optimizer
