"""What makes a wheel of what CMake installed (cmake/wheel.py): the same bytes each time, a tag that
says where it runs, names to link with, and no library that systems lack."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from support import SOURCE, TREE

INFO = "libmend-0.1.0.dist-info"


def make(folder, target, *options, **variables):
    """A wheel of the tree under test, finished. Returns the command's result."""
    raw = Path(folder) / "libmend-0.1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(raw, "w") as wheel:
        for path in sorted(TREE.rglob("*")):
            if path.is_file() and not re.search(r"\.so\.\d+\.\d+\.\d+$", path.name):
                wheel.write(path, path.relative_to(TREE))
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-linux_x86_64\n")
        wheel.writestr(f"{INFO}/METADATA", "Name: libmend\nVersion: 0.1.0\n")
    return subprocess.run(
        [sys.executable, SOURCE / "cmake/wheel.py", *options, raw, Path(folder) / target],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


class Wheel(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def made(self, target="one", *options, **variables):
        done = make(self.folder, target, *options, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Path(done.stdout.strip())

    def test_two_are_the_same_bytes(self):
        wheels = [self.made(target, SOURCE_DATE_EPOCH="1700000000") for target in ("one", "two")]
        self.assertEqual(wheels[0].read_bytes(), wheels[1].read_bytes())

    def test_it_says_on_which_systems_it_runs(self):
        wheel = self.made()
        self.assertRegex(wheel.name, r"^libmend-0\.1\.0-py3-none-manylinux_2_\d+_\w+\.whl$")
        tag = wheel.stem.split("-", 2)[2]
        with zipfile.ZipFile(wheel) as made:
            self.assertIn(f"Tag: {tag}\n", made.read(f"{INFO}/WHEEL").decode())

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
        with zipfile.ZipFile(self.made()) as made:
            made.extractall(self.folder / "installed")
        package = self.folder / "installed" / "mend"
        source = self.folder / "program.c"
        source.write_text('#include "mend/mend.h"\nint main(void) { return !mend_version(); }\n')
        program = self.folder / "program"
        command = [os.environ.get("CC", "cc"), source, "-I", package / "include"]
        command += ["-L", package / "lib", "-lmend", f"-Wl,-rpath,{package / 'lib'}"]
        subprocess.run([*command, "-o", program], check=True)
        subprocess.run([program], check=True)
        load = "import mend; mend.simulate().close()"
        path = {**os.environ, "PYTHONPATH": str(package.parent)}
        subprocess.run([sys.executable, "-c", load], env=path, check=True)

    def test_it_holds_a_class_for_each_pytorch_with_the_usual_abi(self):
        """The compiler is a stand-in, which gives a library that was compiled before."""
        compiler = self.folder / "compiler"
        library = Path(os.environ["MEND_TEST_FAKES"]) / "libclass.so"
        compiler.write_text(
            "#!/bin/bash\n"
            f'echo "$*" >>"{self.folder}/commands"\n'
            'while (($#)); do [[ $1 != -o ]] || target=$2; shift; done\n'
            f'cp "{library}" "$target"\n'
        )
        compiler.chmod(0o755)
        headers = self.folder / "headers"
        for minor, abi in (("2.5", 0), ("2.8", 1), ("2.99", 1)):
            (headers / minor).mkdir(parents=True)
            about = f'{{"version": "{minor}.1", "cxx11_abi": {abi}}}'
            (headers / minor / "release.json").write_text(about)
        wheel = self.made("one", "--headers", headers, "--compiler", compiler)
        with zipfile.ZipFile(wheel) as made:
            names = [name for name in made.namelist() if "prebuilt" in name]
        self.assertEqual(names, ["mend/torch/prebuilt/mend_torch_2_8.so"])
        command = (self.folder / "commands").read_text().splitlines()[-1]
        self.assertIn("-DMEND_TORCH=208", command)
        self.assertIn(f"-isystem {headers.resolve()}/2.8/include", command)

    def test_a_library_that_systems_lack_is_refused(self):
        tools = self.folder / "tools"
        tools.mkdir()
        readelf = tools / "readelf"
        readelf.write_text(
            "#!/bin/sh\necho 'Machine: Advanced Micro Devices X86-64'\n"
            "echo '0x1 (NEEDED) Shared library: [libcudart.so.12]'\n"
        )
        readelf.chmod(0o755)
        done = make(self.folder, "one", PATH=f"{tools}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs libcudart.so.12, which not every system has", done.stderr)


if __name__ == "__main__":
    unittest.main()
