/*
 * Bytes as a text of the command line: an amount of memory, a capacity, a workload, the options of
 * `libmend replay`. Each is taken within its bounds or refused.
 */
#include <string.h>

#include "base/error.h"
#include "lab/replay/arguments.h"
#include "lab/support/capacity.h"
#include "lab/workloads/workload.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_EVENTS = 20000, MOST_WORDS = 32 };

static void check_amounts(const char *text)
{
    uint64_t bytes = 77;
    char shown[64];
    if (mend_parse_bytes(text, &bytes)) {
        FUZZ_CHECK(bytes < UINT64_C(1) << 62, "%s", text);
        mend_format_bytes(bytes, shown, sizeof(shown));
    } else {
        FUZZ_CHECK(bytes == 77, "%s", text);
    }
    mend_capacity capacity = {.kind = MEND_CAPACITY_FIT, .bytes = 77};
    if (!mend_parse_capacity(text, &capacity)) {
        FUZZ_CHECK(capacity.kind == MEND_CAPACITY_FIT && capacity.bytes == 77, "%s", text);
    } else if (capacity.kind == MEND_CAPACITY_FACTOR) {
        FUZZ_CHECK(capacity.factor > 0 && capacity.factor <= 1e6, "%s", text);
    } else if (capacity.kind == MEND_CAPACITY_BYTES) {
        FUZZ_CHECK(capacity.bytes > 0 && capacity.bytes < UINT64_C(1) << 62, "%s", text);
    }
}

static void check_workload(const char *text)
{
    mend_trace *trace = NULL;
    mend_result result = mend_workload_generate_within(text, 0, MOST_EVENTS, &trace);
    FUZZ_CHECK((result == MEND_OK) == (trace != NULL), "%s", mend_result_name(result));
    if (result != MEND_OK) {
        fuzz_check_refusal(result, "");
        return;
    }
    fuzz_check_trace(trace);
    mend_trace_destroy(trace);
}

/* The words are cut at blanks, as a shell does. No file is read: a word names none. */
static void check_options(char *text)
{
    char name[] = "replay";
    char *words[MOST_WORDS + 2] = {name};
    int count = 1;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL && count <= MOST_WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        if (strncmp(word, "--co", 4) != 0 || strncmp(word, "--con", 5) == 0) {
            words[count++] = word;
        }
    }
    static mend_replay_arguments arguments;
    int status;
    if (!mend_replay_arguments_read(count, words, &arguments, &status)) {
        return;
    }
    FUZZ_CHECK(arguments.policy_count >= 1 && arguments.policy_count <= MEND_REPLAY_MAX_LIST, " ");
    FUZZ_CHECK(arguments.capacity_count >= 1 && arguments.capacity_count <= MEND_REPLAY_MAX_LIST,
               " ");
    FUZZ_CHECK(arguments.scale > 0 && arguments.scale <= 1e12, "%g", arguments.scale);
    FUZZ_CHECK(arguments.options.threads >= 1 && arguments.options.threads <= 1024, " ");
    FUZZ_CHECK(arguments.options.lag_events <= 1000000000, " ");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    check_amounts(text);
    check_workload(text);
    check_options(text);
    free(text);
    return 0;
}
