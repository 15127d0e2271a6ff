/*
 * Blocks of a recording: they are filled event by event, and read without trust, since their file
 * may end or be damaged anywhere.
 */
#include "base/recording.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "base/allowance.h"
#include "base/names.h"
#include "base/scopes.h"
#include "base/words.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* Seven bits a byte, the lowest first; all but the last byte have the highest bit. */
enum { NUMBER_BYTES = 10, BITS = 7, MORE = 0x80 };

static uint8_t *put_number(uint8_t *to, uint64_t number)
{
    for (; number >= MORE; number >>= BITS) {
        *to++ = (uint8_t)(number | MORE);
    }
    *to++ = (uint8_t)number;
    return to;
}

/* 0 where the contents end. */
static uint64_t take_number(mend_record_reader *reader)
{
    uint64_t number = 0;
    for (unsigned shift = 0; reader->at < reader->end && shift < 64; shift += BITS) {
        const uint8_t byte = *reader->at++;
        number |= (uint64_t)(byte & (MORE - 1)) << shift;
        if (byte < MORE) {
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

/* X(field, type): in the order of the file. */
#define FIELDS(X)                                                                                  \
    X(sequence, uint64_t)                                                                          \
    X(time_ns, uint64_t)                                                                           \
    X(kind, int)                                                                                   \
    X(address, void *)                                                                             \
    X(size_bytes, uint64_t)                                                                        \
    X(requested_bytes, uint64_t)                                                                   \
    X(chunk, uint64_t)                                                                             \
    X(cause, int)                                                                                  \
    X(duration_ns, uint64_t)                                                                       \
    X(stream, mend_stream)                                                                         \
    X(scope, uint32_t)                                                                             \
    X(tag, uint64_t)                                                                               \
    X(group, mend_group *)                                                                         \
    X(is_for_graphs, int)                                                                          \
    X(stack, uint32_t)

enum { FIELD_SEQUENCE = 0 };
#define ONE(field, type) +1
static_assert(FIELDS(ONE) == MEND_RECORD_FIELDS, "a row has each field");
#undef ONE

static mend_record_row row_of(const mend_history_event *event)
{
#define PUT(field, type) (uint64_t)(uintptr_t) event->field,
    return (mend_record_row){{FIELDS(PUT)}};
#undef PUT
}

static mend_history_event event_of(const mend_record_row *row)
{
    mend_history_event event = {0};
    size_t at = 0;
#define TAKE(field, type) event.field = (type)(uintptr_t)row->numbers[at++];
    FIELDS(TAKE)
#undef TAKE
    return event;
}

/* The number that is expected for a field. */
static uint64_t expected(const mend_record_row *before, size_t field)
{
    return before->numbers[field] + (field == FIELD_SEQUENCE);
}

bool mend_record_add_event(mend_record_block *block, const mend_history_event *event)
{
    enum { MOST_BYTES = (MEND_RECORD_FIELDS + 1) * NUMBER_BYTES };
    if (block->head.count == MEND_RECORD_EVENTS_MOST ||
        block->head.bytes + MOST_BYTES > MEND_RECORD_CONTENT_BYTES) {
        return false;
    }
    const mend_record_row row = row_of(event);
    uint64_t changed = 0; /* a bit for each field that is not as expected */
    for (size_t i = 0; i < MEND_RECORD_FIELDS; i++) {
        changed |= (uint64_t)(row.numbers[i] != expected(&block->before, i)) << i;
    }
    uint8_t *to = put_number(block->content + block->head.bytes, changed);
    for (size_t i = 0; i < MEND_RECORD_FIELDS; i++) {
        if ((changed >> i & 1) != 0) {
            const uint64_t by = row.numbers[i] - expected(&block->before, i);
            to = put_number(to, by << 1 ^ (0 - (by >> 63))); /* small numbers below 0 stay small */
        }
    }
    block->head.bytes = (uint32_t)(to - block->content);
    block->head.count++;
    block->before = row;
    return true;
}

bool mend_record_next_event(mend_record_reader *reader, mend_history_event *event)
{
    if (!take_one(reader)) {
        return false;
    }
    const uint64_t changed = take_number(reader);
    const size_t fields = reader->head.mark == MEND_RECORD_MARK ? (size_t)MEND_RECORD_FIELDS
                                                                : (size_t)MEND_RECORD_FIELDS_1;
    mend_record_row row = {{0}};
    for (size_t i = 0; i < fields; i++) {
        const uint64_t by = (changed >> i & 1) != 0 ? take_number(reader) : 0;
        row.numbers[i] = expected(&reader->before, i) + (by >> 1 ^ (0 - (by & 1)));
    }
    reader->before = row;
    *event = event_of(&row);
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A length, and the bytes of the text. */
static void put_text(mend_record_block *block, uint8_t *to, const char *text)
{
    const size_t length = strlen(text);
    to = put_number(to, length);
    memcpy(to, text, length + 1); /* what comes next begins on the zero */
    block->head.bytes = (uint32_t)(to + length - block->content);
    block->head.count++;
}

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

bool mend_record_add_scope(mend_record_block *block, uint32_t around, const char *name)
{
    assert(strlen(name) < MEND_SCOPE_NAME_BYTES);
    if (block->head.bytes + NUMBER_BYTES + MEND_SCOPE_NAME_BYTES > MEND_RECORD_CONTENT_BYTES) {
        return false;
    }
    put_text(block, put_number(block->content + block->head.bytes, around), name);
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

void mend_record_fill_scopes(mend_record_block *block, uint32_t *named)
{
    const uint32_t count = mend_scopes_count();
    mend_record_begin(block, MEND_RECORD_SCOPES);
    block->head.first = *named + 1;
    for (; *named < count; ++*named) {
        const mend_scope_entry *entry = mend_scopes_entry(*named + 1);
        if (!mend_record_add_scope(block, entry->around, entry->name)) {
            return;
        }
    }
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

void mend_record_fill_names(mend_record_block *block, uint32_t *named)
{
    enum { MOST_BYTES = 3 * NUMBER_BYTES + MEND_NAME_BYTES };
    const uint32_t count = mend_names_count();
    mend_record_begin(block, MEND_RECORD_NAMES);
    block->head.first = *named + 1;
    for (; *named < count && block->head.bytes + MOST_BYTES <= MEND_RECORD_CONTENT_BYTES;
         ++*named) {
        const mend_name_entry *entry = mend_names_entry(*named + 1);
        uint8_t *to = put_number(block->content + block->head.bytes, entry->kind);
        put_text(block, put_number(to, entry->number), entry->name);
    }
}

/* ---- what is stored as it is ----------------------------------------------------------------- */

static void fill(mend_record_block *block, mend_record_kind kind, const void *content, size_t bytes)
{
    mend_record_begin(block, kind);
    memcpy(block->content, content, bytes);
    block->head.bytes = (uint32_t)bytes;
}

void mend_record_fill_run(mend_record_block *block, const mend_record_run *run)
{
    fill(block, MEND_RECORD_RUN, run, sizeof(*run));
}

void mend_record_fill_failure(mend_record_block *block, const mend_event_failure *failure)
{
    fill(block, MEND_RECORD_FAILURE, failure,
         offsetof(mend_event_failure, message) + strlen(failure->message));
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

/* FNV-1a, of eight bytes at a time. */
static uint64_t sum_of(const mend_record_head *head, const uint8_t *content)
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

void mend_record_begin(mend_record_block *block, mend_record_kind kind)
{
    block->head = (mend_record_head){.mark = MEND_RECORD_MARK, .kind = kind};
    block->before = (mend_record_row){{0}};
}

size_t mend_record_seal(mend_record_block *block, uint64_t number, uint64_t lost)
{
    while (block->head.bytes % sizeof(uint64_t) != 0) {
        block->content[block->head.bytes++] = 0;
    }
    block->head.number = number;
    block->head.lost = lost;
    block->head.sum = sum_of(&block->head, block->content);
    return sizeof(block->head) + block->head.bytes;
}

int mend_record_write(mend_record_file *to, uint64_t lost)
{
    const size_t bytes = mend_record_seal(&to->block, to->number + 1, lost);
    errno = ENOSPC; /* what a write that takes only a part does not say */
    if (!mend_may_be_file_size(to->at + bytes) ||
        pwrite(to->file, &to->block, bytes, (off_t)to->at) != (ssize_t)bytes) {
        return errno;
    }
    to->at += bytes;
    to->number++;
    return 0;
}

bool mend_record_open(mend_record_reader *reader, const uint8_t *bytes, size_t count)
{
    if (count < sizeof(reader->head)) {
        return false;
    }
    *reader = (mend_record_reader){.at = bytes + sizeof(reader->head)};
    memcpy(&reader->head, bytes, sizeof(reader->head));
    const mend_record_head *head = &reader->head;
    const uint64_t room = mend_min_u64(count - sizeof(*head), MEND_RECORD_CONTENT_BYTES);
    reader->end = reader->at + mend_min_u64(head->bytes, room);
    return mend_record_is_mark(head->mark) && head->bytes % sizeof(uint64_t) == 0 &&
           head->bytes <= room && head->count <= head->bytes &&
           head->sum == sum_of(head, reader->at);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The first whole block from *at on, up to `end`; *at is then behind it. What is left of others is
 * skipped. */
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
