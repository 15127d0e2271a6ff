/*
 * Blocks of a recording are read without trust, since their file may end or be damaged anywhere.
 */
#include "lab/heap/record_reader.h"

#include <string.h>

#include "base/align.h"
#include "base/words.h"

/* 0 where the contents end. */
static uint64_t take_number(mend_record_reader *reader)
{
    uint64_t number = 0;
    for (unsigned shift = 0; reader->at < reader->end && shift < 64; shift += MEND_RECORD_BITS) {
        const uint8_t byte = *reader->at++;
        number |= (uint64_t)(byte & (MEND_RECORD_MORE - 1)) << shift;
        if (byte < MEND_RECORD_MORE) {
            break;
        }
    }
    return number;
}

/* False: the reader is at the end of the block. */
static bool take_one(mend_record_reader *reader)
{
    const bool has_one = reader->head.count > 0;
    reader->head.count -= has_one;
    return has_one;
}

/* ---- events ---------------------------------------------------------------------------------- */

static mend_history_event event_of(const mend_record_row *row)
{
    mend_history_event event = {0};
    size_t at = 0;
#define TAKE(field, type) event.field = (type)(uintptr_t)row->numbers[at++];
    MEND_RECORD_ROW(TAKE)
#undef TAKE
    return event;
}

static uint64_t unfolded(uint64_t number)
{
    return number >> 1 ^ (0 - (number & 1));
}

/* Any address where the file is damaged. */
static uint64_t take_address(mend_record_reader *reader)
{
    const mend_record_past *past = &reader->past;
    const uint64_t number = take_number(reader);
    const uint64_t value = number >> MEND_AT_BITS;
    switch (number % (1 << MEND_AT_BITS)) {
    case MEND_AT_EARLIER:
        return value < past->count ? past->rows[past->count - 1 - value].numbers[MEND_FIELD_address]
                                   : 0;
    case MEND_AT_GRANULES:
        return mend_record_last(past)->numbers[MEND_FIELD_address] +
               unfolded(value) * MEND_GRANULE_BYTES;
    default:
        return take_number(reader);
    }
}

static mend_record_row next_row(mend_record_reader *reader)
{
    mend_record_past *past = &reader->past;
    const uint64_t begins = take_number(reader);
    const uint64_t changed = begins >> 1;
    static_assert(MEND_FIELD_time_ns == 0 && MEND_FIELD_address == 1,
                  "what is expected follows from them");
    const uint64_t by = (changed & 1) != 0 ? unfolded(take_number(reader)) : 0;
    const uint64_t address = (changed >> MEND_FIELD_address & 1) != 0
                                 ? take_address(reader)
                                 : mend_record_last(past)->numbers[MEND_FIELD_address];
    const mend_record_row *known = mend_record_known(past, address);
    mend_record_row row = mend_record_expected(past, known, begins % 2 != 0);
    row.numbers[MEND_FIELD_time_ns] += by;
    row.numbers[MEND_FIELD_address] = address;
    for (size_t i = MEND_FIELD_address + 1; i < MEND_RECORD_FIELDS; i++) {
        if (i == MEND_FIELD_requested_bytes && known == NULL) {
            row.numbers[i] = row.numbers[MEND_FIELD_size_bytes];
        }
        row.numbers[i] += (changed >> i & 1) != 0 ? unfolded(take_number(reader)) : 0;
    }
    mend_record_remember(past, &row);
    return row;
}

bool mend_record_next_event(mend_record_reader *reader, mend_history_event *event)
{
    if (!take_one(reader)) {
        return false;
    }
    const mend_record_row row = next_row(reader);
    *event = event_of(&row);
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* False: it is longer than `most` allows with a 0, or cut. */
static bool take_text(mend_record_reader *reader, char *text, size_t most)
{
    const uint64_t length = take_number(reader);
    if (length >= most || length > (size_t)(reader->end - reader->at)) {
        return false;
    }
    memcpy(text, reader->at, length);
    text[length] = 0;
    reader->at += length;
    return true;
}

bool mend_record_next_scope(mend_record_reader *reader, uint32_t *around,
                            char name[MEND_SCOPE_NAME_BYTES])
{
    if (!take_one(reader)) {
        return false;
    }
    *around = (uint32_t)take_number(reader);
    return take_text(reader, name, MEND_SCOPE_NAME_BYTES);
}

bool mend_record_next_name(mend_record_reader *reader, mend_name_entry *name)
{
    if (!take_one(reader)) {
        return false;
    }
    *name = (mend_name_entry){.kind = (uint32_t)take_number(reader)};
    name->number = take_number(reader);
    return take_text(reader, name->name, sizeof(name->name));
}

bool mend_record_read_failure(const mend_record_reader *reader, mend_event_failure *failure)
{
    const size_t bytes = (size_t)(reader->end - reader->at);
    if (bytes < offsetof(mend_event_failure, message) || bytes > sizeof(*failure)) {
        return false;
    }
    *failure = (mend_event_failure){.sequence = 0};
    memcpy(failure, reader->at, bytes);
    failure->message[sizeof(failure->message) - 1] = 0; /* the file may be damaged */
    mend_words_make_printable(failure->message);
    return true;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

bool mend_record_open(mend_record_reader *reader, const uint8_t *bytes, size_t count)
{
    mend_record_head *head = &reader->head;
    if (count < sizeof(*head)) {
        return false;
    }
    memcpy(head, bytes, sizeof(*head));
    const uint64_t room = mend_min_u64(count - sizeof(*head), MEND_RECORD_CONTENT_BYTES);
    reader->at = bytes + sizeof(*head);
    reader->end = reader->at + mend_min_u64(head->bytes, room);
    const bool is_whole = head->mark == MEND_RECORD_MARK && head->bytes % sizeof(uint64_t) == 0 &&
                          head->bytes <= room && head->count <= head->bytes &&
                          head->sum == mend_record_sum(head, reader->at);
    if (is_whole) {
        mend_record_begin_past(&reader->past);
    }
    return is_whole;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The first whole block from *at on, up to `end`. *at is then behind it. Remains of other blocks
 * are skipped. */
static bool find_block(const uint8_t *bytes, size_t end, size_t *at, mend_record_reader *block)
{
    while (*at < end && !mend_record_open(block, bytes + *at, end - *at)) {
        *at += sizeof(uint64_t);
    }
    const bool found = *at < end;
    *at += found ? sizeof(block->head) + block->head.bytes : 0;
    return found;
}

void mend_record_walk_begin(mend_record_walk *walk, const uint8_t *bytes, size_t size)
{
    uint64_t lowest = UINT64_MAX;
    mend_record_reader block;
    *walk = (mend_record_walk){.bytes = bytes, .size = size};
    for (size_t at = 0; find_block(bytes, size, &at, &block);) {
        if (block.head.number < lowest) {
            lowest = block.head.number;
            walk->first = at - sizeof(block.head) - block.head.bytes;
        }
    }
    walk->at = walk->first;
}

bool mend_record_walk_next(mend_record_walk *walk, mend_record_reader *block)
{
    if (!walk->is_past_end) {
        if (find_block(walk->bytes, walk->size, &walk->at, block)) {
            return true;
        }
        walk->is_past_end = true;
        walk->at = 0;
    }
    return find_block(walk->bytes, walk->first, &walk->at, block);
}
