#!/bin/sh
# Installs a build, then builds and runs the consumer by the CMake package and by pkg-config.
# Usage: install_test.sh BUILD_DIR PREFIX C_COMPILER GENERATOR
set -eu
build=$1 prefix=$2 compiler=$3 generator=$4
consumer=$(dirname "$0")/consumer
rm -rf "$prefix"
cmake --install "$build" --prefix "$prefix/first" >/dev/null
# An installed tree may be moved.
mv "$prefix/first" "$prefix/installed"

cmake -S "$consumer" -B "$prefix/consumer" -G "$generator" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$prefix/installed"
cmake --build "$prefix/consumer"
"$prefix/consumer/shared"
"$prefix/consumer/static"

libraries=$(dirname "$(find "$prefix/installed" -name libmend.so)")
export PKG_CONFIG_PATH="$libraries/pkgconfig"
flags=$(pkg-config --cflags --libs mend mend_sim)
"$compiler" -o "$prefix/by_pkg_config" "$consumer/main.c" $flags
LD_LIBRARY_PATH="$libraries" "$prefix/by_pkg_config"
