#include "lab/support/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"

enum { CHUNK_BYTES = 1 << 18 };

typedef struct mend_value_chunk {
    struct mend_value_chunk *next;
    max_align_t bytes[];
} value_chunk;

void mend_value_store_init(mend_value_store *store, const char *const *keys)
{
    *store = (mend_value_store){.keys = keys, .bytes_left = MEND_VALUE_STORE_BYTES};
}

void mend_value_store_clear(mend_value_store *store)
{
    while (store->chunks != NULL) {
        value_chunk *chunk = store->chunks;
        store->chunks = chunk->next;
        free(chunk);
    }
    free(store->stack);
    store->stack = NULL;
}

static bool fail(mend_value_store *store, const char *reason)
{
    store->reason = reason;
    return false;
}

static bool fail_of_memory(mend_value_store *store)
{
    store->is_out_of_memory = true;
    return fail(store, "no host memory for it");
}

bool mend_value_store_charge(mend_value_store *store, uint64_t size)
{
    if (size > store->bytes_left) {
        return fail(store, "it needs too much host memory, more than 4 GiB or 256 times the file");
    }
    store->bytes_left -= size;
    return true;
}

void *mend_value_store_take(mend_value_store *store, size_t size)
{
    size = (size_t)mend_align_up(size, sizeof(mend_value));
    if (size > store->free_count) {
        size_t chunk_bytes = (size_t)mend_max_u64(size, CHUNK_BYTES);
        if (!mend_value_store_charge(store, chunk_bytes)) {
            return NULL;
        }
        value_chunk *chunk = malloc(sizeof(*chunk) + chunk_bytes);
        if (chunk == NULL) {
            fail_of_memory(store);
            return NULL;
        }
        chunk->next = store->chunks;
        store->chunks = chunk;
        store->free_bytes = (char *)chunk->bytes;
        store->free_count = chunk_bytes;
    }
    void *taken = store->free_bytes;
    store->free_bytes += size;
    store->free_count -= size;
    return taken;
}

bool mend_value_push(mend_value_store *store, mend_value value)
{
    if (store->count == store->room) {
        size_t room = store->room == 0 ? 1024 : store->room * 2;
        if (!mend_value_store_charge(store, (room - store->room) * sizeof(mend_value))) {
            return false;
        }
        mend_value *grown = reallocarray(store->stack, room, sizeof(mend_value));
        if (grown == NULL) {
            return fail_of_memory(store);
        }
        store->stack = grown;
        store->room = room;
    }
    store->stack[store->count++] = value;
    return true;
}

bool mend_value_push_text(mend_value_store *store, const char *text, size_t length)
{
    char *copy = mend_value_store_take(store, length + 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    return mend_value_push(store, (mend_value){.kind = MEND_VALUE_TEXT, .text = copy});
}

bool mend_value_push_empty(mend_value_store *store, mend_value_kind kind)
{
    mend_value_items *items = mend_value_store_take(store, sizeof(*items));
    if (items == NULL) {
        return false;
    }
    *items = (mend_value_items){.depth = 1};
    return mend_value_push(store, (mend_value){.kind = kind, .items = items});
}

bool mend_value_store_keeps(const mend_value_store *store, const char *key)
{
    const char *const *kept = store->keys;
    while (kept != NULL && *kept != NULL && strcmp(*kept, key) != 0) {
        kept++;
    }
    return kept == NULL || *kept != NULL;
}

/* Leaves out keys that are not kept or no texts. How many values are left of keys and values. */
static size_t leave_out(const mend_value_store *store, mend_value *pairs, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i += 2) {
        if (pairs[i].kind == MEND_VALUE_TEXT && mend_value_store_keeps(store, pairs[i].text)) {
            pairs[left] = pairs[i];
            pairs[left + 1] = pairs[i + 1];
            left += 2;
        }
    }
    return left;
}

/* The values are in this list from now on. Weights are far from an overflow: none that is held is
 * above the limit, and memory limits the count. */
static void hold(const mend_value *values, size_t count, mend_value_items *in)
{
    in->weight += count;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == MEND_VALUE_LIST || values[i].kind == MEND_VALUE_DICT) {
            values[i].items->is_held = true;
            in->depth = (uint32_t)mend_max_u64(in->depth, values[i].items->depth + 1);
            in->weight += values[i].items->weight;
        }
    }
}

static bool make_room(mend_value_store *store, mend_value_items *items, size_t count)
{
    if (items->count + count <= items->room) {
        return true;
    }
    size_t room = (size_t)mend_max_u64(items->count + count, 2 * items->room);
    mend_value *values = mend_value_store_take(store, room * sizeof(mend_value));
    if (values == NULL) {
        return false;
    }
    if (items->count > 0) {
        memcpy(values, items->values, items->count * sizeof(mend_value));
    }
    items->values = values;
    items->room = room;
    return true;
}

bool mend_value_move(mend_value_store *store, mend_value into, size_t from)
{
    mend_value *moved = store->stack + from;
    size_t count = store->count - from;
    store->count = from;
    if (into.kind == MEND_VALUE_DICT && count % 2 != 0) {
        return fail(store, "a key without a value");
    }
    if (into.kind == MEND_VALUE_DICT) {
        count = leave_out(store, moved, count);
    } else if (into.kind != MEND_VALUE_LIST) {
        return fail(store, "values for neither a list nor a dictionary");
    }
    if (count == 0) {
        return true;
    }
    mend_value_items *items = into.items;
    hold(moved, count, items);
    /* A list that holds itself, at any depth, would be changed when it is in another one. */
    if (items->is_held) {
        return fail(store, "a list that changes after it was put into another one, or into itself");
    }
    if (items->depth > MEND_VALUE_DEPTH) {
        return fail(store, "lists are nested too deep");
    }
    if (items->weight > MEND_VALUE_MOST_WEIGHT) {
        return fail(store, "its lists are in one another too often");
    }
    if (!make_room(store, items, count)) {
        return false;
    }
    memcpy(items->values + items->count, moved, count * sizeof(mend_value));
    items->count += count;
    return true;
}

mend_result mend_value_store_fail(const mend_value_store *store, const char *path,
                                  uint64_t position, const char *reason)
{
    return mend_fail(store->is_out_of_memory ? MEND_ERROR_OUT_OF_HOST_MEMORY
                                             : MEND_ERROR_INVALID_ARGUMENT,
                     "%s: byte %llu: %s", path, (unsigned long long)position, reason);
}

mend_value mend_value_of(mend_value dict, const char *key)
{
    size_t count = dict.kind == MEND_VALUE_DICT ? dict.items->count : 0;
    for (size_t i = 0; i < count; i += 2) {
        if (strcmp(dict.items->values[i].text, key) == 0) {
            return dict.items->values[i + 1];
        }
    }
    return (mend_value){.kind = MEND_VALUE_ABSENT};
}

size_t mend_value_count(mend_value list)
{
    return list.kind == MEND_VALUE_LIST ? list.items->count : 0;
}
