"""Video diffusion as it is served. There are a text encoder that comes and goes, a large
transformer over all frames, and a decoder that makes some frames at a time."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import (BF16, FP32, Block, Linear, RMSNorm, attention, empty, heads, joined,
                    rotate)
from servers import move_weights


class VideoLayer(nn.Module):
    """Attention among all places of all frames, then to the text, both modulated by the time."""

    def __init__(self, width=5120, inner=13824, head_count=40):
        super().__init__()
        options = {"device": "meta", "dtype": BF16}
        self.head_count = head_count
        self.query, self.key, self.value, self.project = (
            Linear(width, width, **options) for _ in range(4))
        self.norm_query, self.norm_key = (RMSNorm(width, **options) for _ in range(2))
        self.norm_cross = nn.LayerNorm(width, **options)
        self.cross_query, self.cross_project = (Linear(width, width, **options) for _ in range(2))
        self.cross_kv = Linear(width, 2 * width, **options)
        self.up, self.down = Linear(width, inner, **options), Linear(inner, width, **options)
        self.change = nn.Parameter(empty(1, 6, width))

    def modulated(self, x, scale, shift):
        plain = F.layer_norm(x.float(), x.shape[-1:])
        return (plain * (1 + scale) + shift).to(BF16)

    def forward(self, x, time, text, cosine, sine):
        scale1, shift1, gate1, scale2, shift2, gate2 = (self.change + time).float().chunk(6, 1)
        y = self.modulated(x, scale1, shift1)
        query = heads(self.norm_query(self.query(y)), self.head_count)
        key = heads(self.norm_key(self.key(y)), self.head_count)
        value = heads(self.value(y), self.head_count)
        del y
        y = attention(rotate(query, cosine, sine), rotate(key, cosine, sine), value)
        del query, key, value
        x = x + (self.project(joined(y)) * gate1).to(BF16)
        query = heads(self.cross_query(self.norm_cross(x)), self.head_count)
        key, value = (heads(part, self.head_count) for part in self.cross_kv(text).chunk(2, -1))
        x = x + self.cross_project(joined(attention(query, key, value)))
        y = self.down(F.gelu(self.up(self.modulated(x, scale2, shift2)), approximate="tanh"))
        return x + (y * gate2).to(BF16)


class VideoTransformer(nn.Module):
    """14B weights. The video is cut into pieces of one frame and two by two places."""

    def __init__(self, width=5120, depth=40):
        super().__init__()
        options = {"device": "meta", "dtype": BF16}
        self.enter = nn.Conv3d(16, width, (1, 2, 2), (1, 2, 2), **options)
        self.text = Linear(4096, width, **options)
        self.time = Linear(width, 6 * width, **options)
        self.layers = nn.ModuleList(VideoLayer(width) for _ in range(depth))
        self.leave = Linear(width, 64, **options)

    def forward(self, latents, text):
        x = self.enter(latents).flatten(2).transpose(1, 2).contiguous()
        phases = empty(1, 1, x.shape[1], 128, dtype=FP32)
        cosine, sine = phases.cos().to(BF16), phases.sin().to(BF16)
        del phases
        time = self.time(empty(1, 1, 5120)).view(1, 6, 5120)
        text = self.text(text)
        for layer in self.layers:
            x = layer(x, time, text, cosine, sine)
        return self.leave(x).view_as(latents)


class FrameConv(nn.Module):
    """A convolution over frames that sees only earlier ones: the last two are kept for the next
    piece of the video."""

    def __init__(self, into, out, kernel=3):
        super().__init__()
        self.conv = nn.Conv3d(into, out, kernel, padding=(0, kernel // 2, kernel // 2),
                              device="meta", dtype=BF16)
        self.past = None

    def forward(self, x):
        if self.past is None:
            joined_frames = F.pad(x, (0, 0, 0, 0, 2, 0))
        else:
            joined_frames = torch.cat((self.past, x), dim=2)
        self.past = joined_frames[:, :, -2:].clone()
        return self.conv(joined_frames)


class FrameBlock(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.scale1, self.scale2 = nn.Parameter(empty(into, 1, 1, 1)), nn.Parameter(
            empty(out, 1, 1, 1))
        self.conv1, self.conv2 = FrameConv(into, out), FrameConv(out, out)
        self.skip = nn.Conv3d(into, out, 1, device="meta", dtype=BF16) if into != out else None

    def forward(self, x):
        y = self.conv1(F.silu(F.normalize(x, dim=1) * self.scale1))
        y = self.conv2(F.silu(F.normalize(y, dim=1) * self.scale2))
        return (x if self.skip is None else self.skip(x)) + y


class VideoDecoder(nn.Module):
    """Latents to pixels, one frame of latents at a time: four frames of pixels, eight times as wide
    and high."""

    def __init__(self, widths=(384, 384, 192, 96)):
        super().__init__()
        self.enter = FrameConv(16, 384)
        self.levels, self.grow = nn.ModuleList(), nn.ModuleList()
        before = 384
        for level, width in enumerate(widths):
            blocks = [FrameBlock(before, width)] + [FrameBlock(width, width) for _ in range(2)]
            self.levels.append(nn.ModuleList(blocks))
            if level < 3:
                self.grow.append(nn.Conv2d(width, width, 3, padding=1, device="meta", dtype=BF16))
            before = width
        self.leave = FrameConv(96, 3)

    def piece(self, latent, is_first):
        x = self.enter(latent)
        for level, blocks in enumerate(self.levels):
            for block in blocks:
                x = block(x)
            if level == 3:
                break
            if level < 2 and not is_first:
                x = x.repeat_interleave(2, dim=2)
            frames = x.transpose(1, 2).flatten(0, 1)
            frames = self.grow[level](F.interpolate(frames, scale_factor=2.0))
            x = frames.view(1, -1, *frames.shape[1:]).transpose(1, 2)
        return self.leave(F.silu(F.normalize(x, dim=1)))

    def forward(self, latents):
        """The video so far is one tensor that each piece is joined to."""
        video = None
        for at in range(latents.shape[2]):
            piece = self.piece(latents[:, :, at:at + 1], at == 0).float().clamp(-1, 1)
            video = piece if video is None else torch.cat((video, piece), dim=2)
            del piece
        for part in self.modules():
            if isinstance(part, FrameConv):
                part.past = None
        return video


SIZES = [(480, 832), (832, 480), (480, 480), (624, 624), (720, 1280), (544, 960)]


def make_text_encoder():
    """Half of an encoder-decoder of 11B: 24 layers of width 4096."""
    return nn.ModuleList(Block(4096, 64, ratio=3, dtype=BF16) for _ in range(24))


@torch.no_grad()
def video_diffusion(recorder, seed, requests=8):
    """Video from text by a 14B transformer with few steps: each request has its own size, length
    and number of steps. The text encoder is brought for each batch of requests and leaves before
    the large activations. The decoder joins a video piece by piece, and watermarks some of them."""
    chance = random.Random(seed)
    net, decoder = VideoTransformer(), VideoDecoder()
    texts, encoder, shown = [], None, []
    for _ in range(requests):
        if not texts:
            encoder = move_weights(recorder, make_text_encoder())
            for _ in range(chance.randint(2, 4)):
                words = chance.randint(12, 512)
                x = empty(words, 4096)[None]
                for block in encoder:
                    x = block(x)
                texts.append(F.pad(x, (0, 0, 0, 512 - words)))
                del x
            encoder = None
        text = texts.pop(0)
        height, width = chance.choice(SIZES)
        frames = chance.choice((5, 9, 13, 17, 21))
        if height * width > 500_000:
            frames = min(frames, 13)
        latents = torch.randn(1, 16, frames, height // 8, width // 8, device="meta", dtype=BF16)
        guided = chance.random() < 0.5
        for _ in range(chance.choice((2, 3, 4))):
            guess = net(latents, text)
            if guided:
                other = net(latents, text)
                guess = other + 4.0 * (guess - other)
                del other
            latents = latents - 0.2 * guess
            del guess
        video = decoder(latents)
        pixels = ((video + 1) * 127.5).to(torch.uint8)
        del video, latents, text
        if chance.random() < 0.4:
            pixels = torch.where(empty(height, width, dtype=torch.bool), pixels, 255 - pixels)
        shown.append(pixels.permute(0, 2, 3, 4, 1).contiguous())
        del pixels
        if len(shown) > 3:
            del shown[0]
    return net, decoder, texts, encoder, shown
