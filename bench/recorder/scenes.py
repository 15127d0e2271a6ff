"""Programs whose tensors grow or vary with the data: splats of a scene, and graphs."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import FP32, INT64, adam, empty, indices

WIDTHS = {"means": 3, "scales": 3, "turns": 4, "opacity": 1, "color": 3, "harmonics": 45}


class Project(torch.autograd.Function):
    """Splats onto the picture: radius, place, depth and shape of each that is seen."""

    @staticmethod
    def forward(ctx, means, scales, turns, share):
        count = means.shape[0]
        ctx.save_for_backward(means, scales, turns)
        outputs = tuple(empty(count, width, dtype=FP32) for width in (2, 1, 3))
        radii = empty(count, 2, dtype=torch.int32)
        ctx.mark_non_differentiable(radii)
        return outputs + (radii,)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(torch.zeros_like(saved) for saved in ctx.saved_tensors) + (None,)


class Render(torch.autograd.Function):
    """Splats of each tile, in the order of depth, to colors."""

    @staticmethod
    def forward(ctx, places, shapes, colors, opacity, order, height, width):
        last = empty(height, width, dtype=torch.int32)
        picture = empty(height, width, 3, dtype=FP32)
        alpha = empty(height, width, 1, dtype=FP32)
        ctx.save_for_backward(places, shapes, colors, opacity, order, alpha, last)
        return picture, alpha

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(torch.zeros_like(saved) for saved in ctx.saved_tensors[:4]) + (None,) * 3


def sort_by_tile(crossings):
    """Pairs of tile and depth, sorted: both need a second buffer, and the sort its scratch."""
    keys, values = indices(crossings), empty(crossings, dtype=torch.int32)
    keys_out, values_out = torch.empty_like(keys), torch.empty_like(values)
    scratch = empty(crossings // 8 + 4096, dtype=torch.uint8)
    del scratch, keys, values, keys_out
    return values_out


def similarity(a, b):
    """Structural similarity, by five windowed averages."""
    window = empty(3, 1, 11, 11, dtype=FP32)

    def blur(x):
        return F.conv2d(x, window, padding=5, groups=3)

    mean_a, mean_b = blur(a), blur(b)
    spread_a = blur(a * a) - mean_a.pow(2)
    spread_b = blur(b * b) - mean_b.pow(2)
    both = blur(a * b) - mean_a * mean_b
    top = (2 * mean_a * mean_b + 1e-4) * (2 * both + 9e-4)
    return (top / ((mean_a.pow(2) + mean_b.pow(2) + 1e-4) * (spread_a + spread_b + 9e-4))).mean()


class Scene:
    def __init__(self, count):
        self.parameters = {name: nn.Parameter(empty(count, width, dtype=FP32))
                           for name, width in WIDTHS.items()}
        self.optimizers = {name: torch.optim.Adam([p], lr=1e-3, foreach=True)
                           for name, p in self.parameters.items()}
        self.moved = empty(count, dtype=FP32)
        self.seen = empty(count, dtype=FP32)

    def count(self):
        return self.moved.shape[0]

    def change(self, function):
        """Replaces each parameter, and the optimizer's state of it, by function(tensor)."""
        for name, optimizer in self.optimizers.items():
            old = self.parameters[name]
            state = optimizer.state.pop(old)
            new = nn.Parameter(function(old.detach()))
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = function(state[key])
            optimizer.param_groups[0]["params"] = [new]
            optimizer.state[new] = state
            self.parameters[name] = new
            del old, state, new
        self.moved = function(self.moved)
        self.seen = function(self.seen)

    def step(self):
        for optimizer in self.optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def gaussian_splats(recorder, seed, steps=360, every=12):
    """A scene of splats that are duplicated, split and thrown away while it trains: all tensors of
    it grow by steps. Each picture has its own size and number of tile crossings."""
    chance = random.Random(seed)
    scene = Scene(chance.randint(4_000_000, 6_000_000))
    pictures = [(chance.randint(700, 1100), chance.randint(1000, 1700)) for _ in range(60)]
    for step in range(1, steps + 1):
        height, width = chance.choice(pictures)
        truth = empty(height, width, 3, dtype=torch.uint8).float() / 255
        p = scene.parameters
        places, depths, shapes, radii = Project.apply(
            p["means"], p["scales"].exp(), F.normalize(p["turns"], dim=-1), 1.0)
        directions = F.normalize(p["means"].detach() - empty(3, dtype=FP32), dim=-1)
        bases = torch.cat((p["color"], p["harmonics"]), dim=1)
        colors = torch.clamp((bases.view(-1, 16, 3) * directions[:, None]).sum(1) + 0.5, min=0)
        order = sort_by_tile(int(scene.count() * chance.uniform(0.8, 4.0)))
        picture, _ = Render.apply(places, shapes, colors, torch.sigmoid(p["opacity"]), order,
                                  height, width)
        a, b = picture.permute(2, 0, 1)[None], truth.permute(2, 0, 1)[None]
        loss = 0.8 * F.l1_loss(a, b) + 0.2 * (1 - similarity(a, b))
        places.retain_grad()
        del depths, directions, bases, colors, order, picture, a, b, p, truth, _
        loss.backward()
        visible = torch.empty(int(scene.count() * chance.uniform(0.1, 0.5)), dtype=INT64,
                              device="meta")
        scene.moved.index_add_(0, visible, places.grad[visible].norm(dim=-1))
        scene.seen[visible] += 1
        del loss, places, shapes, radii, visible
        scene.step()
        if step % every == 0 and step < steps * 0.8:
            hot = indices(int(scene.count() * chance.uniform(0.02, 0.12)))
            scene.change(lambda x: torch.cat((x, x[hot])))
            kept = indices(int(scene.count() * chance.uniform(0.93, 1.0)))
            scene.change(lambda x: x[kept])
            del hot, kept
        if step % (every * 9) == 0:
            scene.parameters["opacity"].data = torch.clamp(scene.parameters["opacity"].data,
                                                           max=0.01)
    return scene


