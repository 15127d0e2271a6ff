#!/usr/bin/env python3
"""Rules of the code that no compiler knows: includes between folders, lengths of files, functions
and lines, forbidden calls of the library, members that messages name, knowledge of files about each
other (structure.py). Each rule is tried on samples first.

Usage: tidy.py ROOT
"""
import functools
import os
import re
import sys

import structure

LINES_OF_A_FILE = 600
LINES_OF_A_FUNCTION = 70
COLUMNS = 100

# The rooms of the core of vmm/ from the ground up: each may include itself and those before it. A
# feature may include the core and itself. Their other names are counted (structure.KNOWS). "sim"
# sees the driver's table alone. Public headers ("mend") are open to all.
CORE = ["base", "driver", "memory", "layout", "plan", "map", "alloc", "pool"]
ORDER_OF_ROOMS = CORE + structure.FEATURES
ROOMS = {room: set(CORE[:at + 1]) for at, room in enumerate(CORE)}
ROOMS |= {room: {*CORE, room} for room in structure.FEATURES}
ROOMS["sim"] = {"sim", "driver", "base"}
ROOMS["mend"] = set()
# The laboratory and its programs may include the library, and of each other:
IN_LAB = {"driver": [], "heap": [], "support": [], "trace": ["heap", "support"],
          "workloads": ["support", "trace"], "peers": ["heap", "support"], "measure": ["support"],
          "replay": ["driver", "heap", "support", "trace", "workloads", "peers"],
          "report": ["support", "trace", "workloads", "peers", "replay"],
          "record": ["support", "trace", "report"], "live": ["support", "report"]}
for _room, _others in IN_LAB.items():
    ROOMS["lab/" + _room] = {"lab/" + other for other in [_room, *_others]} | set(ORDER_OF_ROOMS)
ROOMS["cli"] = {"cli"} | {"lab/" + room for room in IN_LAB} | set(ORDER_OF_ROOMS)
ROOMS["bench"] = {"bench", "speed", "crowd", "probe"} | ROOMS["cli"] - {"cli"}

OTHER_PROJECT = re.compile(r"\b(?:import|from|-m) mend\b(?!\.h)|"
                           r"(?<![\w./-])mend\.(?:torch|simulate)\b|"
                           r"(?<![\w.-])mend (?:report|replay|record|demo|info|top) ")
CALL = re.compile(r"(?<![\w.>])(\w+)\s*\(")
BANNED = re.compile(
    r"(abort|_?exit|quick_exit|v?f?printf|v?dprintf|f?puts|f?putc|putchar|fwrite|"
    r"perror|psignal|(?:secure_)?getenv|s?rand(?:om)?(?:_r)?|[dm]rand48|getrandom|time|clock|"
    r"clock_gettime|gettimeofday|nanosleep|u?sleep|system|"
    r"(?:open|creat)(?:at)?(?:64)?|f(?:d|re)?open|mkd?o?s?temps?|tmpfile|p?write(?:v|64)?|"
    r"unlink(?:at)?|remove|rename(?:at)?|mkdir(?:at)?|mkfifo|shm_open|memfd_create|"
    r"socket(?:pair)?|connect|bind|send(?:to|msg)?|popen|exec[lv]p?e?|posix_spawnp?|v?fork|clone|"
    r"dlm?open|(?:un)?setenv|putenv|setuid|chmod|v?syslog|kill|raise|v?sprintf|strn?cpy|strn?cat|"
    r"alloca|gets|pthread_create)")
