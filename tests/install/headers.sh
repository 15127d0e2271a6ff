#!/bin/sh
# Each public header compiles alone, without a warning, in every language it promises.
# Usage: headers.sh INCLUDE_DIR
set -eu
include=$1 count=0

# compiles COMPILER LANGUAGE STANDARD HEADER: twice included, nothing before it.
compiles()
{
    printf '#include <%s>\n#include <%s>\n' "$4" "$4" |
        "$1" -x "$2" -std="$3" -Wall -Wextra -pedantic -Werror -I "$include" -fsyntax-only -
    count=$((count + 1))
}

for header in $(cd "$include" && find mend -name '*.h'); do
    for standard in c99 c11 c17; do
        compiles "$CC" c $standard "$header"
    done
    for standard in c++11 c++17 c++20; do
        compiles "$CXX" c++ $standard "$header"
    done
done
echo "$count compilations"
[ "$count" -ge 12 ]
