#!/usr/bin/env bash
# Runs the tests of the driver's contract: all in one process first, and then each that did not pass
# there in a process of its own, so that one that dies, hangs or poisons the device takes no other
# along. Suites whose names end in _observed ask what no document settles: they are reported and
# fail nothing.
# Usage: contract.sh CONTRACT_TESTS RESULTS_JSONL; MEND_TEST_DEVICE is cuda unless it is set
set -u
tests=$1 results=$2
limit_s=20 # of one test, and of all together
export MEND_TEST_DEVICE=${MEND_TEST_DEVICE:-cuda}
declare -A count=([passed]=0 [failed]=0 [crashed]=0 ["timed out"]=0) together=()
observed=0 otherwise=0 bad=0

run_one()
{
    local name=$1 is_observed=false status=0 result output
    if [[ ! ${together[$name]-} ]]; then
        output=$(timeout --foreground -k 2 "$limit_s" "$tests" --gtest_filter="$name" 2>&1) ||
            status=$?
    fi
    case $status in
    0) result=passed ;;
    124 | 137) result="timed out" ;;
    *) ((status > 128)) && result=crashed || result=failed ;;
    esac
    count[$result]=$((${count[$result]} + 1))
    [[ ${name%%.*} != *_observed ]] || is_observed=true
    printf '{"test":"%s","result":"%s","status":%d,"observed":%s}\n' \
        "$name" "$result" "$status" "$is_observed" >>"$results"
    if [[ $is_observed == true ]]; then
        observed=$((observed + 1))
        [[ $result == passed ]] || otherwise=$((otherwise + 1))
    elif [[ $result != passed ]]; then
        bad=$((bad + 1))
    fi
    [[ $result != passed ]] || return 0
    [[ $is_observed == true ]] && echo "observed otherwise ($result): $name" ||
        echo "FAILED ($result): $name"
    grep -vE '^(\[|Note|Running|$)' <<<"$output" | head -n 40
}

: >"$results"
passes='^\[ +OK \] ([^ ]+) '
while IFS= read -r line; do
    [[ ! $line =~ $passes ]] || together[${BASH_REMATCH[1]}]=yes
done < <(timeout --foreground -k 2 "$limit_s" "$tests" 2>&1)
suite=
while IFS= read -r line; do
    case $line in
    "  "*)
        line=${line#  }
        run_one "$suite${line%% *}"
        ;;
    *.) suite=$line ;;
    esac
done < <("$tests" --gtest_list_tests)

all=$((count[passed] + count[failed] + count[crashed] + count["timed out"]))
echo "$all tests: ${count[passed]} passed, ${count[failed]} failed, ${count[crashed]} crashed," \
    "${count["timed out"]} timed out; of $observed observed $otherwise are not as believed"
((all > 0 && bad == 0))
