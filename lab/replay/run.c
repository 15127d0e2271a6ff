#include "lab/replay/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *mend_replay_compared_costs(const mend_replay_options *options)
{
    static const char per_mapping[] = "per-mapping";
    bool is_chosen = options->costs_name != NULL && strcmp(options->costs_name, per_mapping) == 0;
    return is_chosen ? "reference" : per_mapping;
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
