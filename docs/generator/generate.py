#!/usr/bin/env python3
"""Makes docs/api.md and the pages in docs/api from the public headers, and the table in
docs/tuning.md from the keys of MEND_CONF. With --check it writes nothing, and fails if one of them
is out of date.

Usage: generate.py [--check]
"""
import difflib
import os
import re
import sys
import textwrap

from header import entry_of, members_of, paragraphs_of, read_header

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = ("mend", "mend_graph_pools", "mend_results", "mend_stats", "mend_inspect", "mend_types",
           "mend_share", "mend_range", "mend_sleep", "mend_devices", "mend_hooks",
           "mend_sim")  # mend_torch.h and mend_frameworks.h are of Mend's own hooks
COLUMNS = 130

# The pages by use: file in docs/api, title, summary, and its sections by header.
PAGES = (
    ("pools", "Pools, blocks, streams and graph pools",
     "Create a pool, allocate, free, limit and trim. Declare streams and captured graphs."
     " [Guide](streams-and-graphs.md).",
     (("mend", ("lifecycle", "blocks", "memory in total", "pressure callbacks", "compaction",
                "pins", "streams")),
      ("mend_graph_pools", ("graph pools: memory of captured graphs", "graph pools: their blocks")),
      ("mend_types", ("names and types",)))),
    ("features", "Sleep, ranges and sharing",
     "Release the memory of live blocks for a while, grow memory at a fixed address, share it with"
     " other processes and devices. Guides: [sleep](sleep.md), [ranges](ranges.md),"
     " [sharing](sharing.md).",
     (("mend_sleep", ("sleep and wake", "checkpoints of the process")),
      ("mend_range", ("ranges",)),
      ("mend_share", ("memory shared with other processes", "the end of an import",
                      "other devices")))),
    ("diagnosis", "Errors, statistics and log",
     "The reason of a failure, statistics, owners, history. [Guide](history.md).",
     (("mend_results", ("results",)), ("mend", ("observe",)),
      ("mend_stats", ("statistics",)),
      ("mend_inspect", ("regions", "scopes", "names", "stacks", "owners", "history")),
      ("mend_types", ("log",)))),
    ("devices-and-hooks", "Devices and hooks",
     "The default pool of each device, allocators in its place, and functions for frameworks."
     " [Guide](hooks.md).",
     (("mend_devices", ("default pools", "other allocators under the hooks", "calls for hooks")),
      ("mend_hooks", ("cuStateVec, cuTensorNet, cuDSS", "ONNX Runtime")))),
    ("simulator", "The simulated device",
     "Test without a GPU. [Guide](without-a-gpu.md). The header has the errors and details of each"
     " call.",
     (("mend_sim", ("the device and its costs", "time and work", "capture and graphs",
                   "checkpoints of the process", "faults",
                    "the ledger")),)),
)

# Headers of which a page has the first sentence of each entry, and these entries whole.
BRIEF = {"mend_sim": ("mend_sim_config", "mend_sim_fail", "mend_sim_fault")}

# Words that read as code: our names, pointers, snake case, the driver's names.
CODE = re.compile(r"\bmend_\w+(?:\.\w+|\(\))?|\bMEND_[\w.]*\w|(?<![\w)])\*\w+|"
                  r"\b[a-z]\w*_(?:[\w.]*\w|\.\.\.)|\bcu[A-Z]\w+|\bCUDA_\w+|\bCUstream\b|"
                  r"\bNULL\b|\bUINT64_MAX\b|\blib\w+\.so(?:\.\d+)*")
DOCUMENT = re.compile(r"\bdocs/([\w/]+\.md)\b")


class Undocumented(Exception):
    pass


