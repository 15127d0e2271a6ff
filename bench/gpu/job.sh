#!/usr/bin/env bash
# The job of `./run gpu`, from an unpacked pack: asks and measures this machine's GPU in steps, in
# the order of their worth, each with a time limit. What a step found is in the archive before the
# next begins. It needs bash, grep, tar, gzip and the coreutils; PyTorch's programs also Python.
set -u
asked_from=$PWD
cd "$(dirname "$0")/../.." || exit 2

full_seconds=540 # for which the limits below are meant; with more or less time they change alike
seconds=$full_seconds
part=all
quick=()

usage()
{
    cat <<'END'
usage: ./run gpu [--part 1|2|3] [--seconds N] [--quick]

  --part N     1: captures, aliases, prices, memory, the contract  2: replays, bandwidth
               3: PyTorch's programs    (all: 1, 3 and 2, as far as time goes)
  --seconds N  for everything (540); a step that does not fit any more is not begun
  --quick      the sizes of a rehearsal: the figures mean nothing

Results go to the folder MEND_RESULTS, else OUT, else bench/results/DATE-GPU: gpu-partN.tar.gz with
everything, and beside it summary.txt, steps.jsonl and the two results that matter most.
Exit status: 0, 1 a step failed or was cut short, 2 bad usage or no GPU.
END
}

while (($#)); do
    case $1 in
    --part) part=${2-} ;;
    --seconds) seconds=${2-} ;;
    --quick)
        quick=(--quick)
        shift
        continue
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift $(($# > 1 ? 2 : 1))
done
if [[ ! $part =~ ^(1|2|3|all)$ || ! $seconds =~ ^[1-9][0-9]{0,5}$ ]]; then
    usage >&2
    exit 2
fi

deadline=$((SECONDS + seconds))
# A driver without persistence starts the GPU anew for each process, which takes seconds, unless
# a process holds its device open.
for device in /dev/nvidia[0-9]*; do
    # shellcheck disable=SC2034
    [[ ! -c $device ]] || exec {held}<"$device" || true
done
# Where containers have the driver, if the loader does not know.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    [[ ! -e $folder/libcuda.so.1 ]] ||
        export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
bin=$PWD/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# What the machine is, as far as it tells.
describe_machine()
{
    cat PACK
    uname -a
    echo "processors $(nproc)"
    head -n 3 /proc/meminfo
    cat /proc/driver/nvidia/version 2>/dev/null
    ! command -v nvidia-smi >/dev/null || timeout 20 nvidia-smi -q
    return 0
}

# The GPU, by its name in `libmend info`, fit for a file's name.
gpu_name()
{
    local line
    while read -r line; do
        if [[ $line =~ ^device\ +[0-9]+:\ *(.*)$ ]]; then
            line=${BASH_REMATCH[1]#NVIDIA }
            echo "${line//[^A-Za-z0-9.-]/_}"
            return
        fi
    done <"$work/device.txt"
    echo unknown
}

# Everything so far into the archive, which is whole at any time, and what is read first beside it.
keep()
{
    local file
    tar -C "$work" -czf "$results/.new.tar.gz" . && mv "$results/.new.tar.gz" \
        "$results/gpu-part$part.tar.gz"
    for file in summary.txt steps.jsonl captures.txt prices.costs replays.jsonl torch.jsonl; do
        [[ ! -f $work/$file ]] || cp "$work/$file" "$results/$file"
    done
}

# What a step said at its end.
last_words()
{
    local line
    [[ -f $work/$1.txt ]] || return 0
    line=$(tail -n 1 "$work/$1.txt")
    echo "${line:0:110}"
}

# note NAME OUTCOME SECONDS LIMIT: a line of the summary.
note()
{
    printf '%-10s %-20s %4s s of %-4s %s\n' "$@" "$(last_words "$1")" | tee -a "$work/summary.txt"
    printf '{"step":"%s","outcome":"%s","seconds":%d,"limit_s":%d}\n' "$@" >>"$work/steps.jsonl"
    keep
}

# step PART NAME LIMIT_S COMMAND...: what it prints is in NAME.txt, whatever becomes of it.
step()
{
    local of=$1 name=$2 limit=$3 left began=$SECONDS status=0 outcome="done"
    shift 3
    [[ $part == all || $part == "$of" ]] || return 0
    left=$((deadline - SECONDS))
    if ((left < 2)); then
        failed=1
        note "$name" "not begun: no time" 0 "$limit"
        return 0
    fi
    limit=$((limit * seconds / full_seconds))
    ((limit > 0)) || limit=1
    ((limit <= left)) || limit=$left
    timeout -k 5 "$limit" "$@" >"$work/$name.txt" 2>&1 </dev/null || status=$?
    case $status in
    0) ;;
    124 | 137) outcome="stopped at its limit" ;;
    *) ((status < 128)) && outcome="exit status $status" || outcome="signal $((status - 128))" ;;
    esac
    ((status == 0)) || failed=1
    note "$name" "$outcome" $((SECONDS - began)) "$limit"
}

