#!/bin/sh
# The libraries without vmm/record/: they are built, linked into a program, and run.
# Usage: without_observers.sh WORK_DIR
set -eu
work=$1
rm -rf "$work"
cmake -S "$MEND_SOURCE" -B "$work" -G Ninja -DMEND_OBSERVERS=OFF -DMEND_WERROR=ON \
    -DBUILD_TESTING=OFF -DMEND_BUILD_TOOLS=OFF -DMEND_BUILD_BENCH=OFF -DMEND_BUILD_TORCH=OFF
ninja -C "$work" mend_static mend_sim_static
if ninja -C "$work" -t commands all | grep "vmm/record/"; then
    echo "The library has observers." >&2
    exit 1
fi
$CC -Wall -Werror -I "$MEND_SOURCE/api/include" "$(dirname "$0")/without_observers.c" \
    "$work/api/libmend.a" "$work/api/libmend_sim.a" -lpthread -ldl -lm -o "$work/program"
"$work/program"
