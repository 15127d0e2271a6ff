#!/bin/sh
# fuzz.sh PROGRAM NAME [options of libFuzzer]: fuzzes a target from its corpus on. New inputs and
# what is found go to the folder fuzz-NAME beside the program, never to the corpus.
set -eu
program=$1 name=$2
shift 2
here=$(dirname "$0")
work=$(dirname "$program")/fuzz-$name
rm -rf "$work/new"
mkdir -p "$work/new"
dictionary=
[ ! -f "$here/$name.dict" ] || dictionary=-dict=$here/$name.dict
# A hostile file may neither take much memory nor much time.
exec "$program" -artifact_prefix="$work/" -rss_limit_mb=1024 -malloc_limit_mb=512 -timeout=60 \
    -max_len=8192 -close_fd_mask=1 -print_final_stats=1 $dictionary "$@" \
    "$work/new" "$here/corpus/$name"
