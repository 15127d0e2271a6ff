/*
 * The file of a recording (docs/formats/replay.md): blocks, each with a number and a checksum,
 * so that a reader finds each whole block, also if others are lost. Events are stored as their
 * differences to what the earlier ones of the block let expect.
 */
#ifndef MEND_BASE_RECORDING_H
#define MEND_BASE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event_ring.h"
#include "base/process.h"

typedef enum mend_record_kind {
    MEND_RECORD_RUN = 1, /* one mend_record_run */
    MEND_RECORD_SCOPES,  /* names, by rising numbers from `first` on */
    MEND_RECORD_LIVE,    /* ALLOC events of blocks that live at this point */
    MEND_RECORD_EVENTS,  /* what happened since the block of events before */
    MEND_RECORD_END,     /* the pool was destroyed */
    MEND_RECORD_FAILURE, /* one mend_event_failure, its message up to the end of the block */
    MEND_RECORD_NAMES    /* names of numbers; a later one takes the place of a former */
} mend_record_kind;

/* What each block begins with, in the numbers of the machine. */
#define MEND_RECORD_MARK UINT64_C(0x32434552444E454D)
#define MEND_RECORD_MARK_1                                                                         \
    UINT64_C(0x31434552444E454D) /* of files before stacks: read, not made                         \
                                  */
static inline bool mend_record_is_mark(uint64_t mark)
{
    return mark == MEND_RECORD_MARK || mark == MEND_RECORD_MARK_1;
}
typedef struct mend_record_head {
    uint64_t mark;
    uint64_t number; /* from 1, one more with each block of a recording */
    uint32_t kind;   /* a mend_record_kind */
    uint32_t count;  /* events or names in it */
    uint32_t first;  /* of SCOPES: the number of the first */
    uint32_t bytes;  /* contents behind this; a multiple of 8 */
    uint64_t lost;   /* events so far that are not in the recording */
    uint64_t sum;    /* of all before it, and of the contents */
} mend_record_head;

/* What is recorded. */
typedef struct mend_record_run {
    uint64_t process;
    uint64_t device;
    uint64_t memory_bytes; /* of the device */
    uint64_t limit_bytes;
    uint64_t live_blocks; /* at this point; as many are listed behind it as there is room for */
} mend_record_run;

/* An event as numbers. */
enum { MEND_RECORD_FIELDS = 15, MEND_RECORD_FIELDS_1 = 14 /* of the first mark */ };
typedef struct mend_record_row {
    uint64_t numbers[MEND_RECORD_FIELDS];
} mend_record_row;

enum {
    MEND_RECORD_EVENTS_MOST = 4096, /* in a block */
    MEND_RECORD_CONTENT_BYTES = 128 * 1024
};

/* The events of a block so far: from them follows what is expected of the next one. */
enum { MEND_RECORD_SLOTS = 8192 };
typedef struct mend_record_past {
    uint32_t count;
    uint64_t alloc_cause;               /* of the last ALLOC */
    uint16_t newest[MEND_RECORD_SLOTS]; /* by a hash of the address: index + 1 of the last row */
    mend_record_row rows[MEND_RECORD_EVENTS_MOST]; /* valid up to count */
} mend_record_past;

/* A block that is being filled. What goes to the file begins here. */
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
bool mend_record_add_scope(mend_record_block *block, uint32_t around, const char *name);

/* Whole blocks. The names from *named + 1 on that there is room for; *named is then the last. */
void mend_record_fill_run(mend_record_block *block, const mend_record_run *run);
void mend_record_fill_scopes(mend_record_block *block, uint32_t *named);
void mend_record_fill_names(mend_record_block *block, uint32_t *named);
void mend_record_fill_failure(mend_record_block *block, const mend_event_failure *failure);

/* Ends the block; returns how many bytes of it are for the file. */
size_t mend_record_seal(mend_record_block *block, uint64_t number, uint64_t lost);

/* A file that is written block by block. */
typedef struct mend_record_file {
    int file;
    uint64_t at;     /* where the next block goes */
    uint64_t number; /* of the last block */
    mend_record_block block;
} mend_record_file;

/* Writes the block. 0, or an errno: it is not in the file. */
int mend_record_write(mend_record_file *to, uint64_t lost);

/* What of a block is not read yet. */
typedef struct mend_record_reader {
    mend_record_head head;
    const uint8_t *at;
    const uint8_t *end;
    mend_record_past past;
} mend_record_reader;

/* Whether a whole block begins there. Its contents stay where they are. */
bool mend_record_open(mend_record_reader *reader, const uint8_t *bytes, size_t count);

/* False at the end of the block. */
bool mend_record_next_event(mend_record_reader *reader, mend_history_event *event);
bool mend_record_next_scope(mend_record_reader *reader, uint32_t *around,
                            char name[MEND_SCOPE_NAME_BYTES]);
bool mend_record_next_name(mend_record_reader *reader, mend_name_entry *name);
bool mend_record_read_failure(const mend_record_reader *reader, mend_event_failure *failure);

/* The blocks of a file by their numbers: the oldest may lie behind the newest. */
typedef struct mend_record_walk {
    const uint8_t *bytes;
    size_t size;
    size_t first; /* where the oldest block begins */
    size_t at;
    bool is_past_end; /* at the blocks before the oldest one */
} mend_record_walk;

/* The bytes are borrowed. */
void mend_record_walk_begin(mend_record_walk *walk, const uint8_t *bytes, size_t size);
bool mend_record_walk_next(mend_record_walk *walk, mend_record_reader *block);

#endif