MAY_CALL = {
    "clock_gettime": re.compile(r"vmm/(?:driver/cuda|base/system|record/publisher)\w*\.c$"),
    "nanosleep": re.compile(r"vmm/(?:driver/cuda\w*|record/publisher)\.c$"),
    "secure_getenv": re.compile(r"vmm/base/process\.c$"),
    "pthread_create": re.compile(r"vmm/base/system\.c$"),  # by which all block all signals
    "dlopen": re.compile(r"vmm/(?:record/nvtx|driver/cuda|base/system)\.c$"),
    # Memory with real bytes, a look whether an address may be read, and a page for other processes.
    # None has a name in the file system.
    "memfd_create": re.compile(r"vmm/(?:sim/content|record/publisher)\.c$"),
    "pwritev": re.compile(r"vmm/sim/fresh\.c$"),
    "socketpair": re.compile(r"vmm/sim/\w+\.c$"),
    # Chunks that pass to other processes. The first export opens the socket.
    "getrandom": re.compile(r"vmm/share/socket\.c$"),
    "socket": re.compile(r"vmm/(?:share/\w+|sim/fabric)\.c$"),
    "bind": re.compile(r"vmm/(?:share/socket|sim/fabric)\.c$"),
    "connect": re.compile(r"vmm/(?:share/socket|sim/fabric)\.c$"),
    "open": re.compile(
        r"vmm/(?:base/system|sim/fabric|sleep/keep|sleep/pinned)\.c$"),
    "send": re.compile(r"vmm/share/socket\.c$"),
    "sendmsg": re.compile(r"vmm/(?:share/socket|sim/shares)\.c$"),
    # Contents that sleep in a file, which has no name.
    "mkostemp": re.compile(r"vmm/sleep/keep\.c$"),
    "pwrite": re.compile(
        r"vmm/(?:record/recording|record/publisher|sleep/keep|quota/shared_limit_file)\.c$"),
    # And a snapshot that could not be written whole.
    "unlink": re.compile(r"vmm/(?:sleep/keep|record/regions)\.c$"),
    # The log of libmend, where a config or MEND_CONF asks for it: to standard error. A bell, by a
    # handler of a signal.
    "write": re.compile(r"vmm/(?:sim/\w+|base/error|record/publisher)\.c$"),
}

# Files that may keep variables of static lifetime, and why.
STATIC_STATE = {
    "vmm/base/process.c": "the one owner of process-wide state",
    "vmm/base/thread.c": "the one owner of what belongs to a thread",
    "vmm/sim/violation.c": "why the simulated device refused the last call of the thread",
    "vmm/sim/contexts.c": "a thread's number, by which simulated contexts are current",
}

UNFINISHED = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK"]) + r")\b")


def line_of(text, match):
    return text.count("\n", 0, match.start(1)) + 1


def spaces_for(match):
    return re.sub(r"[^\n]", " ", match.group(0))


@functools.lru_cache(maxsize=None)
def code_of(text):
    """The text with comments and the insides of strings blanked. Lines stay where they are."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token[0] + " " * (len(token) - 2) + token[0]
        return spaces_for(match)

    return pattern.sub(blank, text)


def is_c(path):
    return path.endswith((".c", ".h", ".cpp", ".hpp"))


def room_of(path):
    parts = path.split("/")
    if parts[0] == "vmm" and len(parts) > 2:
        return parts[1]
    if parts[0] == "lab" and len(parts) > 2:
        return "/".join(parts[:2])
    if parts[0] == "bench" or parts[:2] == ["api", "cli"]:
        return "bench" if parts[0] == "bench" else "cli"
    return "mend" if path.startswith("api/include/mend/") else None


MAY_INCLUDE_CUDA = re.compile(r"tests/(abi|cplusplus)/|api/include/mend/mend_cuda\.hpp$")


def check_includes(path, text):
    room = room_of(path)
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', text, re.M):
        number, target = line_of(text, match), match.group(2)
        if re.match(r"cuda|nv\w*\.h", target) and not MAY_INCLUDE_CUDA.match(path):
            yield number, f"{target}: nothing but tests/abi and C++ over CCCL may include the" \
                " CUDA toolkit"
        if room is None or match.group(1) == "<":
            continue
        into = re.match(r"lab/\w+|\w*", target).group(0)
        if target == "mend/mend_sim.h" and room in ORDER_OF_ROOMS:
            yield number, f"{room} includes {target}: the library knows no simulated device"
        elif room in ORDER_OF_ROOMS and into in structure.FEATURES:
            continue  # structure.check_features counts it
        elif into != "mend" and into not in ROOMS[room]:
            yield number, f"{room} includes {target}: includes point one way"


def check_file_length(path, text):
    count = text.count("\n")
    if is_c(path) and count > LINES_OF_A_FILE:
        yield count, f"{count} lines, {LINES_OF_A_FILE} are allowed"


def check_line_length(path, text):
    if path.endswith(".md") or path.startswith("bench/results/"):
        return
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns, {COLUMNS} are allowed"


def check_function_length(path, text):
    """Relies on the layout clang-format makes: a function's braces stand alone at the margin."""
    if not is_c(path):
        return
    before, start = "", None
    for number, line in enumerate(code_of(text).split("\n"), 1):
        if line.startswith("{") and re.search(r"\)(\s*(const|noexcept|override))?$", before):
            start = number
        elif line.startswith("}") and start is not None:
            length = number - start + 1
            if length > LINES_OF_A_FUNCTION:
                yield start, f"a function of {length} lines, {LINES_OF_A_FUNCTION} are allowed"
            start = None
        before = line.rstrip() or before


