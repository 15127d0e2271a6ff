#!/usr/bin/env bash
# PyTorch's programs under its own allocators and Mend, where MEND_PYTHON (else python3) has a
# PyTorch that can use this GPU: the race of record_stream, small programs that show one thing each
# (90 s together), and then what each allocator makes of one limit (MEND_TORCH_MEMORY, else 8GiB),
# as far as time goes.
# Usage: torch.sh RESULTS_JSONL SECONDS [--quick]
set -u
results=$1 seconds=$2 quick=${3-} began=$SECONDS
python=${MEND_PYTHON:-python3}
fixed=(--workloads '' --rounds 100) fit=(--memory "${MEND_TORCH_MEMORY:-8GiB}" --at-once 3)
[[ $quick != --quick ]] || fixed+=(--rounds 4)
[[ $quick != --quick ]] || fit+=(--steps 4 --search-steps 2)
: >"$results"
if ! command -v "$python" >/dev/null; then
    echo "left out: there is no $python"
    exit 0
fi
if ! timeout --foreground 120 "$python" -c 'import torch; torch.ones(1, device="cuda")'; then
    echo "left out: $python has no PyTorch that can use this GPU"
    exit 0
fi
export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONDONTWRITEBYTECODE=1
bad=0
"$python" bench/torch/fixed.py --json "$results" "${fixed[@]}" || bad=1
# small ALLOCATOR PROGRAM [OPTION...]: each in a process of its own, within a tenth of the time.
small()
{
    MEND_BENCH_ALLOCATOR=$1 timeout --foreground "$((seconds / 10 + 5))" \
        "$python" bench/torch/small.py "${@:2}" | tee -a "$results"
    ((PIPESTATUS[0] == 0)) || bad=1
}
if [[ $quick != --quick ]]; then
    small mend fuzz --seconds 10 --limit 4GiB
    for allocator in native expandable mend; do
        small "$allocator" near
        small "$allocator" held --limit 8GiB
    done
    small expandable sleep
    small mend sleep
fi
left=$((seconds - (SECONDS - began) - 15)) # one program that has begun may still end
((left > 5)) || left=5
"$python" bench/torch/fit.py --json "$results" --seconds "$left" "${fit[@]}" || bad=1
exit "$bad"
