"""Finds small changes in C functions, and puts each beside the original.

Functions are found as clang-format lays them out: `{` and `}` of each stand alone in the first
column. Within one, an edit is a sequence of tokens that occurs once. The smallest place around it
is made twice, and a flag chooses: a whole expression (a condition, an initializer, a returned
value), or whole statements.
"""
import re

FUNCTION = re.compile(r"^(?![#/\s*}])[^;{}=#]*?\b(?!__attribute__)(\w+)\([^;{}]*?\)\n(\{\n.*?^\})",
                      re.M | re.S)
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|^\#(?:[^\n\\]|\\.)*)
    |[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'
    |\.\.\.|<<=|>>=|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|.""", re.M | re.S | re.X)
TYPES = set("""const static struct union enum unsigned signed char short int long float double void
    bool _Bool _Alignas _Atomic _Static_assert __attribute__ volatile""".split())
OPEN, CLOSE = "([{", ")]}"
STATEMENT, DECLARATION, LABEL = range(3)


class Misfit(Exception):
    """An edit that does not apply."""


def lex(text, at=0):
    """[(token, where it begins)]."""
    return [(found[0], found.start() + at) for found in TOKEN.finditer(text)
            if found["space"] is None]


def words(text):
    return [token for token, _ in lex(text)]


class Function:
    """The tokens of a body, and the places in it that can be made twice."""

    def __init__(self, path, text, begin, end):
        self.path = path
        self.text = text
        lexed = lex(text[begin:end], begin)
        self.tokens = [token for token, _ in lexed]
        self.begins = [at for _, at in lexed]
        self.partners = {}
        self.expressions = []
        self.lists = []  # of statements that follow each other, each as (begin, end, kind)
        self.pair_brackets()
        self.statement(0)

    def pair_brackets(self):
        opened = []
        for i, token in enumerate(self.tokens):
            if token in OPEN:
                opened.append(i)
            elif token in CLOSE:
                self.partners[opened.pop()] = i

    def find(self, i, wanted):
        """The first of some tokens from i on that is outside all brackets."""
        while self.tokens[i] not in wanted:
            i = self.partners.get(i, i) + 1
        return i

    # Each of these takes the construct that begins at i, notes its places, and returns its end.

    def expression(self, i, end):
        if i < end:
            self.expressions.append((i, end))
        return end

    def initialiser(self, i, ends):
        """One value, or those in braces."""
        if self.tokens[i] != "{":
            return self.expression(i, self.find(i, ends))
        end = self.partners[i]
        i += 1
        while i < end:
            if self.tokens[i] in ".[":
                i = self.find(i, "=") + 1
            i = self.initialiser(i, ",}") + 1
        return end + 1

    def declaration(self, i):
        is_fixed = self.tokens[i] in ("static", "enum", "_Static_assert")
        while True:
            i = self.find(i, "=;" if not is_fixed else ";")
            if self.tokens[i] == ";":
                return i + 1
            i = self.initialiser(i + 1, ",;")

    def is_declaration(self, i):
        first, second = self.tokens[i:i + 2]
        if first in TYPES:
            return True
        if not re.match(r"[A-Za-z_]", first):
            return False
        if second == "(" and self.tokens[i + 2] == "*" and self.tokens[i + 4:i + 6] == [")", "("]:
            return True  # a pointer to a function
        while second == "*":
            i += 1
            second = self.tokens[i + 1]
        return re.match(r"[A-Za-z_]", second) is not None

    def block(self, i):
        end = self.partners[i]
        here = []
        i += 1
        while i < end:
            begin = i
            i, kind = self.statement(i)
            here.append((begin, i, kind))
        self.lists.append(here)
        return end + 1

    def part(self, i):
        """A statement that belongs to another."""
        end, kind = self.statement(i)
        self.lists.append([(i, end, kind)])
        return end

    def head(self, i):
        """The text in brackets after a keyword."""
        return self.expression(i + 2, self.partners[i + 1]) + 1

    def for_head(self, i):
        close = self.partners[i + 1]
        second = self.find(i + 2, ";") + 1
        if self.is_declaration(i + 2):
            self.declaration(i + 2)
        else:
            self.expression(i + 2, second - 1)
        third = self.expression(second, self.find(second, ";")) + 1
        return self.expression(third, close) + 1

    def statement(self, i):
        """(where it ends, its kind)."""
        token = self.tokens[i]
        if token == "{":
            return self.block(i), STATEMENT
        if token == "switch":  # its labels stay with it
            return self.statement(self.head(i))[0], STATEMENT
        if token in ("if", "while", "for"):
            i = self.part(self.for_head(i) if token == "for" else self.head(i))
            if token == "if" and self.tokens[i] == "else":
                i = self.part(i + 1)
            return i, STATEMENT
        if "_EACH" in token:
            return self.part(self.partners[i + 1] + 1), STATEMENT
        if token == "do":
            return self.head(self.part(i + 1)) + 1, STATEMENT
        if token in ("case", "default") or self.tokens[i + 1] == ":":
            return self.find(i, ":") + 1, LABEL
        if token == "return":
            return self.expression(i + 1, self.find(i, ";")) + 1, STATEMENT
        if token != "goto" and self.is_declaration(i):
            return self.declaration(i), DECLARATION
        return self.find(i, ";") + 1, STATEMENT

    def match(self, i, wanted):
        """Where some tokens end that begin at i. `...` stands for all up to the end of brackets."""
        for token in wanted:
            if token == "...":
                while self.tokens[i] not in CLOSE:
                    i = self.partners.get(i, i) + 1
            elif i < len(self.tokens) and self.tokens[i] == token:
                i += 1
            else:
                return None
        return i

    def occurrences(self, wanted):
        ends = ((i, self.match(i, wanted)) for i in range(len(self.tokens)))
        return [(i, end) for i, end in ends if end is not None]

    def run_around(self, here, i, end):
        """The shortest run of statements around some tokens: statements after a declaration are in
        its scope."""
        run = [each for each in here if each[0] < end and i < each[1]]
        if not run or run[0][0] > i or run[-1][1] < end:
            return None
        if any(kind == DECLARATION for _, _, kind in run):
            run = here[here.index(run[0]):]
        if any(kind == LABEL for _, _, kind in run):
            return None
        return run[0][0], run[-1][1]

    def place_of(self, i, end):
        """The smallest place around some tokens: (begin, end, list of statements or None)."""
        found = [(at, to, None) for at, to in self.expressions if at <= i and end <= to]
        for here in self.lists:
            run = self.run_around(here, i, end)
            if run is not None:
                found.append((*run, here))
        if not found:
            raise Misfit("no statement can be made twice there")
        return min(found, key=lambda place: place[1] - place[0])

    def source(self, i, end):
        """The text from token i to the last before end."""
        return self.text[self.begins[i]:self.begins[end - 1] + len(self.tokens[end - 1])]

    def edit(self, entry):
        """(begin, end, mutated tokens) of an entry, or a Misfit where it has no place."""
        found = self.occurrences(entry.wanted)
        if not found:
            raise Misfit("not in the function")
        if entry.which > len(found) or (not entry.which and len(found) > 1):
            raise Misfit(f"{len(found)} times in the function")
        i, end = found[max(entry.which - 1, 0)]
        begin, stop, here = self.place_of(i, end)
        if here is None and (begin, stop) == (i, end) and not entry.given:
            raise Misfit("an expression that is nothing")
        return i, end, begin, stop, here


class Place:
    """A part of a function, and the edits of which each may be there instead."""

    def __init__(self, begin, end, here):
        self.begin = begin
        self.end = end
        self.here = here
        self.edits = []

    def joins(self, other):
        """Whether two runs of statements overlap."""
        return (self.here is other.here and self.here is not None and
                self.begin < other.end and other.begin < self.end)

    def text(self, function, original):
        """The text of the copy here."""
        chain = ""
        for entry, i, end in self.edits:
            mutated = " ".join(function.tokens[self.begin:i] + entry.given +
                               function.tokens[end:self.end])
            if self.here is not None:
                chain += f"if ({entry.flag}) {{ {mutated} }} else "
            else:
                chain += f"{entry.flag} ? ({mutated}) : "
        return f"{chain}{{ {original} }}" if self.here is not None else f"({chain}({original}))"


def places_of(function, entries):
    """All places of some entries, outer ones before those in them."""
    places = []
    for entry in entries:
        i, end, begin, stop, here = function.edit(entry)
        place = Place(begin, stop, here)
        place.edits.append((entry, i, end))
        for other in [other for other in places if other.joins(place) or (
                (other.begin, other.end, other.here) == (begin, stop, here))]:
            places.remove(other)
            place.begin = min(place.begin, other.begin)
            place.end = max(place.end, other.end)
            place.edits[:0] = other.edits
        places.append(place)
    return sorted(places, key=lambda place: (place.begin, -place.end))


def copy_of(function, entries):
    """[(begin, end, text)] of each change of the function's text, none within another."""
    places = places_of(function, entries)

    def rendered(begin, end):
        """The original text of some tokens, with the places within."""
        changes = []
        at = begin
        while places and places[0].begin < end:
            place = places.pop(0)
            changes.append((place, place.text(function, rendered(place.begin, place.end))))
        text = ""
        for place, changed in changes:
            if at < place.begin:
                text += function.text[function.begins[at]:function.begins[place.begin]]
            text += changed
            at = place.end
            if at < end:
                last = function.begins[at - 1] + len(function.tokens[at - 1])
                text += function.text[last:function.begins[at]]
        return text + (function.source(at, end) if at < end else "")

    return rendered(0, len(function.tokens))


class Sources:
    """The functions of some folders, by name."""

    def __init__(self, texts):
        """Texts by the paths of files."""
        self.texts = texts
        self.spans = {}
        self.known = {}
        for path, text in texts.items():
            for found in FUNCTION.finditer(text):
                self.spans.setdefault(found[1], []).append((path, *found.span(2)))

    def function(self, name, ending=""):
        """The one of a name, in a file whose path has an ending where several have it."""
        found = [span for span in self.spans.get(name, []) if ("/" + span[0]).endswith("/" + ending)
                 or not ending]
        if len(found) != 1:
            raise Misfit(f"{len(found)} functions of the name")
        if found[0] not in self.known:
            path, begin, end = found[0]
            self.known[found[0]] = Function(path, self.texts[path], begin, end)
        return found[0], self.known[found[0]]
