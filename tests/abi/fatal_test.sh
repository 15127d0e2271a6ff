#!/bin/sh
# Every result of which cuda.h says that the process must be terminated, or that the context cannot
# be used any more, is one that mend_status_is_fatal knows.
# Usage: fatal_test.sh CUDA_H FATAL_CODES
set -eu
cuda_h=$1
known=$("$2")

# The comment before each code, whose words may stand on two lines, then "CUDA_ERROR_NAME = NUMBER".
fatal=$(awk '
    /\/\*\*/ { comment = "" }
    { comment = comment " " $0; gsub(/[ *]+/, " ", comment) }
    /^ *CUDA_ERROR_[A-Z_]+ *= *[0-9]+/ {
        ends = comment ~ /must be terminated|cannot be used anymore/
        name = $1
        sub(/,.*/, "")
        if (ends) { print name "=" $NF }
    }' "$cuda_h")
test -n "$fatal"
missing=
for code in $fatal; do
    printf '%s\n' "$known" | grep -qx "${code#*=}" || missing="$missing $code"
done
if [ -n "$missing" ]; then
    echo "cuda.h calls these fatal, mend_status_is_fatal does not:$missing"
    exit 1
fi
echo "compared: $(echo "$fatal" | wc -w) codes"
