"""How documents read, in numbers that a formula of readability misses: nouns that are left out
("what", "those that"), semicolons, sentences above 30 words, and how often a guide says "you".
prose.py holds each page to the limits.
"""
import re

LONG = 30  # words of a sentence
MOST = {"what": 2, "semicolons": 3, "long": 3}  # in 1,000 words, 100 sentences, 100 sentences
LEAST_YOU = 4  # in 1,000 words of a guide
FEW_WORDS = 150  # of which numbers say nothing
# Made of headers and sources, or of measurements.
MADE = ("docs/api.md", "docs/api/", "docs/messages.md", "bench/results/")
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


def numbers_of(page):
    """(words, sentences, counts): a page in numbers."""
    sentences = list(sentences_of(prose_of(page)))
    words = [re.findall(r"[\w'·%-]+", each) for each in sentences]
    counts = {"what": sum(len(NOUN_LEFT_OUT.findall(each)) for each in sentences),
              "semicolons": sum(each.count(";") for each in sentences),
              "long": sum(len(each) > LONG for each in words),
              "you": sum(word.lower() in ("you", "your") for each in words for word in each)}
    return sum(map(len, words)), len(sentences), counts


def limits_of(name, words, sentences):
    """As counts on a page of this length; one of each is always free."""
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