class GraphAttention(nn.Module):
    def __init__(self, into, out, head_count=4):
        super().__init__()
        self.head_count, self.width = head_count, out // head_count
        self.linear = nn.Linear(into, out, bias=False, device="meta")
        self.source = nn.Parameter(empty(1, head_count, self.width, dtype=FP32))
        self.target = nn.Parameter(empty(1, head_count, self.width, dtype=FP32))
        self.bias = nn.Parameter(empty(out, dtype=FP32))

    def forward(self, x, edges, targets):
        x = self.linear(x).view(-1, self.head_count, self.width)
        source = (x * self.source).sum(-1)
        target = (x[:targets] * self.target).sum(-1)
        weight = F.leaky_relu(source[edges[0]] + target[edges[1]], 0.2)
        weight = (weight - weight.detach().amax(dim=0)).exp()
        total = x.new_zeros(targets, self.head_count).index_add(0, edges[1], weight)
        weight = weight / (total[edges[1]] + 1e-16)
        out = x.new_zeros(targets, self.head_count, self.width)
        out = out.index_add(0, edges[1], x[edges[0]] * weight.unsqueeze(-1))
        return out.flatten(1) + self.bias


def gnn_sampled(recorder, seed, steps=200):
    """Attention over sampled neighborhoods: the number of nodes and edges differs each step, the
    next subgraph's features arrive on a second stream, and layers are evaluated between."""
    chance = random.Random(seed)
    sizes = (768, 512, 512, 172)
    layers = nn.ModuleList(GraphAttention(a, b) for a, b in zip(sizes, sizes[1:]))
    optimizer = adam(layers.parameters())
    scores = empty(1_500_000, 172, dtype=torch.float16)

    def sample():
        nodes = [chance.randint(800, 2048)]
        for fan in (8, 6, 4):
            nodes.append(int(nodes[-1] * (1 + fan * chance.uniform(0.35, 0.95))))
        with recorder.on_stream(1):
            features = empty(nodes[-1], 768, dtype=torch.float16)
            edges = [empty(2, int(targets * fan * chance.uniform(0.6, 1.0)), dtype=INT64)
                     for targets, fan in zip(reversed(nodes[:-1]), (4, 6, 8))]
            return features, edges, list(reversed(nodes))

    following = sample()
    for step in range(1, steps + 1):
        features, edges, nodes = following
        following = sample()
        x = features.float()
        for at, layer in enumerate(layers):
            x = layer(x, edges[at], nodes[at + 1])
            x = F.dropout(F.elu(x), 0.0) if at < 2 else x
        loss = F.cross_entropy(x, indices(x.shape[0]))
        del x, features, edges
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del loss
        if step % 50 == 0:
            with torch.no_grad():
                for _ in range(12):
                    rows = chance.randint(20_000, 60_000)
                    x = empty(rows * 3, 768, dtype=torch.float16).float()
                    count = int(rows * chance.uniform(8, 20))
                    x = F.elu(layers[0](x, empty(2, count, dtype=INT64), rows))
                    scores[:rows] = layers[2](x, empty(2, rows, dtype=INT64), rows).half()
                    del x
    return layers, optimizer, scores, following
