#!/bin/sh
# The consumer finds the installed tree as a CMake package; its programs run.
# Usage: cmake.sh WORK_DIR PREFIX
set -eu
work=$1 prefix=$2
rm -rf "$work"
cmake -S "$(dirname "$0")/consumer" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" \
    -DMEND_VERSION="$MEND_VERSION"
cmake --build "$work"
"$(dirname "$0")/run_all.sh" "$work/programs" 9
