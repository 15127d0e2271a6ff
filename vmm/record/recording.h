/* The file of a recording (docs/formats/replay.md): blocks, each with a number and a checksum, so
 * that a reader finds each whole block, also if others are lost. Events are stored as their
 * differences to an expectation from the earlier ones of the block. */
#ifndef MEND_RECORD_RECORDING_H
#define MEND_RECORD_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/process.h"
#include "mend/mend_inspect.h"

typedef enum mend_record_kind {
    MEND_RECORD_RUN = 1, /* one mend_record_run */
    MEND_RECORD_SCOPES,  /* names, by rising numbers from `first` on */
    MEND_RECORD_LIVE,    /* ALLOC events of blocks that live at this point */
    MEND_RECORD_EVENTS,  /* changes since the block of events before */
    MEND_RECORD_END,     /* the pool was destroyed. `first` 1: the process ended with it */
    MEND_RECORD_FAILURE, /* one mend_event_failure, its message up to the end of the block */
    MEND_RECORD_NAMES    /* names of numbers. A later one takes the place of a former */
} mend_record_kind;

/* The head of each block, in the machine's byte order. */
#define MEND_RECORD_MARK UINT64_C(0x32434552444E454D)
typedef struct mend_record_head {
    uint64_t mark;
    uint64_t number; /* from 1, one more with each block of a recording */
    uint32_t kind;   /* a mend_record_kind */
    uint32_t count;  /* events or names in it */
    uint32_t first;  /* of SCOPES: the number of the first. Of END: see there */
    uint32_t bytes;  /* contents behind this. A multiple of 8 */
    uint64_t lost;   /* events so far that are not in the recording */
    uint64_t sum;    /* of all before it, and of the contents */
} mend_record_head;

/* The contents of a recording. */
typedef struct mend_record_run {
    uint64_t process;
    uint64_t device;
    uint64_t memory_bytes; /* of the device */
    uint64_t limit_bytes;
    uint64_t live_blocks; /* at this point. As many are listed behind it as fit */
} mend_record_run;

/* Why a request failed: beside its event, so that other events stay small. */
enum { MEND_OOM_REPORT_NUMBERS = 18 };
typedef struct mend_event_failure {
    uint64_t sequence;                         /* of its event */
    uint64_t numbers[MEND_OOM_REPORT_NUMBERS]; /* of mend_oom_report, from requested_bytes on */
    char message[MEND_MESSAGE_BYTES];
} mend_event_failure;
static_assert(offsetof(mend_oom_report, owners) - offsetof(mend_oom_report, requested_bytes) ==
                  MEND_OOM_REPORT_NUMBERS * sizeof(uint64_t),
              "all of its numbers");

/* An event as numbers. */
enum { MEND_RECORD_FIELDS = 15 };
typedef struct mend_record_row {
    uint64_t numbers[MEND_RECORD_FIELDS];
} mend_record_row;

enum {
    MEND_RECORD_EVENTS_MOST = 4096, /* in a block */
    MEND_RECORD_CONTENT_BYTES = 128 * 1024
};

/* The events of a block so far, which give the expectation for the next one. */
enum { MEND_RECORD_SLOTS = 8192 };
typedef struct mend_record_past {
    uint32_t count;
    uint64_t alloc_cause;               /* of the last ALLOC */
    uint16_t newest[MEND_RECORD_SLOTS]; /* by a hash of the address: index + 1 of the last row */
    mend_record_row rows[MEND_RECORD_EVENTS_MOST]; /* valid up to count */
} mend_record_past;

/* A block that is being filled. The part for the file begins here. */
typedef struct mend_record_block {
    mend_record_head head;
    uint8_t content[MEND_RECORD_CONTENT_BYTES];
    mend_record_past past;
} mend_record_block;

/* The most that a block has in a file. */
#define MEND_RECORD_BLOCK_BYTES (sizeof(mend_record_head) + MEND_RECORD_CONTENT_BYTES)

void mend_record_begin(mend_record_block *block, mend_record_kind kind);

/* Each returns false if the block is full, and leaves it as it was. */
bool mend_record_add_event(mend_record_block *block, const mend_history_event *event);
bool mend_record_add_name(mend_record_block *block, uint32_t kind, uint64_t number,
                          const char *name);

/* Adds a part to a list, ", " between: as many whole characters of it as fit. Returns their
 * bytes. */
size_t mend_words_join(char *text, size_t text_bytes, const char *part);

/* Whole blocks. The names from *named + 1 on that fit, of SCOPES or NAMES. *named is then the last.
 */
void mend_record_fill_names(mend_record_block *block, mend_record_kind kind, uint32_t *named);

/* Contents that are stored as they are. */
void mend_record_fill(mend_record_block *block, mend_record_kind kind, const void *content,
                      size_t bytes);

/* Ends the block. Returns how many bytes of it are for the file. */
size_t mend_record_seal(mend_record_block *block, uint64_t number, uint64_t lost);

/* A file that is written block by block. */
typedef struct mend_record_file {
    int file;
    int error;               /* of the first block that is not in the file. 0: all are */
    uint64_t at;             /* where the next block goes */
    uint64_t number;         /* of the last block */
    uint32_t scopes, names;  /* that are in the file */
    _Atomic(uint64_t) *lost; /* events that are not. NULL: they are not counted */
    mend_record_block block;
} mend_record_file;

