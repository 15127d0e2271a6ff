"""`python -m libmend.simulate`: programs over the stub of CUDA's runtime, and the function of the
same name."""

import os
import textwrap

from support import GIB, HELPERS, MIB, FolderTest, run, start

# The calls of a program of CUDA's runtime, by ctypes.
PRELUDE = f"""{HELPERS}
import ctypes, os, sys
runtime = ctypes.CDLL(None)
runtime.cudaGetErrorName.restype = ctypes.c_char_p

def call(name, *arguments):
    error = getattr(runtime, name)(*arguments)
    if error:
        raise RuntimeError(runtime.cudaGetErrorName(error).decode())

def malloc(size):
    pointer = ctypes.c_void_p()
    call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
    return pointer

def sizes():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value
"""


class Simulate(FolderTest):
    def start(self, *arguments, **variables):
        return start("-m", "libmend.simulate", *arguments, folder=self.folder, **variables)

    def run_program(self, program, *options, arguments=(), **variables):
        path = self.folder / "program.py"
        path.write_text(PRELUDE + textwrap.dedent(program), encoding="utf-8")
        return self.start(*options, str(path), *arguments, **variables)

    def succeeds(self, program, *options, **variables):
        done = self.run_program(program, *options, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_the_runtime_is_there_and_says_once_that_kernels_do_nothing(self):
        done = self.succeeds("malloc(1 << 20); malloc(1 << 20); print(sizes()[1])")
        self.assertEqual(int(done.stdout), 24 * GIB)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("kernels do nothing", done.stderr)

    def test_a_program_that_does_not_use_it_hears_nothing(self):
        self.assertEqual(self.succeeds("print(1)").stderr, "")

    def test_the_driver_is_initialized_by_cuInit_or_the_runtime(self):
        count = "print(runtime.cuDeviceGetCount(ctypes.byref(ctypes.c_int())))"
        self.assertEqual(self.succeeds(count).stdout, "3\n")
        for call in ("runtime.cuInit(0)", "malloc(1)", "runtime.cudaFree(None)"):
            self.assertEqual(self.succeeds(f"{call}\n{count}").stdout, "0\n")

    def test_memory_and_devices(self):
        program = """
            count = ctypes.c_int()
            call("cudaGetDeviceCount", ctypes.byref(count))
            print(count.value, sizes()[1])
        """
        done = self.succeeds(program, "--memory", "1.5GiB", "--devices=3")
        self.assertEqual(done.stdout, f"3 {3 * GIB // 2}\n")
        done = self.succeeds(program, "--memory=64mib", "--devices", "2", CUDA_VISIBLE_DEVICES="1")
        self.assertEqual(done.stdout, f"1 {64 * MIB}\n")

    def test_nvml_tells_the_memory_of_each_device(self):
        """As torch.cuda.device_memory_used asks for it, and libraries that size their caches."""
        self.succeeds(
            """
            nvml = ctypes.CDLL("libnvidia-ml.so.1")

            def used(get, which):
                device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
                assert get(which, ctypes.byref(device)) == 0
                assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
                assert memory[0] == 1 << 30 and memory[1] + memory[2] == memory[0]
                return memory[2] >> 20

            assert nvml.nvmlInitWithFlags(0) == 0
            call("cudaSetDevice", 1)
            malloc(100 << 20)
            by_bus = nvml.nvmlDeviceGetHandleByPciBusId_v2
            assert used(by_bus, b"00000000:01:00.0") == used(by_bus, b"0000:00:00.0") + 100
            malloc(100 << 20)
            by_index = nvml.nvmlDeviceGetHandleByIndex_v2
            assert used(by_index, 1) == used(by_index, 0) + 200
            device, count = ctypes.c_void_p(), ctypes.c_uint()
            assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value == 2
            assert by_index(1, ctypes.byref(device)) == 0
            programs = nvml.nvmlDeviceGetComputeRunningProcesses_v3
            count.value = 0
            assert programs(device, ctypes.byref(count), None) == 7 and count.value == 1
            found = (ctypes.c_ulonglong * 3)()
            assert programs(device, ctypes.byref(count), found) == 0 and count.value == 1
            assert found[0] & 0xFFFFFFFF == os.getpid() and found[1] >> 20 >= 200
            for unknown in ("UtilizationRates", "Temperature", "PowerUsage", "ClockInfo"):
                assert nvml["nvmlDeviceGet" + unknown](device, None) == 3
            none = ctypes.c_void_p(3)
            assert nvml.nvmlDeviceGetMemoryInfo(none, (ctypes.c_ulonglong * 3)()) == 6
            assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"none", ctypes.byref(none)) == 6
            call("cudaGetLastError")
            device = ctypes.c_int()
            call("cudaGetDevice", ctypes.byref(device))
            assert device.value == 1
            """,
            "--memory=1GiB",
            "--devices=2",
        )

    def test_the_environment_gives_the_devices_a_name_and_attributes(self):
        program = """
            name, value = ctypes.create_string_buffer(64), ctypes.c_int()
            runtime.cuInit(0)
            assert runtime.cuDeviceGetName(name, 64, 0) == 0
            properties = ctypes.create_string_buffer(2048)
            call("cudaGetDeviceProperties", properties, 0)
            print(name.value.decode(), properties.raw[:8].decode().rstrip(chr(0)))
            for attribute in (75, 76, 16, 10):
                call("cudaDeviceGetAttribute", ctypes.byref(value), attribute, 0)
                print(value.value)
        """
        usual = ["Mend simulated GPU Mend sim", "9", "0", "132", "32"]
        self.assertEqual(self.succeeds(program).stdout.splitlines(), usual)
        done = self.succeeds(
            program, MEND_SIMULATE_NAME="T4", MEND_SIMULATE_ATTRIBUTES="75=7,76=5,16=40"
        )
        self.assertEqual(done.stdout.splitlines(), ["T4 T4", "7", "5", "40", "32"])
        done = self.succeeds(program + "\n            print(sizes()[1] >> 20)", "--gpu", "rtx3090")
        said = ["NVIDIA GeForce RTX 3090 NVIDIA G", "8", "6", "82", "32", "24106"]
        self.assertEqual(done.stdout.splitlines(), said)

    def test_large_copies_keep_no_bytes_where_only_small_ones_are_asked_for(self):
        program = """
            for size in (256 << 10, (256 << 10) + 1):
                block, back = malloc(size), ctypes.create_string_buffer(size)
                call("cudaMemcpy", block, b"x" * size, ctypes.c_size_t(size), 1)
                call("cudaMemcpy", back, block, ctypes.c_size_t(size), 2)
                print(set(back.raw))
        """
        self.assertEqual(self.succeeds(program).stdout, "{120}\n{120}\n")
        done = self.succeeds(program, MEND_SIMULATE_CONTENTS="small")
        self.assertEqual(done.stdout, "{120}\n{0}\n")

    def test_fabric_handles(self):
        program = """
            is_there = ctypes.c_int()
            call("cudaDeviceGetAttribute", ctypes.byref(is_there), 128, 0)
            print(is_there.value)
        """
        self.assertEqual(self.succeeds(program).stdout, "0\n")
        self.assertEqual(self.succeeds(program, "--fabric", "--devices", "2").stdout, "1\n")

    def test_memory_that_is_gone_is_an_illegal_address(self):
        """The error stays, as CUDA's does, and the device says which address it was."""
        done = self.succeeds(
            """
            import libmend
            pointer = malloc(4096)
            call("cudaFree", pointer)
            for _ in range(2):
                error = error_of(call, "cudaMemset", pointer, 1, ctypes.c_size_t(4096))
                assert str(error) == "cudaErrorIllegalAddress", error
            assert "is not mapped" in libmend.simulate().first_violation
            """
        )
        self.assertEqual(done.stderr.count("is not mapped"), 1, done.stderr)

    def test_wrong_settings_are_named(self):
        for options, words in (
            (["--memory", "much", "x.py"], "'much' is no size of a device"),
            (["--memory=0", "x.py"], "'0' is no size"),
            (["--memory=10", "x.py"], "'10' is less than a page of 2 MiB; did you forget the unit"),
            (["--devices", "17", "x.py"], "'17' is no number from 1 to 16"),
            (["--speed", "x.py"], "unrecognized arguments"),
            (["--gpu", "Voodoo2", "x.py"], "no figures of a GPU 'Voodoo2'; there are T4, L4"),
            ([], "name the program to run"),
            (["-m"], "-m: the program is missing"),
            (["-x", "1"], "name the program to run"),
        ):
            done = self.start(*options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(words, done.stderr, options)

    def test_a_wrong_environment_is_named(self):
        """Of a program that preloads the stub by itself."""
        done = self.succeeds(
            """
            if "again" not in sys.argv:
                os.environ["MEND_SIMULATE_MEMORY"] = "4x"
                os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
            print(error_of(sizes))
            """
        )
        self.assertEqual(done.stdout, "cudaErrorInitializationError\n")
        self.assertIn("MEND_SIMULATE_MEMORY=4x: it must be a whole number", done.stderr)

    def test_arguments_and_exit_status_are_the_programs(self):
        done = self.run_program("print(sys.argv[1:]); sys.exit(7)", arguments=["--memory", "-x"])
        self.assertEqual((done.returncode, done.stdout), (7, "['--memory', '-x']\n"))
        done = self.run_program("os.kill(os.getpid(), 9)")
        self.assertEqual(done.returncode, -9)

    def test_a_module_is_run_too(self):
        (self.folder / "part.py").write_text("import sys; print(__name__, sys.argv[1:])")
        done = self.start("-m", "part", "-q", PYTHONPATH=os.environ["PYTHONPATH"])
        self.assertEqual(done.stdout, "__main__ ['-q']\n", done.stderr)
        done = self.start("--devices=2", "-c", "import sys; print(sys.argv)", "-c")
        self.assertEqual(done.stdout, "['-c', '-c']\n", done.stderr)

    def test_a_child_of_fork_has_no_device(self):
        self.succeeds(
            """
            sizes()
            child = os.fork()
            if child == 0:
                os._exit(str(error_of(sizes)) != "cudaErrorInitializationError")
            assert os.waitpid(child, 0)[1] == 0
            """
        )

    def test_a_child_has_a_device_of_its_own_where_the_parent_used_none(self):
        """Mend was loaded before the fork, and both use memory after it."""
        self.succeeds(
            """
            import libmend
            from libmend import _devices, _library
            _library.load("mend")
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(writing)
                os.read(reading, 1)  # the parent has written, or has failed
            block = ctypes.c_void_p(_devices.alloc(0, 1 << 20, 0))
            back = ctypes.create_string_buffer(4)
            text = ctypes.create_string_buffer(b"his." if child == 0 else b"mine", 4)
            call("cudaMemcpy", block, text, ctypes.c_size_t(4), 1)
            if child == 0:
                os._exit(0)
            os.write(writing, b".")
            assert os.waitpid(child, 0)[1] == 0
            call("cudaMemcpy", back, block, ctypes.c_size_t(4), 2)
            assert back.raw == b"mine", back.raw
            """
        )

    def test_mends_pools_are_on_the_same_device(self):
        self.succeeds(
            """
            import libmend
            from libmend import _devices
            free, total = sizes()
            block = _devices.alloc(0, 100 << 20, 0)
            assert free - sizes()[0] >= 100 << 20, sizes()
            # Copies of the runtime arrive: the memory has bytes.
            text = ctypes.create_string_buffer(b"mend", 4)
            back = ctypes.create_string_buffer(4)
            call("cudaMemcpy", ctypes.c_void_p(block), text, ctypes.c_size_t(4), 1)
            call("cudaMemcpy", back, ctypes.c_void_p(block), ctypes.c_size_t(4), 2)
            assert back.raw == b"mend", back.raw
            with libmend.simulate() as device:
                assert device.ledger()["chunk_bytes"] >= 100 << 20
                assert device.violations == 0, device.first_violation
                _devices.free(0, block, 100 << 20, 0)
            assert sizes()[0] == free
            assert libmend.stats()["live_blocks"] == 0
            """,
            "--memory=1GiB",
        )

    def test_the_function_gives_the_programs_device(self):
        self.succeeds(
            """
            import libmend
            assert libmend.simulate(1 << 30, device_count=2, has_bytes=True).violations == 0
            for asked in ({"memory_bytes": 1}, {"device_count": 1}, {"has_bytes": False}):
                error = str(error_of(libmend.simulate, **asked))
                assert "say so to python -m libmend.simulate" in error, error
            """,
            "--memory=1GiB",
            "--devices=2",
        )

    def test_the_function_stays_a_function_beside_the_module(self):
        for names in ("libmend", "libmend.simulate", "libmend, libmend.simulate"):
            begin = "import " + names
            program = begin + "\nwith libmend.simulate(1 << 30) as device: print(device.violations)"
            done = run(program)
            self.assertEqual((done.stdout, done.stderr), ("0\n", ""), begin)
