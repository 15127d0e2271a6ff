"""The structs that Python reads from the headers are as a compiler makes them."""

import ctypes
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from libmend import _library, _structures
from libmend._errors import name_of


def names():
    """All structs that the headers define."""
    return re.findall(r"typedef struct (\w+) \{", _structures._headers())


def said_by_compiler(structs):
    """{name: (size, {member: (offset, size)})}"""
    lines = ["#include <cstddef>", "#include <cstdio>"]
    headers = set(_library.HEADERS.glob("mend/*.h")) - {_library.HEADERS / "mend" / "mend_umf.h"}
    lines += [f'#include "{path}"' for path in sorted(headers)]  # not the one that needs UMF's
    lines.append("int main() {")
    for name, members in structs.items():
        lines.append(f'std::printf("{name} . %zu 0\\n", sizeof({name}));')
        lines += [
            f'std::printf("{name} {member} %zu %zu\\n", offsetof({name}, {member}),'
            f" sizeof((({name} *)nullptr)->{member}));"
            for member in members
        ]
    lines.append("}")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "layout.cpp"), Path(folder, "layout")
        source.write_text("\n".join(lines), encoding="utf-8")
        include = f"-I{_library.HEADERS}"
        subprocess.run([os.environ["CXX"], include, str(source), "-o", str(program)], check=True)
        output = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    answer = {}
    for line in output.splitlines():
        name, member, first, second = line.split()
        size, members = answer.setdefault(name, (int(first), {}))
        if member != ".":
            members[member] = (int(first), int(second))
    return answer


class Structures(unittest.TestCase):
    def test_they_are_laid_out_as_the_compiler_does(self):
        mine = {}
        for name in names():
            kind = _structures.structure(name)
            members = [member for member, _ in _structures.fields_of(name)]
            mine[name] = (
                ctypes.sizeof(kind),
                {m: (getattr(kind, m).offset, getattr(kind, m).size) for m in members},
            )
        self.assertLessEqual({"mend_sim_config", "mend_stats", "mend_device_handler"}, set(mine))
        self.assertEqual(mine, said_by_compiler({name: mine[name][1] for name in mine}))

    def test_no_member_is_missing(self):
        self.assertEqual(
            [name for name, _ in _structures.fields_of("mend_sim_fault")],
            "struct_size call status after_calls count above_bytes until_release sticky".split(),
        )
        self.assertIn("peak_live_bytes", dict(_structures.fields_of("mend_stats")))

    def test_a_size_is_filled_in(self):
        made = _structures.made("mend_available", now_bytes=7)
        self.assertEqual(made.struct_size, ctypes.sizeof(made))
        self.assertEqual(made.now_bytes, 7)
        self.assertEqual(_structures.figures_of(made)["now_bytes"], 7)
        self.assertNotIn("struct_size", _structures.figures_of(made))

    def test_enums_and_results_have_their_numbers(self):
        keeps = _structures.numbers_of("mend_backup")
        self.assertEqual((len(keeps), keeps["MEND_STAY_RESIDENT"]), (5, 4))
        for name, number in _structures.results().items():
            self.assertEqual(name_of(number), name)
        self.assertIn("MEND_ERROR_PINNED", _structures.results())

    def test_what_the_headers_do_not_have_is_refused(self):
        for find in (_structures.structure, _structures.rows_of, _structures.numbers_of):
            self.assertRaises(ImportError, find, "mend_nothing")
