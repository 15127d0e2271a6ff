"""A notebook: cells that run again and again with other sizes, names that hold old tensors, and
errors that keep a failed cell's tensors until the next error."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import FP32, Autocast, Block, Conv2d, adam, empty, indices
from recorder import GIB


class OutOfMemory(RuntimeError):
    """The error that the framework would raise."""


class Seer(nn.Module):
    """An encoder of pictures with a decoder of masks, as a user writes it in a cell."""

    def __init__(self, guard, width, depth, classes):
        super().__init__()
        self.guard, self.width = guard, width
        self.embed = Conv2d(3, width, 16, 16, device="meta")
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(depth))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2, device="meta") for a, b in
                                  ((width, 256), (256, 128)))
        self.out = Conv2d(128, classes, 1, device="meta")

    def features(self, pictures):
        x = self.embed(pictures)
        height, width = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)
        for block in self.blocks:
            self.guard(8 * x.numel() * 4)
            x = block(x)
        return x.transpose(1, 2).reshape(x.shape[0], -1, height, width)

    def forward(self, pictures):
        x = self.features(pictures).float()
        for layer in self.grow:
            self.guard(8 * x.numel() * 4)
            x = F.gelu(layer(x))
        return self.out(x)


class Notebook:
    """The names of a session, the results of cells, and the last error. An error holds the frames
    of the cell that failed, and these their tensors."""

    def __init__(self, recorder, chance, memory_bytes):
        self.recorder, self.chance, self.memory_bytes = recorder, chance, memory_bytes
        self.names, self.returned, self.error = {}, {}, None
        self.cells, self.failures = 0, 0

    def guard(self, wanted_bytes):
        """Fails where the card's memory would be used up."""
        if self.recorder.live_bytes + wanted_bytes > self.memory_bytes:
            raise OutOfMemory

    def run(self, cell, *arguments):
        """Runs a cell. Whether it came to its end."""
        self.cells += 1
        try:
            result = cell(*arguments)
        except OutOfMemory as error:
            self.error = error  # the one before goes now, with all that it held
            self.failures += 1
            return False
        if result is not None:
            self.returned[self.cells] = result
        return True

    def retry(self, cell, batch, *arguments):
        """The user takes half of the batch, then deletes old names."""
        while batch >= 1 and not self.run(cell, batch, *arguments):
            batch //= 2
            if self.chance.random() < 0.5:
                self.names.pop(self.chance.choice(("maps", "guess", "loss", "pictures")), None)
            if self.chance.random() < 0.25:
                self.error = None  # a cell with another error, that holds nothing
        return max(1, batch)

    # The cells.

    def make_model(self, width, depth):
        """Run again, the new model comes before the old one goes."""
        self.names["model"] = Seer(self.guard, width, depth, 21)
        self.names["optimizer"] = adam(self.names["model"].parameters())

    def train(self, batch, size, steps):
        """A loop as it is found everywhere: its names live on from step to step, and after it."""
        names = self.names
        for _ in range(steps):
            names["pictures"] = empty(batch, 3, size, size, dtype=FP32)
            with Autocast.active():
                names["guess"] = names["model"](names["pictures"])
            wide = F.interpolate(names["guess"].float(), size=(size, size), mode="bilinear")
            target = indices(batch * size * size).view(batch, size, size)
            names["loss"] = F.cross_entropy(wide, target)
            names.setdefault("losses", []).append(names["loss"])  # with its graph, of course
            names["loss"].backward()
            del wide, target
            self.guard(GIB // 4)
            names["optimizer"].step()
            names["optimizer"].zero_grad()

    def evaluate(self, batch, size):
        """Without `no_grad` the graph of the last batch stays with its name."""
        scores = []
        for _ in range(self.chance.randint(2, 5)):
            with Autocast.active():
                self.names["guess"] = self.names["model"](empty(batch, 3, size, size, dtype=FP32))
            scores.append(self.names["guess"].argmax(1).float().mean())
        return torch.stack(scores)

    def extract(self, batch, size, many):
        """Features of all pictures: a list, joined at the end, and shown: the notebook keeps it."""
        maps = []
        with torch.no_grad(), Autocast.active():
            for _ in range(many):
                maps.append(self.names["model"].features(empty(batch, 3, size, size, dtype=FP32)))
        self.names["maps"] = torch.cat(maps)
        return self.names["maps"].float().mean((2, 3))

    def neighbors(self):
        """Distances of all pairs, and their order."""
        maps = self.names["maps"]
        flat = maps.float().permute(0, 2, 3, 1).reshape(-1, maps.shape[1])
        del maps
        flat = flat[:: max(1, flat.shape[0] // 24_000)]
        self.guard(3 * 4 * flat.shape[0] ** 2)
        distances = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.topk(8, largest=False).indices

    def tidy(self):
        """`del`, now and then, a restart of the optimizer, and seldom the outputs."""
        for name in self.chance.sample(("maps", "guess", "loss", "losses", "pictures"), 2):
            self.names.pop(name, None)
        if self.chance.random() < 0.3:
            self.returned.clear()


def notebook_retries(recorder, seed, cells=46, memory_bytes=15 * GIB):
    """A user with a card of 16 GB: models and pictures of several sizes, training, features,
    distances. A run that does not fit is repeated with half of the batch."""
    chance = random.Random(seed)
    book = Notebook(recorder, chance, memory_bytes)
    book.run(book.make_model, 768, 12)
    batch = 16
    while book.cells < cells:
        size = chance.choice((224, 256, 320, 384, 448, 512, 640))
        what = chance.random()
        if what < 0.42:
            batch = book.retry(book.train, batch, size, chance.randint(2, 5))
            batch = chance.choice((batch, batch, 2 * batch, 16, 24))
        elif what < 0.60:
            book.retry(book.evaluate, chance.choice((batch, 16, 32)), size)
        elif what < 0.74:
            book.retry(book.extract, chance.choice((8, 16, 48)), size, chance.randint(3, 12))
        elif what < 0.82 and "maps" in book.names:
            book.run(book.neighbors)
        elif what < 0.90:
            book.run(book.make_model, *chance.choice(((768, 12), (1024, 24), (384, 12))))
        else:
            book.run(book.tidy)
    return book
