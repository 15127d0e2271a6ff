/*
 * Data of a file beside the requests: owners, addresses of blocks, reserved memory, and refusals.
 * `libmend report` reads it. A replay needs none of it.
 */
#ifndef MEND_LAB_TRACE_DETAIL_H
#define MEND_LAB_TRACE_DETAIL_H

#include "base/pointer_map.h"
#include "base/process.h"
#include "lab/support/stretches.h"
#include "lab/trace/trace.h"
#include "record/recording.h"

/* Owners beyond this are one, the last: it bounds the size of their tables. */
enum { MEND_TRACE_MAX_OWNERS = 65536, MEND_TRACE_LABEL_BYTES = 160 };

/* The parts of an owner's name in a recording of Mend, in this order. */
typedef enum mend_trace_part {
    MEND_TRACE_SCOPE,
    MEND_TRACE_TAG,
    MEND_TRACE_STACK,
    MEND_TRACE_PARTS
} mend_trace_part;

/* An owner: a line of the program, a scope, or a size if a block has no part. */
typedef struct mend_trace_label {
    char text[MEND_TRACE_LABEL_BYTES];
    uint8_t part_bytes[MEND_TRACE_PARTS]; /* they are joined by ", ". 0: it has none */
} mend_trace_label;

typedef struct mend_trace_owner {
    char *name;
    uint8_t part_bytes[MEND_TRACE_PARTS];
} mend_trace_owner;

/* Memory that the allocator created or released. In a recording of Mend with chunks it has no
 * address, and `is_place` has one: addresses that have memory of the device from then on, or none.
 * `is_wait`: neither, but a CPU stall. */
typedef struct mend_trace_segment {
    uint64_t event; /* events of the trace before it */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t stream; /* as the file names it */
    uint64_t waited_ns;
    bool is_taken;
    bool is_place;
    bool is_wait;
} mend_trace_segment;

/* A request that failed. */
typedef struct mend_trace_refusal {
    uint64_t event;    /* events of the trace before it */
    uint64_t segments; /* entries of `segments` before it */
    uint64_t number;   /* in a recording of Mend */
    uint64_t size_bytes;
    uint64_t free_bytes;    /* of the device, not held by the allocator. UINT64_MAX: unknown */
    uint64_t pending_bytes; /* of blocks that are freed, and wait for other streams */
    uint64_t stream;        /* as the file names it */
    uint64_t short_bytes;   /* so much smaller it would have succeeded. 0: unknown */
} mend_trace_refusal;

/* The owner of a block, and its address. */
typedef struct mend_trace_place {
    uint64_t address;
    uint32_t owner; /* index */
    uint32_t
        asked_behind; /* events, segments and refusals before its free was asked for. 0: none */
} mend_trace_place;

typedef struct mend_trace_detail {
    bool is_snapshot;        /* of PyTorch */
    bool is_recording;       /* of Mend. Of neither only `refusals` and addresses are valid */
    bool is_expandable;      /* adjacent segments serve one request */
    bool is_of_mend;         /* a snapshot of PyTorch, whose allocator was Mend */
    uint64_t capacity_bytes; /* of the device. 0: the file does not say */
    bool has_part[MEND_TRACE_PARTS]; /* a block came with one */
    size_t before_events;            /* the first ones: blocks from before the recording */
    bool has_places;                 /* segments with addresses are places */
    uint64_t most_asleep_bytes;      /* chunks that slept at once: no memory of the device */
    mend_trace_owner *owners;
    size_t owner_count;
    size_t owner_room;
    mend_trace_place *places; /* by block */
    size_t place_count;
    size_t place_room;
    mend_trace_segment *segments;
    size_t segment_count;
    size_t wait_count; /* of these */
    size_t segment_room;
    mend_trace_refusal *refusals;
    size_t refusal_count;
    size_t refusal_room;
    mend_name_entry *streams; /* the names of streams */
    size_t stream_count;
    size_t stream_room;
    mend_oom_report oom_report; /* of the last refusal, where the trace says why it failed */
    mend_stretches asleep;
    mend_pointer_map by_label; /* from the hash of a text to its owner + 1 */
    uint64_t salt;             /* of the hash: unknown to the author of a file */
    bool lacks_memory;         /* malloc failed: the detail is not whole */
} mend_trace_detail;

void mend_trace_detail_init(mend_trace_detail *detail);
void mend_trace_detail_clear(mend_trace_detail *detail);

/* The number of the owner that has this name, of the same parts. */
uint32_t mend_trace_detail_owner(mend_trace_detail *detail, const mend_trace_label *label);

/* A stream has this name now. */
void mend_trace_detail_name_stream(mend_trace_detail *detail, const mend_name_entry *name);

/* The words for a stream: its name, "the default stream", or "stream 7f3a10". */
void mend_trace_detail_tell_stream(const mend_trace_detail *detail, uint64_t stream, char *text,
                                   size_t size);

/* Called for each block, in the order of their numbers. */
void mend_trace_detail_add_place(mend_trace_detail *detail, mend_trace_place place);
void mend_trace_detail_add_segment(mend_trace_detail *detail, mend_trace_segment segment);
/* An event of Mend about chunks, or which addresses have memory. */
void mend_trace_detail_add_change(mend_trace_detail *detail, const mend_history_event *event,
                                  uint64_t events_before);
void mend_trace_detail_add_refusal(mend_trace_detail *detail, mend_trace_refusal refusal);

#endif
