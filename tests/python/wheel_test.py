"""cmake/wheel.py makes a wheel of installed files: the same bytes each time, a tag that says where
it runs, names to link with, and no library that systems lack. Also for another machine, where the
libraries are made by a cross compiler (CC) and programs are run by an emulator."""

import base64
import hashlib
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from support import SOURCE, TREE, FolderTest, finished, readelf

INFO = "libmend-0.1.0.dist-info"
MACHINE = os.environ["MEND_TEST_MACHINE"]
EMULATOR = os.environ["MEND_TEST_EMULATOR"].split(";") if os.environ["MEND_TEST_EMULATOR"] else []
CC = shlex.split(os.environ["CC"])


def is_library(path):
    """Whether a file is an ELF file: the names to link with are texts."""
    return path.is_file() and path.read_bytes()[:4] == b"\x7fELF"


def make(folder, target, *options, more=(), **variables):
    """A wheel of the tree under test, and of `more` libraries, finished. Returns the command's
    result."""
    raw = Path(folder) / "libmend-0.1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(raw, "w") as wheel:
        for path in sorted(TREE.rglob("*")):
            # The program of a test build needs zlib, which a wheel's program holds.
            is_left_out = re.search(r"\.so\.\d+\.\d+\.\d+$|/bin/libmend$", str(path))
            if path.is_file() and not is_left_out:
                wheel.write(path, path.relative_to(TREE))
        for path in more:
            wheel.write(path, f"libmend/{'lib' if '.so' in path.suffixes else 'bin'}/{path.name}")
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-linux_x86_64\n")
        wheel.writestr(f"{INFO}/METADATA", "Name: libmend\nVersion: 0.1.0\n")
    command = [sys.executable, SOURCE / "cmake/wheel.py", "--machine", MACHINE, *options]
    return finished([*command, raw, Path(folder) / target], {**os.environ, **variables})


