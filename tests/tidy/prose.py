#!/usr/bin/env python3
"""Names in documents exist: tests, symbols, files, jobs of ./run, presets, labels, options,
commands and policies. Their own promises hold too. Each row of support.md names its test, each
table of figures has a command that prints it, and each sentence with one has such a command or a
link to it. Each file of vmm/ is in its README. The first page is short and names the GPU of each
figure, or says that it is simulated. Pages are few and read well (style.py), and pictures agree
with their captions.

Usage: prose.py ROOT
"""
import fnmatch
import functools
import os
import re
import sys

import style

LINES_OF_THE_FIRST_PAGE = 120
MOST_PAGES = 36  # in docs
MOST_WORDS = {"the reference": 15200, "all other pages": 40000}  # in docs, these without code
CODE_FOLDERS = ("vmm", "api", "lab", "bench", "tests", "cmake", "packaging", "docs/examples",
                "docs/generator")
CODE_ENDS = (".c", ".h", ".cpp", ".hpp", ".py", ".txt", ".sh", ".in", ".mutants", ".cmake", ".yml")
CODE_AT_THE_TOP = ("run", "CMakeLists.txt", "CMakePresets.json", "pyproject.toml")
OWN = "tests/tidy/prose.py"
# Where a path that a document names may begin, beside its own folder.
BASES = ("", "vmm", "api", "api/python", "api/torch", "api/include", "lab", "docs", "tests",
         "bench")
SOURCES_OF = {"replay": "lab/replay/", "report": "lab/report/", "record": "lab/record/",
              "top": "lab/live/",
              "demo": "api/cli/demo", "info": "api/cli/info"}
# Of programs that are not ours.
FOREIGN_OPTIONS = {"--benchmark_filter", "--disable-custom-all-reduce", "--enable-memory-saver",
                   "--enable-sleep-mode", "--epochs", "--exclude", "--model-path",
                   "--overlay-ports", "--recipe", "--rm"}
# Its figures are facts with a source each, not measurements.
OF_SOURCES = ("docs/driver-facts.md",)
HISTORY = "CHANGELOG.md"  # which names what was renamed or is gone
ON_A_DEVICE = re.compile(r"\bH[12]00\b|\bsimulated\b")
RESULT = re.compile(r"\d(?:&nbsp;| )(?:GiB|MiB|s|ms|us|µs)\b|\b\d+\.\d+\b|^(?:\*\*)?[\d,]+\b")
SHOWN_BY = ("shown by", "by what")
NOT_TRIED = re.compile(r"\bnot tried\b")
NOT_KEPT = re.compile(r"\bnot kept\b")
NOTHING_RAN = re.compile(r"\*\*nothing here has run\*\*")

SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```.*\n((?:.*\n)*?)```$|^((?:    .*\S.*\n)+)", re.M)
TEST = re.compile(r"[a-z][\w*]*\.[a-z*][\w*]*")
SYMBOL = re.compile(r"\b(?:mend|MEND)_\w+\*?")
PATH = re.compile(r"(?<![\w/.$~<-])(?:[\w.-]+/)+[\w.-]+\.(?:c|h|hpp|cpp|py|md|txt|svg|sh|csv\.gz|"
                  r"mutants|ablations|costs)(?![\w/])")
