#!/bin/sh
# The consumer is built by what pkg-config says of the installed tree; its programs run.
# Usage: pkg_config.sh WORK_DIR PKG_CONFIG_DIR
set -eu
work=$1 consumer=$(dirname "$0")/consumer
export PKG_CONFIG_PATH="$2" PKG_CONFIG_LIBDIR=/dev/null
rm -rf "$work"
mkdir -p "$work/programs"

# shared SOURCE LIBRARY..., and program SOURCE LIBRARY...: built shared and static.
shared()
{
    source=$1 name=$(basename "$1")
    shift
    case $source in *.cpp) compiler=$CXX ;; *) compiler=$CC ;; esac
    # shellcheck disable=SC2046 # the flags are words
    "$compiler" -o "$work/programs/$name.shared" "$consumer/$source" \
        $(pkg-config --cflags --libs "$@")
}
program()
{
    shared "$@"
    shift
    # glibc warns that a static program needs it at run time to open libcuda.so.1.
    # shellcheck disable=SC2046
    "$compiler" -static -o "$work/programs/$name.static" "$consumer/$source" \
        $(pkg-config --static --cflags --libs "$@") 2>"$work/linker" ||
        { cat "$work/linker"; exit 1; }
}

for library in mend mend_sim mend_hooks; do
    version=$(pkg-config --modversion $library)
    [ "$version" = "$MEND_VERSION" ] || { echo "$library.pc: version $version"; exit 1; }
    pkg-config --validate $library
done
program both.c mend mend_sim
program both.cpp mend mend_sim
program mend_alone.c mend
program sim_alone.c mend_sim
shared handler.c mend_hooks mend_sim

LD_LIBRARY_PATH=$(pkg-config --variable=libdir mend)
export LD_LIBRARY_PATH
"$(dirname "$0")/run_all.sh" "$work/programs" 9
