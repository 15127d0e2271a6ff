#include "lab/replay/timeline.h"

#include <inttypes.h>

#include "base/align.h"

void mend_replay_timeline_head(FILE *out)
{
    fputs("policy\tcapacity_bytes\tevent\tlive_bytes\treserved_bytes\ttrace\n", out);
}

static void write_row(FILE *out, const mend_replay_row *row, const mend_replay_sample *sample)
{
    fprintf(out, "%s\t", row->policy);
    if (row->result->limited) {
        fprintf(out, "%" PRIu64, row->result->capacity_bytes);
    }
    fprintf(out, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\n", sample->event, sample->live_bytes,
            sample->reserved_bytes, row->trace->name);
}

void mend_replay_timeline_write(FILE *out, const mend_replay_row *row)
{
    const mend_replay_result *result = row->result;
    uint64_t stretch = mend_max_u64(
        (result->events + MEND_REPLAY_TIMELINE_ROWS - 1) / MEND_REPLAY_TIMELINE_ROWS, 1);
    mend_replay_sample most = {0};
    for (size_t i = 0; i < result->sample_count; i++) {
        const mend_replay_sample *sample = &result->samples[i];
        most.event = sample->event;
        most.live_bytes = mend_max_u64(most.live_bytes, sample->live_bytes);
        most.reserved_bytes = mend_max_u64(most.reserved_bytes, sample->reserved_bytes);
        bool is_last = i + 1 == result->sample_count;
        if (is_last || result->samples[i + 1].event / stretch != sample->event / stretch) {
            write_row(out, row, &most);
            most = (mend_replay_sample){0};
        }
    }
}
