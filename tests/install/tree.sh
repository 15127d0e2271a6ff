#!/bin/sh
# Installs a build and moves what was installed: every other test looks at the moved tree.
# Usage: tree.sh BUILD_DIR TREE
set -eu
build=$1 tree=$2
rm -rf "$tree" "$tree.first"
cmake --install "$build" --prefix "$tree.first" >/dev/null
mv "$tree.first" "$tree"

# No installed text knows where it was built or installed first.
if grep -rIlF -e "$build" -e "$MEND_SOURCE" -e "$tree" "$tree"; then
    echo "These files contain a path of the machine they were built on." >&2
    exit 1
fi
[ -x "$tree/bin/libmend" ] || exit 0
"$tree/bin/libmend" version
[ "$(readlink "$tree/bin/mend")" = libmend ]
"$tree/bin/libmend" manual | cmp - "$tree/share/man/man1/libmend.1"
"$tree/bin/libmend" completion bash | cmp - "$tree/share/bash-completion/completions/libmend"
"$tree/bin/libmend" completion zsh | cmp - "$tree/share/zsh/site-functions/_libmend"
cmp "$MEND_SOURCE/bench/traces/detector-varboxes.csv.gz" \
    "$tree/share/mend/traces/detector-varboxes.csv.gz"
