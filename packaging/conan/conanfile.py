"""Conan's recipe of the tree that it lies in: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load


class Mend(ConanFile):
    name = "mend"
    license = "Apache-2.0"
    description = "A CUDA memory allocator that makes fragmentation harmless"
    topics = ("cuda", "gpu", "memory", "allocator")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    tree = os.path.join(os.path.dirname(__file__), "..", "..")

    def set_version(self):
        project = load(self, os.path.join(self.tree, "CMakeLists.txt"))
        self.version = re.search(r"project\(mend VERSION ([\d.]+)", project)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "vmm/*", "api/*", "cmake/*"):
            copy(self, pattern, self.tree, self.export_sources_folder)

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCH", "TOOLS", "TORCH"):
            toolchain.cache_variables[f"MEND_BUILD_{part}"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The targets are those of the CMake package that Mend installs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "mend")]
        end = "" if self.options.shared else "_static"
        self.cpp_info.set_property("cmake_target_name", f"mend::mend{end}")
        self.cpp_info.libs = ["mend_sim", "mend"]
        self.cpp_info.system_libs = ["pthread", "dl"]
