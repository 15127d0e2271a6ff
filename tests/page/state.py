"""The state of a page's moments, worked out again from the page's file in the plainest way."""
import base64
import json
import re
import zlib

ALLOC, FREE, TAKE, GIVE, REFUSE, PLACE, _, WAIT = range(8)
NONE = {"scope": "outside of scopes", "tag": "without a tag", "line": "without a line"}


def numbers(packed):
    value = shift = 0
    for byte in zlib.decompress(base64.b64decode(packed)):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def sums(changes):
    last = 0
    for change in changes:
        last += -(change + 1) // 2 if change % 2 else change // 2
        yield last


def with_used(held, address, size):
    """In a log only used memory counts as held: stretches that do not touch."""
    out = []
    for at, end, _ in sorted(held + [(address, address + size, 0)]):
        if out and at <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end), 0)
        elif end > at:
            out.append((at, end, 0))
    return out


class File:
    def __init__(self, path):
        with open(path, encoding="utf-8") as page:
            text = page.read()

        def part(name):
            return json.loads(re.search(f'id="{name}">(.*?)</script>', text, re.S)[1])

        self.model, data = part("model"), part("data")
        self.columns = {name: list(sums(numbers(packed)) if name in ("address", "segment_address")
                                   else numbers(packed)) for name, packed in data.items()}
        before = {}
        for b, size in enumerate(self.columns["size"]):
            h = self.columns["owner"][b]
            before[h] = self.columns["size"][b] = size - 1 if size else before.get(h, 0)
        assert len(self.columns["kind"]) == self.model["rows"]
        assert len(self.columns["size"]) == self.model["blocks"]

    def most(self):
        """{owner: (the most it held, the first row with it)}."""
        c, out, now = self.columns, {}, {}
        blocks = free = 0
        for row, kind in enumerate(c["kind"]):
            if kind == ALLOC:
                h = c["owner"][blocks]
                now[h] = now.get(h, 0) + c["size"][blocks]
                if now[h] > out.get(h, (0, 0))[0]:
                    out[h] = now[h], row
                blocks += 1
            elif kind == FREE:
                b = blocks - 1 - c["back"][free]
                now[c["owner"][b]] -= c["size"][b]
                free += 1
        return out

    def said(self, part):
        """The name of each owner by one part: of scopes where they begin to differ."""
        all_of = [owner.get(part, "") for owner in self.model["owners"]]
        if part == "scope":
            paths = [path.split("/") for path in all_of]
            deepest = max(map(len, paths))
            deep = next((d for d in range(1, deepest)
                         if len({tuple(path[:d]) for path in paths if path != [""]}) > 1), deepest)
            all_of = ["/".join(path[:deep]) for path in paths]
        return [name or NONE[part] for name in all_of]

    def waits(self):
        """How often the host waited, and how long."""
        return [self.columns["kind"].count(WAIT), sum(self.columns["waited_us"])]

    def states(self, rows):
        """{row: figures} after these rows."""
        c, out = self.columns, {}
        live, born, held = {}, {}, []
        blocks = segment = free = refused = memory = 0
        for row, kind in enumerate(c["kind"]):
            stream = None
            if kind == ALLOC:
                live[blocks], born[blocks] = c["size"][blocks], row
                if self.model["knows_used"]:
                    held = with_used(held, c["address"][blocks], c["size"][blocks])
                blocks += 1
            elif kind == FREE:
                del live[blocks - 1 - c["back"][free]]
                free += 1
            elif kind == REFUSE:
                is_any = self.model["knows_used"] or self.model["is_recording"]
                stream = None if is_any else c["refused_stream"][refused]
                refused += 1
            elif kind == WAIT:
                pass
            elif self.model["has_places"] and kind in (TAKE, GIVE):
                memory += c["segment_size"][segment] * (1 if kind == TAKE else -1)
                segment += 1
            else:
                at = c["segment_address"][segment]
                end = at + c["segment_size"][segment]
                cut = [piece for a, e, s in held
                       for piece in ((a, min(e, at), s), (max(a, end), e, s))]
                held = [(a, e, s) for a, e, s in cut if a < e]
                if kind in (TAKE, PLACE):
                    held.append((at, end, c["segment_stream"][segment]))
                held.sort()
                segment += 1
            if row in rows:
                out[row] = self.figures(row, live, born, held, stream)
                if self.model["has_places"]:
                    out[row]["held"] = memory
        return out

    def figures(self, row, live, born, held, stream):
        c = self.columns
        waits = sum(size for b, size in live.items()
                    if c["wait"][b] and born[b] + c["wait"][b] <= row)
        placed = sorted((c["address"][b], c["address"][b] + size)
                        for b, size in live.items() if size and c["address"])
        by_owner = {}
        for b, size in live.items():
            by_owner[c["owner"][b]] = by_owner.get(c["owner"][b], 0) + size
        whole = beside = others = 0
        pieces = []    # [from, to, stream]
        for at, end, owner in held:
            inside = [(max(a, at), min(e, end)) for a, e in placed if a < end and e > at]
            unused = end - at - sum(e - a for a, e in inside)
            whole, beside = whole + (0 if inside else unused), beside + (unused if inside else 0)
            others += unused if stream not in (None, owner) else 0
            edges = [at] + [x for pair in inside for x in pair] + [end]
            for a, e in zip(edges[::2], edges[1::2]):
                joins = pieces and pieces[-1][1] == a and self.model["joins"] and \
                    pieces[-1][2] == owner
                if a < e and joins:
                    pieces[-1][1] = e
                elif a < e:
                    pieces.append([a, e, owner])
        longest = max((e - a for a, e, s in pieces if stream in (None, s)), default=0)
        return {"live": sum(live.values()), "held": sum(e - a for a, e, _ in held), "whole": whole,
                "beside": beside, "others": others, "waiting": waits, "longest": longest,
                "pieces": len(pieces), "owners": sorted(map(list, by_owner.items()))}
