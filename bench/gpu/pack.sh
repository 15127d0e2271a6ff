#!/usr/bin/env bash
# Makes the archive for a GPU machine that has a shell and nothing else: programs, libraries, the
# Python package, recordings and scripts, at most 60 MiB. Also leaves it unpacked, in its folder.
# Usage: pack.sh BUILD OUT [HEADERS...], from a build with the targets of the preset gpu:
# OUT/mend-gpu.tar.gz. With Mend's class for each PyTorch whose headers cmake/torch_headers.py has
# put into a folder HEADERS: the GPU machine may have no compiler.
set -euo pipefail
most_bytes=$((60 << 20))
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."

pack=$out/mend-gpu
rm -rf "$pack" "$out/mend-gpu.tar.gz"
mkdir -p "$pack/bin" "$pack/lib" "$pack/bench"
cp "$build/api/cli/libmend" "$build/bench/mend-probe" "$build/tests/contract_tests" "$pack/bin/"
cp -P "$build"/api/libmend.so* "$build"/api/libmend_sim.so* "$pack/lib/"
cp "$build"/api/hooks/libmend_*.so "$pack/lib/"
cmake --install "$build" --component python --prefix "$pack/python" >/dev/null
classes=()
for headers in "${@:3}"; do
    classes+=(--headers "$headers")
done
if ((${#classes[@]})); then
    python3 -B cmake/wheel.py --tree "$pack/python" "${classes[@]}"
fi
cp run LICENSE "$pack/"
cp -r bench/gpu bench/torch bench/traces "$pack/bench/"
find "$pack" -name __pycache__ -prune -exec rm -rf {} +
! command -v strip >/dev/null || strip --strip-debug "$pack"/bin/*

{
    echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)"
    echo "PyTorch classes: $(cd "$pack/python/libmend/torch" && echo prebuilt/*.so)"
    echo "changed files $(git status --porcelain 2>/dev/null | grep -vc '^??' || true)"
    echo "made $(date -u +%FT%TZ) on $(uname -m)"
    ldd --version 2>/dev/null | sed -n 1p
} >"$pack/PACK"

tar -C "$out" -czf "$out/mend-gpu.tar.gz" mend-gpu
size_bytes=$(stat -c %s "$out/mend-gpu.tar.gz")
echo "$out/mend-gpu.tar.gz: $((size_bytes >> 10)) KiB"
if ((size_bytes > most_bytes)); then
    echo "The archive is larger than $((most_bytes >> 20)) MiB." >&2
    exit 1
fi
