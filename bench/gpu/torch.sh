#!/usr/bin/env bash
# PyTorch's programs at fixed sizes under its own allocators and Mend, where MEND_PYTHON (else
# python3) has a PyTorch that can use this GPU.
# Usage: torch.sh RESULTS_JSONL [--quick]
set -u
results=$1
python=${MEND_PYTHON:-python3}
options=()
[[ ${2-} != --quick ]] || options=(--steps 3 --warm-up 1 --rounds 4)
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
exec "$python" bench/torch/fixed.py --json "$results" "${options[@]}"
