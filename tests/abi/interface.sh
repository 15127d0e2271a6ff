#!/usr/bin/env bash
# The binary interface of the libraries against the one that is kept beside this file: what
# libabigail reads of their functions, structures and numbers in the debug information of a build by
# gcc for x86-64. Any difference fails, growth too. One that is meant is kept by --keep, in the same
# commit; a line of CHANGELOG.md tells of it.
#
#     interface.sh BUILD [--keep]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
headers=$here/../../api/include
build=$1

# read_interface LIBRARY HEADERS: internals are behind pointers, and left out.
read_interface()
{
    abidw --headers-dir "$2" --drop-private-types --drop-undefined-syms --exported-interfaces-only \
        --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names \
        --type-id-style hash "$1"
}

# differs KEPT LIBRARY HEADERS: says how.
differs()
{
    read_interface "$2" "$3" >"$work/read.abi"
    ! abidiff --harmless "$1" "$work/read.abi"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The guard sees: a member of another size, one more at the end, one of another name.
cp -r "$headers" "$work/include"
printf '#include "mend/mend.h"\n%s' \
    'mend_result mend_get_room(mend_pool *p, mend_stream s, mend_room *r)
     { return p == 0 && s == 0 && r == 0; }' >"$work/room.c"
plant()
{
    cp "$headers/mend/$1" "$work/include/mend/$1"
    [[ -z ${2-} ]] || sed -i "$2" "$work/include/mend/$1"
    ${CC:-cc} -g -shared -fPIC -I"$work/include" -o "$work/room.so" "$work/room.c"
}
plant mend.h
read_interface "$work/room.so" "$work/include" >"$work/room.abi"
for change in 's/uint64_t pinned_bytes; /uint32_t pinned_bytes; /' \
    's/^} mend_room;/    uint64_t later_bytes;\n&/' \
    's/uint64_t now_bytes; /uint64_t any_bytes; /'; do
    plant mend.h "$change"
    differs "$work/room.abi" "$work/room.so" "$work/include" >"$work/said" ||
        { echo "libabigail does not see: $change" && exit 1; }
    plant mend.h
    ! differs "$work/room.abi" "$work/room.so" "$work/include" >"$work/said" ||
        { echo "libabigail sees a change where there is none" && cat "$work/said" && exit 1; }
done

found=0
for library in mend mend_sim mend_hooks; do
    file=$(find "$build/api" -name "lib$library.so" | head -n 1)
    kept=$here/lib$library.abi
    if [[ ${2-} == --keep ]]; then
        read_interface "$file" "$headers" >"$kept"
    elif differs "$kept" "$file" "$headers"; then
        echo "lib$library.so is not as kept in tests/abi; if that is meant:"
        echo "    tests/abi/interface.sh $build --keep"
        found=1
    fi
done
exit $found
