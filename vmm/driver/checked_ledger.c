/* The ledger's records of one value, its devices and its chunks. Mappings: checked_mappings.c. */
#include "driver/checked_ledger.h"

#include <stdlib.h>

#include "base/align.h"
#include "driver/checked_records.h"

const char mend_checked_no_memory[] = "out of host memory";

int mend_checked_compare(const mend_tree_node *a, const mend_tree_node *b)
{
    uint64_t left = mend_checked_record_of(a)->key;
    uint64_t right = mend_checked_record_of(b)->key;
    return left < right ? -1 : left > right;
}

void mend_checked_books_init(mend_checked_books *books)
{
    mend_mutex_init(&books->mutex, MEND_RANK_DRIVER);
    mend_tree_init(&books->reservations, mend_checked_compare);
    mend_tree_init(&books->mappings, mend_checked_compare);
    mend_tree_init(&books->chunks, mend_checked_compare);
    mend_tree_init(&books->events, mend_checked_compare);
    mend_tree_init(&books->allocations, mend_checked_compare);
}

static void clear_tree(mend_tree *tree)
{
    for (mend_tree_node *node = mend_tree_first(tree); node != NULL; node = mend_tree_first(tree)) {
        mend_tree_remove(tree, node);
        free(mend_checked_record_of(node));
    }
}

void mend_checked_books_clear(mend_checked_books *books)
{
    /* Chunks without a handle live in their mappings alone. */
    for (mend_tree_node *node = mend_tree_first(&books->mappings); node != NULL;
         node = mend_tree_next(node)) {
        mend_checked_chunk *chunk = mend_checked_mapping_of(node)->chunk;
        if (--chunk->mappings == 0 && chunk->handles == 0) {
            free(chunk);
        }
    }
    clear_tree(&books->mappings);
    clear_tree(&books->chunks);
    clear_tree(&books->reservations);
    clear_tree(&books->events);
    clear_tree(&books->allocations);
    mend_mutex_destroy(&books->mutex);
}

void mend_checked_books_read(mend_checked_books *books, mend_checked_ledger *ledger)
{
    mend_mutex_lock(&books->mutex);
    *ledger = books->ledger;
    ledger->mappings = books->mappings.count;
    ledger->reservations = books->reservations.count;
    ledger->events = books->events.count;
    mend_mutex_unlock(&books->mutex);
}

void mend_checked_count_breach(mend_checked_books *books)
{
    mend_mutex_lock(&books->mutex);
    books->ledger.breaches++;
    mend_mutex_unlock(&books->mutex);
}

/* ---- devices ----------------------------------------------------------------------------- */

static bool is_device(int device)
{
    return device >= 0 && device < MEND_CHECKED_DEVICE_LIMIT;
}

void mend_checked_opened(mend_checked_books *books, int device, const mend_device_info *info)
{
    mend_mutex_lock(&books->mutex);
    if (is_device(device)) {
        books->opens[device]++;
    }
    uint64_t page_bytes = info->granularity_bytes;
    if (page_bytes != 0 && (books->page_bytes == 0 || page_bytes < books->page_bytes)) {
        books->page_bytes = page_bytes;
    }
    mend_mutex_unlock(&books->mutex);
}

const char *mend_checked_close_begin(mend_checked_books *books, int device)
{
    mend_mutex_lock(&books->mutex);
    bool is_open = is_device(device) && books->opens[device] > 0;
    if (is_open) {
        books->opens[device]--;
    }
    mend_mutex_unlock(&books->mutex);
    return is_open ? NULL : "each close needs an open of the device before it";
}

void mend_checked_close_end(mend_checked_books *books, int device, bool done)
{
    mend_mutex_lock(&books->mutex);
    books->opens[device] += done ? 0 : 1;
    mend_mutex_unlock(&books->mutex);
}

/* ---- records of one value ---------------------------------------------------------------- */

mend_checked_record *mend_checked_find(const mend_tree *tree, uint64_t key)
{
    mend_checked_record wanted = {.key = key};
    mend_tree_node *node = mend_tree_at_or_after(tree, &wanted.node);
    return node != NULL && mend_checked_record_of(node)->key == key ? mend_checked_record_of(node)
                                                                    : NULL;
}

mend_checked_record *mend_checked_around(const mend_tree *tree, uint64_t address)
{
    mend_checked_record wanted = {.key = address};
    mend_tree_node *node = mend_tree_at_or_before(tree, &wanted.node);
    if (node == NULL) {
        return NULL;
    }
    mend_checked_record *record = mend_checked_record_of(node);
    return address - record->key < record->size_bytes ? record : NULL;
}

