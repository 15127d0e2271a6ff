#!/bin/sh
# Each public header compiles alone, and so does every use of its macros, in every language it
# promises, without one of the warnings that careful users turn on.
# Usage: headers.sh INCLUDE_DIR WORK_DIR
set -eu
include=$1 work=$2
vendors=$(dirname "$0")/../cplusplus/vendors # UMF's header, for the one of ours that needs it
both="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-align
    -Wcast-qual -Wformat=2 -Wredundant-decls -Werror"
c="$both -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wbad-function-cast"
cplusplus="$both -Wold-style-cast -Wzero-as-null-pointer-constant -Wuseless-cast
    -Wextra-semi -Wnon-virtual-dtor -Woverloaded-virtual"

# Each header twice, nothing before it, and its macros, in a file of its own.
rm -rf "$work"
mkdir -p "$work"
for header in "$include"/mend/*.h; do
    name=$(basename "$header")
    sed -n "1s|.*|#include <mend/$name>\n#include <mend/$name>|p
        s/^#define MEND_\([A-Z_]*\)_INIT\b.*/mend_\L\1 use_\1(void); mend_\1 use_\1(void)\E\n\
{ const mend_\L\1\E made = MEND_\1_INIT; return made; }/p
        s/^#define \(MEND_[A-Z]*_STREAM\)\b.*/mend_stream use_\1(void);\n\
mend_stream use_\1(void) { return \1; }\nint is_\1(mend_stream s);\n\
int is_\1(mend_stream s) { return s == \1; }/p" "$header" >"$work/${name%.h}.c"
done
printf '#include <mend/mend.hpp>\n#include <mend/mend.hpp>\n' >"$work/mend.cpp"

# compiles COMPILER LANGUAGE STANDARDS FILES WARNING...: a warning that this compiler does not know
# is none.
compiles()
{
    compiler=$1 language=$2 standards=$3 files=$4
    shift 4
    ! "$compiler" --version | grep -q clang || set -- "$@" -Wno-unknown-warning-option
    for standard in $standards; do
        # shellcheck disable=SC2086 # a pattern
        "$compiler" -x "$language" -std="$standard" "$@" -I "$include" -isystem "$vendors" \
            -fsyntax-only $files
    done
}

# The oldest and the newest standard of each: what both take, those between do.
compiles "$CC" c "c99 gnu17" "$work/*.c" $c
compiles "$CXX" c++ "c++11 c++20" "$work/*.c" $cplusplus
compiles "$CXX" c++ "c++17 c++20" "$work/mend.cpp" $cplusplus
# All that clang knows, but what says nothing of a header: padding, older standards, pointers of C,
# a class that has no source file, a switch with a default.
everything="-Weverything -Werror -Wno-padded -Wno-c++98-compat -Wno-c++98-compat-pedantic
    -Wno-unsafe-buffer-usage -Wno-weak-vtables -Wno-switch-enum"
printf '#include <mend/%s>\n' $(cd "$include/mend" && ls ./*.h) >"$work/all.cpp"
for clang in $(ls /usr/bin/clang++ /usr/bin/clang++-[0-9]* 2>/dev/null); do
    compiles "$clang" c++ "c++11 c++20" "$work/all.cpp" $everything
    compiles "$clang" c++ c++20 "$work/mend.cpp" $everything
done
uses=$(cat "$work"/*.c | grep -c ' return ')
echo "$uses uses of macros"
[ "$uses" -ge 10 ]
