"""docs/messages.md: the messages of failures in the sources that have a cause and a cure in
cures.txt, by the result that they explain, and the other texts that file quotes."""
import glob
import os
import re

CALL = re.compile(r"\b(?:mend_fail|mend_failure|mend_fail_driver|mend_driver_failure|"
                  r"mend_refused|mend_pool_invalid|MEND_INVALID_IF)\(")
LITERALS = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\]|\\.)*")*')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
VALUE = re.compile(r"%[-+ #0]*[\d.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]")
RESULT = re.compile(r"X\((MEND_ERROR_\w+), \d+, \"([^\"]*)\"\)")
ROW = re.compile(r"^\| (.*`.*?) \| (.*) \| (.*?) \|$", re.M)
# Whose messages users see.
FOLDERS = ("vmm", "api/hooks")
ABOUT = """\
Look up a message by its result. Values differ each time and stand here as …. A failed driver call
is named at the end of the message, with the driver's code. A message that is not here names its
own cause. [Parts of messages, and lines of the log](#parts-of-messages-and-lines-of-the-log) are
at the end. For symptoms without a message, see [troubleshooting](troubleshooting.md)."""
SHORTEST = 12  # less is a part that is put in


def call_at(text, start):
    """The text of a call up to its closing parenthesis."""
    depth, at = 1, start
    while depth:
        literal = LITERAL.match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start:at]


def messages_of(text):
    """(result, message) of each call in a source. Values are written as dots."""
    for found in CALL.finditer(text):
        call = call_at(text, found.end())
        results = re.findall(r"MEND_ERROR_\w+", LITERALS.sub("", call))
        if found[0].startswith(("mend_pool_", "MEND_INVALID_IF")):
            results = ["MEND_ERROR_INVALID_ARGUMENT"]
        if "mend_status_result(" in call:
            results += ["MEND_ERROR_DEVICE_LOST", "MEND_ERROR_DRIVER"]
        for literals in LITERALS.findall(call):
            message = VALUE.sub("…", "".join(LITERAL.findall(literals))).replace("%%", "%")
            if len(message) >= SHORTEST and not message.startswith("cu"):
                for result in dict.fromkeys(results) or ["MEND_ERROR_DRIVER"]:
                    yield result, message


def cures_in(text):
    """[(row, quoted texts that are long enough, cause, cure)] of cures.txt."""
    return [(row[0], [VALUE.sub("…", quoted) for quoted in re.findall(r"`([^`]+)`", row[1])
                      if " " in quoted and len(quoted) >= SHORTEST], row[2], row[3])
            for row in ROW.finditer(text)]


def document(root, head):
    """The page. `head` is the note of how it is made."""
    def read(path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read()

    cures, used = cures_in(read("docs/generator/cures.txt")), set()
    by_result = {}
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(root, folder, "**/*.c"), recursive=True)):
            if "/vmm/sim/" not in path:
                for result, message in messages_of(read(os.path.relpath(path, root))):
                    by_result.setdefault(result, {})[message] = None
    parts = ["# Messages", head, ABOUT]
    for result, meaning in RESULT.findall(read("api/include/mend/mend_results.h")):
        if result not in by_result:
            continue
        rows = ["| message | cause | fix |", "|---|---|---|"]
        for message in sorted(by_result[result], key=str.lower):
            row, _, cause, cure = next((cure for cure in cures if any(
                text in message for text in cure[1])), ("", [], "", ""))
            if not row:
                continue
            used.add(row)
            shown = message.replace('\\"', '"').replace("|", "\\|")
            rows.append(f"| {shown} | {cause} | {cure} |")
        if len(rows) == 2:
            continue
        parts += [f"## {result}", meaning[0].upper() + meaning[1:] + ".", "\n".join(rows)]
    parts += ["## Parts of messages, and lines of the log",
              "\n".join(["| part of it | cause | fix |", "|---|---|---|",
                         *(row for row, *_ in cures if row not in used)])]
    return "\n\n".join(parts) + "\n"
