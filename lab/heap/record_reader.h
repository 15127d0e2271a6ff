/* Reads the blocks of a recording (record/recording.h). */
#ifndef MEND_LAB_HEAP_RECORD_READER_H
#define MEND_LAB_HEAP_RECORD_READER_H

#include "base/words.h"
#include "record/recording.h"

/* The unread rest of a block. */
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
