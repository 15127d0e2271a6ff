/*
 * Blocks of a recording: they are filled event by event, and read without trust, since their file
 * may end or be damaged anywhere.
 */
#include "base/recording.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/allowance.h"
#include "base/names.h"
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

/* X(field, type, column): in the order of the file, those that differ most often first; and the
 * column of files before. */
#define FIELDS(X)                                                                                  \
    X(time_ns, uint64_t, 1)                                                                        \
    X(address, void *, 3)                                                                          \
    X(size_bytes, uint64_t, 4)                                                                     \
    X(requested_bytes, uint64_t, 5)                                                                \
    X(chunk, uint64_t, 6)                                                                          \
    X(cause, int, 7)                                                                               \
    X(kind, int, 2)                                                                                \
    X(sequence, uint64_t, 0)                                                                       \
    X(duration_ns, uint64_t, 8)                                                                    \
    X(stream, mend_stream, 9)                                                                      \
    X(scope, uint32_t, 10)                                                                         \
    X(tag, uint64_t, 11)                                                                           \
    X(group, mend_group *, 12)                                                                     \
    X(is_for_graphs, int, 13)                                                                      \
    X(stack, uint32_t, 14)

enum {
#define NUMBER(field, type, column) FIELD_##field,
    FIELDS(NUMBER)
#undef NUMBER
        FIELD_COUNT
};
static_assert((int)FIELD_COUNT == (int)MEND_RECORD_FIELDS, "a row has each field");

static mend_record_row row_of(const mend_history_event *event)
{
#define PUT(field, type, column) (uint64_t)(uintptr_t) event->field,
    return (mend_record_row){{FIELDS(PUT)}};
#undef PUT
}

static mend_history_event event_of(const mend_record_row *row)
{
    mend_history_event event = {0};
    size_t at = 0;
#define TAKE(field, type, column) event.field = (type)(uintptr_t)row->numbers[at++];
    FIELDS(TAKE)
#undef TAKE
    return event;
}

static void begin_past(mend_record_past *past)
{
    past->alloc_cause = 0;
    past->count = 0; /* rows beyond are not read */
    memset(past->newest, 0, sizeof(past->newest));
}

/* The row of zeros before the first event, too. */
static const mend_record_row *last_of(const mend_record_past *past)
{
    static const mend_record_row none = {{0}};
    return past->count > 0 ? &past->rows[past->count - 1] : &none;
}

static uint16_t *slot_of(mend_record_past *past, uint64_t address)
{
    return &past->newest[(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) % MEND_RECORD_SLOTS];
}

/* The last event that was about the address; NULL: it is not known. */
static const mend_record_row *known_at(mend_record_past *past, uint64_t address)
{
    const uint16_t newest = *slot_of(past, address);
    const mend_record_row *row = newest > 0 ? &past->rows[newest - 1] : NULL;
    return row != NULL && row->numbers[FIELD_address] == address ? row : NULL;
}

static void remember(mend_record_past *past, const mend_record_row *row)
{
    if (row->numbers[FIELD_kind] == MEND_EVENT_ALLOC) {
        past->alloc_cause = row->numbers[FIELD_cause];
    }
    if (past->count < MEND_RECORD_EVENTS_MOST) { /* as in all files that Mend writes */
        past->rows[past->count++] = *row;
        *slot_of(past, row->numbers[FIELD_address]) = (uint16_t)past->count;
    }
}

/* What is expected of an event: what the last one had that was about its address, else the one
 * before. Of the address, which is told in its own way, only whether it is that of the one before
 * counts; and of `requested_bytes` without an earlier event, whether they are `size_bytes`. */
static mend_record_row expected(const mend_record_past *past, const mend_record_row *known,
                                bool is_free)
{
    const mend_record_row *before = last_of(past);
    mend_record_row row = known != NULL ? *known : *before;
    row.numbers[FIELD_address] = before->numbers[FIELD_address];
    row.numbers[FIELD_sequence] = before->numbers[FIELD_sequence] + 1;
    row.numbers[FIELD_time_ns] = before->numbers[FIELD_time_ns];
    row.numbers[FIELD_duration_ns] = before->numbers[FIELD_duration_ns];
    row.numbers[FIELD_kind] = is_free ? MEND_EVENT_FREE : MEND_EVENT_ALLOC;
    row.numbers[FIELD_cause] = is_free ? MEND_CAUSE_NONE : past->alloc_cause;
    return row;
}

/* Small numbers below 0 stay small. */
static uint64_t folded(uint64_t by)
{
    return by << 1 ^ (0 - (by >> 63));
}

static uint64_t unfolded(uint64_t number)
{
    return number >> 1 ^ (0 - (number & 1));
}

/* An address is that of an earlier event of the block, which is counted from here; or it is told by
 * the difference to the event before, in blocks of 512 bytes or in bytes. Which, is in two bits. */
enum { AT_EARLIER, AT_GRANULES, AT_BYTES, AT_BITS = 2 };

static uint8_t *put_address(uint8_t *to, const mend_record_past *past, const mend_record_row *known,
                            uint64_t address)
{
    const uint64_t by = address - last_of(past)->numbers[FIELD_address];
    if (known != NULL) {
        const uint64_t back = (uint64_t)(&past->rows[past->count - 1] - known);
        return put_number(to, back << AT_BITS | AT_EARLIER);
    }
    if (by % MEND_GRANULE_BYTES == 0 && folded(by) < UINT64_C(1) << 62) {
        const uint64_t granules = (uint64_t)((int64_t)by / (int64_t)MEND_GRANULE_BYTES);
        return put_number(to, folded(granules) << AT_BITS | AT_GRANULES);
    }
    return put_number(put_number(to, AT_BYTES), address);
}

