/*
 * Builds a trace event by event. A failure is kept and reported at the end, so that readers and
 * generators need no check after each event.
 */
#ifndef MEND_LAB_TRACE_BUILDER_H
#define MEND_LAB_TRACE_BUILDER_H

#include "base/pointer_map.h"
#include "lab/trace/trace.h"

/* Bounds the host memory for a trace: a few GiB. */
#define MEND_TRACE_MAX_EVENTS (UINT64_C(1) << 26)

enum { MEND_TRACE_MAX_STREAMS = 4096, MEND_TRACE_MAX_THREADS = 65536 };

typedef struct mend_trace_builder {
    mend_trace *trace;
    size_t event_room;
    uint64_t *block_sizes;
    size_t block_room;
    size_t stream_room;
    uint64_t salt;            /* odd, and unknown to the author of a file */
    mend_pointer_map streams; /* from the key of a name to index + 1. `threads` the same */
    mend_pointer_map threads;
    uint64_t live_bytes;
    size_t event_limit;  /* MEND_TRACE_MAX_EVENTS or less */
    size_t too_large;    /* requests that failed and that no device can serve */
    mend_result failure; /* the first one. MEND_OK: none */
} mend_trace_builder;

/* The columns Stream and Thread. */
typedef struct mend_trace_actor {
    uint64_t stream;
    uint64_t thread;
} mend_trace_actor;

/* A table key for any number but UINT64_MAX: never 0, unique, and spread differently in each trace,
 * so that no file can force all its keys into one place. */
static inline uint64_t mend_trace_key(const mend_trace_builder *builder, uint64_t number)
{
    uint64_t key = (number + 1) * builder->salt;
    return (key ^ key >> 32) * UINT64_C(0x9E3779B97F4A7C15);
}

void mend_trace_builder_init(mend_trace_builder *builder, const char *name);

/* The number of the new block. 0 after a failure. */
uint32_t mend_trace_builder_alloc(mend_trace_builder *builder, uint64_t size_bytes,
                                  mend_trace_actor actor);

/* A request that failed in the recording: an allocation, freed at once. Larger ones than any device
 * has are left out, and the trace's note counts them. */
void mend_trace_builder_refuse(mend_trace_builder *builder, uint64_t size_bytes,
                               mend_trace_actor actor);

/* `block` was returned by mend_trace_builder_alloc and is live. */
void mend_trace_builder_free(mend_trace_builder *builder, uint32_t block, mend_trace_actor actor);

/* Returns the trace, which the caller owns, or the first failure: MEND_ERROR_OUT_OF_HOST_MEMORY,
 * MEND_ERROR_INVALID_ARGUMENT (too many streams, threads or blocks, too much live memory). */
mend_result mend_trace_builder_finish(mend_trace_builder *builder, mend_trace **trace);

/* Frees the builder. Allowed after finish. */
void mend_trace_builder_clear(mend_trace_builder *builder);

#endif
