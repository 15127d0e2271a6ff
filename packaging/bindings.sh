#!/bin/sh
# Builds and runs the programs in Rust and Go against installed libraries, with what bindgen and cgo
# make of the headers.
# Usage: bindings.sh PREFIX WORK_DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PKG_CONFIG_PATH=$(dirname "$(find "$1" -name mend_sim.pc)")
libraries=$(dirname "$PKG_CONFIG_PATH") work=$2
export PKG_CONFIG_PATH LD_LIBRARY_PATH="$libraries" MEND_BINDINGS="$work" GO111MODULE=off
mkdir -p "$work"
bindgen "$1/include/mend/mend_sim.h" --allowlist-function 'mend_.*' -o "$work/mend.rs" \
    -- -I"$1/include"
rustc --edition 2021 "$here/rust/main.rs" -o "$work/in_rust" -L "$libraries" -l mend -l mend_sim
(cd "$here/go" && go build -o "$work/in_go" main.go)
for program in in_rust in_go; do
    printed=$("$work/$program")
    echo "$program: $printed"
    [ "$printed" = MEND_OK ]
done
