"""How documents and comments read, in numbers that a formula of readability misses: nouns that are
left out ("what", "those that"), semicolons, sentences above 30 words, private words, and how often
a guide says "you". prose.py holds each page and the comments of each folder to the limits.
"""
import ast
import re

LONG = 30  # words of a sentence
MOST = {"what": 2, "semicolons": 3, "long": 3}  # in 1,000 words, 100 sentences, 100 sentences
MOST_IN_COMMENTS = {**MOST, "private": 1}  # in 1,000 words
LEAST_YOU = 4  # in 1,000 words of a guide
FEW_WORDS = 150  # of which numbers say nothing
# Made of headers and sources, or of measurements.
MADE = ("docs/api.md", "docs/api/", "bench/results/")
FOR_CONTRIBUTORS = ("CONTRIBUTING.md", "vmm/", "bench/", "lab/", "api/", "packaging/",
                    "docs/design.md",
                    "docs/driver-facts.md", "docs/hooks.md", "docs/testing.md", "docs/formats/")
NO_GUIDES = (*FOR_CONTRIBUTORS, "CHANGELOG.md", "SECURITY.md", "docs/index.md",
             "docs/benchmarks.md", "docs/compare.md", "docs/support.md")

FENCE = re.compile(r"^[ \t]*(`{3,5}|~{3}).*?^[ \t]*\1[ \t]*$", re.S | re.M)
MADE_PART = re.compile(r"<!-- keys: made by.*?<!-- end of keys -->", re.S)
INDENTED = re.compile(r"^(?:    |\t).*$", re.M)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
NOUN_LEFT_OUT = re.compile(r"\b(?:what|who|whom|those that|those of|that of|that which)\b", re.I)
# Private words, of which the field has better ones: expensive, released, no other process, ...
PRIVATE = re.compile(r"\b(?:dear(?:er)?|(?:gives?|gave|given|goes?|went) back|(?:no|every)body|"
                     r"in the mean|questions? to the driver|calls? of the driver|price lists?|"
                     r"(?:judged|tuned) half|host waits?|the host waits|stand-ins?)\b", re.I)
# Of comments besides, without names of files.
PRIVATE_IN_CODE = re.compile(
    r"\b(?:settlements?|owe[sd]?|somebody|whoever|wherever|anew|lack(?:s|ing)?|rungs?|climb\w*|"
    r"(?:go|goes|given) back|host waits?|waits? of the host|(?:makes?|finds?|has) (?:no )?room)\b|"
    r"\b(?:heap|ladder|move|physical|policy|observe|users|devices|address)/(?!\w+\.txt)|" +
    PRIVATE.pattern, re.I)
COMMENT = re.compile(r'''"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|'''
                     r"//([^\n]*(?:\n[ \t]*//[^\n]*)*)|/\*(.*?)\*/", re.S)
FRAME = re.compile(r"^[ \t]*(?:\*|//)? ?|[ \t]*\\$", re.M)
RESULTS = re.compile(r"(?:MEND_OK|MEND_ERROR_|[Rr]esults as )")
WORD = re.compile(r"[\w'·%-]+")
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"(0-9])")


def prose_of(page):
    """Paragraphs, items and cells of six words and more, without code, pictures and headings."""
    page = INDENTED.sub("", FENCE.sub("", MADE_PART.sub("", page)))
    page = re.sub(r"<!--.*?-->", "", page, flags=re.S)
    lines = []
    for line in page.split("\n"):
        if re.match(r"\s*\|", line):
            lines += [f"\n{cell}\n" for cell in line.strip(" |").split(" | ")
                      if len(cell.split()) >= 6]
        elif line.startswith("#"):
            lines.append("")
        else:
            lines.append(re.sub(r"^\s*(?:[-*+]|\d+\.)\s+", "\n", line).lstrip("> "))
    text = LINK.sub(lambda link: "" if link[0][0] == "!" else link[1], "\n".join(lines))
    return re.sub(r"[*_]{1,2}", "", re.sub(r"`[^`]*`", "Code", re.sub(r"<[^>]+>", "", text)))


def sentences_of(text):
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        words = re.sub(r"(\d)\.(\d)", r"\1,\2", re.sub(r"\b(e\.g|i\.e|etc|vs)\.", r"\1", words))
        if len(words.split()) >= 4:
            yield from (each for each in END.split(words) if re.search(r"[A-Za-z]+\W+\w", each))


def counts_of(sentences):
    """(words, counts) of sentences."""
    words = [WORD.findall(each) for each in sentences]
    counts = {"what": sum(len(NOUN_LEFT_OUT.findall(each)) for each in sentences),
              "semicolons": sum(each.count(";") for each in sentences),
              "long": sum(len(each) > LONG for each in words),
              "you": sum(word.lower() in ("you", "your") for each in words for word in each)}
    return sum(map(len, words)), counts


