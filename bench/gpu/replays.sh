#!/usr/bin/env bash
# Replays the recordings on the GPU with every byte checked, beside a load, at 1.02 and 1.05 times
# what is live at the peak: Mend first, then models of PyTorch's allocators, then the driver's own.
# Running out of memory is a result; wrong bytes are a failure.
# Usage: replays.sh MEND RESULTS_JSONL [--quick]
set -u
mend=$1 results=$2
policies=(mend expandable caching cuda-malloc-async cuda-malloc)
scale=fit
limit_s=60
traces=(bench/traces/*.csv.gz)
if [[ ${3-} == --quick ]]; then
    policies=(mend caching)
    scale=4096
    traces=(bench/traces/gpt2*.csv.gz)
fi
bad=0
: >"$results"
for policy in "${policies[@]}"; do
    for trace in "${traces[@]}"; do
        status=0
        timeout --foreground -k 2 "$limit_s" "$mend" replay --device cuda --policy "$policy" \
            --capacity 1.02x,1.05x --content check --load --scale "$scale" --json "$trace" \
            >>"$results" || status=$?
        case $status in
        0) outcome="completes" ;;
        1) outcome="runs out of memory" ;;
        3) outcome="FAILED: wrong content or a broken rule" ;;
        124 | 137) outcome="stopped after $limit_s s" ;;
        *) outcome="FAILED: exit status $status" ;;
        esac
        [[ $outcome != FAILED* ]] || bad=1
        echo "$policy, ${trace##*/}: $outcome"
    done
done
exit "$bad"