def check_calls(path, text):
    if not (is_c(path) and path.startswith("vmm/")):
        return
    code = code_of(text)
    for match in CALL.finditer(code):
        name = match.group(1)
        if BANNED.fullmatch(name) and not (name in MAY_CALL and MAY_CALL[name].match(path)):
            yield line_of(code, match), f"{name}: the library does not end, print, read the" \
                " environment or the clock, or draw lots"


# Makes a file. The simulation is a program's own, and has its own.
MAKES_A_FILE = re.compile(r"(mend_file_keep\(\s*)?\b(open|accept4?|socket|eventfd|memfd_create|"
                          r"mkos?temps?|dup|epoll_create1?|timerfd_create|inotify_init1?)\(")


def check_files(path, text):
    """No file has the number of a standard file."""
    if not (is_c(path) and path.startswith("vmm/")) or path.startswith("vmm/sim/"):
        return
    code = code_of(text)
    for match in MAKES_A_FILE.finditer(code):
        if not match.group(1):
            yield line_of(code, match), f"{match.group(2)}: the file may get the number 0, 1 or" \
                " 2: mend_file_keep"


def is_mutable(declaration):
    """Of `static T name`, without the text after the name."""
    if "*" in declaration:
        return "const" not in declaration.rsplit("*", 1)[1]
    return "const" not in declaration


def check_static_state(path, text):
    if not path.startswith("vmm/") or not path.endswith((".c", ".h")) or path in STATIC_STATE:
        return
    code = code_of(text)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", spaces_for, code, flags=re.M)
    for match in re.finditer(r"^[ \t]*(static\b|_Thread_local\b)[^;={]*[;={]", code, re.M):
        declaration = match.group(0)[:-1]
        is_function = "(" in declaration and not re.match(r"[^(]*\(\*", declaration)
        if not is_function and "inline" not in declaration and is_mutable(declaration):
            number = code.count("\n", 0, match.start()) + 1
            yield number, "a variable of static lifetime that changes: state belongs to a pool"
    depth_zero = r"^(?!static|typedef|extern|struct \w+;|union|enum|return|goto|_Static|_Thread)" \
        r"[A-Za-z_][\w ]*[ *]+\w+(?:\[[^\]]*\])?\s*(?:=[^;]*)?;"
    for match in re.finditer(depth_zero, code, re.M):
        if is_mutable(match.group(0).split("=")[0]):
            number = code.count("\n", 0, match.start()) + 1
            yield number, "a global variable"


def check_unfinished(path, text):
    for match in UNFINISHED.finditer(text):
        yield line_of(text, match), f"{match.group(0)}: finish it, or write down why not"


def check_name(path, text):
    """Python and a shell call libmend: `mend` is another project's module and program."""
    if path.startswith("bench/results/"):
        return  # as it was said then
    for number, line in enumerate(text.splitlines(), 1):
        if OTHER_PROJECT.search(line):
            yield number, "names the module or program mend: it is libmend"


def check_opening_comment(path, text):
    if is_c(path) and path.startswith(("vmm/", "api/", "lab/")) and not re.match(r"/[/*]", text):
        # Outside the allocator, the header states the idea of a source of the same name.
        header = '#include "' + re.sub(r"^api/", "", re.sub(r"\.c$", ".h", path)) + '"'
        if path.startswith("vmm/") or not (path.endswith(".c") and text.startswith(header)):
            yield 1, "does not open with a comment that states its one idea"