# probe PART NAME LIMIT_S [OPTION...]: its own time ends before its limit, so that it ends in order.
probe()
{
    local of=$1 name=$2 limit=$3 own
    shift 3
    own=$((limit * seconds * 3 / 4 / full_seconds))
    ((own > 0)) || own=1
    step "$of" "$name" "$limit" "$bin/mend-probe" "$name" --seconds "$own" \
        --json "$work/$name.jsonl" "${quick[@]}" "$@"
}

describe_machine >"$work/machine.txt" 2>&1
usable=yes
timeout -k 5 60 "$bin/libmend" info --device cuda >"$work/device.txt" 2>&1 || usable=no
results=${MEND_RESULTS:-${OUT:-bench/results/$(date +%F)-$(gpu_name)}}
cd "$asked_from" || exit 2
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 2
cd - >/dev/null || exit 2
cat "$work/device.txt" "$work/machine.txt" >"$work/summary.txt"
if [[ $usable == no ]]; then
    # Why, as far as the machine tells: nobody can ask it later.
    {
        echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}"
        ls -l /dev/nvidia* /usr/local/nvidia/lib64/libcuda.so*
        ldconfig -p | grep -E 'libcuda|ptxjit'
    } >>"$work/summary.txt" 2>&1
    keep
    cat "$work/device.txt" >&2
    echo "There is no GPU here that Mend can use." >&2
    exit 2
fi
keep

# The limits of a part are less than the time together, so that the last step has its own.
price_seconds=$((40 * seconds / full_seconds))
((price_seconds > 0 && ${#quick[@]} == 0)) || price_seconds=1
torch_seconds=$((510 * seconds / full_seconds))
probe 1 captures 45
probe 1 aliases 45
probe 1 entries 20
step 1 prices 65 "$bin/libmend" info --device cuda --prices --seconds "$price_seconds" \
    -o "$work/prices.costs" --json "$work/prices.json"
probe 1 mappings 100 -o "$work/mappings.costs"
step 1 contract 150 bench/gpu/contract.sh "$bin/contract_tests" "$work/contract.jsonl"
probe 1 memory 60
probe 1 storm 30
probe 1 queue 15
step 3 torch 530 bench/gpu/torch.sh "$work/torch.jsonl" "$torch_seconds" "${quick[@]}"
step 2 replays 420 bench/gpu/replays.sh "$bin/libmend" "$work/replays.jsonl" "${quick[@]}"
probe 2 bandwidth 80
probe 2 repeat 15 # last: the device may be lost

# What is wrong, once more where it is seen.
{
    cd "$work" && grep -HE 'WRONG|FAILED|content error|failed, not as believed' ./*.txt |
        grep -v '^./summary.txt' | head -n 40
} >"$work/wrong.txt"
[[ ! -s $work/wrong.txt ]] || tee -a "$work/summary.txt" <"$work/wrong.txt"
keep
for table in torch replays; do # what a caller who keeps only the end of the output is after
    [[ ! -f $work/$table.txt ]] || tail -n 80 "$work/$table.txt"
done
echo "The results are in $results."
exit "$failed"
