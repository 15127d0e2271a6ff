#!/usr/bin/env bash
# Replays the recordings on the GPU, one piece of each 64 KiB of a block written and compared,
# beside a load: with all of the device's memory, and filled down to 1.05 and 1.02 times what is
# live at the peak, so that it is the driver that refuses. For each recording the policies take
# turns, so that what there is can be compared wherever time ends. Running out of memory is a
# result; wrong bytes are a failure.
# Usage: replays.sh MEND RESULTS_JSONL [--quick]; MEND_REPLAY_FROM=9 begins with the tenth
set -u
mend=$1 results=$2
# By their rows, which is what takes the time: about 18 us a row and run beside the load, and two
# seconds to begin. With five policies the first nine take 380 s.
order=(gpt2-medium-pretrain detector-varboxes resnet50-multires fsdp-llama-2stream gnn-sampled
    gaussian-splats opt-rl-phases graphs-by-length frames-and-training sdxl-serve-mixed
    notebook-retries growing-tables convnext-multires rl-weight-sync moe-pretrain moe-serve-4bit
    accumulate-lengths longctx-prefix-cache video-diffusion models-one-process llama8b-serve-cat
    bert-large-varlen llama7b-lora-varlen llama8b-serve-slots)
policies=(mend expandable caching cuda-malloc-async cuda-malloc)
capacities=unlimited,1.05x,1.02x
content=(--content sample --scale fit)
limit_s=40
if [[ ${3-} == --quick ]]; then
    order=(gpt2-medium-pretrain)
    policies=(mend caching cuda-malloc-async)
    content=(--content sample --scale 4096)
fi
order=("${order[@]:${MEND_REPLAY_FROM:-0}}")
bad=0 rows=0
: >"$results"

# field ROW NAME [DIVISOR]: a figure of a row of JSON.
field()
{
    local value=-
    [[ ! $1 =~ \"$2\":\ ([0-9]+) ]] || value=$((BASH_REMATCH[1] / ${3:-1}))
    echo "$value"
}

# The rows since the last time, for people.
show_rows()
{
    local row new outcome
    mapfile -s "$rows" -t new <"$results"
    for row in "${new[@]}"; do
        outcome=completes
        [[ $row == *'"completed": true'* ]] ||
            outcome="out at event $(field "$row" failed_at_event)"
        echo "  capacity $(field "$row" capacity_bytes 1048576) MiB: $outcome," \
            "held $(field "$row" peak_reserved_bytes 1048576) MiB, driver" \
            "$(field "$row" driver_time_us 1000) ms, second half" \
            "$(field "$row" driver_time_second_half_us 1000), host waits" \
            "$(field "$row" host_syncs), refused $(field "$row" creates_refused)"
    done
    rows=$((rows + ${#new[@]}))
}

for trace in "${order[@]}"; do
    for policy in "${policies[@]}"; do
        status=0 began=$SECONDS some=$capacities limit=$limit_s
        # A call of the driver for each block, and each free waits: once is enough.
        [[ $policy != cuda-malloc ]] || some=1.05x limit=15
        timeout --foreground -k 2 "$limit" "$mend" replay --device cuda --allocator "$policy" \
            --capacity "$some" --fill-device --gpu-load "${content[@]}" --json \
            "bench/traces/$trace.csv.gz" >>"$results" || status=$?
        case $status in
        0) outcome="completes" ;;
        1) outcome="runs out of memory" ;;
        3) outcome="FAILED: wrong content or a broken rule" ;;
        124 | 137) outcome="stopped after $limit s" ;;
        *) outcome="FAILED: exit status $status" ;;
        esac
        [[ $outcome != FAILED* ]] || bad=1
        echo "$trace, $policy: $outcome, $((SECONDS - began)) s"
        show_rows
    done
done
exit "$bad"
