/*
 * Names are found in a hash table of chains. Entries lie in pieces that never move, so a reader
 * that has a number needs no lock.
 */
#include "base/scopes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static_assert((uint64_t)MEND_SCOPE_PIECES * MEND_SCOPE_PIECE > MEND_SCOPES_MOST,
              "each number has its place");

static uint32_t bucket_of(uint32_t around, const char *name)
{
    const uint64_t hash = mend_hash(MEND_HASH_OF_NOTHING ^ around, name, strlen(name));
    return (uint32_t)(hash >> 32) % MEND_SCOPE_BUCKETS;
}

const mend_scope_entry *mend_scopes_entry(uint32_t number)
{
    const mend_process_scopes *scopes = &mend_process_own_scopes;
    assert(number > 0);
    assert(number <= mend_scopes_count());
    return &scopes->pieces[number / MEND_SCOPE_PIECE][number % MEND_SCOPE_PIECE];
}

uint32_t mend_scopes_count(void)
{
    return atomic_load_explicit(&mend_process_own_scopes.count, memory_order_acquire);
}

/* The caller holds the mutex. */
static uint32_t find(const mend_process_scopes *scopes, uint32_t bucket, uint32_t around,
                     const char *name)
{
    for (uint32_t at = scopes->buckets[bucket]; at != 0; at = mend_scopes_entry(at)->next) {
        const mend_scope_entry *entry = mend_scopes_entry(at);
        if (entry->around == around && strcmp(entry->name, name) == 0) {
            return at;
        }
    }
    return 0;
}

/*
 * The caller holds the mutex. The count is written when the entry is whole, and the bucket last: a
 * child of a fork in between has the number without its name in the bucket, and names it again.
 */
static uint32_t make_entry(mend_process_scopes *scopes, uint32_t bucket, uint32_t around,
                           const char *name)
{
    const uint32_t number = mend_scopes_count() + 1;
    if (number > MEND_SCOPES_MOST) {
        return 0;
    }
    mend_scope_entry **piece = &scopes->pieces[number / MEND_SCOPE_PIECE];
    if (*piece == NULL) {
        *piece = calloc(MEND_SCOPE_PIECE, sizeof(**piece));
    }
    if (*piece == NULL) {
        return 0;
    }
    mend_scope_entry *entry = &(*piece)[number % MEND_SCOPE_PIECE];
    *entry = (mend_scope_entry){.around = around, .next = scopes->buckets[bucket]};
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    atomic_store_explicit(&scopes->count, number, memory_order_release);
    scopes->buckets[bucket] = number;
    return number;
}

uint32_t mend_scopes_number(uint32_t around, const char *name)
{
    mend_process_scopes *scopes = &mend_process_own_scopes;
    char kept[MEND_SCOPE_NAME_BYTES]; /* what counts of a long name */
    const char *end = memchr(name, 0, sizeof(kept) - 1);
    const size_t length = end != NULL ? (size_t)(end - name) : sizeof(kept) - 1;
    memcpy(kept, name, length);
    kept[length] = '\0';
    const uint32_t bucket = bucket_of(around, kept);
    mend_mutex_lock(&scopes->mutex);
    uint32_t number = find(scopes, bucket, around, kept);
    if (number == 0) {
        number = make_entry(scopes, bucket, around, kept);
    }
    mend_mutex_unlock(&scopes->mutex);
    return number;
}

/* Writes a name, so that no two paths are one: what separates names has a backslash before it.
 * Returns the bytes, which may be more than there is room for. */
static size_t write_name(const char *name, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (; *name != '\0'; name++) {
        const char *const before = *name == '/' || *name == '\\' ? "\\" : "";
        used += (size_t)snprintf(text + (used < text_bytes ? used : text_bytes),
                                 used < text_bytes ? text_bytes - used : 0, "%s%c", before, *name);
    }
    return used;
}

/* Innermost names alone of a deep path: a program that forgets pops has 65,535 of them. */
size_t mend_scopes_write_path(uint32_t number, char *text, size_t text_bytes)
{
    uint32_t path[MEND_SCOPE_PATH_NAMES];
    size_t count = 0;
    for (; number != 0 && count < MEND_SCOPE_PATH_NAMES; count++) {
        path[count] = number;
        number = mend_scopes_entry(number)->around;
    }
    size_t used = (size_t)snprintf(text, text_bytes, "%s", number != 0 ? ".../" : "");
    while (count-- > 0 && used < text_bytes) {
        used += write_name(mend_scopes_entry(path[count])->name, text + used, text_bytes - used);
        if (count > 0 && used < text_bytes) {
            used += (size_t)snprintf(text + used, text_bytes - used, "/");
        }
    }
    return used < text_bytes ? used : text_bytes - 1;
}