def numbers_of(page):
    """(words, sentences, counts): a page in numbers."""
    sentences = list(sentences_of(prose_of(page)))
    words, counts = counts_of(sentences)
    return words, len(sentences), counts


def limits_of(name, words, sentences):
    """As counts on a page of this length. One of each is always free."""
    limits = {"what": words * MOST["what"] / 1000,
              "semicolons": sentences * MOST["semicolons"] / 100,
              "long": sentences * MOST["long"] / 100}
    limits = {kind: max(1, round(limit)) for kind, limit in limits.items()}
    limits["you"] = 0 if name.startswith(NO_GUIDES) else round(words * LEAST_YOU / 1000)
    return limits


def findings_of_style(name, page):
    words, sentences, counts = numbers_of(page)
    if name.startswith(MADE) or words < FEW_WORDS:
        return
    for private in PRIVATE.finditer(prose_of(page)):
        yield 1, f"says {private[0]}, for which the field has a word of its own"
    limits = limits_of(name, words, sentences)
    for kind, limit in limits.items():
        if counts[kind] < limit if kind == "you" else counts[kind] > limit:
            yield 1, f"{kind}: {counts[kind]} in {words} words, where {limit} is the limit"


def prose_of_comments(code):
    """The sentences of all comments of a file, without titles of sections, code and results."""
    for comment in COMMENT.finditer(code):
        text = FRAME.sub("", comment[1] or comment[2] or "")
        text = re.sub(r"^\s*-{3,}.*", "", INDENTED.sub("", text))
        text = re.sub(r"`[^`]*`", "Code", re.sub(r"^\s*- ", "\n", text, flags=re.M))
        yield from (each for each in sentences_of(text) if not RESULTS.match(each))


def prose_of_python(code):
    """The sentences of its docstrings and comments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, documented):
            yield from sentences_of(INDENTED.sub("", ast.get_docstring(node) or ""))
    for comment in re.findall(r"^(?:[ \t]*# [^\n]*\n)+", code, re.M):
        yield from sentences_of(re.sub(r"^[ \t]*# ", "", comment, flags=re.M))


def folder_of(path):
    parts = path.split("/")
    if path.startswith("api/include/"):
        return "api/include"
    if path.endswith(".py"):
        return f"{parts[0]}, Python"
    return "/".join(parts[:2 if parts[0] == "vmm" else 1])


def findings_of_comments(texts):
    """Of the comments of each folder, with `texts` by path."""
    folders = {}
    for path, text in texts.items():
        if path.endswith((".c", ".h", ".cpp", ".hpp", ".py")):
            prose = prose_of_python if path.endswith(".py") else prose_of_comments
            folders.setdefault(folder_of(path), []).extend(prose(text))
    for folder, sentences in sorted(folders.items()):
        words, counts = counts_of(sentences)
        counts["private"] = sum(len(PRIVATE_IN_CODE.findall(each)) for each in sentences)
        for kind, limit in MOST_IN_COMMENTS.items():
            parts = words / 1000 if kind in ("what", "private") else len(sentences) / 100
            rate = counts[kind] / max(parts, 1)
            if rate > limit:
                yield f"{folder}: its comments have {kind} {rate:.1f}, where {limit} is the limit"


def test_itself():
    plain = "You call the pool when the block is free. " * 40
    assert not list(findings_of_style("docs/a.md", plain))
    assert not list(findings_of_style("docs/api.md", plain.replace("You", "Who")))
    for worse, kind in ((plain.replace("the block", "what"), "what"),
                        (plain.replace("pool when", "pool; when"), "semicolons"),
                        (f"{plain.replace('. You', ' and you')}\n\n" * 2, "long"),
                        (plain.replace("You", "Programs"), "you")):
        found = list(findings_of_style("docs/a.md", worse))
        assert len(found) == 1 and found[0][1].startswith(kind), (kind, found)
    assert len(list(findings_of_style("docs/a.md", f"{plain}\n\nThat is a dear call here."))) == 1
    assert not numbers_of("```\nwhat; who\n```\n    what\n`what` ![what](a)\n")[2]["what"]
    code = "/* The pool maps a chunk. */ x = \"/* what; who */\"; // It is free now.\n" * 40
    assert not list(findings_of_comments({"vmm/a/b.c": code}))
    for worse, kind in ((code.replace("a chunk", "what it has"), "what"),
                        (code.replace("maps", "maps; unmaps"), "semicolons"),
                        (code.replace("a chunk", "a chunk " * 30), "long"),
                        (code.replace("free", "given back, as it lacks"), "private")):
        found = list(findings_of_comments({"vmm/a/b.c": worse}))
        assert len(found) == 1 and f" {kind} " in found[0], (kind, found)
    assert len(list(prose_of_python('"""It says what is there."""\n# It is free now.\n'))) == 2
    assert not list(prose_of_comments("/* ---- what; who ---- */\n/*     what; */\n"))