def lines(count, text="int x;"):
    return (text + "\n") * count


# Rule, path, text, the lines it must flag.
SAMPLES = [
    (check_name, "docs/a.md", "python -m men" "d.simulate\nimport" " mend\n"
     "`men" "d report x`\nmend" ".torch.enable()\n", [1, 2, 3, 4]),
    (check_name, "docs/a.md", "import libmend\nfind_package(mend)\nmend.h\n", []),
    (check_includes, "vmm/base/a.c", '#include "base/b.h"\n#include "driver/driver.h"\n', [2]),
    (check_includes, "vmm/memory/a.c", '#include "mend/mend.h"\n#include "plan/a.h"\n', [2]),
    (check_includes, "vmm/alloc/a.c", '#include "memory/a.h"\n#include "pool/pool.h"\n', [2]),
    (check_includes, "vmm/pool/a.c", '#include "map/a.h"\n#include "sim/state.h"\n', [2]),
    (check_includes, "vmm/sleep/a.c", '#include "pool/pool.h"\n#include "sim/state.h"\n', [2]),
    (check_includes, "vmm/alloc/a.c", '#include "mend/mend_sim.h"\n', [1]),
    (check_includes, "vmm/sim/a.c", '#include "mend/mend_sim.h"\n#include "alloc/heap.h"\n', [2]),
    (check_includes, "vmm/pool/a.c", '#include "cli/json.h"\n#include "tests/test.h"\n', [1, 2]),
    (check_includes, "api/include/mend/a.h", '#include <stdint.h>\n#include "base/tree.h"\n', [2]),
    (check_includes, "api/include/mend/a.h", '#include "mend/mend.h"\n', []),
    (check_includes, "api/cli/a.c", '#include "pool/pool.h"\n#include <cuda.h>\n', [2]),
    (check_includes, "api/cli/a.c", '#include "lab/trace/a.h"\n#include "probe/a.h"\n', [2]),
    (check_includes, "bench/speed/a.c", '#include "lab/replay/a.h"\n#include "cli/a.h"\n', [2]),
    (check_includes, "lab/trace/a.c",
     '#include "lab/support/a.h"\n#include "lab/peers/a.h"\n#include "mend/mend_sim.h"\n', [2]),
    (check_includes, "lab/replay/a.c", '#include "pool/pool.h"\n#include "cli/page.h"\n', [2]),
    (check_includes, "vmm/driver/a.c", '#  include <cuda_runtime.h>\n', [1]),
    (check_includes, "tests/abi/a.c", "#include <cudaTypedefs.h>\n", []),
    (check_includes, "api/include/mend/mend_cuda.hpp", "#include <cuda/stream_ref>\n", []),
    (check_includes, "api/include/mend/mend.hpp", "#include <cuda/stream_ref>\n", [1]),
    (check_file_length, "vmm/a/a.c", lines(LINES_OF_A_FILE + 1), [LINES_OF_A_FILE + 1]),
    (check_file_length, "vmm/a/a.c", lines(LINES_OF_A_FILE), []),
    (check_file_length, "api/a/a.hpp", lines(LINES_OF_A_FILE + 1), [LINES_OF_A_FILE + 1]),
    (check_line_length, "run", "\n" + "x" * (COLUMNS + 1) + "\n", [2]),
    (check_line_length, "run", "x" * COLUMNS + "\n", []),
    (check_line_length, "bench/results/a.json", "x" * (COLUMNS + 1) + "\n", []),
    (check_function_length, "vmm/a/a.c",
     "static int f(void)\n{\n" + lines(LINES_OF_A_FUNCTION - 1) + "}\n", [2]),
    (check_function_length, "vmm/a/a.c",
     "static int f(void)\n{\n" + lines(LINES_OF_A_FUNCTION - 2) + "}\n", []),
    (check_function_length, "a.cpp", "namespace\n{\n" + lines(LINES_OF_A_FUNCTION) + "}\n", []),
    (check_calls, "vmm/alloc/a.c",
     '/* exit(1) */\n    abort();\n    f("exit(1)");\n    x = getenv ("A");\n', [2, 4]),
    (check_calls, "vmm/sim/a.c", "    fprintf(stderr, s);\n    snprintf(b, 1, s);\n"
     "    driver->time(driver);\n    finish_time(1);\n    t = time(0);\n    rand();\n", [1, 5, 6]),
    (check_calls, "vmm/driver/cuda_x.c", "clock_gettime(a, b);\nusleep(a);\nnanosleep(a, b);\n",
     [2]),
    (check_calls, "vmm/driver/plain.c", "    clock_gettime(a, b);\n", [1]),
    (check_calls, "vmm/base/process.c", "a = secure_getenv(b);\nc = getenv(d);\n", [2]),
    (check_calls, "vmm/pool/configuration.c", "a = secure_getenv(b);\n", [1]),
    (check_calls, "vmm/driver/cuda.c", 'dlopen("a", 1);\nopen("a", 1);\n', [2]),
    (check_calls, "vmm/driver/cuda_host.c", 'dlopen("a", 1);\n', [1]),
    (check_calls, "vmm/pool/a.c", "device_open(1);\na->remove(b);\nexecvp(a, b);\n"
     "fopen(a, b);\nmend_list_remove(a);\nstrcpy(a, b);\n", [3, 4, 6]),
    (check_calls, "vmm/sim/content.c", "memfd_create(a, 0);\nsocket(a, b, c);\n", [2]),
    (check_calls, "api/cli/main.c", "    exit(1);\n", []),
    (check_files, "vmm/share/a.c", "a = mend_file_keep(open(b, 0));\nc = eventfd(0, 0);\n", [2]),
    (check_static_state, "vmm/alloc/a.c",
     "static int count;\nstatic const int a = 1;\nstatic int f(void);\nint g(void)\n{\n"
     "    static unsigned calls = 0;\n    int local;\n}\n", [1, 6]),
    (check_static_state, "vmm/alloc/a.c", "static const char *name = 0;\n"
     "static const char *const names[] = {0};\nstatic _Thread_local int x;\n"
     "static void f(void (*call)(int))\n{\n", [1, 3]),
    (check_static_state, "vmm/alloc/a.c", "static int (*hook)(void);\nint shared_by_all = 3;\n"
     "const int fixed = 3;\ntypedef int number;\n", [1, 2]),
    (check_static_state, "vmm/base/process.c", "static int count;\n", []),
    (check_unfinished, "README.md", "a\n// " + "TO" "DO: b\n", [2]),
    (check_unfinished, "vmm/a.c", "/* a " + "HA" "CK */\nint fixmexx;\n", [1]),
    (check_opening_comment, "vmm/a/a.h", "#ifndef A\n", [1]),
    (check_opening_comment, "vmm/a/a.c", '#include "a/a.h"\n', [1]),
    (check_opening_comment, "api/a/a.c", '#include "a/a.h"\n', []),
    (check_opening_comment, "vmm/a/a.c", '#include "a/b.h"\n', [1]),
    (check_opening_comment, "api/cli/a.c", "/* Draws. */\n", []),
]

