#!/bin/sh
# Each public header compiles alone, and so does every use of its macros, in every language it
# promises, without one of the warnings that careful users turn on.
# Usage: headers.sh INCLUDE_DIR
set -eu
include=$1 count=0 uses=0
both="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-align
    -Wcast-qual -Wformat=2 -Wredundant-decls -Werror"
c="$both -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wbad-function-cast"
cplusplus="$both -Wold-style-cast -Wzero-as-null-pointer-constant -Wuseless-cast
    -Wextra-semi -Wnon-virtual-dtor -Woverloaded-virtual"

# program HEADER: includes it twice, nothing before it, and uses its macros.
program()
{
    printf '#include <%s>\n#include <%s>\n' "$1" "$1"
    for name in $(sed -n 's/^#define MEND_\([A-Z_]*\)_INIT\b.*/\1/p' "$include/$1"); do
        type=mend_$(echo "$name" | tr '[:upper:]' '[:lower:]')
        echo "$type use_$type(void); $type use_$type(void)"
        echo "{ const $type made = MEND_${name}_INIT; return made; }"
    done
    for name in $(sed -n 's/^#define \(MEND_[A-Z]*_STREAM\)\b.*/\1/p' "$include/$1"); do
        echo "mend_stream use_$name(void); mend_stream use_$name(void) { return $name; }"
        echo "int is_$name(mend_stream s); int is_$name(mend_stream s) { return s == $name; }"
    done
}

# compiles COMPILER LANGUAGE STANDARD HEADER WARNING...: a warning that this compiler does not know
# is none.
compiles()
{
    compiler=$1 language=$2 standard=$3 header=$4
    shift 4
    program "$header" | "$compiler" -x "$language" -std="$standard" "$@" -I "$include" \
        -fsyntax-only $("$compiler" --version | grep -q clang && echo -Wno-unknown-warning-option) -
    count=$((count + 1))
}

for header in $(cd "$include" && find mend -name '*.h'); do
    uses=$((uses + $(program "$header" | grep -c ' return ' || true)))
    for standard in c99 c11 c17 gnu17; do
        compiles "$CC" c $standard "$header" $c
    done
    for standard in c++11 c++14 c++17 c++20; do
        compiles "$CXX" c++ $standard "$header" $cplusplus
    done
done
for standard in c++17 c++20; do
    compiles "$CXX" c++ $standard mend/mend.hpp $cplusplus
done
echo "$count compilations, $uses uses of macros"
[ "$count" -ge 16 ] && [ "$uses" -ge 10 ]