class Wheel(FolderTest):
    def made(self, target="one", *options, **variables):
        done = make(self.folder, target, *options, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Path(done.stdout.strip())

    def refused(self, *options, **variables):
        done = make(self.folder, "one", *options, **variables)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertFalse((self.folder / "one").exists())
        return done.stderr

    def installed(self, *options, **variables):
        """The folder of the package of a wheel that is unpacked."""
        with zipfile.ZipFile(self.made("one", *options, **variables)) as made:
            made.extractall(self.folder / "installed")
        return self.folder / "installed" / "libmend"

    def needs(self, library, version):
        """A library that asks another one, `library`, for one symbol of a version."""
        provided, asking = self.folder / library, self.folder / "libasking.so"
        versions = self.folder / "versions"
        versions.write_text(f"{version} {{ thing; }};\n")
        source = self.folder / "provided.c"
        source.write_text("void thing(void); void thing(void) {}\n")
        link = [*CC, "-shared", "-fPIC", "-nostdlib"]
        soname = [f"-Wl,-soname,{library}", f"-Wl,--version-script={versions}"]
        subprocess.run([*link, source, *soname, "-o", provided], check=True)
        source.write_text("void thing(void); void ask(void); void ask(void) { thing(); }\n")
        subprocess.run([*link, source, provided, "-o", asking], check=True)
        return asking

    def compiler(self, library):
        """The options of a compiler that gives a library that was compiled before."""
        path = self.folder / "compiler"
        path.write_text(
            "#!/bin/bash\n"
            f'echo "$*" >>"{self.folder}/commands"\n'
            "while (($#)); do [[ $1 != -o ]] || target=$2; shift; done\n"
            f'cp "{library}" "$target"\n'
        )
        path.chmod(0o755)
        return ["--compiler", path]

    def headers(self, version, abi):
        """The option of the headers of a PyTorch."""
        folder = self.folder / "headers" / version.rpartition(".")[0]
        folder.mkdir(parents=True)
        about = f'{{"version": "{version}", "cxx11_abi": {abi}}}'
        (folder / "release.json").write_text(about)
        return ["--headers", folder]

    def test_two_are_the_same_bytes(self):
        wheels = [self.made(target, SOURCE_DATE_EPOCH="1700000000") for target in ("one", "two")]
        self.assertEqual(wheels[0].read_bytes(), wheels[1].read_bytes())

    def test_it_says_on_which_systems_it_runs(self):
        """The tag is of the newest symbol of the C library that any library in it asks for."""
        package = self.installed()
        wheel = next((self.folder / "one").iterdir())
        libraries = [path for path in package.rglob("*") if is_library(path)]
        self.assertGreaterEqual(len(libraries), 6)
        newest = (2, 17)
        for path in libraries:
            for symbol in readelf("--dyn-syms", path).splitlines():
                found = re.search(r" UND .*@GLIBC_2\.(\d+)", symbol)
                newest = max(newest, (2, int(found[1]) if found else 0))
        tag = f"py3-none-manylinux_{newest[0]}_{newest[1]}_{MACHINE}"
        self.assertEqual(wheel.name, f"libmend-0.1.0-{tag}.whl")
        self.assertIn(f"Tag: {tag}\n", (package.parent / INFO / "WHEEL").read_text())

    def test_all_its_libraries_are_for_one_machine(self):
        package = self.installed()
        names = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
        for path in filter(is_library, package.rglob("*")):
            header = readelf("--file-header", path)
            self.assertEqual(re.search(r"Machine:\s+(.+)", header)[1], names[MACHINE], path)
        other = next(name for name in names if name != MACHINE)
        done = make(self.folder, "two", "--machine", other)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"is for {MACHINE}, not for {other}", done.stderr)

    def test_a_newer_symbol_asks_for_a_newer_system(self):
        for library, version, system in (
            ("libc.so.6", "GLIBC_2.99", "2_99"),
            ("libstdc++.so.6", "GLIBCXX_3.4.30", "2_35"),
            ("libstdc++.so.6", "CXXABI_1.3.15", "2_39"),
            ("libgcc_s.so.1", "GCC_14.0.0", "2_39"),
        ):
            wheel = self.made("one", more=[self.needs(library, version)])
            self.assertIn(f"-manylinux_{system}_{MACHINE}", wheel.name, version)

    def test_symbols_of_no_system_are_refused(self):
        unknown = (("libstdc++.so.6", "GLIBCXX_3.4.99"), ("libc.so.6", "GLIBC_ABI_X"))
        for library, version in unknown:
            words = self.refused(more=[self.needs(library, version)])
            self.assertIn("libasking.so needs ", words)

    def test_the_record_holds_every_file(self):
        with zipfile.ZipFile(self.made()) as made:
            lines = made.read(f"{INFO}/RECORD").decode().splitlines()
            self.assertEqual({line.split(",")[0] for line in lines}, set(made.namelist()))
            for name, digest, size in (line.split(",") for line in lines[:-1]):
                data = made.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
                self.assertEqual(digest, f"sha256={expected.rstrip('=')}")
                self.assertEqual(int(size), len(data))

    def test_programs_link_by_the_usual_name(self):
        package = self.installed()
        source = self.folder / "program.c"
        source.write_text('#include "mend/mend.h"\nint main(void) { return !mend_version(); }\n')
        program = self.folder / "program"
        command = [*CC, source, "-I", package / "include"]
        command += ["-L", package / "lib", "-lmend", f"-Wl,-rpath,{package / 'lib'}"]
        subprocess.run([*command, "-o", program], check=True)
        subprocess.run([*EMULATOR, program], check=True)

    def test_its_program_is_looked_at_and_may_be_run(self):
        program = self.needs("libz.so.1", "V_1").rename(self.folder / "libmend")
        words = self.refused(more=[program])
        self.assertIn("libmend needs libz.so.1, which not every system has", words)
        program = self.needs("libc.so.6", "GLIBC_2.98").rename(program)
        wheel = self.made("one", more=[program])
        self.assertIn(f"-manylinux_2_98_{MACHINE}", wheel.name)
        with zipfile.ZipFile(wheel) as made:
            modes = {info.filename: info.external_attr >> 16 for info in made.infolist()}
        self.assertEqual(modes["libmend/bin/libmend"], 0o100755)
        self.assertEqual(modes["libmend/__init__.py"], 0o100644)

    def test_its_libraries_load_and_allocate(self):
        """A program opens them by name, as Python does, and allocates on a simulated device."""
        package = self.installed()
        program = self.folder / "load"
        command = [*CC, SOURCE / "tests/install/load.c", "-I", package / "include", "-ldl"]
        subprocess.run([*command, "-pthread", "-o", program], check=True)
        libraries = [package / f"lib/lib{name}.so.0" for name in ("mend", "mend_sim")]
        subprocess.run([*EMULATOR, program, *libraries], check=True, stdout=subprocess.DEVNULL)

    def test_it_holds_a_class_for_each_pytorch_with_the_usual_abi(self):
        options = self.compiler(Path(os.environ["MEND_TEST_FAKES"]) / "libclass.so")
        for version, abi in (("2.5.1", 0), ("2.8.1", 1), ("2.99.1", 1)):
            options += self.headers(version, abi)
        with zipfile.ZipFile(self.made("one", *options)) as made:
            names = [name for name in made.namelist() if "prebuilt" in name]
        self.assertEqual(names, ["libmend/torch/prebuilt/mend_torch_2_8.so"])
        command = (self.folder / "commands").read_text().splitlines()[-1]
        self.assertIn("-DMEND_TORCH=208", command)
        self.assertIn(f"-isystem {self.folder}/headers/2.8/include", command)
        self.assertIn("-rpath,$ORIGIN/../../lib", command)

    def test_a_class_may_need_pytorch_and_nothing_else_may(self):
        """As in wheels of PyTorch's extensions, its libraries do not count for the tag."""
        asking = self.needs("libc10.so", "C10_1")
        plain = self.made("plain")
        one = self.made("one", *self.headers("2.8.0", 1), *self.compiler(asking))
        self.assertEqual(one.name, plain.name)
        (self.folder / "one" / plain.name).unlink()
        (self.folder / "one").rmdir()
        words = self.refused(more=[asking])
        self.assertIn("libasking.so needs libc10.so, which not every system has", words)

    def test_a_library_that_systems_lack_is_refused(self):
        for library in ("libcudart.so.12", "libz.so.1"):
            words = self.refused(more=[self.needs(library, "V_1")])
            self.assertIn(f"libasking.so needs {library}, which not every system has", words)
