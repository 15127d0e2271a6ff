#!/bin/sh
# A project that carries Mend's sources with it adds them as a subdirectory: it gets the libraries
# under the same names, and no tests, tools or benchmarks. By one who knows nothing but cmake: of no
# build type, by CMake's own generator.
# Usage: subproject.sh WORK_DIR
set -eu
work=$1
unset CMAKE_GENERATOR
rm -rf "$work"
cmake -S "$(dirname "$0")/consumer" -B "$work" -DMEND_SOURCE="$MEND_SOURCE" -DMEND_WERROR=ON
cmake --build "$work"
"$(dirname "$0")/run_all.sh" "$work/programs" 9
if find "$work" -name 'unit_tests' -o -name 'mend_program' -o -name 'mend_bench*' | grep .; then
    echo "A subproject builds more than the libraries." >&2
    exit 1
fi
