/*
 * A trace: the allocations and frees of one program, in order, compact enough for many replays. It
 * comes from a file (docs/formats/replay.md) or a built-in workload.
 */
#ifndef MEND_LAB_TRACE_TRACE_H
#define MEND_LAB_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mend/mend.h"

typedef struct mend_trace_event {
    uint64_t size_bytes; /* as requested. Of a free: the size of its block */
    uint32_t block;      /* number of the block: 0 is the first allocated, and so on */
    uint16_t stream;     /* index, below stream_count */
    uint16_t thread;     /* index, below thread_count */
    bool is_alloc;
    bool has_failed; /* in the recording: the request, and the free that follows it at once */
} mend_trace_event;

typedef struct mend_trace {
    char *name; /* the path or the workload, as given */
    mend_trace_event *events;
    size_t event_count;
    size_t block_count;
    size_t thread_count;
    size_t stream_count;
    uint64_t *stream_names;     /* the number of each stream in the file. 0 is the default stream */
    uint64_t peak_live_bytes;   /* sizes rounded up to 512 B. With the request that ended it */
    size_t served_end;          /* events up to the last request that the recording served */
    size_t failed_count;        /* requests that failed in the recording */
    size_t failed_last;         /* of these, those behind served_end: the recording ended there */
    uint64_t last_failed_bytes; /* the last one's size */
    char note[320];             /* parts of the file that are not in the trace. "": none */
    char failure[1024]; /* why the last request failed then, as the file says. "": it does not */
} mend_trace;

/* Larger sizes, and sums of live sizes above eight times this, are refused. */
#define MEND_TRACE_MAX_SIZE_BYTES (UINT64_C(1) << 60)

/* Whether a replay that cannot serve the request goes on, as the recorded program did. */
static inline bool mend_trace_may_fail(const mend_trace *trace, size_t event)
{
    return trace->events[event].has_failed && event < trace->served_end;
}

enum { MEND_TRACE_FAILURES_BYTES = 320 };

/* How the recording ended, and earlier failures, in sentences. "" if nothing failed. */
void mend_trace_tell_failures(const mend_trace *trace, char *text, size_t size);

/* Sets the peak. False: more than 2^63 bytes are live at a time. */
bool mend_trace_find_peak(mend_trace *trace);

/* Frees a trace. NULL does nothing. */
void mend_trace_destroy(mend_trace *trace);

/* Divides every size by `factor` (above 0), rounds it up to 512 B, and updates the peak. */
mend_result mend_trace_scale(mend_trace *trace, double factor);

/* A short name: without folder, .gz, .csv, .pickle and .json. Writes at most `size` bytes. */
void mend_trace_short_name(const mend_trace *trace, char *text, size_t size);

#endif
