/* A recording of a pool of Mend's (docs/formats/replay.md), also one whose process was killed.
 */
#ifndef MEND_LAB_TRACE_RECORDING_H
#define MEND_LAB_TRACE_RECORDING_H

#include "lab/heap/record_reader.h"
#include "lab/support/bytes.h"
#include "lab/trace/detail.h"

/* Whether the source's buffer is the begin of such a file. */
bool mend_trace_is_recording(const mend_byte_source *source);

/* Reads all of the source. `detail`: as mend_trace_read_with. Errors as mend_trace_read. */
mend_result mend_trace_read_recording(mend_byte_source *source, mend_trace_detail *detail,
                                      mend_trace **trace);

/* The contents of a recording, in sums. */
typedef struct mend_recording_facts {
    mend_record_run run; /* 0 where the file has lost it */
    uint64_t first;      /* number of the first event, and of the last */
    uint64_t last;
    uint64_t began_ns; /* times of these */
    uint64_t ended_ns;
    uint64_t events[MEND_EVENT_KINDS]; /* by kind */
    uint64_t lost;                     /* in the whole recording */
    uint64_t scopes;                   /* that are named */
    bool has_ended;                    /* with its pool, or with the process: */
    bool is_exit;
} mend_recording_facts;

/* Reads a file for its facts. Errors as mend_trace_read. */
mend_result mend_recording_look(const char *path, mend_recording_facts *facts);

#endif
