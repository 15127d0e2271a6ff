/*
 * The model of a recording for `libmend report`: its moments, owners, growth, free memory, and the
 * needs of other allocators. Texts, JSON and pages are made of it.
 */
#ifndef MEND_LAB_REPORT_MODEL_H
#define MEND_LAB_REPORT_MODEL_H

#include "base/align.h"
#include "lab/trace/detail.h"
#include "lab/trace/trace.h"

enum { MEND_REPORT_COLUMNS = 60, MEND_REPORT_MOST_OTHERS = 12, MEND_REPORT_LETTERS = 8 };

typedef enum mend_report_trend {
    MEND_TREND_STEADY,
    MEND_TREND_NEW,   /* its memory came shortly before the failure, as seldom before */
    MEND_TREND_GROWS, /* holds ever more, in blocks that come and go: sizes change */
    MEND_TREND_LEAKS, /* holds ever more, and keeps blocks of all times */
    MEND_TREND_COUNT
} mend_report_trend;

/* An owner of blocks: a line of the program, or in a log a size of block. */
typedef struct mend_report_owner {
    const char *name;
    char letter;    /* of the largest at the moment or at the peak. 0: of the others */
    uint64_t bytes; /* these at the moment that is reported: live memory */
    uint64_t blocks;
    uint64_t oldest_event;
    uint64_t kept_free_bytes; /* free memory in segments of which it holds the most */
    uint64_t kept_segments;
    uint64_t peak_bytes;    /* at the peak of all live memory */
    uint64_t waiting_bytes; /* of `bytes`: freed, and still used by other streams */
    uint64_t waiting_blocks;
    uint64_t waiting_stream; /* of the last of them, as the file names it */
    mend_report_trend trend;
    uint64_t growth_bytes;  /* of its least memory, from the warm-up to the end */
    uint64_t without_bytes; /* the peak of all live memory without the growth */
    bool in_step; /* it leaks, and each round of the program adds blocks of it and others */
} mend_report_owner;

/* The memory that the allocator held at the moment. */
typedef struct mend_report_memory {
    uint64_t held_bytes;
    uint64_t whole_bytes;   /* in segments without a live block */
    uint64_t beside_bytes;  /* free beside live blocks */
    uint64_t others_bytes;  /* of both: of other streams than the one that failed */
    uint64_t longest_bytes; /* the longest piece that one request could have. After a failure, on
                             * its stream */
    uint64_t pieces;
} mend_report_memory;

/* The needs of another allocator for the same requests, on the simulated device. */
typedef struct mend_report_other {
    const char *policy; /* of libmend replay */
    const char *name;   /* for people */
    bool is_known;      /* the members below are valid: the simulation was not too long, and ran */
    bool is_close;      /* the search ended within its step. Otherwise less may do */
    uint64_t needs_bytes;
    uint64_t waits; /* of the host, with that memory */
    double driver_ms;
    bool knows_here; /* the members below are valid: at the capacity of the recording */
    bool completes_here;
    unsigned here_percent; /* where it fails */
} mend_report_other;

typedef struct mend_report {
    mend_trace *trace;
    mend_trace_detail detail;
    uint32_t *born; /* by block: the event */
    uint32_t *died; /* UINT32_MAX: lives to the end */
    uint32_t *owner_of;
    mend_report_owner *owners; /* by number */
    uint32_t *order;           /* numbers, the largest at the moment first */
    size_t owner_count;
    char *names; /* of the owners of a log. NULL: the detail's */

    uint64_t capacity_bytes; /* of the device. 0: unknown */
    uint64_t peak_bytes;     /* of live memory */
    uint64_t peak_event;
    bool knows_gaps; /* a log with addresses: `memory` is about addresses in use before */
    bool knows_held; /* a snapshot that names segments: the next three and `memory` are valid */
    uint64_t peak_held_bytes; /* by the allocator */
    uint64_t taken;           /* how often the allocator took memory, and gave it back */
    uint64_t given;
    bool has_failed;
    mend_trace_refusal failure; /* the last one */
    uint64_t failures;
    uint64_t end_events;    /* of the program's work: the end follows */
    uint64_t moment_events; /* events before the moment: the failure, else the peak */
    uint64_t live_bytes;    /* at the moment */
    mend_report_memory memory;

    uint64_t growth_event;  /* growth counts from here to `end_events` */
    uint64_t suspects;      /* owners that grow */
    uint64_t growth_bytes;  /* of all of them */
    uint64_t without_bytes; /* the peak without the growth of all of them */
    uint64_t in_step;       /* owners that leak in step: one leak. 0: there are no two */
    uint64_t rounds;        /* how often they had new blocks since the warm-up, and kept them */
    uint64_t in_step_bytes; /* their growth */
    uint64_t without_step_bytes; /* the peak without it */
    bool grows_as_whole;         /* all live memory grows, and no owner that explains it */
    uint64_t whole_growth_bytes;
    uint64_t highest[MEND_REPORT_COLUMNS]; /* live memory, of equal parts of the events */

    mend_report_other others[MEND_REPORT_MOST_OTHERS];
    size_t other_count;
    uint64_t simulated_events;
} mend_report;

/* Whether anything happens in it: a snapshot may have only blocks from before. */
static inline bool mend_report_has_history(const mend_report *report)
{
    return report->trace->event_count > report->detail.before_events || report->has_failed;
}

/* The owner of a block. */
static inline uint64_t mend_report_bytes(const mend_trace_event *event)
{
    return mend_align_up(event->size_bytes, MEND_GRANULE_BYTES);
}

#endif