const char *mend_checked_pages(const mend_checked_books *books, uint64_t address,
                               uint64_t size_bytes)
{
    if (books->page_bytes == 0) {
        return "a device with virtual memory must be open";
    }
    if (size_bytes == 0 || size_bytes % books->page_bytes != 0) {
        return "a size is a whole number of pages, not 0";
    }
    if (address % books->page_bytes != 0) {
        return "an address of a mapping is a multiple of the page";
    }
    return size_bytes > UINT64_MAX - address ? "the range ends behind the last address" : NULL;
}

const char *mend_checked_record_begin(mend_checked_record **record)
{
    *record = calloc(1, sizeof(**record));
    return *record == NULL ? mend_checked_no_memory : NULL;
}

const char *mend_checked_reserve_begin(mend_checked_books *books, uint64_t size_bytes,
                                       uint64_t alignment_bytes, mend_checked_record **record)
{
    mend_mutex_lock(&books->mutex);
    const char *rule = mend_checked_pages(books, 0, size_bytes);
    mend_mutex_unlock(&books->mutex);
    if (rule == NULL && alignment_bytes != 0 && !mend_is_power_of_two(alignment_bytes)) {
        rule = "an alignment is 0 or a power of two";
    }
    if (rule == NULL) {
        rule = mend_checked_record_begin(record);
    }
    if (rule == NULL) {
        (*record)->size_bytes = size_bytes;
    }
    return rule;
}

const char *mend_checked_free_begin(mend_checked_books *books, uint64_t address,
                                    uint64_t size_bytes, mend_checked_record **record)
{
    const char *rule = NULL;
    mend_mutex_lock(&books->mutex);
    mend_checked_record *found = mend_checked_find(&books->reservations, address);
    mend_checked_record wanted = {.key = address};
    mend_tree_node *mapped = mend_tree_at_or_after(&books->mappings, &wanted.node);
    if (found == NULL || found->size_bytes != size_bytes) {
        rule = "a reservation is freed whole, as it was made";
    } else if (mapped != NULL && mend_checked_record_of(mapped)->key - address < size_bytes) {
        rule = "a reservation is freed when no mapping lies in it";
    } else {
        mend_tree_remove(&books->reservations, &found->node);
        books->ledger.reserved_address_bytes -= size_bytes;
        *record = found;
    }
    mend_mutex_unlock(&books->mutex);
    return rule;
}

const char *mend_checked_allocate_begin(uint64_t size_bytes, mend_checked_record **record)
{
    const char *rule = size_bytes == 0 ? "an allocation has a size" : NULL;
    if (rule == NULL) {
        rule = mend_checked_record_begin(record);
    }
    if (rule == NULL) {
        (*record)->size_bytes = size_bytes;
    }
    return rule;
}

/* The caller holds the lock. */
static void put(mend_checked_books *books, mend_tree *tree, mend_checked_record *record)
{
    mend_tree_insert(tree, &record->node);
    if (tree == &books->reservations) {
        books->ledger.reserved_address_bytes += record->size_bytes;
    }
}

void mend_checked_enter(mend_checked_books *books, mend_tree *tree, mend_checked_record *record,
                        uint64_t key, bool done)
{
    if (!done) {
        free(record);
        return;
    }
    record->key = key;
    mend_mutex_lock(&books->mutex);
    put(books, tree, record);
    mend_mutex_unlock(&books->mutex);
}

mend_checked_record *mend_checked_take(mend_checked_books *books, mend_tree *tree, uint64_t key)
{
    mend_mutex_lock(&books->mutex);
    mend_checked_record *record = mend_checked_find(tree, key);
    if (record != NULL) {
        mend_tree_remove(tree, &record->node);
    }
    mend_mutex_unlock(&books->mutex);
    return record;
}

void mend_checked_taken(mend_checked_books *books, mend_tree *tree, mend_checked_record *record,
                        bool done)
{
    mend_checked_enter(books, tree, record, record->key, !done);
}

bool mend_checked_knows(mend_checked_books *books, const mend_tree *tree, uint64_t key)
{
    mend_mutex_lock(&books->mutex);
    bool known = mend_checked_find(tree, key) != NULL;
    mend_mutex_unlock(&books->mutex);
    return known;
}

/* ---- chunks ------------------------------------------------------------------------------ */

