#!/bin/sh
# Runs every program in a folder, and counts them: each prints the version it runs with. Those named
# .shared load libmend or libmend_sim, those named .static do not.
# Usage: run_all.sh FOLDER COUNT
set -eu
folder=$1 expected=$2 count=0
for program in "$folder"/*; do
    said=$("$program") || { echo "$program failed: $said"; exit 1; }
    echo "$(basename "$program"): $said"
    [ "$said" = "Mend $MEND_VERSION" ] || { echo "Expected: Mend $MEND_VERSION"; exit 1; }
    libraries=$(readelf -d "$program" | grep -c 'NEEDED.*libmend') || true
    case $program,$libraries in
    *.shared,[1-9] | *.static,0) ;;
    *) echo "It loads $libraries libraries of Mend."; exit 1 ;;
    esac
    count=$((count + 1))
done
[ "$count" -eq "$expected" ] || { echo "$count programs instead of $expected"; exit 1; }
