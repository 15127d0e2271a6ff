#include "lab/replay/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const mend_replay_lists[MEND_REPLAY_LISTS] = {"h200", "reference", "kvcached-a100"};

const char *mend_replay_chosen_costs(const mend_replay_options *options)
{
    return options->costs_name != NULL ? options->costs_name : mend_replay_lists[0];
}

size_t mend_replay_compared_list(const mend_replay_options *options)
{
    return strcmp(mend_replay_chosen_costs(options), mend_replay_lists[1]) == 0 ? 0 : 1;
}

const char *mend_replay_compared_costs(const mend_replay_options *options)
{
    return mend_replay_lists[mend_replay_compared_list(options)];
}

uint64_t mend_replay_sum_calls(const mend_replay_calls *calls)
{
    uint64_t sum = 0;
#define X(call) sum += calls->call##_calls;
    MEND_REPLAY_CALLS(X)
#undef X
    return sum;
}

void mend_replay_result_clear(mend_replay_result *result)
{
    free(result->samples);
    free(result->explanation);
    *result = (mend_replay_result){0};
}

void mend_replay_note_problem(mend_replay_result *result, const char *format, ...)
{
    if (result->problem[0] != 0) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->problem, sizeof(result->problem), format, arguments);
    va_end(arguments);
}
