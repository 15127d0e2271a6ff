/* A machine with a stack, marks on it, and a memo of values that come again. Each opcode is a line
 * of a table. */
#include "lab/support/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"

enum { MARKS = 1000, NEWEST_PROTOCOL = 5, REASON_BYTES = 128 };

typedef struct pickle_reader {
    mend_byte_source *source;
    mend_value_store *store;
    size_t marks[MARKS]; /* how many values were on the stack */
    size_t mark_count;
    mend_value *memo; /* absent: not given yet */
    size_t memo_count;
    size_t memo_room;
    bool has_ended;
    char reason[REASON_BYTES];
} pickle_reader;

static bool fail(pickle_reader *reader, const char *reason)
{
    reader->store->reason = reason;
    return false;
}

static bool take(pickle_reader *reader, void *bytes, uint64_t count)
{
    const char *reason = mend_byte_source_take(reader->source, bytes, count);
    return reason == NULL || fail(reader, reason);
}

/* The values that an opcode may use: those above the last mark. */
static size_t usable(const pickle_reader *reader)
{
    size_t floor = reader->mark_count > 0 ? reader->marks[reader->mark_count - 1] : 0;
    return reader->store->count - floor;
}

static bool needs(pickle_reader *reader, uint64_t count)
{
    return usable(reader) >= count || fail(reader, "an opcode without its values");
}