MEMBER = re.compile(r'"(?!mend/)[^"\n/]*\b(mend_\w+)\.(?!(?:h|hpp|c|so)\b)(\w+)')

RULES = [check_includes, check_file_length, check_line_length, check_function_length, check_calls,
         check_files, check_static_state, check_unfinished, check_name, check_opening_comment]


def unknown_members(texts):
    """Messages that name a member of a structure which the headers do not have."""
    known = {word for path, text in texts.items() if path.startswith("api/include/")
             for word in re.findall(r"\w+", text)}
    for path, text in texts.items():
        if path.startswith(("vmm/", "api/hooks/", "api/torch/")):
            for match in MEMBER.finditer(text):
                if not {match[1], match[2]} <= known:
                    yield path, line_of(text, match), f"{match[1]}.{match[2]} is in no header"


PROGRAM = re.compile(r'\bos\.path\.join\((?:\w+\.)?build, ((?:f?"[^"]+"(?:, )?)+)\)|'
                     r"\bbuild/[\w-]+/((?:api|bench)/[\w/-]+)(?![\w/.*{<-])")


def missing_programs(texts):
    """Programs of a build that a script names, and no CMakeLists.txt makes in that folder."""
    made = {}
    for path, text in texts.items():
        if path.endswith("CMakeLists.txt"):
            names = re.findall(r"\b(?:add_executable|mend_test_program)\(([\w${}.-]+)", text)
            outputs = dict(re.findall(r"\(([\w${}]+) PROPERTIES\s+OUTPUT_NAME ([\w${}.-]+)", text))
            made[os.path.dirname(path)] = "|".join(
                re.sub(r"\$\{\w+\}", r"\\w+", outputs.get(name, name)) for name in names)
    for path, text in texts.items():
        is_script = path == "run" or path.endswith((".py", ".sh")) and path != "tests/tidy/tidy.py"
        for match in PROGRAM.finditer(text) if is_script else ():
            joined = "/".join(re.findall(r'"([^"]+)"', match[1] or "")) or match[2]
            folder, name = os.path.split(re.sub(r"\{[^}]*\}", "x", joined))
            if joined not in made and not re.fullmatch(made.get(folder, ""), name):
                yield path, text.count("\n", 0, match.start()) + 1, f"no target makes {joined}"