def prose(text):
    """Markdown of a comment's sentence: names as code, documents as links."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        words = re.split(r"(\bdocs/[\w/]+\.md\b)", parts[i])
        parts[i] = "".join(DOCUMENT.sub(r"[\1](\1)", word) if DOCUMENT.match(word)
                           else CODE.sub(lambda m: f"`{m.group(0)}`", word) for word in words)
    marked = "".join(part if i % 2 == 0 else f"`{part}`" for i, part in enumerate(parts))
    return re.sub(r'"(`[^`]*`)"', r"\1", marked)


def wrapped(text):
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def cell(text):
    return prose(one_fact_a_sentence(text)).replace("|", "\\|")


def table(columns, rows):
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def sentences_of(text):
    """Sentences end at a full stop outside of brackets."""
    start = depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "." and depth == 0 and text[i + 1:i + 2] in ("", " "):
            yield text[start:i + 1].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def facts_of(text):
    """The parts between semicolons outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def one_fact_a_sentence(text):
    first, *others = facts_of(text)
    return ". ".join([first, *(other if CODE.match(other) else other[:1].upper() + other[1:]
                               for other in others)])


OF_EVERY_CALL = ("MEND_OK", "MEND_ERROR_INVALID_ARGUMENT", "MEND_ERROR_DEVICE_LOST",
                 "MEND_ERROR_FORKED")


def results_of(sentences):
    """A list: results without a reason in one item, then each result with its reason."""
    bare, told = [], []
    for fact in facts_of(" ".join(sentences).rstrip(".")):
        reason = re.fullmatch(r"(MEND_\w+) \((.*)\)", fact)
        if reason:
            told.append(f"{prose(reason[1])}: {prose(reason[2])}")
        elif " " in fact:
            told.append(prose(fact))
        elif fact not in OF_EVERY_CALL:
            bare.append(prose(fact))
    if not told:
        return wrapped("**Results:** " + ", ".join(bare)) if bare else ""
    return "**Results**\n\n" + "\n".join(map(item, ([", ".join(bare)] if bare else []) + told))


def is_results(sentence):
    return sentence.startswith(("MEND_OK", "MEND_ERROR_", "Results as "))


def is_code(paragraph):
    return paragraph.startswith("    ")


def code_block(paragraph):
    return "```c\n" + textwrap.dedent(paragraph) + "\n```"


def blocks_of(text):
    """The paragraphs of a comment, of which indented ones are code."""
    for block in re.split(r"\n\n+", text):
        if is_code(block):
            yield code_block(block)
        elif block:
            yield wrapped(prose(one_fact_a_sentence(" ".join(block.split()))))


def comment_of(entry):
    """The prose of an entry, then the results of its calls."""
    results = []
    for paragraph in re.split(r"\n\n+", re.sub(r"^X\([^)]*\): ", "", entry.comment)):
        if is_code(paragraph):
            yield code_block(paragraph)
            continue
        sentences = list(sentences_of(" ".join(paragraph.split())))
        results += [s.removeprefix("Results ") for s in sentences if is_results(s)]
        described = " ".join(s for s in sentences if not is_results(s))
        if described:
            yield wrapped(prose(one_fact_a_sentence(described[0].upper() + described[1:])))
    if results and (answers := results_of(results)):
        yield answers


