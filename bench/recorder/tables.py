"""Tables of rows: embeddings that grow while a recommender trains, and data frames of a second
framework beside training."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from layers import FP32, INT64, Linear, adam, attention, empty, heads, indices, joined
from parallel import tower

INT32 = torch.int32
EXCHANGE, FRAMES = 1, 5  # streams


class GrowingTable:
    """A hash table from keys to rows: keys, rows, their moments and the time of their last use.
    Beyond four fifths it moves to a larger one. Rows long unused are dropped."""

    def __init__(self, capacity, width):
        self.width, self.used = width, int(capacity * 0.5)
        self.parts = self.make(capacity)

    def make(self, capacity):
        self.capacity = capacity
        return [indices(capacity), empty(capacity, self.width, dtype=FP32),
                empty(capacity, dtype=FP32), empty(capacity, dtype=INT32)]

    def move(self, capacity):
        """All parts of the new table come before the old ones go. The copy is by pieces."""
        old, self.parts = self.parts, self.make(capacity)
        for begin in range(0, old[0].shape[0], 1 << 22):
            piece = old[0][begin:begin + (1 << 22)]
            where = piece % capacity
            kept = (piece >= 0).nonzero_static(size=piece.shape[0])
            self.parts[1].index_add_(0, where, old[1][begin:begin + (1 << 22)])
            del piece, where, kept

    def find(self, keys, fresh):
        """Rows of keys. New ones are inserted, with random values."""
        hashes = keys * 0x9E3779B1
        slots = hashes % self.capacity
        found = self.parts[0][slots] == keys
        if fresh:
            new = keys[:fresh].clone()
            values = torch.randn(fresh, self.width, device="meta") * 0.01
            self.parts[1].index_add_(0, slots[:fresh], values)
            self.parts[0][slots[:fresh]] = new
            self.used += fresh
        del hashes, found
        self.parts[3][slots] = 0
        return slots

    def drop_old(self, share):
        ages = self.parts[3].float()
        bound = ages.kthvalue(max(1, int(ages.shape[0] * share))).values
        kept = ages <= bound
        self.used = int(self.used * (1 - share))
        del ages, bound, kept
        if self.used < self.capacity * 0.35:
            self.move(int(self.used / 0.6))

    def update(self, slots, gradient):
        scale = self.parts[2][slots] + gradient.pow(2).mean(1)
        self.parts[2][slots] = scale
        self.parts[1].index_add_(0, slots, gradient / scale.sqrt().unsqueeze(1))


class Cross(nn.Module):
    """Products of features with the first layer, in a low rank."""

    def __init__(self, width, depth=3, rank=512):
        super().__init__()
        self.narrow = nn.ModuleList(nn.Linear(width, rank, False, "meta") for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(rank, width, True, "meta") for _ in range(depth))

    def forward(self, first):
        x = first
        for narrow, wide in zip(self.narrow, self.wide):
            x = first * wide(narrow(x)) + x
        return x


def look_up(recorder, chance, tables, news, batch):
    """For each table: (slots of its distinct keys, their rows, pooled rows of each sample)."""
    looked_up = []
    for at, table in enumerate(tables):
        with recorder.on_stream(EXCHANGE):
            keys = indices(int(batch * chance.uniform(1.0, 6.0)))
        distinct = max(1, int(keys.shape[0] * chance.uniform(0.2, 0.6)))
        order, scratch = torch.empty_like(keys), torch.empty_like(keys)
        backwards = torch.empty_like(keys)
        unique = indices(distinct)
        del order, scratch
        recorder.record_stream(keys, 0)
        fresh = min(distinct, int(distinct * news[at] * chance.uniform(0.5, 1.5)))
        slots = table.find(unique, fresh)
        rows = table.parts[1][slots].requires_grad_()
        pooled = empty(batch, table.width, dtype=FP32).index_add_(
            0, keys % batch, rows[backwards % distinct])
        looked_up.append((slots, rows, pooled))
        del keys, unique, slots, rows, pooled, backwards
    return looked_up


def growing_tables(recorder, seed, steps=190, batch=16384):
    """A recommender that learns from a stream of new users and goods. 16 tables grow by half or to
    double, each at its own time, are cleared of old rows, and lookups have any number of keys."""
    chance = random.Random(seed)
    widths = [chance.choice((32, 64, 64, 128, 128)) for _ in range(16)]
    tables = [GrowingTable(int(10 ** chance.uniform(5.0, 7.0)), width) for width in widths]
    news = [min(0.8, 0.15 * chance.paretovariate(1.0)) for _ in tables]
    growth = [chance.choice((1.5, 2.0)) for _ in tables]
    cross, top = Cross(sum(widths) + 64), tower(sum(widths) + 64, 1024, 512, 1)
    bottom = tower(32, 256, 64)
    dense = [p for module in (cross, top, bottom) for p in module.parameters()]
    optimizer = adam(dense)
    for step in range(1, steps + 1):
        looked_up = look_up(recorder, chance, tables, news, batch)
        x = torch.cat([bottom(empty(batch, 32, dtype=FP32))] + [one[2] for one in looked_up], 1)
        score = top(cross(x))
        loss = F.binary_cross_entropy_with_logits(score, empty(batch, 1, dtype=FP32))
        loss.backward()
        del x, score, loss
        for table, (slots, rows, _) in zip(tables, looked_up):
            with recorder.on_stream(EXCHANGE):
                summed = torch.empty_like(rows.grad)
            recorder.record_stream(summed, 0)
            table.update(slots, summed)
            del summed, slots, rows, _
        del looked_up
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for table, more in zip(tables, growth):
            if table.used > table.capacity * 0.8:
                table.move(int(table.capacity * more))
        if step % 40 == 0:
            for table in chance.sample(tables, 5):
                table.drop_old(chance.uniform(0.1, 0.7))
            with recorder.on_stream(EXCHANGE):  # what changed goes to the servers, by pieces
                for table in tables:
                    for begin in range(0, table.used, 1 << 20):
                        empty(min(1 << 20, table.used - begin), table.width, dtype=FP32)
    return tables, cross, top, bottom, optimizer


class Frame:
    """Columns of a data frame: values, and a bit for each that tells whether there is one. All its
    work runs on a stream of its own, and each operation makes new columns."""

    def __init__(self, rows, kinds):
        self.rows, self.kinds = rows, kinds
        self.columns = [(empty(rows, dtype=kind), empty(-(-rows // 8), dtype=torch.uint8))
                        for kind in kinds]

    def gather(self, rows, keep=None):
        """The rows of an index, column by column, as `take` does."""
        kinds = self.kinds if keep is None else self.kinds[:keep]
        return Frame(rows, kinds)

    def filter(self, share):
        mask = empty(self.rows, dtype=torch.bool)
        places = empty(self.rows + 1, dtype=INT32)
        scratch = empty(self.rows // 64 + 767, dtype=torch.uint8)
        result = self.gather(max(1, int(self.rows * share)))
        del mask, places, scratch
        return result

    def sort(self):
        """A radix sort: keys and order twice, the histograms of its digits."""
        keys, order = indices(self.rows), empty(self.rows, dtype=INT32)
        keys_out, order_out = torch.empty_like(keys), torch.empty_like(order)
        digits = empty(256 * 8 * 1184, dtype=INT32)
        del keys, order, digits, keys_out
        result = self.gather(self.rows)
        del order_out
        return result

    def join(self, other, matches):
        """A hash table over the smaller side at half load, then the matching pairs."""
        slots = empty(2 * other.rows, 2, dtype=INT32)
        counts = empty(self.rows, dtype=INT32)
        left, right = empty(matches, dtype=INT32), empty(matches, dtype=INT32)
        del slots, counts
        mine = self.gather(matches)
        theirs = other.gather(matches, len(other.kinds) - 1)
        del left, right
        mine.columns += theirs.columns
        mine.kinds = mine.kinds + theirs.kinds
        return mine

    def group(self, groups):
        slots, owner = indices(2 * self.rows), empty(self.rows, dtype=INT32)
        sums = Frame(2 * self.rows, self.kinds[1:4])
        result = Frame(groups, (INT64, *self.kinds[1:4]))
        del slots, owner, sums
        return result

    def strings_to_codes(self):
        """A column of text: characters and offsets, then its categories, then a code for each."""
        text, offsets = empty(self.rows * 11, dtype=torch.uint8), empty(self.rows + 1, dtype=INT32)
        order = self.sort()
        kept = empty(self.rows // 90 * 11 + 64, dtype=torch.uint8)
        self.columns.append((empty(self.rows, dtype=INT32), empty(-(-self.rows // 8),
                                                                  dtype=torch.uint8)))
        self.kinds = (*self.kinds, INT32)
        del text, offsets, order, kept

    def to_matrix(self, features):
        """The matrix that goes to the other framework. Columns are turned to floats on the way."""
        floats = [values.float() for values, _ in self.columns[:features]]
        return torch.stack(floats, dim=1)


def prepare(recorder, chance, customers, features):
    """The next part of the data, one operation at a time between the steps of the training."""
    def here(function):
        with recorder.on_stream(FRAMES):
            return function()

    rows = chance.randint(1_500_000, 9_000_000)
    pages = here(lambda: [empty(int(rows * 5.5) + 4096, dtype=torch.uint8),
                          empty(int(rows * 34) + 4096, dtype=torch.uint8)])
    yield None
    events = here(lambda: Frame(rows, (INT64, FP32, FP32, INT32, torch.float64, INT32)))
    del pages
    yield None
    here(events.strings_to_codes)
    yield None
    events = here(lambda: events.filter(chance.uniform(0.5, 0.98)))
    yield None
    sums = here(lambda: events.group(max(1, int(events.rows * chance.uniform(0.02, 0.3)))))
    yield None
    events = here(lambda: events.join(sums, int(events.rows * chance.uniform(0.9, 1.4))))
    del sums
    yield None
    events = here(lambda: events.join(customers, int(events.rows * chance.uniform(0.8, 1.0))))
    yield None
    events = here(events.sort)
    yield None
    matrix = here(lambda: events.to_matrix(features))
    del events
    yield matrix


class Tabular(nn.Module):
    """A transformer over the features of a row."""

    def __init__(self, features, width=192, depth=3):
        super().__init__()
        self.scale = nn.Parameter(empty(features + 1, width, dtype=FP32))
        self.shift = nn.Parameter(empty(features + 1, width, dtype=FP32))
        self.norms = nn.ModuleList(nn.LayerNorm(width, device="meta") for _ in range(2 * depth))
        self.qkv = nn.ModuleList(Linear(width, 3 * width, device="meta") for _ in range(depth))
        self.up = nn.ModuleList(Linear(width, 512, device="meta") for _ in range(depth))
        self.down = nn.ModuleList(Linear(256, width, device="meta") for _ in range(depth))
        self.out = Linear(width, 1, device="meta")

    def forward(self, rows):
        x = F.pad(rows, (0, 1)).unsqueeze(-1) * self.scale + self.shift
        for at, (qkv, up, down) in enumerate(zip(self.qkv, self.up, self.down)):
            query, key, value = (heads(part, 8) for part in qkv(self.norms[2 * at](x)).chunk(3, -1))
            x = x + joined(attention(query, key, value))
            wide, gate = up(self.norms[2 * at + 1](x)).chunk(2, -1)
            x = x + down(wide * F.relu(gate))
        return self.out(F.relu(x[:, -1]))


def frames_and_training(recorder, seed, parts=9, features=12, most=44):
    """Two frameworks on one pool: data frames are read, joined, grouped and sorted on a stream of
    their own while PyTorch trains on the part before. The matrix goes over without a copy."""
    chance = random.Random(seed)
    with recorder.on_stream(FRAMES):
        customers = Frame(22_000_000, (INT64, FP32, INT32, FP32, INT32))
    model = Tabular(features)
    optimizer = adam(model.parameters())
    matrix = [one for one in prepare(recorder, chance, customers, features)][-1]
    for _ in range(parts):
        coming = prepare(recorder, chance, customers, features)
        following, batch = None, chance.choice((8192, 16384, 24576))
        batches = min(most, matrix.shape[0] // batch)
        for at in range(batches):
            if at % max(1, batches // 10) == 0 and following is None:
                following = next(coming, None)
            rows = matrix[indices(batch)]
            guess = model((rows - rows.mean(0)) / (rows.var(0) + 1e-5).sqrt())
            loss = F.binary_cross_entropy_with_logits(guess, empty(batch, 1, dtype=FP32))
            del rows, guess
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del loss
        for one in coming:
            following = one if following is None else following
        recorder.record_stream(matrix, 0)
        matrix = following
        del following, coming
        with torch.no_grad():
            scores = torch.cat([model(piece) for piece in matrix[:400_000].split(100_000)])
            scores.flatten().sort()
            del scores
    return customers, model, optimizer, matrix