JOB = re.compile(r"(?:^|[ `(])\./run ([a-z][\w-]*)", re.M)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]+")
OF_A_COMMAND = re.compile(r'^    \[OPTION_\w+\] = \{"(\w[\w-]+)"', re.M)
PRESET = re.compile(r"--preset[ =]([\w-]+)")
LABEL = re.compile(r"\bctest\b.* -L (\w+)")
COMMAND = re.compile(r"(?:^\s*(?:\w+=\S+ )*|/)libmend ([a-z]+)(?= |$)")
POLICIES = re.compile(r"(?:replay\b[^`\n]*?--allocator|--policies)[ =]([a-z][\w:.,-]+)")
IN_PYTHON = re.compile(r"(?<![\w/])libmend\.(?!so\b|a\b)((?:[A-Za-z]\w*\.)*[A-Za-z]\w*)")
CONF = re.compile(r"\bMEND_CONF=[\"']?([\w:,.%-]+)")
FIGURE = re.compile(r"\d\.\d\d\b|\d (?:ms|us|ns|µs)\b")
MEASURED = re.compile(r"\b[\d.,]*\d (?:ms|us|ns|instructions)\b|\b\d\.\d{3}\b|\b\d\.\d\d times\b")
TO_FIGURES = re.compile(r"\]\([\w./-]*(?:benchmarks[\w-]*\.md|bench/results/|#figures)")
RUNS = re.compile(r"`(?:\./run |bench/|build/|libmend |ctest |python3? |tests/)")
# Of other projects, of a user, or made by a build.
NOT_OURS = re.compile(r"^(?:build|open-gpu|src-posix|src|csrc|cpp|c10|docs/source|GMLake|"
                      r"vllm|cuda_core|python/sglang|test|https?)/")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files_under(root, folders, ends):
    for folder in folders:
        for place, inner, names in os.walk(os.path.join(root, folder)):
            inner[:] = [name for name in inner if name not in (".git", "build", "__pycache__")]
            for name in sorted(names):
                if name.endswith(ends):
                    yield os.path.relpath(os.path.join(place, name), root)


class Tests:
    """All cases by name. Of suites whose cases a list or a macro makes: the words of the folder."""

    CASE = re.compile(r"^[A-Z]\w*\(\s*([a-z]\w*),\s*([a-z]\w*)", re.M)
    MACRO = re.compile(r"^#define(?:.*\\\n)*.*", re.M)
    OF_A_MACRO = re.compile(r"\b[A-Z]\w*\(\s*([a-z]\w*_\w*|program|simulation),")
    OF_A_LIST = re.compile(r'mend_test_register\("(\w+)", [^"]')
    CTEST = re.compile(r"add_test\(NAME (\w+)\.?([\w.]*)(\$\{)?")
    LABELS = re.compile(r"LABELS (\w+)|mend_test_program\(\w+ (\w+)")
    MEMBER = re.compile(r"(?:mend\w*|torch|prices|error)\.")  # of a module, a struct; a file

    def __init__(self, texts):
        self.texts, self.cases, self.words = texts, set(), {}
        self.labels = set("unit contract fault".split())
        for path, text in texts.items():
            self.cases.update(f"{suite}.{case}" for suite, case in self.CASE.findall(text))
            for suite in self.OF_A_LIST.findall(text):
                self.add_folder(suite, path)
            for macro in self.MACRO.findall(text):
                for suite in self.OF_A_MACRO.findall(macro):
                    self.add_folder(suite, path)
            for suite, case, is_of_a_loop in self.CTEST.findall(text):
                self.cases.add(f"{suite}.{case}" if case else suite)
                if is_of_a_loop:
                    self.add_folder(suite, path)
            self.labels.update(a or b for a, b in self.LABELS.findall(text))
        self.suites = {case.split(".")[0] for case in self.cases}

    def add_folder(self, suite, path):
        self.cases.add(f"{suite}.*")
        self.words.setdefault(suite, set()).add(os.path.dirname(path))

    def has(self, name):
        if name in self.labels or fnmatch.filter(self.cases, name):
            return True
        suite, _, case = name.partition(".")
        pattern = r"\b\w*" + case.strip("*").replace("*", r"\w*") + ("" if "*" in case else r"\b")
        return any(os.path.dirname(path) in self.words.get(suite, ()) and re.search(pattern, text)
                   for path, text in self.texts.items())

    def means_one(self, name):
        """Whether this looks like the name of a case, and not like a member of something."""
        suite = name.partition(".")[0]
        return bool(TEST.fullmatch(name)) and not self.MEMBER.match(name) and bool(
            re.match(r"\w+_\w+\.(?:\w+_|\*|\w+\*)", name) or fnmatch.filter(self.suites, suite))