void mend_checked_chunk_settle(mend_checked_books *books, mend_checked_chunk *chunk)
{
    if (chunk->handles == 0 && chunk->mappings == 0 && chunk->calls == 0) {
        books->ledger.chunks--;
        books->ledger.chunk_bytes -= chunk->record.size_bytes;
        free(chunk);
    }
}

const char *mend_checked_create_begin(mend_checked_books *books, uint64_t size_bytes,
                                      const mend_chunk_properties *properties,
                                      mend_checked_chunk **chunk)
{
    enum { ALL_SHARE_TYPES = MEND_SHARE_FILE_DESCRIPTOR | MEND_SHARE_FABRIC };
    if (properties == NULL || (properties->share_types & ~ALL_SHARE_TYPES) != 0) {
        return "a chunk is created with properties the driver knows";
    }
    mend_mutex_lock(&books->mutex);
    const char *rule = mend_checked_pages(books, 0, size_bytes);
    if (!is_device(properties->device) || books->opens[properties->device] == 0) {
        rule = "a chunk is created on a device that is open";
    }
    mend_mutex_unlock(&books->mutex);
    if (rule != NULL) {
        return rule;
    }
    mend_checked_chunk *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return mend_checked_no_memory;
    }
    created->record.size_bytes = size_bytes;
    created->share_types = properties->share_types;
    *chunk = created;
    return NULL;
}

const char *mend_checked_import_begin(mend_checked_books *books, int share_type,
                                      mend_checked_chunk **chunk)
{
    (void)books;
    if (share_type != MEND_SHARE_FILE_DESCRIPTOR && share_type != MEND_SHARE_FABRIC) {
        return "a chunk is shared by one of the known types";
    }
    mend_checked_chunk *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return mend_checked_no_memory;
    }
    created->imported = true;
    *chunk = created;
    return NULL;
}

void mend_checked_create_end(mend_checked_books *books, mend_checked_chunk *chunk,
                             mend_chunk_handle handle, bool done)
{
    if (!done) {
        free(chunk);
        return;
    }
    mend_mutex_lock(&books->mutex);
    mend_checked_record *known = mend_checked_find(&books->chunks, handle);
    if (known != NULL) { /* an import of a chunk of our own may give its handle once more */
        mend_checked_chunk_of(&known->node)->handles++;
        free(chunk);
    } else {
        chunk->record.key = handle;
        chunk->handles = 1;
        mend_tree_insert(&books->chunks, &chunk->record.node);
        books->ledger.chunks++;
        books->ledger.chunk_bytes += chunk->record.size_bytes;
    }
    mend_mutex_unlock(&books->mutex);
}

const char *mend_checked_release_begin(mend_checked_books *books, mend_chunk_handle handle,
                                       mend_checked_chunk **chunk)
{
    mend_mutex_lock(&books->mutex);
    mend_checked_record *found = mend_checked_find(&books->chunks, handle);
    if (found != NULL) {
        *chunk = mend_checked_chunk_of(&found->node);
        (*chunk)->calls++;
        if (--(*chunk)->handles == 0) {
            mend_tree_remove(&books->chunks, &found->node);
        }
    }
    mend_mutex_unlock(&books->mutex);
    return found != NULL ? NULL : "only a handle that is held can be released";
}

void mend_checked_release_end(mend_checked_books *books, mend_checked_chunk *chunk, bool done)
{
    mend_mutex_lock(&books->mutex);
    chunk->calls--;
    if (!done && chunk->handles++ == 0) {
        mend_tree_insert(&books->chunks, &chunk->record.node);
    }
    mend_checked_chunk_settle(books, chunk);
    mend_mutex_unlock(&books->mutex);
}

const char *mend_checked_export(mend_checked_books *books, mend_chunk_handle handle, int share_type)
{
    const char *rule = NULL;
    mend_mutex_lock(&books->mutex);
    mend_checked_record *found = mend_checked_find(&books->chunks, handle);
    if (share_type != MEND_SHARE_FILE_DESCRIPTOR && share_type != MEND_SHARE_FABRIC) {
        rule = "a chunk is shared by one of the known types";
    } else if (found == NULL) {
        rule = "only a handle that is held can be exported";
    } else if (!mend_checked_chunk_of(&found->node)->imported &&
               (mend_checked_chunk_of(&found->node)->share_types & share_type) == 0) {
        rule = "a chunk is exported only as a type it was created for";
    }
    mend_mutex_unlock(&books->mutex);
    return rule;
}
