#!/usr/bin/env python3
"""Each import of a shared library from the system is in a table, with its purpose. Nothing there
starts a program, the only connections are those between an exporter and an importer of memory, and
the only files are named by the user: of a recording, of a shared limit, and the directory of
contents that sleep. So nothing else can make the library write where the user did not ask.

Usage: imports.py NM LIBRARY [--assertions]
"""
import os
import re
import subprocess
import sys

ALL = {
    "the end of a process whose stack was overwritten, or a buffer would be": "__stack_chk_fail "
                                                                              "__chk_fail",
    "texts in buffers of a given size": "snprintf",
}
BOTH = {
    **ALL,
    "host memory, and large pages for much of it": "malloc calloc realloc free madvise",
    "bytes": "memcpy memmove memset memcmp memchr bcmp strlen strcmp strcspn __ctype_b_loc",
    "texts in buffers of a given size": "snprintf vsnprintf",
    "locks": "pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock "
             "pthread_mutex_unlock pthread_cond_init pthread_cond_destroy pthread_cond_wait "
             "pthread_cond_broadcast pthread_self pthread_equal __tls_get_addr",
    "to hear of a fork, and to close there what was exported": "__register_atfork close",
    "limits of the process, asked before they end it": "getrlimit getrlimit64",
    "MEND_CONF, MEND_RECORD, a profiler's path, but in a set-user-ID program": "secure_getenv",
}
OF_ITS_OWN = {
    "libmend": {
        "to find libcuda.so.1 or what NVTX_INJECTION64_PATH names, and their functions":
            "dlopen dlclose dlsym dlerror",
        "the driver's clock": "clock_gettime",
        "the order in which chunks are picked": "qsort bsearch",
        "lines of the log, to standard error and only where a config or MEND_CONF asks for them":
            "write",
        "the driver's pause, before what is not ready is asked again": "nanosleep",
        "the socket of exports, and an importer's connection to it":
            "socket bind listen accept4 connect getsockopt send sendmsg recv recvmsg poll "
            "__errno_location __cmsg_nxthdr getpid geteuid",
        "names and keys of exports that nobody guesses": "getrandom",
        "what the machine and the process's control groups leave of the host's memory":
            "open open64 read strtok_r strtoull strchr strrchr strstr",
        "pages that threads write at once, to be pinned": "mmap mmap64 munmap madvise syscall "
                                                          "sched_getaffinity __sched_cpucount",
        "a file without a name, for contents that sleep, where the program says":
            "open open64 mkostemp mkostemp64 unlink fallocate fallocate64 pread pread64 pwrite "
            "pwrite64",
        "the page that a pool publishes, a file without a name, where a config asks for it":
            "memfd_create",
        "the words of the system in messages, and what a message says already":
            "strerror strstr strncmp",
        "the file of a limit that processes share, where the program names one":
            "fcntl fcntl64 fstat fstat64 __fxstat __fxstat64",
        "the threads that collect and record, and the bell that ends them":
            "eventfd eventfd_read eventfd_write pthread_join",
        "the file of a recording, where a config, MEND_CONF or MEND_RECORD names one":
            "flock ftruncate ftruncate64",
        "the handler of SIGUSR2, where a config or MEND_CONF names a path for snapshots":
            "sigaction",
        "the thread that serves importers, in code that stays loaded":
            "pthread_create pthread_detach pthread_sigmask sigfillset dladdr",
        "threads that run, and have a name, when their start returns":
            "pthread_setname_np sem_init sem_post sem_wait sem_destroy",
    },
    "libmend_sim": {
        "real bytes, in a file that has no name": "memfd_create ftruncate fallocate pwritev "
                                                  "pwritev64 lseek lseek64 mmap munmap mprotect "
                                                  "sysconf",
        "to look whether addresses may be read, by a pair of sockets without a name":
            "socketpair write recv poll",
        "chunks for simulated devices of other processes": "sendmsg recvmsg fcntl fcntl64 getpid",
        "a socket for each chunk with a fabric handle, and the exporter's file of bytes":
            "socket bind listen accept4 connect open open64 __errno_location "
            "epoll_create1 epoll_ctl epoll_wait",
    },
}
# Plug-ins ask libmend for all that Mend does.
PLUG_INS = {
    "libmend_hooks": {"functions for ONNX Runtime, as far as the caller knows them": "memcpy"},
    "libmend_torch": {
        "texts: where a sentence begins": "strstr strlen vsnprintf",
        "PyTorch's pools, and the routes to them": "calloc free pthread_mutex_lock "
                                                   "pthread_mutex_unlock",
        "sizes that PyTorch's settings round up, by address": "tsearch tfind tdelete",
        "settings of PyTorch's": "memcpy strcspn strncmp strspn",
        "MEND_TORCH_GRAPHS, but in a set-user-ID program": "secure_getenv strcmp",
    },
}
ASSERTIONS = {"assertions of debug builds": "__assert_fail"}


def allowed_for(library, with_assertions):
    own = PLUG_INS.get(library)
    table = {**BOTH, **OF_ITS_OWN[library]} if own is None else {**ALL, **own}
    table |= ASSERTIONS if with_assertions else {}
    return {name for names in table.values() for name in names.split()}


def imported_by(listing):
    """Without versions. Weak ones are the compiler's own. A fortified function is the function."""
    names = re.findall(r"^\s*U (\w+)", listing, re.M)
    return {re.sub(r"^__(\w+)_chk$", r"\1", name) for name in names}


def test_itself():
    listing = "                 U fopen@GLIBC_2.2.5\n   U __snprintf_chk@GLIBC_2.3.4\n   w weak\n"
    assert imported_by(listing) == {"fopen", "snprintf"}
    assert imported_by(listing) - allowed_for("libmend", False) == {"fopen"}
    assert "socketpair" not in allowed_for("libmend", True)
    assert "__assert_fail" in allowed_for("libmend", True) - allowed_for("libmend", False)
    assert "malloc" not in allowed_for("libmend_hooks", True)
    acts = "openat fopen freopen creat mkstemp tmpfile system popen " \
        "execve posix_spawn fork rename mkdir getenv setenv exit abort syslog"
    assert not allowed_for("libmend", True) & set(acts.split())


def main():
    test_itself()
    nm, library = sys.argv[1:3]
    listing = subprocess.run([nm, "--dynamic", "--undefined-only", library], check=True,
                             capture_output=True, text=True).stdout
    imported = imported_by(listing)
    name = os.path.basename(library).split(".")[0]
    allowed = allowed_for(name, "--assertions" in sys.argv)
    is_plug_in = name in PLUG_INS
    of_libmend = {name for name in imported if name.startswith("mend_")} if is_plug_in else set()
    found = sorted(imported - allowed - of_libmend)
    for foreign in found:
        print(f"{library} imports {foreign}, which the table does not allow")
    print(f"{len(imported)} imported, {len(found)} of them not allowed")
    return 1 if found or not imported else 0


if __name__ == "__main__":
    sys.exit(main())
