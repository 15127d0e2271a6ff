#!/bin/sh
# A project that carries Mend's sources with it adds them as a subdirectory: it gets the libraries
# under the same names, and no tests, tools or benchmarks. By one who knows nothing but cmake: of no
# build type, by CMake's own generator. What it has built is then installed as a distribution would:
# for /usr, into a staging folder, the libraries in the architecture's folder; and found there.
# Usage: subproject.sh WORK_DIR
set -eu
work=$1
libdir=lib${MEND_ARCHITECTURE:+/$MEND_ARCHITECTURE}
here=$(dirname "$0")
rm -rf "$work"
(unset CMAKE_GENERATOR
    cmake -S "$here/consumer" -B "$work/build" -DMEND_SOURCE="$MEND_SOURCE" -DMEND_WERROR=ON \
        -DMEND_INSTALL=ON -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="$libdir"
    cmake --build "$work/build")
"$here/run_all.sh" "$work/build/programs" 9
if find "$work" -name 'unit_tests' -o -name 'libmend' -type f -o -name 'mend_bench*' | grep .; then
    echo "A subproject builds more than the libraries." >&2
    exit 1
fi

DESTDIR=$work/stage cmake --install "$work/build"
(cd "$work/stage" && find . -type f -o -type l) | sort >"$work/installed"
{
    for header in mend.h mend.hpp mend_cuda.hpp mend_devices.h mend_graph_pools.h mend_hooks.h \
        mend_range.h mend_range.hpp mend_results.h mend_rmm.hpp \
        mend_share.h mend_share.hpp mend_sim.h mend_sleep.h mend_sleep.hpp mend_stats.h \
        mend_tensorrt.hpp mend_types.h mend_umf.h mend_inspect.h mend_inspect.hpp; do
        echo "./usr/include/mend/$header"
    done
    for library in mend mend_hooks mend_sim; do
        for suffix in "" ".${MEND_VERSION%%.*}" ".$MEND_VERSION"; do
            echo "./usr/$libdir/lib$library.so$suffix"
        done
        echo "./usr/$libdir/pkgconfig/$library.pc"
    done
    for file in libmend.a libmend_sim.a cmake/mend/mend-config-version.cmake \
        cmake/mend/mend-config.cmake cmake/mend/mend-targets-noconfig.cmake \
        cmake/mend/mend-targets.cmake; do
        echo "./usr/$libdir/$file"
    done
    echo ./usr/share/doc/mend/LICENSE
} | sort >"$work/expected"
diff "$work/expected" "$work/installed"

"$here/cmake.sh" "$work/by_cmake" "$work/stage/usr"
"$here/pkg_config.sh" "$work/by_pkg_config" "$work/stage/usr/$libdir/pkgconfig"