static bool pop_mark(pickle_reader *reader, size_t *from)
{
    if (reader->mark_count == 0) {
        return fail(reader, "an opcode without its mark");
    }
    *from = reader->marks[--reader->mark_count];
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool push_other(pickle_reader *reader, uint64_t ignored)
{
    (void)ignored;
    return mend_value_push(reader->store, (mend_value){.kind = MEND_VALUE_OTHER});
}

static bool push_number(pickle_reader *reader, uint64_t number)
{
    return mend_value_push(reader->store,
                           (mend_value){.kind = MEND_VALUE_NUMBER, .number = number});
}

static bool push_signed(pickle_reader *reader, uint64_t number)
{
    return number >> 31 == 0 ? push_number(reader, number) : push_other(reader, 0);
}

/* `size` bytes, the lowest first, and negative where the highest bit is set. */
static bool push_long(pickle_reader *reader, uint64_t size)
{
    unsigned char bytes[UINT8_MAX];
    if (!take(reader, bytes, size)) {
        return false;
    }
    uint64_t number = 0;
    bool fits = size == 0 || bytes[size - 1] < 0x80;
    for (size_t i = size; i-- > 0;) {
        fits = fits && number >> 56 == 0;
        number = number << 8 | bytes[i];
    }
    return fits ? push_number(reader, number) : push_other(reader, 0);
}

static bool push_text(pickle_reader *reader, uint64_t size)
{
    char text[MEND_VALUE_TEXT_BYTES];
    size_t kept = (size_t)mend_min_u64(size, sizeof(text));
    return take(reader, text, kept) && take(reader, NULL, size - kept) &&
           mend_value_push_text(reader->store, text, kept);
}

static bool push_empty(pickle_reader *reader, uint64_t kind)
{
    return mend_value_push_empty(reader->store, (mend_value_kind)kind);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Moves the last `count` values into the list or dictionary below them. */
static bool append(pickle_reader *reader, uint64_t count)
{
    mend_value_store *store = reader->store;
    if (!needs(reader, count + 1)) {
        return false;
    }
    size_t from = store->count - count;
    return mend_value_move(store, store->stack[from - 1], from);
}

static bool append_all(pickle_reader *reader, uint64_t ignored)
{
    (void)ignored;
    size_t from;
    return pop_mark(reader, &from) && append(reader, reader->store->count - from);
}

/* Replaces the last `count` values by a tuple of them. */
static bool make_tuple(pickle_reader *reader, uint64_t count)
{
    mend_value_store *store = reader->store;
    if (!needs(reader, count) || !mend_value_push_empty(store, MEND_VALUE_LIST)) {
        return false;
    }
    mend_value tuple = store->stack[--store->count];
    return mend_value_move(store, tuple, store->count - count) && mend_value_push(store, tuple);
}

static bool make_tuple_of_all(pickle_reader *reader, uint64_t ignored)
{
    (void)ignored;
    size_t from;
    return pop_mark(reader, &from) && make_tuple(reader, reader->store->count - from);
}

static bool mark(pickle_reader *reader, uint64_t ignored)
{
    (void)ignored;
    if (reader->mark_count == MARKS) {
        return fail(reader, "lists are nested too deep");
    }
    reader->marks[reader->mark_count++] = reader->store->count;
    return true;
}

/* ---- the memo -------------------------------------------------------------------------------- */

static bool grow_memo(pickle_reader *reader, size_t index)
{
    size_t room = (size_t)mend_max_u64(1024, 2 * mend_max_u64(reader->memo_room, index));
    if (!mend_value_store_charge(reader->store, (room - reader->memo_room) * sizeof(mend_value))) {
        return false;
    }
    mend_value *grown = reallocarray(reader->memo, room, sizeof(mend_value));
    if (grown == NULL) {
        reader->store->is_out_of_memory = true;
        return fail(reader, "no host memory for it");
    }
    reader->memo = grown;
    reader->memo_room = room;
    return true;
}

/* Pythons count up from 0. A file has no more values than bytes. */
static bool put(pickle_reader *reader, uint64_t index)
{
    mend_value_store *store = reader->store;
    if (index > mend_byte_source_position(reader->source)) {
        return fail(reader, "a memo of more values than the file has bytes");
    }
    if (!needs(reader, 1) || (index >= reader->memo_room && !grow_memo(reader, (size_t)index))) {
        return false;
    }
    while (reader->memo_count <= index) {
        reader->memo[reader->memo_count++] = (mend_value){.kind = MEND_VALUE_ABSENT};
    }
    reader->memo[index] = store->stack[store->count - 1];
    return true;
}

static bool memoize(pickle_reader *reader, uint64_t ignored)
{
    (void)ignored;
    return put(reader, reader->memo_count);
}

static bool get(pickle_reader *reader, uint64_t index)
{
    if (index >= reader->memo_count || reader->memo[index].kind == MEND_VALUE_ABSENT) {
        return fail(reader, "a value of the memo that is not there");
    }
    return mend_value_push(reader->store, reader->memo[index]);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static bool check_protocol(pickle_reader *reader, uint64_t protocol)
{
    if (protocol > NEWEST_PROTOCOL) {
        return fail(reader, "a pickle of a newer protocol than 5");
    }
    return true;
}

static bool ignore(pickle_reader *reader, uint64_t ignored)
{
    (void)reader;
    (void)ignored;
    return true;
}

static bool stop(pickle_reader *reader, uint64_t ignored)
{
    (void)ignored;
    reader->has_ended = true;
    return (reader->mark_count == 0 && reader->store->count == 1) ||
           fail(reader, "a pickle that ends with another number of values than one");
}

static const struct opcode {
    unsigned char code;
    unsigned char argument_bytes; /* behind it, the lowest first. 0: the argument is `constant` */
    bool (*act)(pickle_reader *reader, uint64_t argument);
    uint64_t constant;
} opcodes[] = {
    {0x80, 1, check_protocol, 0},
    {0x95, 8, ignore, 0}, /* the length of a frame, for readers that want it at once */
    {'.', 0, stop, 0},
    {'N', 0, push_other, 0},
    {'G', 8, push_other, 0},
    {0x88, 0, push_number, 1}, /* true */
    {0x89, 0, push_number, 0},
    {'K', 1, push_number, 0},
    {'M', 2, push_number, 0},
    {'J', 4, push_signed, 0},
    {0x8a, 1, push_long, 0},
    {0x8c, 1, push_text, 0},
    {'X', 4, push_text, 0},
    {0x8d, 8, push_text, 0},
    {']', 0, push_empty, MEND_VALUE_LIST},
    {')', 0, push_empty, MEND_VALUE_LIST},
    {'}', 0, push_empty, MEND_VALUE_DICT},
    {'(', 0, mark, 0},
    {'a', 0, append, 1},
    {'s', 0, append, 2},
    {'e', 0, append_all, 0},
    {'u', 0, append_all, 0},
    {0x85, 0, make_tuple, 1},
    {0x86, 0, make_tuple, 2},
    {0x87, 0, make_tuple, 3},
    {'t', 0, make_tuple_of_all, 0},
    {'q', 1, put, 0},
    {'r', 4, put, 0},
    {0x94, 0, memoize, 0},
    {'h', 1, get, 0},
    {'j', 4, get, 0},
};

static bool run_one(pickle_reader *reader)
{
    unsigned char code;
    if (!take(reader, &code, 1)) {
        return false;
    }
    const struct opcode *opcode = opcodes;
    const struct opcode *end = opcodes + sizeof(opcodes) / sizeof(*opcodes);
    while (opcode < end && opcode->code != code) {
        opcode++;
    }
    if (opcode == end) {
        snprintf(reader->reason, REASON_BYTES,
                 "opcode 0x%02x is none of plain data; nothing of a pickle is run", code);
        return fail(reader, reader->reason);
    }
    unsigned char bytes[8];
    if (!take(reader, bytes, opcode->argument_bytes)) {
        return false;
    }
    uint64_t argument = opcode->constant;
    for (size_t i = opcode->argument_bytes; i-- > 0;) {
        argument = argument << 8 | bytes[i];
    }
    return opcode->act(reader, argument);
}

mend_result mend_pickle_read(mend_byte_source *source, mend_value_store *store)
{
    pickle_reader reader = {.source = source, .store = store};
    bool is_good = true;
    uint64_t position = 0;
    while (is_good && !reader.has_ended) {
        position = mend_byte_source_position(source);
        is_good = run_one(&reader);
    }
    free(reader.memo);
    return is_good ? MEND_OK : mend_value_store_fail(store, source->path, position, store->reason);
}
