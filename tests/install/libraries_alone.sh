#!/bin/sh
# With tests, tools and benchmarks off, a C compiler is all that a build needs, and it makes the
# libraries and nothing else. It is planned here; install.subproject runs the same.
# Usage: libraries_alone.sh WORK_DIR
set -eu
work=$1
rm -rf "$work"
cmake -S "$MEND_SOURCE" -B "$work" -G Ninja \
    -DBUILD_TESTING=OFF -DMEND_BUILD_TOOLS=OFF -DMEND_BUILD_BENCH=OFF -DMEND_BUILD_TORCH=OFF \
    -DCMAKE_CXX_COMPILER=/none -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON
ninja -C "$work" -t commands all >"$work/plan"
grep -oE -- '(-o|qc) [^ ]+' "$work/plan" | grep -v '\.o$' | sed 's/.* //' | sort >"$work/linked"
diff - "$work/linked" <<END
api/hooks/libmend_hooks.so.$MEND_VERSION
api/libmend.a
api/libmend.so.$MEND_VERSION
api/libmend_sim.a
api/libmend_sim.so.$MEND_VERSION
api/simulate/libmend_cuda_standin.so
api/simulate/libmend_nvml_standin.so
END