/* Any address where the file is damaged. */
static uint64_t take_address(mend_record_reader *reader)
{
    const mend_record_past *past = &reader->past;
    const uint64_t number = take_number(reader);
    const uint64_t value = number >> AT_BITS;
    switch (number % (1 << AT_BITS)) {
    case AT_EARLIER:
        return value < past->count ? past->rows[past->count - 1 - value].numbers[FIELD_address] : 0;
    case AT_GRANULES:
        return last_of(past)->numbers[FIELD_address] + unfolded(value) * MEND_GRANULE_BYTES;
    default:
        return take_number(reader);
    }
}

/* An event begins with a number: whether its kind is expected to be FREE and not ALLOC, and a bit
 * for each field that is not as expected. */
bool mend_record_add_event(mend_record_block *block, const mend_history_event *event)
{
    enum { MOST_BYTES = (MEND_RECORD_FIELDS + 2) * NUMBER_BYTES };
    if (block->head.count == MEND_RECORD_EVENTS_MOST ||
        block->head.bytes + MOST_BYTES > MEND_RECORD_CONTENT_BYTES) {
        return false;
    }
    mend_record_past *past = &block->past;
    const mend_record_row row = row_of(event);
    const uint64_t address = row.numbers[FIELD_address];
    const mend_record_row *known = known_at(past, address);
    const bool is_free = event->kind == MEND_EVENT_FREE;
    mend_record_row like = expected(past, known, is_free);
    if (known == NULL) {
        like.numbers[FIELD_requested_bytes] = row.numbers[FIELD_size_bytes];
    }
    uint64_t changed = 0;
    for (size_t i = 0; i < MEND_RECORD_FIELDS; i++) {
        changed |= (uint64_t)(row.numbers[i] != like.numbers[i]) << i;
    }
    uint8_t *to = put_number(block->content + block->head.bytes, changed << 1 | is_free);
    for (uint64_t left = changed; left != 0; left &= left - 1) {
        const int field = __builtin_ctzll(left);
        to = field == FIELD_address
                 ? put_address(to, past, known, address)
                 : put_number(to, folded(row.numbers[field] - like.numbers[field]));
    }
    block->head.bytes = (uint32_t)(to - block->content);
    block->head.count++;
    remember(past, &row);
    return true;
}

/* Of files before, each field was expected to be as in the event before. */
static mend_record_row next_row_1(mend_record_reader *reader)
{
    static const uint8_t columns[] = {
#define COLUMN(field, type, column) [column] = FIELD_##field,
        FIELDS(COLUMN)
#undef COLUMN
    };
    const uint64_t changed = take_number(reader);
    mend_record_row row = *last_of(&reader->past);
    row.numbers[FIELD_sequence]++;
    for (size_t i = 0; i < MEND_RECORD_FIELDS_1; i++) {
        row.numbers[columns[i]] += (changed >> i & 1) != 0 ? unfolded(take_number(reader)) : 0;
    }
    reader->past.rows[0] = row;
    reader->past.count = 1;
    return row;
}

static mend_record_row next_row(mend_record_reader *reader)
{
    mend_record_past *past = &reader->past;
    const uint64_t begins = take_number(reader);
    const uint64_t changed = begins >> 1;
    static_assert(FIELD_time_ns == 0 && FIELD_address == 1, "what is expected follows from them");
    const uint64_t by = (changed & 1) != 0 ? unfolded(take_number(reader)) : 0;
    const uint64_t address = (changed >> FIELD_address & 1) != 0
                                 ? take_address(reader)
                                 : last_of(past)->numbers[FIELD_address];
    const mend_record_row *known = known_at(past, address);
    mend_record_row row = expected(past, known, begins % 2 != 0);
    row.numbers[FIELD_time_ns] += by;
    row.numbers[FIELD_address] = address;
    for (size_t i = FIELD_address + 1; i < MEND_RECORD_FIELDS; i++) {
        if (i == FIELD_requested_bytes && known == NULL) {
            row.numbers[i] = row.numbers[FIELD_size_bytes];
        }
        row.numbers[i] += (changed >> i & 1) != 0 ? unfolded(take_number(reader)) : 0;
    }
    remember(past, &row);
    return row;
}

bool mend_record_next_event(mend_record_reader *reader, mend_history_event *event)
{
    if (!take_one(reader)) {
        return false;
    }
    const mend_record_row row =
        reader->head.mark == MEND_RECORD_MARK ? next_row(reader) : next_row_1(reader);
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
        const uint32_t number = *named + 1;
        if (!mend_record_add_scope(block, mend_scopes_around(number),
                                   mend_scopes_entry(number)->name)) {
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
    begin_past(&block->past);
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
    mend_record_head *head = &reader->head;
    if (count < sizeof(*head)) {
        return false;
    }
    memcpy(head, bytes, sizeof(*head));
    const uint64_t room = mend_min_u64(count - sizeof(*head), MEND_RECORD_CONTENT_BYTES);
    reader->at = bytes + sizeof(*head);
    reader->end = reader->at + mend_min_u64(head->bytes, room);
    const bool is_whole = mend_record_is_mark(head->mark) && head->bytes % sizeof(uint64_t) == 0 &&
                          head->bytes <= room && head->count <= head->bytes &&
                          head->sum == sum_of(head, reader->at);
    if (is_whole) {
        begin_past(&reader->past);
    }
    return is_whole;
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
