"""Reads a public header: its sections, and in them the paragraphs of declarations, each with the
comment above it. A paragraph ends at an empty line outside of braces and comments.
"""
import re
from dataclasses import dataclass, field

SECTION = re.compile(r"/\* -{4} (.+?) -* ?\*/")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
ROW = re.compile(r"^ {4}X\((.*)\)$")


@dataclass
class Entry:
    comment: str  # without its frame, lines kept; "" where there is none
    code: str  # "" for a comment that belongs to no declaration

    def functions(self):
        """The declarations of functions, as a program would write them, and their names."""
        for text in re.findall(r"^MEND_API (.*?;)", self.code, re.M | re.S):
            yield re.search(r"(\w+)\(", text).group(1), re.sub(r"\n {9}", "\n", text)

    def callback(self):
        match = re.match(r"typedef .*?\(\*(\w+)\)\(.*?\);$", self.code, re.S)
        return match and match.group(1)

    def structure(self):
        """(name, body) of the struct or enum that is defined here."""
        match = re.search(r"^typedef (?:struct|enum) (\w+) \{\n(.*?)^\} \1;", self.code,
                          re.M | re.S)
        return match and match.groups()

    def is_struct(self):
        return bool(re.search(r"^typedef struct \w+ \{", self.code, re.M))

    def initialiser(self):
        match = re.search(r"^#define (MEND_\w+_INIT)\b", self.code, re.M)
        return match and match.group(1)

    def table(self):
        """(name, columns, rows) of an X macro, whose comment names the columns."""
        match = re.match(r"#define (\w+)\(X\) +\\\n(.*)", self.code, re.S)
        if not match:
            return None
        columns = re.match(r"X\((.*?)\)", self.comment)
        if not columns:
            raise ValueError(f"the comment on {match.group(1)} does not begin with X(columns)")
        return match.group(1), split_arguments(columns.group(1)), rows_of(match.group(2))

    def constants(self):
        return re.findall(r"^#define (\w+) +\S", self.code, re.M)

    def types(self):
        """(name, meaning) of types that are declared, but not defined."""
        return re.findall(r"^typedef struct \w+ \*?(\w+);(?: +/\* (.*?) \*/)?$", self.code, re.M)


@dataclass
class Section:
    title: str
    entries: list = field(default_factory=list)


def split_arguments(text):
    """At commas outside of strings. Neighboring strings are one."""
    parts = re.findall(r'(?:"(?:\\.|[^"\\])*"|[^,"])+', text)
    return [re.sub(r'"\s*"', "", part.strip()).strip('"') for part in parts]


def rows_of(body):
    """The rows of an X macro, however many lines each has."""
    text = re.sub(r" *\\\n *", " ", body).strip()
    rows, depth, start, quoted = [], 0, 0, False
    for i, letter in enumerate(text):
        quoted ^= letter == '"'
        if letter == "(" and not quoted:
            depth += 1
            start = i + 1 if depth == 1 else start
        elif letter == ")" and not quoted:
            depth -= 1
            if depth == 0:
                rows.append(split_arguments(text[start:i]))
    return rows


def members_of(body):
    """(declaration, meaning) of each field or enumerator of a body without preprocessor lines."""
    pattern = re.compile(r"^ {4}([^\n/]*\(\*\w+\)\([^;]*?\)|(?:\w+\n +)?[^\n/]*?[\w\]])(?:;|,)?"
                         r"(?:[ \n]+/\*(.*?)\*/)?$", re.M | re.S)
    body = re.sub(r"^#.*\n|^    MEND_\w+\(X\)\n", "", body, flags=re.M)
    return [(" ".join(declaration.split()), unframed(meaning))
            for declaration, meaning in pattern.findall(body)]


def unframed(comment):
    """The text of a comment on one line."""
    return " ".join(re.sub(r"^ *\*? ?", "", line).strip() for line in comment.split("\n")).strip()


def lines_of(comment):
    """The text of a comment with its lines and their indentation."""
    lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.split("\n")]
    return "\n".join(lines).strip("\n")


def paragraphs_of(text):
    """Split at empty lines outside of braces and comments."""
    paragraph, depth, in_comment = [], 0, False
    for line in text.split("\n") + [""]:
        if line == "" and depth == 0 and not in_comment:
            if paragraph:
                yield "\n".join(paragraph)
            paragraph = []
            continue
        paragraph.append(line)
        code = re.sub(r"/\*.*?\*/", "", line)
        in_comment = ("/*" in code or in_comment) and "*/" not in code
        if not in_comment and "*/" not in code:
            depth += code.count("{") - code.count("}")


def entry_of(paragraph):
    match = COMMENT.match(paragraph)
    if not match:
        return Entry("", paragraph)
    return Entry(lines_of(match.group(1)), paragraph[match.end():].strip("\n"))


def is_frame(paragraph):
    """Include guards, includes, conditions: nothing a reader looks for."""
    return bool(re.match(r"#(?!define MEND_)", paragraph))


def read_header(path):
    """The comment the header opens with, and its sections."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", file.read(), flags=re.M | re.S)
    opening = COMMENT.match(text)
    sections = []
    for paragraph in paragraphs_of(text[opening.end():]):
        title = SECTION.fullmatch(paragraph)
        if title:
            sections.append(Section(title.group(1)))
        elif not is_frame(paragraph):
            if not sections:
                raise ValueError(f"{path}: is before the first section:\n{paragraph}")
            sections[-1].entries.append(entry_of(paragraph))
    return lines_of(opening.group(1)), sections