def item(text):
    return textwrap.fill(f"- {text}", COLUMNS, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def listed(members):
    """A list of names with their meanings. Names whose meaning they say themselves come last."""
    told = [item(f"`{name}`: {prose(one_fact_a_sentence(meaning))}")
            for name, meaning in members if meaning]
    plain = [f"`{name}`" for name, meaning in members if not meaning]
    return "\n".join(told + ([item(", ".join(plain))] if plain else []))


def fields_of(entry):
    """The members of a struct or an enum. docs/api.md says once that a field without a type is a
    uint64_t, and how each struct_size is set."""
    _, body = entry.structure()
    kind = "field" if entry.is_struct() else "value"
    members = [(member.removeprefix("uint64_t "), meaning) for member, meaning in members_of(body)
               if member != "size_t struct_size"]
    if members:
        yield listed(members)
    for macro in re.findall(r"^    (MEND_\w+)\(X\)$", body, re.M):
        yield f"Its {'other ' if members else ''}{kind}s are the rows of `{macro}`, in that order."


# Rows of a table that differ in their names alone, by the start of these: how their meanings begin,
# and what is said of all.
ALIKE = {"peak_": ("largest ", "the largest value of the field without `peak_`"),
         "small_": ("of ", "the part of the field without `small_` in chunks of the small zone")}


def rows_of(entry):
    _, columns, rows = entry.table()
    if "unit" in columns:  # which the names say
        at = columns.index("unit")
        columns, *rows = ([*row[:at], *row[at + 1:]] for row in (columns, *rows))
    if len(columns) == 1:
        return wrapped(", ".join(f"`{name}`" for name, in rows))
    if len(columns) == 2:
        groups = {start: [name for name, meaning in rows if name.startswith(start) and
                          meaning.startswith(words + name[len(start):])]
                  for start, (words, _) in ALIKE.items()}
        grouped = {name for names in groups.values() for name in names}
        return "\n".join([listed([row for row in rows if row[0] not in grouped]), *(
            item(", ".join(f"`{name}`" for name in names) + f": {ALIKE[start][1]}")
            for start, names in groups.items() if names)])
    return listed([(f"{name} = {value}", meaning) for name, value, meaning in rows])


def names_of(entry):
    """The names that an entry declares."""
    functions = [name for name, _ in entry.functions()]
    if functions or entry.callback():
        return functions or [entry.callback()]
    if entry.structure():
        return [entry.structure()[0]]
    if entry.table():
        return [entry.table()[0]]
    return entry.constants() or [name for name, _ in entry.types()]


def rendered(entry):
    """The Markdown blocks of an entry, below its heading."""
    explained = any(meaning for _, meaning in entry.types())
    code = "\n".join(text for _, text in entry.functions()) or entry.code
    if code and not (entry.structure() or entry.table() or explained):
        yield f"```c\n{code}\n```"
    yield from comment_of(entry)
    if entry.structure():
        yield from fields_of(entry)
    elif entry.table():
        yield rows_of(entry)
    elif explained:
        yield listed(entry.types())


def check_documented(entry):
    for name, text in entry.functions():
        paragraphs = [each for each in re.split(r"\n\n+", entry.comment) if not is_code(each)]
        sentences = list(sentences_of(" ".join(" ".join(paragraphs).split())))
        if not sentences:
            raise Undocumented(f"{name} has no comment")
        if text.startswith("mend_result ") and not any(is_results(s) for s in sentences):
            raise Undocumented(f"{name}: no sentence of its comment says what it answers; one that"
                               " begins with MEND_OK or with `Results as` would")


class Anchors:
    """The names GitHub gives to headings: one that was taken is counted."""

    def __init__(self):
        self.taken = {}

    def of(self, heading):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = self.taken.get(slug, 0)
        self.taken[slug] = count + 1
        return f"{slug}-{count}" if count else slug


# Tasks of a program, and the calls for them.
TASKS = (
    ("create and destroy a pool", ("mend_pool_create", "mend_pool_destroy", "mend_pool_config")),
    ("allocate and free", ("mend_alloc", "mend_alloc_with", "mend_free")),
    ("use a block on several streams", ("mend_record_stream",)),
    ("destroy a stream", ("mend_unregister_stream",)),
    ("know why a call failed", ("mend_get_last_error", "mend_result", "mend_oom_report")),
    ("know how much fits", ("mend_get_available",)),
    ("free caches before out of memory", ("mend_add_pressure_callback",)),
    ("give memory back", ("mend_trim", "mend_set_limit")),
    ("share memory between graphs", ("mend_graph_pool_create", "mend_graph_pool_begin",
                                     "mend_graph_pool_end",
                                     "mend_graph_pool_destroy")),
    ("restore the blocks of a graph", ("mend_graph_pool_checkpoint", "mend_graph_pool_restore")),
    ("grow and shrink at one address", ("mend_range_create", "mend_range_commit",
                                        "mend_range_commit_all", "mend_range_decommit",
                                        "mend_range_destroy")),
    ("release memory and keep addresses", ("mend_sleep", "mend_wake")),
    ("share blocks with other processes", ("mend_export", "mend_import", "mend_import_close")),
    ("keep memory in place for other hardware", ("mend_pin", "mend_unpin")),
    ("move small blocks together", ("mend_compact",)),
    ("know who holds memory", ("mend_get_owners",)),
    ("record what a pool does", ("mend_history_start", "mend_history_read", "mend_history_event")),
    ("observe", ("mend_get_stats", "mend_get_regions", "mend_get_block_info", "mend_log_set_sink")),
    ("share one pool in a process",
     ("mend_pool_for_device", "mend_set_default_config")),
    ("put another allocator under the hooks", ("mend_set_allocator", "mend_get_allocator")),
    ("test without a GPU", ("mend_sim_create", "mend_sim_driver", "mend_sim_first_violation")),
)


def tasks(links):
    """`links` has the link of each name that a header declares."""
    unknown = [name for _, names in TASKS for name in names if name not in links]
    if unknown:
        raise Undocumented(f"TASKS names {', '.join(unknown)}, which no header declares")
    return "\n".join(item(f"{task}: " + ", ".join(links[name] for name in names))
                     for task, names in TASKS)


def in_folder(text):
    """The text of a page in docs/api: its links to other documents lead one folder up."""
    return re.sub(r"\]\((?!#|[a-z]+://)", "](../", text)


def read_headers():
    """The opening of each header, and its sections by title."""
    openings, sections = {}, {}
    for header in HEADERS:
        openings[header], found = read_header(os.path.join(ROOT, f"api/include/mend/{header}.h"))
        sections.update({(header, section.title): section for section in found})
    return openings, sections


def in_brief(entry):
    """An entry in a line: its names, and the first sentence of its comment."""
    first = next(sentences_of(" ".join(entry.comment.split())), "")
    return item(", ".join(f"`{name}`" for name in names_of(entry)) + f": {prose(first)}")


def page_of(name, title, about, parts, openings, sections):
    """The text of a page, the links of its names as a document in docs/ has them, and its sections.
    Takes its sections out of `sections`."""
    anchors = Anchors()
    anchors.of(title)
    body, contents, link_of = [], [], {}
    for header, titles in parts:
        for section_title in titles:
            section = sections.pop((header, section_title), None)
            if section is None:
                raise Undocumented(f"PAGES names the section {section_title} of {header}.h, which"
                                   " is not there, or on two pages")
            heading = section_title[0].upper() + section_title[1:]
            anchor = anchors.of(heading)
            body.append(f"## {heading}")
            opening = openings.pop(header) if header != "mend" and header in openings else ""
            if "\n\n" in opening:  # more than the heading says
                body += blocks_of(opening)
            brief, start = [], len(body) + sum(not names_of(each) for each in section.entries)
            for entry in section.entries:
                check_documented(entry)
                names = names_of(entry)
                if header in BRIEF and names and names[0] not in BRIEF[header]:
                    link_of.update({one: f"[`{one}`](api/{name}.md#{anchor})" for one in names})
                    brief += [in_brief(entry)] if list(entry.functions()) else []
                    continue
                if names:
                    entry_heading = ", ".join(f"`{one}`" for one in names)
                    entry_anchor = anchors.of(entry_heading)
                    link_of.update({one: f"[`{one}`](api/{name}.md#{entry_anchor})"
                                    for one in names})
                    body.append(f"### {entry_heading}")
                body += rendered(entry)
            if brief:
                body.insert(start, "\n".join(brief))
            contents.append(f"[{heading}](api/{name}.md#{anchor})")
    headers = ", ".join(f"[{header}.h](../api/include/mend/{header}.h)" for header, _ in parts)
    top = [f"# {title}", MADE, wrapped(f"{prose(about)} Headers: {headers}.")]
    text = in_folder("\n\n".join(top + body)) + "\n"
    return text, link_of, contents


MADE = "<!-- Made by `./run docs` from api/include/mend; change the comments there. -->"


def api_documents():
    """The pages and the index, by their paths."""
    openings, sections = read_headers()
    documents, link_of, contents = {}, {}, []
    for name, title, about, parts in PAGES:
        text, links, sections_here = page_of(name, title, about, parts, openings, sections)
        documents[f"docs/api/{name}.md"] = text
        link_of.update(links)
        contents.append(item(f"**[{title}](api/{name}.md)**: " + ", ".join(sections_here)))
    if sections:
        raise Undocumented("on no page: " + ", ".join(f"{h}.h, {t}" for h, t in sections))
    index = ["# API", MADE,
             wrapped("Every call, type and constant of the headers in"
                     " [api/include/mend](../api/include/mend). Programs that use them are in the"
                     " [tutorials](tutorials/README.md) and in [examples](examples)."
                     " [Install](install.md) explains how to link the libraries."),
             "\n".join(contents),
             "## By task", tasks(link_of), "## Conventions", *blocks_of(openings["mend"]),
             wrapped("In this reference a field without a type is a `uint64_t`, and `struct_size`"
                     " is left out. So are results of almost every call, unless it gives them a"
                     " reason of its own: `MEND_OK`, `MEND_ERROR_INVALID_ARGUMENT` (a `NULL` or a"
                     " value that the call does not accept), and of calls on a pool"
                     " `MEND_ERROR_DEVICE_LOST` and `MEND_ERROR_FORKED`.")]
    documents["docs/api.md"] = "\n\n".join(index) + "\n"
    return documents


KINDS = {
    "COUNT": "a whole number",
    "PATH": "a path from `/` on",
    "BYTES": "bytes",
    "LIMIT": "bytes, or `90%` of the device's memory",
    "SWITCH": "`on` or `off`",
    "LEVEL": "`0`, `1` or `2`",
    "STRATEGY": "1 to 5",
    "GROWTH": "`100%` to `10000%`",
    "LOG": "`debug`, `info`, `warning` or `off`",
    "OBSERVE": "`top`, a path, `poison`, `guard`, joined by commas",
    "SHARING": "`off`, `on`, `fabric` or `auto`",
    "PEERS": "`auto`, `none`, or numbers joined by `+`",
}
KEYS = re.compile(r"(?<=<!-- keys: made by `./run docs` from vmm/pool/pool.h -->\n)"
                  r".*?(?=<!-- end of keys -->)", re.S)


CONFIGURATION = "docs/tuning.md"


def configuration_document(current):
    with open(os.path.join(ROOT, "vmm/pool/pool.h"), encoding="utf-8") as file:
        entries = [entry_of(paragraph) for paragraph in paragraphs_of(file.read())]
    _, _, rows = next(e.table() for e in entries if e.code.startswith("#define MEND_CONFIGURATION"))
    lines = table(("key", "value", "default", "field of `mend_pool_config`", "meaning"), [
        (f"`{key}`", KINDS[kind], cell(default), f"`{field}`", cell(meaning))
        for key, field, kind, default, meaning in rows])
    text, count = KEYS.subn(lambda _: "\n".join(lines) + "\n", current)
    if count != 1:
        raise ValueError("docs/tuning.md has lost the marks around its table")
    return text


def main():
    check = sys.argv[1:] == ["--check"]
    stale = 0
    try:
        documents = api_documents()
    except Undocumented as error:
        print(f"docs/api.md cannot be made: {error}")
        return 1
    with open(os.path.join(ROOT, CONFIGURATION), encoding="utf-8") as file:
        documents[CONFIGURATION] = configuration_document(file.read())
    for name, wanted in documents.items():
        path = os.path.join(ROOT, name)
        current = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                current = file.read()
        if wanted == current:
            continue
        stale += 1
        if check:
            print(f"{name} is out of date; make it with\n  ./run docs\n")
            sys.stdout.writelines(difflib.unified_diff(
                current.splitlines(True), wanted.splitlines(True), "as it is", "as it should be"))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(wanted)
            print(f"wrote {name}")
    print(f"{stale} documents were out of date")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