class Tree:
    def __init__(self, root):
        self.root = root
        paths = [*files_under(root, CODE_FOLDERS, CODE_ENDS), *CODE_AT_THE_TOP]
        self.texts = {path: read(os.path.join(root, path)) for path in paths if path != OWN}
        self.symbols = self.words(SYMBOL)
        self.stems = self.words(re.compile(r"\b(mend_[a-z]+_)\$\{"))  # of targets, in CMake
        self.options = self.words(OPTION) | FOREIGN_OPTIONS | self.options_in("")
        self.jobs = {job.replace("_", "-")
                     for job in re.findall(r"^job_([a-z]\w*)", self.texts["run"], re.M)} | {"help"}
        self.presets = set(re.findall(r'"name": "([\w-]+)"', self.texts["CMakePresets.json"]))
        self.tests = Tests({path: text for path, text in self.texts.items()
                            if path.startswith("tests/")})
        self.mutants = {f"{os.path.basename(path)[:-8]}.{name}"
                        for path, text in self.texts.items() if path.endswith(".mutants")
                        for name in re.findall(r"^(\w+) \|", text, re.M)}
        self.rooms = {path for path in self.texts if path.startswith("vmm/")}
        self.commands = self.words(re.compile(r'^    \.name = "(\w+)"', re.M), "api/cli", "lab")
        self.policies = self.words(re.compile(r'^    \{"([\w:.-]+)", "', re.M),
                                   "lab/peers/policies.c")
        in_python = re.compile(r"\b(?:def|class) (\w+)|^(\w+) =|([\w.]+)\.py$", re.M)
        self.in_python = {word for path, text in self.texts.items()
                          if path.startswith("api/python/libmend/")
                          for found in in_python.findall(f"{text}\n{path.replace('/', '.')}")
                          for word in ".".join(found).split(".")}
        self.keys = self.words(re.compile(r"\bX\(([a-z]\w*),"), "vmm/pool/pool.h")

    @functools.lru_cache(maxsize=None)
    def words(self, pattern, *folders):
        return {word for path, text in self.texts.items() if path.startswith(folders or "")
                for word in pattern.findall(text)}

    def has_symbol(self, symbol):
        if symbol.endswith(("*", "_")):
            return any(known.startswith(symbol.rstrip("*")) for known in self.symbols)
        return symbol in self.symbols or symbol.startswith(tuple(self.stems))

    def has_path(self, path, folder):
        return any(os.path.exists(os.path.join(self.root, base, path))
                   for base in (folder, *BASES))

    def options_in(self, folder):
        """The options of the program, from the tables of its commands."""
        return {f"--{name}" for name in self.words(OF_A_COMMAND, folder)}

    def options_of(self, line):
        """The options of the program that a line runs. If it runs none of ours, all known ones."""
        if ".simulate" in line:  # whose options stand before the script
            return self.options
        for script in re.findall(r"[\w./]+/\w+\.py", line):
            folders = [os.path.dirname(path) for path in self.texts if path.endswith(script)]
            if folders:
                return self.words(OPTION, *folders)
        command = COMMAND.search(line.split(" --")[0])
        if command and command[1] in SOURCES_OF:
            return self.options_in(SOURCES_OF[command[1]]) | {"--help"}
        return self.options


def cells_of(line):
    return [cell.strip() for cell in line.strip("| \n").split(" | ")]


def rows(text):
    """The rows of a document's tables, as (line, cells), without heads and rules."""
    for number, _, cells in rows_and_heads(text):
        yield number, cells


def rows_and_heads(text):
    lines, head = text.splitlines(), []
    for number, line in enumerate(lines, 1):
        is_head = number < len(lines) and re.match(r"\|[-| :]+\|$", lines[number])
        if is_head:
            head = cells_of(line)
        elif line.startswith("| "):
            yield number, head, cells_of(line)


def sections(text):
    """(line, depth, text) of each part between two headings, without the parts below it. A line of
    a block that begins with # is none."""
    blank = BLOCK.sub(lambda block: block.group().replace("#", "."), text)
    starts = [0] + [heading.start() for heading in re.finditer(r"^#+ ", blank, re.M)]
    for start, end in zip(starts, starts[1:] + [len(text)]):
        depth = len(re.match(r"#*", text[start:]).group())
        yield text.count("\n", 0, start) + 1, depth, text[start:end]


