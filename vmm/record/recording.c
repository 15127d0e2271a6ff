/* Blocks of a recording are filled event by event. */
#include "record/recording.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "base/words.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static uint8_t *put_number(uint8_t *to, uint64_t number)
{
    for (; number >= MEND_RECORD_MORE; number >>= MEND_RECORD_BITS) {
        *to++ = (uint8_t)(number | MEND_RECORD_MORE);
    }
    *to++ = (uint8_t)number;
    return to;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Small numbers below 0 stay small. */
static uint64_t folded(uint64_t by)
{
    return by << 1 ^ (0 - (by >> 63));
}

static uint8_t *put_address(uint8_t *to, const mend_record_past *past, const mend_record_row *known,
                            uint64_t address)
{
    const uint64_t by = address - mend_record_last(past)->numbers[MEND_FIELD_address];
    if (known != NULL) {
        const uint64_t back = (uint64_t)(&past->rows[past->count - 1] - known);
        return put_number(to, back << MEND_AT_BITS | MEND_AT_EARLIER);
    }
    if (by % MEND_GRANULE_BYTES == 0) {
        const uint64_t granules = (uint64_t)((int64_t)by / (int64_t)MEND_GRANULE_BYTES);
        return put_number(to, folded(granules) << MEND_AT_BITS | MEND_AT_GRANULES);
    }
    return put_number(put_number(to, MEND_AT_BYTES), address);
}

/* An event begins with a number: whether its kind is expected to be FREE and not ALLOC, and a bit
 * for each field that is not as expected. */
bool mend_record_add_event(mend_record_block *block, const mend_history_event *event)
{
    enum { MOST_BYTES = (MEND_RECORD_FIELDS + 2) * MEND_RECORD_NUMBER_BYTES };
    if (block->head.count == MEND_RECORD_EVENTS_MOST ||
        block->head.bytes + MOST_BYTES > MEND_RECORD_CONTENT_BYTES) {
        return false;
    }
    mend_record_past *past = &block->past;
#define PUT(field, type) (uint64_t)(uintptr_t) event->field,
    const mend_record_row row = {{MEND_RECORD_ROW(PUT)}};
#undef PUT
    const uint64_t address = row.numbers[MEND_FIELD_address];
    const mend_record_row *known = mend_record_known(past, address);
    const bool is_free = event->kind == MEND_EVENT_FREE;
    mend_record_row like = mend_record_expected(past, known, is_free);
    if (known == NULL) {
        like.numbers[MEND_FIELD_requested_bytes] = row.numbers[MEND_FIELD_size_bytes];
    }
    uint64_t changed = 0;
    for (size_t i = 0; i < MEND_RECORD_FIELDS; i++) {
        changed |= (uint64_t)(row.numbers[i] != like.numbers[i]) << i;
    }
    uint8_t *to = put_number(block->content + block->head.bytes, changed << 1 | is_free);
    for (uint64_t left = changed; left != 0; left &= left - 1) {
        const int field = __builtin_ctzll(left);
        to = field == MEND_FIELD_address
                 ? put_address(to, past, known, address)
                 : put_number(to, folded(row.numbers[field] - like.numbers[field]));
    }
    block->head.bytes = (uint32_t)(to - block->content);
    block->head.count++;
    mend_record_remember(past, &row);
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

size_t mend_words_join(char *text, size_t text_bytes, const char *part)
{
    const size_t before = strlen(text);
    const size_t used = before + (before > 0 ? strlen(", ") : 0);
    if (used + 1 >= text_bytes) {
        return 0;
    }
    char *const to = text + used;
    const size_t room = text_bytes - used - 1;
    const size_t whole = strlen(part);
    size_t bytes = mend_min_u64(whole, room);
    while (bytes > 0 && bytes < whole && ((unsigned char)part[bytes] & 0xc0) == 0x80) {
        bytes--; /* within a character of UTF-8 */
    }
    memcpy(to, part, bytes);
    to[bytes] = '\0';
    if (bytes > 0) {
        memcpy(text + before, ", ", used - before);
    }
    return bytes;
}

/* Of a scope, whose kind is 0, the number of the scope around. */
bool mend_record_add_name(mend_record_block *block, uint32_t kind, uint64_t number,
                          const char *name)
{
    enum { MOST_BYTES = 3 * MEND_RECORD_NUMBER_BYTES + MEND_NAME_BYTES };
    uint8_t *to = block->content + block->head.bytes;
    if (block->head.bytes + MOST_BYTES > MEND_RECORD_CONTENT_BYTES) {
        return false;
    }
    const size_t length = strlen(name);
    to = kind != 0 ? put_number(to, kind) : to;
    to = put_number(put_number(to, number), length);
    memcpy(to, name, length + 1); /* the next contents begin on the zero */
    block->head.bytes = (uint32_t)(to + length - block->content);
    block->head.count++;
    return true;
}

static mend_process_names *names_of(mend_record_kind kind)
{
    return kind == MEND_RECORD_SCOPES ? &mend_process_own_scopes : &mend_process_own_names;
}

void mend_record_fill_names(mend_record_block *block, mend_record_kind kind, uint32_t *named)
{
    const uint32_t count = mend_names_count(names_of(kind));
    bool fits = true;
    mend_record_begin(block, kind);
    block->head.first = *named + 1;
    while (*named < count && fits) {
        const mend_name_entry *entry = mend_names_entry(names_of(kind), *named + 1);
        fits = mend_record_add_name(block, entry->kind, entry->number, entry->name);
        *named += fits;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void mend_record_begin(mend_record_block *block, mend_record_kind kind)
{
    block->head = (mend_record_head){.mark = MEND_RECORD_MARK, .kind = kind};
    mend_record_begin_past(&block->past);
}

void mend_record_fill(mend_record_block *block, mend_record_kind kind, const void *content,
                      size_t bytes)
{
    mend_record_begin(block, kind);
    memcpy(block->content, content, bytes);
    block->head.bytes = (uint32_t)bytes;
}

size_t mend_record_seal(mend_record_block *block, uint64_t number, uint64_t lost)
{
    while (block->head.bytes % sizeof(uint64_t) != 0) {
        block->content[block->head.bytes++] = 0;
    }
    block->head.number = number;
    block->head.lost = lost;
    block->head.sum = mend_record_sum(&block->head, block->content);
    return sizeof(block->head) + block->head.bytes;
}

/* ---- the file -------------------------------------------------------------------------------- */

void mend_record_write(mend_record_file *to)
{
    const uint64_t lost =
        to->lost != NULL ? atomic_load_explicit(to->lost, memory_order_relaxed) : 0;
    const size_t bytes = mend_record_seal(&to->block, to->number + 1, lost);
    const mend_record_head *head = &to->block.head;
    errno = ENOSPC; /* a partial write does not set it */
    if (mend_may_be_file_size(to->at + bytes) &&
        pwrite(to->file, &to->block, bytes, (off_t)to->at) == (ssize_t)bytes) {
        to->at += bytes;
        to->number++;
        return;
    }
    to->error = to->error != 0 ? to->error : errno;
    if (to->lost != NULL && head->kind == MEND_RECORD_EVENTS) {
        atomic_fetch_add_explicit(to->lost, head->count, memory_order_relaxed);
    }
}

void mend_record_put(mend_record_file *to, const mend_history_event *event)
{
    if (!mend_record_add_event(&to->block, event)) {
        const mend_record_kind kind = to->block.head.kind;
        mend_record_write(to);
        mend_record_begin(&to->block, kind);
        (void)mend_record_add_event(&to->block, event);
    }
}

void mend_record_write_names(mend_record_file *to, uint64_t end)
{
    while (to->names < mend_names_count(&mend_process_own_names) && to->at < end) {
        mend_record_fill_names(&to->block, MEND_RECORD_NAMES, &to->names);
        mend_record_write(to);
    }
    while (to->scopes < mend_names_count(&mend_process_own_scopes) && to->at < end) {
        mend_record_fill_names(&to->block, MEND_RECORD_SCOPES, &to->scopes);
        mend_record_write(to);
    }
}
