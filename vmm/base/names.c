/* A hash table of chains, the newest first, as that of scopes: entries lie in pieces that never
 * move, and are found without the lock. */
#include "base/names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((uint64_t)MEND_NAME_PIECES * MEND_NAME_PIECE > MEND_NAMES_MOST,
              "each index has its place");

static _Atomic(uint32_t) *bucket_of(mend_name_kind kind, uint64_t number)
{
    const uint64_t hash = (number + kind) * UINT64_C(0x9E3779B97F4A7C15);
    return &mend_process_own_names.buckets[(hash >> 32) % MEND_NAME_BUCKETS];
}

const mend_name_entry *mend_names_entry(uint32_t index)
{
    assert(index > 0);
    assert(index <= mend_names_count());
    return &mend_process_own_names.pieces[index / MEND_NAME_PIECE][index % MEND_NAME_PIECE];
}

uint32_t mend_names_count(void)
{
    return atomic_load_explicit(&mend_process_own_names.count, memory_order_acquire);
}

const char *mend_names_find(mend_name_kind kind, uint64_t number)
{
    uint32_t at = atomic_load_explicit(bucket_of(kind, number), memory_order_acquire);
    while (at != 0) {
        const mend_name_entry *entry = mend_names_entry(at);
        if (entry->number == number && entry->kind == (uint32_t)kind) {
            return entry->name[0] != '\0' ? entry->name : NULL;
        }
        at = entry->next;
    }
    return NULL;
}

/* The caller holds the mutex. The count is written when the entry is whole, and the bucket last: a
 * child of a fork in between has the name in no bucket. */
static bool add_entry(mend_process_names *names, mend_name_kind kind, uint64_t number,
                      const char *name)
{
    const uint32_t index = mend_names_count() + 1;
    if (index > MEND_NAMES_MOST) {
        return false;
    }
    mend_name_entry **piece = &names->pieces[index / MEND_NAME_PIECE];
    if (*piece == NULL) {
        *piece = calloc(MEND_NAME_PIECE, sizeof(**piece));
    }
    if (*piece == NULL) {
        return false;
    }
    _Atomic(uint32_t) *bucket = bucket_of(kind, number);
    mend_name_entry *entry = &(*piece)[index % MEND_NAME_PIECE];
    *entry = (mend_name_entry){.number = number, .kind = kind, .next = *bucket};
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    atomic_store_explicit(&names->count, index, memory_order_release);
    atomic_store_explicit(bucket, index, memory_order_release);
    return true;
}

bool mend_names_set(mend_name_kind kind, uint64_t number, const char *name)
{
    mend_process_names *names = &mend_process_own_names;
    mend_mutex_lock(&names->mutex);
    const char *before = mend_names_find(kind, number);
    const bool is_known = strncmp(before != NULL ? before : "", name, MEND_NAME_BYTES - 1) == 0 ||
                          add_entry(names, kind, number, name);
    mend_mutex_unlock(&names->mutex);
    return is_known;
}