def findings_of_rows(text, tree):
    """Each row names its test, in the column for that if there is one, or says: not tried. So may
    its section, for all below it."""
    untried = set()
    depth_of_untried = None
    for line, depth, part in sections(text):
        if depth_of_untried is not None and depth <= depth_of_untried:
            depth_of_untried = None
        if depth > 0 and NOTHING_RAN.search(part):
            depth_of_untried = depth
        if depth_of_untried is not None:
            untried.update(range(line, line + part.count("\n") + 1))
    for number, head, cells in rows_and_heads(text):
        shown = cells[-1] if head[-1] in SHOWN_BY else " ".join(cells[1:])
        spans = SPAN.findall(shown)
        is_shown = any(tree.tests.has(span) or span in tree.presets or
                       JOB.match(span) and JOB.match(span).group(1) in tree.jobs for span in spans)
        if number not in untried and not is_shown and not NOT_TRIED.search(shown):
            yield number, "names no test, preset or job, and does not say: not tried"


def findings_of_figures(text, is_artefact=False):
    """A table of figures has a command beside it, or in a section above it but the document's. Or
    the section says that its program was not kept. A sentence with one may link to it, too. An
    artefact has its command at its top."""
    commands = {}
    for line, depth, part in sections(text):
        commands = {at: has for at, has in commands.items() if 1 < at < depth}
        commands[depth] = any(pattern.search(part) for pattern in (BLOCK, RUNS, NOT_KEPT))
        figures = sum(any(map(FIGURE.search, cells)) for _, cells in rows(part))
        if figures > 1 and not any(commands.values()):
            yield line, f"has {figures} rows of figures, and no command that prints them"
        sentences = [row for row in BLOCK.sub("", part).splitlines() if not row.startswith("|")]
        said = MEASURED.search("\n".join(sentences))
        if (said and not is_artefact and not any(commands.values()) and
                not TO_FIGURES.search(part)):
            yield line, f"says {said[0]}, and has no command that prints it, nor a link to one"


def findings_of_commands(line, tree):
    for job in JOB.findall(line):
        if job not in tree.jobs:
            yield f"names ./run {job}, which is no job"
    for preset in PRESET.findall(line):
        if preset not in tree.presets:
            yield f"names the preset {preset}, which is not there"
    for label in LABEL.findall(line):
        if label not in tree.tests.labels:
            yield f"names the label {label}, which no test has"
    for command in COMMAND.findall(line):
        if command not in tree.commands:
            yield f"names mend {command}, which is no command"
    known = tree.options_of(line)
    for option in OPTION.findall(line):
        if option not in known:
            yield f"names the option {option}, which is not there"
    for policy in ",".join(POLICIES.findall(line)).split(","):
        if policy and policy not in tree.policies:
            yield f"names the policy {policy}, which is not there"
    for name in IN_PYTHON.findall(line):
        if not tree.in_python.issuperset(name.split(".")):
            yield f"names mend.{name}, which the package has not"
    for key in ",".join(CONF.findall(line)).split(","):
        if key and key.partition(":")[0] not in {*tree.keys, "guard"}:  # as in observe:poison,guard
            yield f"names the option {key} of MEND_CONF, which is not there"


def findings_of_names(text, folder, tree, symbols=True):
    for number, line in enumerate(text.splitlines(), 1):
        for span in SPAN.findall(line):
            if tree.tests.means_one(span) and not tree.tests.has(span):
                if not span.endswith(tuple(CODE_ENDS)) and span not in tree.mutants:
                    yield number, f"names the test {span}, which is not there"
            for symbol in SYMBOL.findall(span):
                if symbols and not tree.has_symbol(symbol):
                    yield number, f"names {symbol}, which no source has"
            for finding in findings_of_commands(span, tree):
                yield number, finding
        for path in PATH.findall(line):
            if not NOT_OURS.match(path) and not tree.has_path(path, folder):
                yield number, f"names the file {path}, which is not there"
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start()) + 1 + (block[1] is not None)
        lines = (block[1] or block[2]).replace("\\\n", " \0").splitlines()
        for number, line in enumerate(lines, first):
            for symbol in SYMBOL.findall(line):
                if symbols and not tree.has_symbol(symbol):
                    yield number, f"names {symbol}, which no source has"
            for finding in findings_of_commands(line.replace("\0", ""), tree):
                yield number, finding


def findings_of_rooms(rooms, readme):
    """Each folder of vmm/ has a row, and no other has."""
    said = {cells[0]: number for number, cells in rows(readme) if cells[0].endswith("/`")}
    for room in rooms:
        if f"`{room}/`" not in said:
            yield 1, f"has no row for {room}/"
    for cell in said.keys() - {f"`{room}/`" for room in rooms}:
        yield said[cell], f"has a row for {cell}, which is not there"


