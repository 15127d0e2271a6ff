#!/bin/sh
# With tests, tools and benchmarks off, a C compiler is all that a build needs, and it makes the
# libraries and nothing else. They are installed as a distribution would: for /usr, into a staging
# folder, the libraries in the architecture's folder; and found there. Without an optimiser, which
# would take most of the time: the build that is tested has one.
# Usage: libraries_alone.sh WORK_DIR
set -eu
work=$1
libdir=lib${MEND_ARCHITECTURE:+/$MEND_ARCHITECTURE}
rm -rf "$work"
cmake -S "$MEND_SOURCE" -B "$work/build" \
    -DBUILD_TESTING=OFF -DMEND_BUILD_TOOLS=OFF -DMEND_BUILD_BENCH=OFF -DMEND_BUILD_TORCH=OFF \
    -DCMAKE_CXX_COMPILER=/none -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O0 -DNDEBUG" \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="$libdir"
cmake --build "$work/build"
DESTDIR=$work/stage cmake --install "$work/build"

(cd "$work/stage" && find . -type f -o -type l) | sort >"$work/installed"
{
    for header in mend.h mend.hpp mend_cuda.hpp mend_devices.h mend_groups.h mend_hooks.h \
        mend_host.h mend_host.hpp mend_range.h mend_range.hpp mend_results.h mend_rmm.hpp \
        mend_share.h mend_share.hpp mend_sim.h mend_sleep.h mend_sleep.hpp mend_stats.h \
        mend_tensorrt.hpp mend_types.h mend_umf.h mend_views.h mend_views.hpp; do
        echo "./usr/include/mend/$header"
    done
    for library in mend mend_hooks mend_sim; do
        for suffix in "" ".${MEND_VERSION%%.*}" ".$MEND_VERSION"; do
            echo "./usr/$libdir/lib$library.so$suffix"
        done
        echo "./usr/$libdir/pkgconfig/$library.pc"
    done
    for file in libmend.a libmend_sim.a cmake/mend/mend-config-version.cmake \
        cmake/mend/mend-config.cmake cmake/mend/mend-targets-release.cmake \
        cmake/mend/mend-targets.cmake; do
        echo "./usr/$libdir/$file"
    done
    echo ./usr/share/doc/mend/LICENSE
} | sort >"$work/expected"
diff "$work/expected" "$work/installed"

here=$(dirname "$0")
"$here/cmake.sh" "$work/by_cmake" "$work/stage/usr"
"$here/pkg_config.sh" "$work/by_pkg_config" "$work/stage/usr/$libdir/pkgconfig"
