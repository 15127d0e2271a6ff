/* What every trace promises, whatever made it. */
#include <string.h>

#include "base/align.h"
#include "lab/trace/trace.h"
#include "tests/fuzz/fuzz.h"

typedef struct known_block {
    uint64_t size_bytes;
    enum { UNBORN, LIVE, FREED } state;
} known_block;

static void check_event(const mend_trace *trace, const mend_trace_event *event, known_block *block)
{
    FUZZ_CHECK(event->stream < trace->stream_count, "stream %u", event->stream);
    FUZZ_CHECK(event->thread < trace->thread_count, "thread %u", event->thread);
    FUZZ_CHECK(event->size_bytes <= MEND_TRACE_MAX_SIZE_BYTES, "a size");
    if (event->is_alloc) {
        FUZZ_CHECK(block->state == UNBORN, "block %u is allocated again", event->block);
        *block = (known_block){event->size_bytes, LIVE};
    } else {
        FUZZ_CHECK(block->state == LIVE, "block %u is freed", event->block);
        FUZZ_CHECK(block->size_bytes == event->size_bytes, "block %u changes", event->block);
        block->state = FREED;
    }
}

void fuzz_check_trace(const mend_trace *trace)
{
    known_block *blocks = calloc(trace->block_count + 1, sizeof(*blocks));
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;
    FUZZ_CHECK(blocks != NULL && trace->event_count > 0, "no event");
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        FUZZ_CHECK(event->block < trace->block_count, "block %u", event->block);
        check_event(trace, event, &blocks[event->block]);
        uint64_t bytes = mend_align_up(event->size_bytes, MEND_GRANULE_BYTES);
        live_bytes = event->is_alloc ? live_bytes + bytes : live_bytes - bytes;
        if (!mend_trace_may_fail(trace, i)) {
            peak_bytes = mend_max_u64(peak_bytes, live_bytes);
        }
        FUZZ_CHECK(live_bytes < 8 * MEND_TRACE_MAX_SIZE_BYTES, "more is live than can be counted");
    }
    FUZZ_CHECK(peak_bytes == trace->peak_live_bytes, "the peak is wrong");
    free(blocks);
}
