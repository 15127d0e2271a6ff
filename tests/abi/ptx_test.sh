#!/bin/sh
# Assembles the program of lab/driver/kernels.c for every GPU this ptxas knows of the kinds below.
# Usage: ptx_test.sh PTXAS PTX_TEXT
set -eu
ptxas=$1
ptx_text=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$ptx_text" >"$folder/mend.ptx"

known=$("$ptxas" --help)
assembled=
for architecture in sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120; do
    case $known in
    *"'$architecture'"*)
        "$ptxas" --warning-as-error -arch="$architecture" -o "$folder/mend.cubin" \
            "$folder/mend.ptx"
        assembled="$assembled $architecture"
        ;;
    esac
done
test -n "$assembled"
echo "assembled for$assembled"
