#!/usr/bin/env python3
"""The interface that is kept (CONTRIBUTING.md, "The interface"): every public structure can grow,
and endings have few verbs. Prints how many calls there are.

Usage: interface.py ROOT
"""
import pathlib
import re
import sys

# Structures that never grow, and why.
FIXED = {
    "mend_device_handler": "the layout of cuStateVec, cuTensorNet and cuDSS",
    "mend_export_token": "bytes without members",
    "mend_sim_price": "a member of mend_sim_prices, which says its size",
    # libmend_torch and the class that is compiled over it are of one release of the package.
    "mend_torch_pool_id": "PyTorch's",
    "mend_torch_stat": "PyTorch's",
    "mend_torch_figures": "of one release",
    "mend_torch_block": "of one release",
    "mend_torch_allowed": "of one release",
}
SET_BY_THE_LIBRARY = {"mend_oom_report"}
# The endings: an object by destroy, memory by free, an import by close. Calls that begin, push, add
# or pin end by end, pop, remove and unpin.
WRONG_ENDING = re.compile(r"_(release|delete|dispose|undo|finish|drop)(_|$)")

CALL = re.compile(r"\bMEND_API\s[^;{]*?\b(mend_\w+)\(([^;]*?)\);", re.S)
STRUCT = re.compile(r"typedef struct (\w+) \{\n(.*?)\n\} \1;", re.S)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def is_element(name, text):
    """An array of them has the size of one beside it: in a call, or in a structure."""
    beside = rf"\b{name} \*\w+[,;]\s*size_t \w+_bytes[,;]"
    return re.search(beside, text) is not None


def findings_in(text):
    for name, body in STRUCT.findall(text):
        grows = body.lstrip().startswith("size_t struct_size;")
        if grows and name not in SET_BY_THE_LIBRARY and f"#define {name.upper()}_INIT" not in text:
            yield f"{name} has no {name.upper()}_INIT"
        if grows + is_element(name, text) + (name in FIXED) != 1:
            yield f"{name} cannot grow: it has no struct_size, and no call takes the size of one"
    for name, _ in CALL.findall(text):
        if WRONG_ENDING.search(name):
            yield f"{name} ends something by another verb than destroy, free, close or remove"


def test_itself():
    head = "typedef struct mend_a {\n    size_t struct_size;\n    int x;\n} mend_a;\n"
    assert list(findings_in(head + "#define MEND_A_INIT {0}\n")) == []
    assert len(list(findings_in(head))) == 1
    loose = "typedef struct mend_b {\n    int x;\n} mend_b;\n"
    assert len(list(findings_in(loose))) == 1
    call = "MEND_API int mend_f(const mend_b *all, size_t b_bytes, size_t count);\n"
    assert list(findings_in(loose + call)) == []
    assert len(list(findings_in("MEND_API int mend_b_release(int x);\n"))) == 1


def main():
    test_itself()
    folder = pathlib.Path(sys.argv[1]) / "api/include/mend"
    texts = {path.name: without_comments(path.read_text(encoding="utf-8"))
             for path in sorted(folder.glob("*.h"))}
    everything = "\n".join(texts.values())
    found = list(findings_in(everything))
    for finding in found:
        print(f"api/include/mend: {finding}")
    calls = {name: len(CALL.findall(text)) for name, text in texts.items()}
    of_hooks = calls["mend_torch.h"] + calls["mend_frameworks.h"]  # which are not installed
    of_sim = calls["mend_sim.h"]
    count = sum(calls.values())
    print(f"{count} calls: {count - of_hooks - of_sim} of Mend, {of_sim} of the simulated device, "
          f"{of_hooks} for its own hooks; "
          f"{len(STRUCT.findall(everything))} structures, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