def findings_of_pictures(text, folder, rooms):
    """Captions of a page are in its pictures, and the one of the layers has all."""
    for said, path in re.findall(r"!\[([^\]]*)\]\(([^)]*\.svg)\)", text):
        line = text.count("\n", 0, text.index(said)) + 1
        picture = read(os.path.join(folder, path))
        drawn = set(re.findall(r">([^<>]+)<", picture))
        for figure in re.findall(r"\d[\d.,]* (?:GiB|s\b)", said):
            if not any(figure in text for text in drawn):
                yield line, f"says {figure} of {path}, which does not"
        for room in rooms if "layers" in said else ():
            if room not in drawn:
                yield line, f"shows {path}, in which {room} is missing"
            if not re.search(rf"\b{room}\b", said):
                yield line, f"does not say that {room} is in {path}"


def findings_of_devices(text):
    """A figure of the first page names its GPU, or says that it is simulated, in its own row. So
    does the text of a picture."""
    for number, cells in rows(text):
        if any(map(RESULT.search, cells[1:])) and not ON_A_DEVICE.search(" ".join(cells)):
            yield number, "has a figure, and says neither its GPU nor that it is simulated"
    for said in re.findall(r"!\[([^\]]*)\]", text):
        if RESULT.search(said) and not ON_A_DEVICE.search(said):
            yield text.count("\n", 0, text.index(said)) + 1, "shows a figure of no device"


def test_itself(tree):
    def lies(text):
        return len(list(findings_of_names(text, "docs", tree)))

    long = {"docs/api/x.md": "word " * 15201, "docs/y.md": "word " * 40000 + "\n```\nword\n```\n"}
    assert [each.split()[2] for each in findings_of_length(long)] == ["reference"]
    assert lies("`pool_api.steady_state_calls_no_driver`, `pool_a*.*`") == 0
    assert lies("`scenario_positions.*pin*`, `install.headers`, `process_share.*`") == 0
    assert lies("`pool_api.trim_gives_back_the_moon`") == lies("`pool_no.*`") == 1
    assert lies("`mend_alloc`, `mend_pool_config.peers`, `MEND_CONF`, `mend_device_*`") == 0
    assert lies("`mend_alloc_gently`") == lies("```c\nx = MEND_ERROR_TIRED;\n```\n") == 1
    assert lies("`map/grow.c` and docs/support.md, `build/dev/tests/x.py`") == 0
    assert lies("[x](../vmm/map/magic.c)") == lies("see `map/magic.c`") == 1
    good = ("`./run check`", "`libmend replay --allocator mend,expandable --capacity 1.05x`",
            "    bench/report.py --mend X \\\n        --compact TRACE\n",
            "`MEND_CONF=log_level:info,strategy:1`", "`libmend.torch.sleep_tag`, `mend.h`",
            "```\nctest --preset dev -L unit\n```\n")
    bad = ("`./run away`", "`libmend cook`", "`libmend replay --gently`",
           "`libmend replay --allocator wise`",
           "    bench/report.py --mend X \\\n        --gently TRACE\n", "`MEND_CONF=mood:good`",
           "```\nctest --preset devil\n```\n", "```\nctest --preset dev -L moon\n```\n",
           "`./run test --gently`", "`libmend.torch.nap()`", "`python3 -m libmend.dream x.py`")
    for text in good:
        assert lies(text) == 0, text
    for text in bad:
        assert lies(text) == 1, text
    head = "| limit | what | shown by |\n|---|---|---|\n"
    shown = head + "| a | b | `pool_api.*` |\n| c | d | not tried |\n"
    not_shown = head + "| a | `pool_api.*` | everybody knows |\n| c | d | `pool_no.*` |\n"
    untried = "## s\n**nothing here has run**\n### t\n"
    assert not list(findings_of_rows(shown, tree))
    assert len(list(findings_of_rows(not_shown, tree))) == 2
    assert not list(findings_of_rows(untried + not_shown, tree))
    assert len(list(findings_of_rows(untried + "## u\n" + not_shown, tree))) == 2
    table = "| a | b |\n|---|---|\n| c | 1.05 |\n| d | 12 ms |\n"
    assert not list(findings_of_figures("## s\n    bench/x.py\n### t\n" + table))
    assert len(list(findings_of_figures("## s\n    bench/x.py\n## t\n" + table))) == 1
    for sentence, count in (("It takes 12 us.", 1), ("It fits in 1.014.", 1), ("12 MiB.", 0),
                            ("12 us: `./run x`", 0), ("12 us, [here](benchmarks.md#x)", 0)):
        assert len(list(findings_of_figures(f"## s\n{sentence}\n"))) == count, sentence
    docs = os.path.join(tree.root, "docs")
    time = re.search(r">([\d.]+ s)<", read(os.path.join(docs, "images/h200.svg")))[1]
    for picture, count in ((f"{time}](images/h200.svg)", 0), (f"1{time}](images/h200.svg)", 1),
                           ("layers, magic](images/architecture.svg)", 1),
                           ("layers](images/architecture.svg)", 2)):
        assert len(list(findings_of_pictures(f"![{picture}", docs, ["magic"]))) == count
    rule = "| x | y | z |\n|---|---|---|\n"
    for row, count in (("| batch | H100 | 12 |", 0), ("| waits | simulated | 0.5&nbsp;s |", 0),
                       ("| batch | best | **12** |", 1), ("| held | | 4.3&nbsp;GiB |", 1),
                       ("| one stream | keep it | |", 0)):
        assert len(list(findings_of_devices(f"{rule}{row}\n"))) == count, row
    assert len(list(findings_of_devices("![Mend 4.3 GiB](x.svg)"))) == 1
    table = "| folder | idea |\n|---|---|\n| `a/` | x |\n| `b/` | y |\n"
    assert len(list(findings_of_rooms(["a", "b"], table))) == 0
    assert len(list(findings_of_rooms(["a", "c"], table))) == 2