/* Writes the block. Without success the next one takes its place. */
void mend_record_write(mend_record_file *to);

/* Adds an event to the block. A full one is written, and another of its kind begins. */
void mend_record_put(mend_record_file *to, const mend_history_event *event);

/* New names, in blocks that begin before `end`. */
void mend_record_write_names(mend_record_file *to, uint64_t end);

/* ---- what those who write and who read events share ------------------------------------------ */

/* Seven bits a byte, the lowest first. All but the last byte have the highest bit. */
enum { MEND_RECORD_NUMBER_BYTES = 10, MEND_RECORD_BITS = 7, MEND_RECORD_MORE = 0x80 };

/* X(field, type): in the order of the file, the most often different first. */
#define MEND_RECORD_ROW(X)                                                                         \
    X(time_ns, uint64_t)                                                                           \
    X(address, void *)                                                                             \
    X(size_bytes, uint64_t)                                                                        \
    X(requested_bytes, uint64_t)                                                                   \
    X(chunk, uint64_t)                                                                             \
    X(cause, int)                                                                                  \
    X(kind, int)                                                                                   \
    X(sequence, uint64_t)                                                                          \
    X(duration_ns, uint64_t)                                                                       \
    X(stream, mend_stream)                                                                         \
    X(scope, uint32_t)                                                                             \
    X(tag, uint64_t)                                                                               \
    X(graph_pool, mend_graph_pool *)                                                               \
    X(is_for_graphs, int)                                                                          \
    X(stack, uint32_t)

enum {
#define NUMBER(field, type) MEND_FIELD_##field,
    MEND_RECORD_ROW(NUMBER)
#undef NUMBER
        MEND_FIELD_COUNT
};
static_assert((int)MEND_FIELD_COUNT == (int)MEND_RECORD_FIELDS, "a row has each field");

/* An address is equal to an earlier event's in the block, counted from here, or is the difference
 * to the event before, in blocks of 512 bytes or in bytes. Which, is in two bits. */
enum { MEND_AT_EARLIER, MEND_AT_GRANULES, MEND_AT_BYTES, MEND_AT_BITS = 2 };

static inline void mend_record_begin_past(mend_record_past *past)
{
    past->alloc_cause = 0;
    past->count = 0; /* rows beyond are not read */
    memset(past->newest, 0, sizeof(past->newest));
}

/* The row of zeros before the first event, too. */
static inline const mend_record_row *mend_record_last(const mend_record_past *past)
{
    static const mend_record_row none = {{0}};
    return past->count > 0 ? &past->rows[past->count - 1] : &none;
}

static inline uint16_t *mend_record_slot(mend_record_past *past, uint64_t address)
{
    return &past->newest[(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) % MEND_RECORD_SLOTS];
}

/* The last event that was about the address. NULL: it is not known. */
static inline const mend_record_row *mend_record_known(mend_record_past *past, uint64_t address)
{
    const uint16_t newest = *mend_record_slot(past, address);
    const mend_record_row *row = newest > 0 ? &past->rows[newest - 1] : NULL;
    return row != NULL && row->numbers[MEND_FIELD_address] == address ? row : NULL;
}

static inline void mend_record_remember(mend_record_past *past, const mend_record_row *row)
{
    if (row->numbers[MEND_FIELD_kind] == MEND_EVENT_ALLOC) {
        past->alloc_cause = row->numbers[MEND_FIELD_cause];
    }
    if (past->count < MEND_RECORD_EVENTS_MOST) { /* as in all files that Mend writes */
        past->rows[past->count++] = *row;
        *mend_record_slot(past, row->numbers[MEND_FIELD_address]) = (uint16_t)past->count;
    }
}

/* The expectation for an event: the values of the last one about its address, else of the one
 * before. The address is stored in its own way, so only its equality with the one before counts.
 * For `requested_bytes` without an earlier event, the equality with `size_bytes` counts. */
static inline mend_record_row mend_record_expected(const mend_record_past *past,
                                                   const mend_record_row *known, bool is_free)
{
    const mend_record_row *before = mend_record_last(past);
    mend_record_row row = known != NULL ? *known : *before;
    row.numbers[MEND_FIELD_address] = before->numbers[MEND_FIELD_address];
    row.numbers[MEND_FIELD_sequence] = before->numbers[MEND_FIELD_sequence] + 1;
    row.numbers[MEND_FIELD_time_ns] = before->numbers[MEND_FIELD_time_ns];
    row.numbers[MEND_FIELD_duration_ns] = before->numbers[MEND_FIELD_duration_ns];
    row.numbers[MEND_FIELD_kind] = is_free ? MEND_EVENT_FREE : MEND_EVENT_ALLOC;
    row.numbers[MEND_FIELD_cause] = is_free ? MEND_CAUSE_NONE : past->alloc_cause;
    return row;
}

/* FNV-1a, of eight bytes at a time. */
static inline uint64_t mend_record_sum(const mend_record_head *head, const uint8_t *content)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    uint64_t word;
    for (size_t i = 0; i < offsetof(mend_record_head, sum) + head->bytes; i += sizeof(word)) {
        const size_t behind = i - offsetof(mend_record_head, sum);
        memcpy(&word,
               i < offsetof(mend_record_head, sum) ? (const uint8_t *)head + i : content + behind,
               sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
        sum ^= sum >> 32; /* the highest bits count for all */
    }
    return sum;
}

#endif
