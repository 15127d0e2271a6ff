"""The structs and tables of the headers that are shipped, read from those headers.

A new statistic of the library, or a new field of a config, needs no change here.
"""

from __future__ import annotations

import ctypes
import functools
import re

from . import _library

_PLAIN = {
    "int": ctypes.c_int,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "unsigned char": ctypes.c_ubyte,
    "const char *": ctypes.c_char_p,
}
_MEMBER = re.compile(r"(?P<type>[\w ]*\w(?: \*+| ))(?P<name>\w+)(?P<counts>(?:\[\w+\])*)")
_FUNCTION = re.compile(r"[\w *]+\(\*(?P<name>\w+)\)\(.*\)", re.S)


@functools.cache
def _headers() -> str:
    """All headers, without comments."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_library.HEADERS.glob("mend/*.h"))]
    return re.sub(r"/\*.*?\*/", " ", "\n".join(texts), flags=re.S)


@functools.cache
def rows_of(table: str) -> list[str]:
    """The first words of the rows of an X(...) table, in order."""
    definition = re.search(rf"#define {table}\(X\)((?:.*\\\n)*.*)", _headers())
    if definition is None:
        raise ImportError(f"libmend: the headers have no table {table}")
    return re.findall(r"\bX\((\w+)", definition.group(1))


@functools.cache
def meanings_of(table: str) -> dict[str, str]:
    """The meanings that the rows of an X(...) table give, by their first words."""
    definition = re.search(rf"#define {table}\(X\)((?:.*\\\n)*.*)", _headers())
    rows = re.findall(r'\bX\((\w+), "\w+",[\s\\]*"([^"]*)"', definition.group(1))
    return dict(rows)


@functools.cache
def numbers_of(enum: str) -> dict[str, int]:
    """The names of an enum, with the numbers that the header writes beside them."""
    found = re.search(rf"typedef enum {enum} \{{(.*?)\}}", _headers(), re.S)
    if found is None:
        raise ImportError(f"libmend: the headers have no enum {enum}")
    return {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", found.group(1))}


@functools.cache
def results() -> dict[str, int]:
    """The numbers of results, by their names."""
    found = re.findall(r"\bX\((MEND_\w+), (\d+),", _headers())
    return {name: int(number) for name, number in found}


def _expanded(body: str) -> str:
    """The members of a struct, with those from a table written out."""

    def members(match: re.Match) -> str:
        member = match.group("member")
        return "".join(
            re.sub(rf"\b{match.group('field')}\b", row, member) for row in rows_of(match["table"])
        )

    return re.sub(
        r"#define X\((?P<field>\w+)[^)]*\) (?P<member>.*;)\n\s*(?P<table>\w+)\(X\)\n#undef X",
        members,
        body,
    )


def _type_of(name: str) -> type:
    """The ctypes type for a type name of the headers."""
    if name in _PLAIN:
        return _PLAIN[name]
    word = re.escape(name.removeprefix("const "))
    if re.search(rf"typedef enum {word} \{{", _headers()):
        return ctypes.c_int
    if re.search(rf"typedef struct {word} \{{", _headers()):
        return structure(name)
    if name.endswith("*") or re.search(rf"typedef [^;{{}}]*(\*{word};|\(\*{word}\)\()", _headers()):
        return ctypes.c_void_p
    raise ImportError(f"libmend: the headers do not define {name}")


def _count_of(text: str) -> int:
    """The number of elements of an array: a number, or the name of one."""
    if text.isdigit():
        return int(text)
    found = re.search(rf"\b{text}\s*=?\s*(\d+)", _headers())
    if found is None:
        raise ImportError(f"libmend: the headers do not define {text}")
    return int(found.group(1))


def fields_of(name: str) -> list[tuple[str, type]]:
    """The members of a struct, as ctypes needs them."""
    found = re.search(rf"typedef struct {name} \{{(.*?)\n\}} {name};", _headers(), re.S)
    if found is None:
        raise ImportError(f"libmend: the headers have no struct {name}")
    fields = []
    for text in _expanded(found.group(1)).split(";")[:-1]:
        declaration = " ".join(text.split())
        function = _FUNCTION.fullmatch(declaration)
        member = _MEMBER.fullmatch(declaration)
        if function:
            fields.append((function["name"], ctypes.c_void_p))
        elif member and member["counts"]:
            plain = member["type"].strip()
            kind = ctypes.c_char if plain == "char" else _type_of(plain)
            for count in reversed(re.findall(r"\w+", member["counts"])):
                kind = kind * _count_of(count)
            fields.append((member["name"], kind))
        elif member:
            fields.append((member["name"], _type_of(member["type"].strip())))
        else:
            raise ImportError(f"libmend: in {name} the headers have {declaration}")
    return fields


@functools.cache
def structure(name: str) -> type[ctypes.Structure]:
    """The ctypes class of a struct."""
    return type(name, (ctypes.Structure,), {"_fields_": fields_of(name)})


def made(name: str, **values: object) -> ctypes.Structure:
    """A struct with these values. Other members are 0, except struct_size."""
    kind = structure(name)
    if "struct_size" in (field for field, _ in fields_of(name)):
        values["struct_size"] = ctypes.sizeof(kind)
    return kind(**values)


def figures_of(answer: ctypes.Structure) -> dict[str, int]:
    """The members of a struct of statistics, by name."""
    names = (field[0] for field in answer._fields_)
    return {name: getattr(answer, name) for name in names if name != "struct_size"}
