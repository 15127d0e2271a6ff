"""Snapshots of a program that a seed makes up: two streams, memory that is created and released in
parts, frees that wait for streams, and requests that fail.
"""
import json
import os
import random

MIB = 1 << 20
GRANULE = 2 * MIB
BASE = 0x7F0000000000


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.events = []
        self.free = {}      # address: (size, stream), of pieces; they do not join
        self.live = []      # (address, size, stream)
        self.asked = []     # of live ones whose free was asked for
        self.next = BASE

    def add(self, action, address, size, stream, **more):
        self.events.append({"action": action, "addr": address, "size": size, "stream": stream,
                            **more})

    def take(self, stream):
        size = GRANULE * self.random.choice((1, 1, 4, 10))
        self.next += self.random.choice((0, 0, 0, 64 * MIB))
        self.add("segment_map", self.next, size, stream)
        self.free[self.next] = (size, stream)
        self.next += size

    def give(self):
        wide = [a for a, (size, _) in self.free.items()
                if size >= GRANULE and a % GRANULE == 0]
        if wide:
            address = self.random.choice(wide)
            size, stream = self.free.pop(address)
            part = GRANULE * self.random.randint(1, size // GRANULE)
            if part < size:
                self.free[address + part] = (size - part, stream)
            self.add("segment_unmap", address, part, stream)

    def alloc(self):
        stream = 0 if self.random.random() < .7 else 77
        size = 512 * self.random.choice((1, 3, 64, 700, 2048, 3000, 9000))
        fits = [a for a, (room, s) in self.free.items() if s == stream and room >= size]
        while not fits:
            if self.random.random() < .05:
                self.add("oom", 0, size, stream, device_free=0)
                return
            self.take(stream)
            fits = [a for a, (room, s) in self.free.items() if s == stream and room >= size]
        address = self.random.choice(fits)
        room, _ = self.free.pop(address)
        if room > size:
            self.free[address + size] = (room - size, stream)
        line = self.random.randint(1, 12)
        frames = [{"filename": "/home/u/train.py", "line": line, "name": "<step> & \"co\""}]
        self.add("alloc", address, size, stream, frames=frames)
        self.live.append((address, size, stream))

    def ask(self):
        block = self.live.pop(self.random.randrange(len(self.live)))
        self.add("free_requested", *block)
        self.asked.append(block)
        if self.random.random() < .8:
            self.complete(-1)

    def complete(self, index):
        address, size, stream = self.asked.pop(index)
        self.add("free_completed", address, size, stream)
        self.free[address] = (size, stream)

    def step(self):
        chance = self.random.random()
        if chance < .02:
            self.give()
        elif self.asked and chance < .06:
            self.complete(0)
        elif self.live and chance < .06 + .9 * len(self.live) / 160:
            self.ask()
        else:
            self.alloc()


def write(path, seed, events):
    program = Program(seed)
    while len(program.events) < events:
        program.step()
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"device_traces": [program.events], "segments": [],
                   "allocator_settings": {"expandable_segments": bool(seed % 2)}}, out)


def write_long(path, events):
    """Blocks of 40 sizes in 60 segments, as models have them: the same ones again and again."""
    chance = random.Random(1)
    sizes = [512 * chance.randint(1, 4000) for _ in range(40)]
    slots = [(BASE + 64 * MIB * segment + 2 * MIB * slot, segment) for segment in range(60)
             for slot in range(32)]
    free, live = slots[::-1], []
    with open(path, "w", encoding="utf-8") as out:
        out.write('{"segments": [], "device_traces": [[')
        out.write(",".join('{"action": "segment_alloc", "addr": %d, "size": %d, "stream": 0}'
                           % (BASE + 64 * MIB * i, 64 * MIB) for i in range(60)))
        for _ in range(events):
            if live and (not free or chance.random() < .5):
                index = max(0, len(live) - 1 - int(chance.expovariate(.1)))
                slot, size = live.pop(index)
                free.append(slot)
                out.write(',\n{"action": "free_completed", "addr": %d, "size": %d, "stream": 0}'
                          % (slot[0], size))
            else:
                slot, line = free.pop(), chance.randrange(40)
                live.append((slot, sizes[line]))
                out.write(',\n{"action": "alloc", "addr": %d, "size": %d, "stream": 0, "frames": '
                          '[{"filename": "/u/train.py", "line": %d, "name": "f"}]}'
                          % (slot[0], sizes[line], line))
        out.write("]]}")


class Cache:
    """An allocator of segments: it cuts and joins pieces in them, and gives whole ones back."""

    def __init__(self):
        self.events, self.segments, self.free, self.next = [], {}, {}, BASE

    def add(self, action, address, size, line=None):
        frames = [] if line is None else [dict(zip(("filename", "line", "name"), line))]
        self.events.append({"action": action, "addr": address, "size": size, "stream": 0,
                            "frames": frames})

    def alloc(self, size, line):
        fits = [(room, a) for a, room in self.free.items() if room >= size]
        if not fits:
            room = max(size + -size % GRANULE, 10 * GRANULE)
            self.add("segment_alloc", self.next, room)
            self.segments[self.next], self.free[self.next] = room, room
            fits.append((room, self.next))
            self.next += room + GRANULE
        room, address = min(fits)
        del self.free[address]
        if room > size:
            self.free[address + size] = room - size
        self.add("alloc", address, size, line)
        return address, size

    def release(self, address, size):
        self.add("free_completed", address, size)
        end = address + size + self.free.pop(address + size, 0)
        before = next((a for a, room in self.free.items() if a + room == address), address)
        self.free[before] = end - before

    def fail(self):
        """A request on a device as large as the most held memory: larger than any piece, and than
        the rest without whole segments, and smaller than the free memory."""
        given = 0
        for address, size in self.segments.items():
            if self.free.get(address) == size:
                self.add("segment_free", address, size)
                del self.free[address]
                given += size
        size = max(given, *self.free.values()) + GRANULE
        assert size < sum(self.free.values())
        self.add("oom", 0, size)
        self.events[-1]["device_free"] = given
        return size


def write_unknown(path, seed):
    """A program of lines that a seed chooses: one leaks, one keeps a list that it empties, and
    remains of both are in the way of a large request. Returns the true facts."""
    chance = random.Random(seed)
    names = ["build", "encode", "attend", "mix", "decode", "log", "cache", "score"]
    chance.shuffle(names)
    lines = [(f"/home/u/{name}.py", chance.randint(2, 90), name) for name in names]
    weights, leaking, listing, *layers = lines
    cache, kept, leaked = Cache(), [], 0
    for _ in range(6):
        cache.alloc(chance.randint(4, 9) * MIB, weights)
    for step in range(240):
        live = []
        for line in layers:
            live.append(cache.alloc(512 * chance.randint(2000, 24000), line))
            leaked += cache.alloc(512 * chance.randint(50, 400), leaking)[1]
        kept.append(cache.alloc(512 * chance.randint(200, 3000), listing))
        for block in live if chance.random() < .5 else live[::-1]:
            cache.release(*block)
        while kept and step % 24 == 23:
            cache.release(*kept.pop(chance.randrange(len(kept))))
    size = cache.fail()
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"device_traces": [cache.events], "segments": []}, out)
    names = [f"{os.path.basename(file)}:{line} {name}" for file, line, name in lines]
    return {"asked": size, "leaked": leaked, "leaking": names[1], "listing": names[2]}
