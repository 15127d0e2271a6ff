/* The calls of the capture matrix, and the needs of each before the capture begins. */
#ifndef MEND_BENCH_PROBE_CAPTURE_CALLS_H
#define MEND_BENCH_PROBE_CAPTURE_CALLS_H

#include "probe/probe.h"

typedef enum capture_target { TARGET_CAPTURED, TARGET_OTHER, TARGET_LEGACY } capture_target;

typedef struct capture_setting {
    mend_stream captured;
    mend_stream other;
    mend_stream target;  /* of the call: one of the two, or the legacy stream */
    mend_event recorded; /* on `other`, before the capture */
    mend_event fresh;    /* never recorded */
    uint64_t address;    /* a page of addresses */
    mend_cu_chunk chunk; /* a page of memory */
    bool mapped;         /* the chunk, at the address */
    uint64_t made;       /* addresses, memory or a chunk that the call made */
    enum { MADE_NOTHING, MADE_ADDRESSES, MADE_CHUNK, MADE_MEMORY } made_what;
} capture_setting;

typedef struct capture_call {
    const char *name;
    bool has_stream;
    bool needs_mapping; /* of the chunk, before */
    mend_status (*make)(const probe *p, capture_setting *setting);
} capture_call;

/* All of them. Static. */
const capture_call *capture_calls(size_t *count);

/* Makes the needs of the call. capture_setting_close always frees them. */
mend_status capture_setting_open(const probe *p, capture_setting *setting, const capture_call *call,
                                 capture_target target, bool captures_blocking);
void capture_setting_close(const probe *p, capture_setting *setting);

#endif
