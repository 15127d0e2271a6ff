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
sort >"$work/expected" <<END
./usr/include/mend/mend.h
./usr/include/mend/mend.hpp
./usr/include/mend/mend_cuda.hpp
./usr/include/mend/mend_devices.h
./usr/include/mend/mend_groups.h
./usr/include/mend/mend_hooks.h
./usr/include/mend/mend_host.h
./usr/include/mend/mend_range.h
./usr/include/mend/mend_range.hpp
./usr/include/mend/mend_results.h
./usr/include/mend/mend_share.h
./usr/include/mend/mend_sim.h
./usr/include/mend/mend_sleep.h
./usr/include/mend/mend_sleep.hpp
./usr/include/mend/mend_stats.h
./usr/include/mend/mend_types.h
./usr/include/mend/mend_views.h
./usr/$libdir/libmend.a
./usr/$libdir/libmend.so
./usr/$libdir/libmend.so.${MEND_VERSION%%.*}
./usr/$libdir/libmend.so.$MEND_VERSION
./usr/$libdir/libmend_hooks.so
./usr/$libdir/libmend_hooks.so.${MEND_VERSION%%.*}
./usr/$libdir/libmend_hooks.so.$MEND_VERSION
./usr/$libdir/libmend_sim.a
./usr/$libdir/libmend_sim.so
./usr/$libdir/libmend_sim.so.${MEND_VERSION%%.*}
./usr/$libdir/libmend_sim.so.$MEND_VERSION
./usr/$libdir/cmake/mend/mend-config-version.cmake
./usr/$libdir/cmake/mend/mend-config.cmake
./usr/$libdir/cmake/mend/mend-targets-release.cmake
./usr/$libdir/cmake/mend/mend-targets.cmake
./usr/$libdir/pkgconfig/mend.pc
./usr/$libdir/pkgconfig/mend_hooks.pc
./usr/$libdir/pkgconfig/mend_sim.pc
./usr/share/doc/mend/LICENSE
END
diff "$work/expected" "$work/installed"

here=$(dirname "$0")
"$here/cmake.sh" "$work/by_cmake" "$work/stage/usr"
"$here/pkg_config.sh" "$work/by_pkg_config" "$work/stage/usr/$libdir/pkgconfig"