def findings_in(tree, name, rooms):
    text, folder = read(os.path.join(tree.root, name)), os.path.dirname(name)
    yield from findings_of_names(text, folder, tree, symbols=name != HISTORY)
    if name == "docs/support.md":
        yield from findings_of_rows(text, tree)
    if name not in OF_SOURCES:
        yield from findings_of_figures(text, name.startswith("bench/results/"))
    yield from style.findings_of_style(name, text)
    yield from findings_of_pictures(text, os.path.join(tree.root, folder), rooms)
    if name == "vmm/README.md":
        yield from findings_of_rooms(rooms, text)
    if name == "README.md":
        yield from findings_of_devices(text)
    if name == "README.md" and text.count("\n") > LINES_OF_THE_FIRST_PAGE:
        yield LINES_OF_THE_FIRST_PAGE, f"is longer than {LINES_OF_THE_FIRST_PAGE} lines"


def findings_of_length(texts):
    words = dict.fromkeys(MOST_WORDS, 0)
    for name, text in texts.items():
        if name.startswith(("docs/api.md", "docs/api/")):
            words["the reference"] += len(text.split())
        elif name.startswith("docs/"):
            words["all other pages"] += len(style.FENCE.sub("", text).split())
    for part, most in MOST_WORDS.items():
        if words[part] > most:
            yield f"docs: {part} has {words[part]} words, where {most} are the most"


def main():
    tree = Tree(sys.argv[1])
    test_itself(tree)
    style.test_itself()
    rooms = sorted({path.split("/")[1] for path in tree.rooms if path.count("/") > 1})
    documents = list(files_under(tree.root, ("",), (".md",)))
    found = [f"{name}:{number}: {finding}" for name in documents
             for number, finding in findings_in(tree, name, rooms)]
    found += style.findings_of_comments(tree.texts)
    pages = sum(name.startswith("docs/") for name in documents)
    if pages > MOST_PAGES:
        found.append(f"docs: {pages} pages, where {MOST_PAGES} are the most")
    found += findings_of_length({name: read(os.path.join(tree.root, name)) for name in documents})
    print("\n".join([*found, f"{len(documents)} documents, {len(tree.tests.cases)} tests, "
                             f"{len(found)} findings"]))
    return 1 if found or not documents else 0


if __name__ == "__main__":
    sys.exit(main())