def samples_that_failed():
    failed = 0
    sample = {"a/CMakeLists.txt": "add_executable(a_p m.c)\nset_target_properties(a_p PROPERTIES "
              "OUTPUT_NAME p)\nadd_executable(b_${n} m.c)\n",
              "a.py": 'os.path.join(build, "a", f"b_{n}")\nos.path.join(x.build, "a", "p")\n'
              'os.path.join(build, "a", "a_p")\n', "run": "build/dev/bench/q --x\n"}
    if [found[:2] for found in missing_programs(sample)] != [("a.py", 3), ("run", 1)]:
        print("missing_programs misses its sample")
        failed += 1
    sample = {"api/include/a.h": "mend_a { int b; }", "vmm/a.c": '"mend_a.b is"\n"mend_a.d is"\n'}
    if [number for _, number, _ in unknown_members(sample)] != [2]:
        print("unknown_members misses its sample")
        failed += 1
    for rule, path, text, expected in SAMPLES:
        found = [number for number, _ in rule(path, text)]
        if found != expected:
            print(f"{rule.__name__} flags lines {found}, not {expected}, of\n{text[:300]}")
            failed += 1
    unproven = [r.__name__ for r in RULES if not any(s[0] is r and s[3] for s in SAMPLES)]
    if unproven:
        print("rules without a sample they flag:", ", ".join(unproven))
    return failed + len(unproven) + structure.samples_that_failed(code_of, room_of, ROOMS)


def files_under(root):
    kinds = (".c", ".h", ".cpp", ".hpp", ".md", ".py", ".sh", ".cmake", ".json", ".yml",
             "CMakeLists.txt")
    for folder, folders, names in os.walk(root):
        at_top = folder == root
        folders[:] = sorted(f for f in folders
                            if f != ".git" and f != "__pycache__" and not (at_top and f == "build"))
        for name in sorted(names):
            if name.endswith(kinds) or (at_top and name == "run"):
                yield os.path.relpath(os.path.join(folder, name), root)


def main():
    if samples_that_failed():
        return 1
    root = sys.argv[1]
    texts, findings = {}, []
    for path in files_under(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            texts[path] = file.read()
        findings += [(path, *finding) for rule in RULES for finding in rule(path, texts[path])]
    tree = structure.Tree(texts, code_of, room_of, ROOMS)
    findings += structure.findings_in(tree)
    findings += unknown_members(texts)
    findings += missing_programs(texts)
    for path, number, message in findings:
        print(f"{path}:{number}: {message}")
    print(f"{len(SAMPLES) + len(structure.SAMPLES)} samples, {len(texts)} files, "
          f"{len(findings)} findings")
    return 0 if texts and not findings else 1


if __name__ == "__main__":
    sys.exit(main())
