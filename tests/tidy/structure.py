"""The knowledge of files about each other, read from the whole tree at once. A file is known by its
stem: x.c and x.h are one.

 - No ring. No file needs itself through others, by includes and calls, but for the count of KNOWS.
 - One face. What x.h declares is defined in x.c. A header that is the face of its folder has a part
   "---- y.c ----" for each y.c. A header without a source of its own may declare what any file of
   its folder defines. Public headers are open to the library.
 - One retry. The functions that do deferred work are called by the retry and the places that note
   it, and no other file calls the driver to release again.
 - Each part of a heap has an owner. Only that folder writes its fields, and only folders named for
   it read them.
 - No view upward. Nothing in a folder names a file or a function of a folder it may not include,
   in comments neither.
 - No name of a feature in the core or in another feature, but for the count of KNOWS.
"""
import re

SOURCES = ("vmm/", "lab/", "api/", "bench/")
FEATURES = ["ranges", "graphs", "sleep", "share", "record", "check", "quota", "collect",
            "exchange", "hooks"]
# How many names of a feature the files of a room have: the files it cites and includes, its
# functions, its types, each once in a file. Only to be made smaller.
KNOWS = {
    "check": {"ranges": 4, "sleep": 5, "share": 7},
}
PUBLIC = "api/include/"
INCLUDE_FOLDERS = ("vmm/", "", "api/", "api/include/", "bench/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
PARAMETERS = r"\((?:[^;{}()]|\([^()]*\))*\)"
NO_FUNCTION = r"^(?!static\b|typedef\b|return\b|else\b|#|\s)"
DEFINITION = re.compile(NO_FUNCTION + r"[^\n;{}]*?\b(\w+)" + PARAMETERS + r"\s*\n\{", re.M)
DECLARATION = re.compile(NO_FUNCTION + r"[^\n;{}=]*?\b(\w+)" + PARAMETERS
                         + r"\s*(?:__attribute__\(\(.*?\)\))?;", re.M)
SECTION = re.compile(r"^/\* -+ (\w+\.c(?:, \w+\.c)*) -", re.M)
CITED_FILE = re.compile(r"\b((?:lab/)?[a-z_]+)/\w+\.[ch]\b")


def stem_of(path):
    return re.sub(r"\.\w+$", "", path)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


class Tree:
    """The C files of the rooms: {path: text}, and {path: text without comments}."""

    def __init__(self, texts, code_of, room_of, rooms):
        self.texts = {path: text for path, text in texts.items()
                      if path.startswith(SOURCES) and path.endswith((".c", ".h", ".cpp"))}
        self.codes = {path: code_of(text) for path, text in self.texts.items()}
        self.room_of = room_of
        self.rooms = rooms
        self.definers = {name: path for path, code in self.codes.items() if path.endswith(".c")
                         for name in DEFINITION.findall(code)}

    def included(self, name):
        return next((folder + name for folder in INCLUDE_FOLDERS if folder + name in self.texts),
                    None)

    def includes(self, path):
        """Paths that a file includes, with the lines where it does."""
        for match in INCLUDE.finditer(self.texts[path]):
            target = self.included(match.group(1))
            if target:
                yield target, line_of(self.texts[path], match.start(1))


def rings(edges):
    """The strongly connected parts of {node: successors}, by Tarjan, each of two nodes or more."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for successor in sorted(edges.get(node, ())):
            if successor not in order:
                visit(successor)
            if successor in stack:
                low[node] = min(low[node], low[successor])
        if low[node] == order[node]:
            ring = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(ring) > 1:
                found.append(sorted(ring))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def sections(tree, path):
    """(position, sources) of each part of a header that is the face of several files."""
    folder = path.rpartition("/")[0]
    for match in SECTION.finditer(tree.texts[path]) if path.endswith(".h") else ():
        yield match.start(), {f"{folder}/{name}" for name in match.group(1).split(", ")}


def needs(tree, path):
    """Paths that a file includes or a function of which it calls, with the lines where it does. The
    face of its own folder tells nothing."""
    folder = path.rpartition("/")[0]
    for target, line in tree.includes(path):
        if target.rpartition("/")[0] != folder or not any(sections(tree, target)):
            yield target, line
    for match in re.finditer(r"\b\w+", tree.codes[path]) if path.endswith(".c") else ():
        if match.group(0) in tree.definers:
            yield tree.definers[match.group(0)], line_of(tree.codes[path], match.start())


def check_rings(tree):
    edges, where = {}, {}
    for path in tree.texts:
        for target, line in needs(tree, path):
            a, b = stem_of(path), stem_of(target)
            feature = tree.room_of(target)
            is_counted = feature in FEATURES and path.startswith("vmm/") \
                and feature != tree.room_of(path)  # by check_features
            if a != b and not is_counted:
                edges.setdefault(a, set()).add(b)
                where.setdefault((a, b), (path, line))
    for ring in rings(edges):
        first = min(where[a, b] for a in ring for b in edges.get(a, ()) if b in ring)
        yield *first, "a ring of files: " + ", ".join(ring)


def check_faces(tree):
    for path, code in tree.codes.items():
        if not path.endswith(".h") or path.startswith(PUBLIC):
            continue
        folder = path.rpartition("/")[0]
        parts = [(0, {stem_of(path) + ".c"}), *sections(tree, path)]
        for match in DECLARATION.finditer(code):
            own = max((part for part in parts if part[0] <= match.start()), key=lambda p: p[0])[1]
            definer = tree.definers.get(match.group(1))
            if definer is None or definer in own:
                continue
            if own & tree.texts.keys() or definer.rpartition("/")[0] != folder:
                yield path, line_of(code, match.start(1)), \
                    f"declares {match.group(1)}, which is defined in {definer}"


def check_upper_rooms(tree):
    public = {name for path, code in tree.codes.items() if path.startswith(PUBLIC)
              for name in DECLARATION.findall(code)}
    for path, text in tree.texts.items():
        room = tree.room_of(path)
        if room is None or path.startswith(PUBLIC):
            continue
        text = INCLUDE.sub("", text)
        for match in CITED_FILE.finditer(text):
            if match.group(1) in tree.rooms and match.group(1) not in tree.rooms[room] \
                    and match.group(1) not in FEATURES:
                yield path, line_of(text, match.start()), \
                    f"{room} names {match.group(0)}, of a room above it"
        for match in re.finditer(r"\bmend_\w+", text):
            definer = tree.definers.get(match.group(0))
            above = tree.room_of(definer) if definer else None
            if above and above not in tree.rooms[room] and above not in FEATURES \
                    and match.group(0) not in public:
                yield path, line_of(text, match.start()), \
                    f"{room} names {match.group(0)} of {definer}, of a room above it"


IN_HEADERS = re.compile(r"^static inline [^\n;{}]*?\b(mend_\w+)\(|^\} (mend_\w+);", re.M)


def names_of_features(tree):
    """{(room, feature): [(path, line, name)]} of the knowledge of vmm/ about features."""
    public, feature_of, found = set(), {}, {}
    for path, code in tree.codes.items():
        room = tree.room_of(path)
        if path.startswith(PUBLIC):
            public |= set(re.findall(r"\bmend_\w+", code))
        elif path.startswith("vmm/") and room in FEATURES:
            names = DEFINITION.findall(code) if path.endswith(".c") else \
                [a or b for a, b in IN_HEADERS.findall(code)]
            feature_of |= {name: room for name in names}
    for path, text in tree.texts.items():
        room = tree.room_of(path)
        if not path.startswith("vmm/") or room is None or room == "sim":
            continue
        seen = set()
        for match in re.finditer(r"\b(?:([a-z]+)/\w+\.[ch]|mend_\w+)\b", text):
            name = match.group(0)
            feature = match.group(1) if match.group(1) in FEATURES else \
                feature_of.get(name) if name not in public else None
            if feature and feature != room and name not in seen:
                seen.add(name)
                found.setdefault((room, feature), []).append(
                    (path, line_of(text, match.start()), name))
    return found


def check_features(tree):
    found = names_of_features(tree)
    known = {(room, feature): count for room, row in KNOWS.items() for feature, count in row.items()
             if "vmm/pool/life.c" in tree.codes}
    for pair in sorted({*found, *known}):
        places, allowed = found.get(pair, []), known.get(pair, 0)
        if len(places) < allowed:
            yield "tests/tidy/structure.py", 1, \
                f"KNOWS has {allowed} for {pair}: write {len(places)}"
        for path, line, name in places if len(places) > allowed else ():
            yield path, line, f"{pair[0]} names {name} of {pair[1]}: " \
                f"{len(places)} names, KNOWS has {allowed}"


# Releases, and the files that may make them: a transaction that notes a refusal as deferred, or has
# its memory as a free chunk then, which a trim releases, and the end of a heap.
TAKES_BACK = {
    "unmap": ("sleep/sleep", "map/retire", "map/steps", "map/grow", "exchange/exchange",
              "share/import", "alloc/life"),
    "release": ("memory/chunk", "share/import", "alloc/life"),
    "host_free": ("sleep/host_memory",),
    "host_unregister": ("sleep/host_memory",),
}
OFFER = re.compile(r"\bdriver->(" + "|".join(TAKES_BACK) + r")\(")
# The users of deferred work: the retry, waits, a look, and the end of a heap.
WALKS_DEFERRED = ("map/retire", "memory/chunk",
                  "share/import", "sleep/host_memory", "alloc/life")
WALK = re.compile(r"\b(mend_deferred_(?:from|next))\(")
A_RETRY = re.compile(r"\b(?:mend_list|mend_tree|struct mend_\w+ \*|uint32_t)\s*"
                     r"(\w*(?:refused|unreleased|deferred|leftover|stuck|retry|left_\w+))\s*;")


def check_deferred(tree):
    """No list, flag or counter of its own for refused releases, and no other file that retries
    them."""
    for path, code in tree.codes.items():
        if not path.startswith("vmm/") or path.startswith(("vmm/driver/", "vmm/sim/", "vmm/base/")):
            continue
        for match in OFFER.finditer(code):
            if stem_of(path)[4:] not in TAKES_BACK[match.group(1)]:
                yield path, line_of(code, match.start()), \
                    f"calls {match.group(1)}: what it refuses is deferred (memory/chunk.h)"
        for match in WALK.finditer(code) if path.endswith(".c") else ():
            if stem_of(path)[4:] not in WALKS_DEFERRED:
                yield path, line_of(code, match.start()), \
                    f"calls {match.group(1)}: deferred work is retried in map/retire.c"
        for match in A_RETRY.finditer(code) if path.endswith(".h") else ():
            yield path, line_of(code, match.start(1)), \
                f"keeps {match.group(1)} apart from the list of deferred work (memory/chunk.h)"


READ_ALL = {"check", "pool"}


class Part:
    """A part of a heap (layout/state.h). Only the owner writes it. `readers` read it, and READ_ALL
    reads all. None: all folders do. `whole`: any room passes it to functions, because its type is
    the owner's, a folder below the heap. So it does with the `passed` ones of its own parts.
    `set_by`: fields by which other rooms tell the owner something."""

    def __init__(self, of_type, owner, readers=None, whole=False, passed=(), set_by=None):
        self.of_type, self.owner = of_type, owner
        self.readers = None if readers is None else {*READ_ALL, *readers}
        self.passed, self.set_by = {*passed, *([""] if whole else [])}, set_by or {}


PARTS = {
    # The owner alone.
    "allowed": Part("mend_allowed", "map", ["graphs"]),
    "effective_limit": Part("mend_effective_limit", "map", ["plan", "alloc"]),
    "budget": Part("mend_budget", "plan"),
    "caching": Part("mend_caching", "layout", ["plan", "alloc"]),
    "driver": Part(None, "alloc"),
    "exports": Part(None, "share", ["exchange"]),
    "exported_bytes": Part(None, "share", []),
    "graph_pools": Part("mend_graph_pools", "alloc", ["plan"]),
    "imports": Part("mend_imports", "share", ["map", "exchange", "alloc"]),
    "keeping": Part("mend_keeping", "sleep", []),
    "nodes": Part("mend_nodes", "layout", []),
    "pins": Part("mend_pins", "share", []),
    "ranges": Part("mend_ranges", "ranges", ["layout", "alloc", "share"]),
    "retire": Part("mend_retiring", "map", ["alloc", "ranges"], set_by={"sleep": ["copies"]}),
    "has_homes": Part(None, "alloc", ["layout", "plan"]),
    "usage": Part("mend_usage_state", "layout", ["alloc"]),
    # Its functions alone.
    "blocks": Part("mend_pointer_map", "base", whole=True),
    "device": Part("mend_device_info", "driver", whole=True),
    "events": Part("mend_events", "base", whole=True, set_by={"alloc": [""]}),  # as it begins
    "range_space": Part("mend_space", "memory", whole=True),
    "space": Part("mend_space", "memory", whole=True),
    "unlocking": Part("mend_unlocking", "driver", whole=True),
    "zones": Part("mend_zone", "layout", whole=True),
    # Beside the owner these.
    "chunks": Part("mend_chunks", "memory", whole=True, passed=["deferred", "slab"],
                   set_by={"map": ["importers_bytes"], "ranges": ["sums_at"]}),
    "config": Part("mend_heap_config", "alloc",
                   set_by={"plan": ["placement"], "pool": ["limit_bytes", "soft_limit_bytes"]}),
    "counters": Part("mend_heap_counters", "layout", set_by={
        "alloc": ["cache_hits", "background_trimmed_bytes", "moves_avoided", "out_of_memory",
                  "placed_by_extension", "placed_in_run", "soft_limit_passed", "waited_requests"],
        "graphs": ["placed_in_run"],
        "exchange": ["chunks_moved", "compactions", "copied_bytes"],
        "map": ["chunks_moved", "chunks_remade", "driver_failures", "placed_at_new_address",
                "placed_by_extension"],
        "sleep": ["dropped_bytes", "sleeps", "wakes"]}),
    "frees": Part("mend_frees", "alloc", ["ranges"]),
    "shortage": Part("mend_shortage", "alloc", [], set_by={
        "map": ["device_free_bytes", "device_is_asked", "no_addresses", "others_bytes"],
        "plan": ["refused_bytes"], "ranges": ["held_range"]}),
    "streams": Part("mend_streams", "memory", whole=True, set_by={
        "alloc": ["items", "may_be_several", "serves_any", "serves_graph_pools"]}),
}
STATE = "vmm/layout/state.h"  # it sums over parts
LOCKS = {"grow", "state"}
MEMBERS = r"(?:\s*(?:\.|->)\s*\w+|\[[^\]]*\])*"
WRITTEN = re.compile(r"\s*(?:(?:[-+*/%|&^]|<<|>>)?=(?!=)|\+\+|--)")
PATH_BEFORE = r"(?:\w+(?:->|\.))*$"
STEPPED = re.compile(r"(?:\+\+|--)" + PATH_BEFORE)
ADDRESS = re.compile(r"(?<!&)&" + PATH_BEFORE)
TO_CONST = re.compile(r"\bconst\s+[\w\s]+\*\s*\w+\s*=\s*$|\(const\s+[\w\s]+\*\)$|"
                      r"_EACH\(const\b[^;{]*$")


def argument_before(code):
    """(function, number) of the argument that begins where the code ends. None: it is none."""
    depth, number = 0, 0
    for at in range(len(code) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(code[at], 0)
        number += code[at] == "," and depth == 0
        if depth < 0:
            name = re.search(r"(\w+)\s*$", code[:at])
            return (name.group(1), number) if name else None
        if code[at] in ";{}":
            return None
    return None


def takes_const(codes, call):
    """Whether that argument is a pointer to const, by a declaration in one of these."""
    for code in codes if call else ():
        found = re.search(r"^(?!\s).*[ *]" + call[0] + r"\(((?:[^;{}()]|\([^()]*\))*)\)\s*[;{]",
                          code, re.M)
        if found:
            arguments = found.group(1).split(",")
            return call[1] < len(arguments) and arguments[call[1]].strip().startswith("const ")
    return False


def accesses(tree, code, name, part):
    """(position, first member, whether it may write) of each access to a part, by a heap, which is
    called `heap` everywhere, or by a pointer of its type. Of a type of a folder below there may be
    other objects: then by one that gets its address."""
    of_heap = rf"\s*=\s*&(?:\w+->)*heap(?:->|\.){name};" if "" in part.passed else ""
    pointer = rf"(const\s+)?\b{part.of_type}\s*\*\s*(?:const\s+)?(\w+)" + of_heap
    pointers = dict((found[1], found[0]) for found in re.findall(pointer, code))
    declaring = [code] + [each for path, each in tree.codes.items() if path.endswith(".h")]
    names = [rf"\bheap(?:->|\.){name}\b", *(rf"(?<![\w>.]){each}(?=->)" for each in pointers)]
    for match in re.finditer(f"({'|'.join(names)})(?P<members>{MEMBERS})", code):
        members = re.sub(r"\[[^\]]*\]|\s", "", match.group("members")).replace("->", ".").split(".")
        before = code[max(0, match.start() - 400):match.start()]
        address = ADDRESS.search(before)
        writes = WRITTEN.match(code, match.end()) or STEPPED.search(before)
        if address and not writes:
            before = before[:address.start()]
            writes = not (".".join(members[1:]) in part.passed or TO_CONST.search(before)
                          or takes_const(declaring, argument_before(before)))
        yield match.start(), (members + [""])[1], bool(writes) and not pointers.get(match.group(1))


def check_owners(tree):
    idle = {(name, room, member) for name, part in PARTS.items()
            for room, members in part.set_by.items() for member in members}
    idle |= {(name, room, None) for name, part in PARTS.items()
             for room in (part.readers or set()) - READ_ALL}
    for path, code in tree.codes.items():
        room = tree.room_of(path)
        if not path.startswith("vmm/") or "layout" not in tree.rooms.get(room, ()):
            continue
        for name, part in PARTS.items():
            may_read = part.readers is None or room in part.readers or path == STATE
            may_set = part.set_by.get(room, ())
            for position, member, writes in \
                    accesses(tree, code, name, part) if room != part.owner else ():
                idle.discard((name, room, member if member in may_set else None))
                if member not in may_set and (writes or not may_read):
                    yield path, line_of(code, position), \
                        f"{'writes' if writes else 'reads'} {name} of the heap, which is " \
                        f"{part.owner}'s"
    heap = re.search(r"typedef struct mend_heap \{(.*?)\n\}", tree.codes.get(STATE, ""), re.S)
    for match in re.finditer(r"(\w+)(?:\[\w+\])?[,;]", heap.group(1)) if heap else ():
        if match.group(1) not in PARTS.keys() | LOCKS:
            yield STATE, line_of(tree.codes[STATE], heap.start(1) + match.start()), \
                f"{match.group(1)}: a part of the heap without an owner"
    for name, room, member in sorted(idle, key=str) if "vmm/alloc/life.c" in tree.codes else ():
        yield STATE, 1, f"{room} is named for {member or 'reading'} of {name}, and " \
            "does not use that"


# Rule, {path: text}, the place it must flag: (path, line).
SAMPLES = [
    (check_rings, {"vmm/base/a.c": '#include "base/b.h"\n', "vmm/base/a.h": "",
                   "vmm/base/b.h": '\n#include "base/a.h"\n'}, [("vmm/base/a.c", 1)]),
    (check_rings, {"vmm/base/a.h": '#include "base/b.h"\n', "vmm/base/b.c": '#include "base/c.h"\n',
                   "vmm/base/b.h": "", "lab/replay/a.h": '#include "base/a.h"\n',
                   "vmm/base/c.h": '\n\n#include "base/a.h"\n'}, [("vmm/base/a.h", 1)]),
    (check_rings, {"vmm/base/a.c": '#include "base/a.h"\n#include "base/b.h"\n',
                   "vmm/base/a.h": "", "vmm/base/b.h": '#include "base/c.h"\n',
                   "vmm/base/c.h": '#include "mend/mend.h"\n', "api/include/mend/mend.h": ""}, []),
    (check_rings, {"lab/replay/a.h": '#include "lab/trace/b.h"\n',
                   "lab/trace/b.h": '#include "lab/replay/a.h"\n'}, [("lab/replay/a.h", 1)]),
    (check_rings, {"vmm/base/face.h": "void mend_a(void);\nvoid mend_b(void);\n",
                   "vmm/base/a.c": "void mend_a(void)\n{\n\n    mend_b();\n}\n",
                   "vmm/base/b.c": "void mend_b(void)\n{\n    g(mend_a);\n}\n"},
     [("vmm/base/a.c", 4)]),
    (check_faces, {"vmm/base/a.h": "\nint mend_a(void);\nint mend_b(int x,\n    int (*f)(int));\n",
                   "vmm/base/a.c": "int mend_a(void)\n{\n}\n",
                   "vmm/base/b.c": "int mend_b(int x, int (*f)(int))\n{\n}\n"},
     [("vmm/base/a.h", 3)]),
    (check_rings, {"vmm/base/base.h": "/* ---- b.c ---- */\nvoid mend_b(void);\n",
                   "vmm/base/b.c": '#include "base/base.h"\nvoid mend_b(void)\n{\n}\n',
                   "vmm/base/base.c": '#include "base/base.h"\nvoid f(void)\n{\n mend_b();\n}\n'},
     []),
    (check_faces, {"vmm/base/a.h": "int mend_a(void);\n/* ---- b.c ---- */\nint mend_b(void);\n"
                                   "int mend_c(void);\n",
                   "vmm/base/a.c": "int mend_a(void)\n{\n}\nint mend_c(void)\n{\n}\n",
                   "vmm/base/b.c": "int mend_b(void)\n{\n}\n"}, [("vmm/base/a.h", 4)]),
    (check_faces, {"vmm/base/face.h": "int mend_a(void);\nint mend_b(void);\n",
                   "vmm/base/a.c": "int mend_a(void)\n{\n}\n",
                   "vmm/driver/b.c": "int mend_b(void)\n{\n}\n"}, [("vmm/base/face.h", 2)]),
    (check_faces, {"api/include/mend/mend.h": "MEND_API int mend_a(void);\n",
                   "vmm/base/a.c": "int mend_a(void)\n{\n}\nstatic int mend_b(void)\n{\n}\n",
                   "vmm/base/b.h": "static inline int mend_b(void);\n", "vmm/base/b.c": ""}, []),
    (check_deferred, {"vmm/map/retire.c": "driver->unmap(driver, a, b);\n",
                      "vmm/alloc/a.c": "\nheap->driver->unmap(heap->driver, a, b);\n",
                      "vmm/alloc/b.c": "at = mend_deferred_from(list, kind, 0);\n",
                      "vmm/layout/a.h": "mend_list refused;\nuint64_t refused_bytes;\n",
                      "vmm/sim/a.h": "mend_list refused;\n"},
     [("vmm/alloc/a.c", 2), ("vmm/alloc/b.c", 1), ("vmm/layout/a.h", 1)]),
    (check_owners, {"vmm/share/a.c": "heap->pins.a = 1;\n",
                    "vmm/alloc/a.c": "\nx = heap->pins.a;\n",
                    "vmm/pool/a.c": "pool->heap.pins.a++;\nb.pins = 1;\n"},
     [("vmm/alloc/a.c", 2), ("vmm/pool/a.c", 1)]),
    (check_owners, {"vmm/exchange/a.c": "x = heap->imports.a == 1 && heap->imports.b;\n"
                                     "++c->heap->imports.a;\nf(1, &heap->imports.a);\n"
                                     "g(&heap->imports.a, 1);\nheap->imports.a[i].b |= 1;\n"
                                     "const int *a = &heap->imports.a;\n"
                                     "int *b = &heap->imports.a;\n"
                                     "mend_imports *e = p;\ne->a = 1;\ny = e->a;\n"
                                     "MEND_TREE_EACH(const t, at, by, &heap->imports.a) {\n",
                    "vmm/base/b.h": "void f(int x, const int *y);\nvoid g(int *x, int y);\n",
                    "vmm/check/a.c": "x = heap->imports.a;\nheap->imports = y;\n"},
     [("vmm/exchange/a.c", 2), ("vmm/exchange/a.c", 4), ("vmm/exchange/a.c", 5),
      ("vmm/exchange/a.c", 7), ("vmm/exchange/a.c", 9), ("vmm/check/a.c", 2)]),
    (check_owners, {"vmm/alloc/a.c": "heap->shortage.held_range = 0;\n",
                    "vmm/map/a.c": "heap->shortage.others_bytes = 1;\n"
                                   "heap->shortage.held_range = 1;\n",
                    "vmm/plan/a.c": "heap->shortage.refused_bytes = heap->shortage.held_range;\n",
                    STATE: "typedef struct mend_heap {\n    mend_mutex grow, state;\n"
                           "    mend_zone zones[ZONES];\n    int other;\n} mend_heap;\n"},
     [("vmm/map/a.c", 2), ("vmm/plan/a.c", 1), (STATE, 4)]),
    (check_owners, {"vmm/pool/a.c": "f(&heap->events);\nx = heap->events.a;\n"
                                    "f(&heap->events.a);\nheap->events.a = 1;\n",
                    "vmm/driver/a.c": "mend_events *h = p;\nh->a = 1;\n"},
     [("vmm/pool/a.c", 3), ("vmm/pool/a.c", 4)]),
    (check_upper_rooms, {"vmm/base/a.h": "\n/* driver/b.c knows. */\n"}, [("vmm/base/a.h", 2)]),
    (check_upper_rooms, {"vmm/base/a.h": "/* mend_b knows; mend_c is for all. */\n",
                         "vmm/driver/b.c": "int mend_b(void)\n{\n}\n"
                                           "int mend_c(void)\n{\n}\n",
                         "api/include/mend/mend.h": "MEND_API int mend_c(void);\n"},
     [("vmm/base/a.h", 1)]),
    (check_features, {"vmm/alloc/a.c": '#include "sleep/b.h"\n#include "map/c.h"\n'
                                       "mend_f(mend_g);\n",
                      "vmm/sleep/b.c": "/* graphs/c.h */\nint mend_f(void)\n{\n}\n",
                      "vmm/sleep/b.h": "static inline int mend_g(int x)\n"},
     [("vmm/alloc/a.c", 1), ("vmm/alloc/a.c", 3), ("vmm/alloc/a.c", 3), ("vmm/sleep/b.c", 1)]),
    (check_upper_rooms, {"vmm/driver/a.h": '#include "base/b.h"\n/* base/b.h, x/c.h: mend_b */\n',
                         "vmm/base/b.c": "int mend_b(void)\n{\n}\n"}, []),
]

RULES = [check_rings, check_faces, check_upper_rooms, check_features, check_deferred, check_owners]


def samples_that_failed(code_of, room_of, rooms):
    failed = 0
    for rule, texts, expected in SAMPLES:
        found = [finding[:2] for finding in rule(Tree(texts, code_of, room_of, rooms))]
        if found != expected:
            print(f"{rule.__name__} flags {found}, not {expected}, of\n{texts}")
            failed += 1
    unproven = [r.__name__ for r in RULES if not any(s[0] is r and s[2] for s in SAMPLES)]
    if unproven:
        print("rules without a sample they flag:", ", ".join(unproven))
    return failed + len(unproven)


def findings_in(tree):
    return [finding for rule in RULES for finding in rule(tree)]
