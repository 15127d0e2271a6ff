/* The ledger's mappings: what may be mapped, unmapped, made accessible and touched. */
#include <stdlib.h>

#include "driver/checked_ledger.h"
#include "driver/checked_records.h"

static const char being_changed[] = "another thread is changing a mapping of the range";

/* The mapping that begins at `address`. */
static mend_checked_mapping *mapping_at(const mend_checked_books *books, uint64_t address)
{
    mend_checked_record *record = mend_checked_find(&books->mappings, address);
    return record != NULL ? mend_checked_mapping_of(&record->node) : NULL;
}

static bool overlaps_mapping(const mend_checked_books *books, uint64_t address, uint64_t size_bytes)
{
    mend_checked_record wanted = {.key = address};
    mend_tree_node *next = mend_tree_at_or_after(&books->mappings, &wanted.node);
    return mend_checked_around(&books->mappings, address) != NULL ||
           (next != NULL && mend_checked_record_of(next)->key - address < size_bytes);
}

static bool lies_in_one_reservation(const mend_checked_books *books, uint64_t address,
                                    uint64_t size_bytes)
{
    const mend_checked_record *reservation = mend_checked_around(&books->reservations, address);
    return reservation != NULL &&
           size_bytes <= reservation->size_bytes - (address - reservation->key);
}

static const char *map_rule(const mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                            uint64_t offset_bytes, const mend_checked_record *chunk)
{
    const char *rule = mend_checked_pages(books, address, size_bytes);
    if (rule != NULL) {
        return rule;
    }
    if (chunk == NULL) {
        return "only a chunk whose handle is held can be mapped";
    }
    if (offset_bytes != 0 || (chunk->size_bytes != 0 && chunk->size_bytes != size_bytes)) {
        return "a chunk is mapped whole: offset 0, and its own size";
    }
    if (!lies_in_one_reservation(books, address, size_bytes)) {
        return "a mapping lies inside one reservation";
    }
    return overlaps_mapping(books, address, size_bytes) ? "there is no mapping over a mapping"
                                                        : NULL;
}

const char *mend_checked_map_begin(mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                                   uint64_t offset_bytes, mend_chunk_handle handle,
                                   mend_checked_mapping **mapping)
{
    mend_checked_mapping *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return mend_checked_no_memory;
    }
    mend_mutex_lock(&books->mutex);
    mend_checked_record *chunk = mend_checked_find(&books->chunks, handle);
    const char *rule = map_rule(books, address, size_bytes, offset_bytes, chunk);
    if (rule == NULL) {
        created->record.key = address;
        created->record.size_bytes = size_bytes;
        created->chunk = mend_checked_chunk_of(&chunk->node);
        created->chunk->mappings++;
        created->changing = true;
        mend_tree_insert(&books->mappings, &created->record.node);
        books->ledger.mapped_bytes += size_bytes;
        *mapping = created;
    }
    mend_mutex_unlock(&books->mutex);
    if (rule != NULL) {
        free(created);
    }
    return rule;
}

/* The caller holds the lock. */
static void remove_mapping(mend_checked_books *books, mend_checked_mapping *mapping)
{
    mend_tree_remove(&books->mappings, &mapping->record.node);
    books->ledger.mapped_bytes -= mapping->record.size_bytes;
    mapping->chunk->mappings--;
    mend_checked_chunk_settle(books, mapping->chunk);
    free(mapping);
}

void mend_checked_map_end(mend_checked_books *books, mend_checked_mapping *mapping, bool done)
{
    mend_mutex_lock(&books->mutex);
    if (done) {
        mapping->changing = false;
    } else {
        remove_mapping(books, mapping);
    }
    mend_mutex_unlock(&books->mutex);
}

/* The range consists of whole mappings without a hole, of one reservation (nobody has shown that
 * the driver takes two in one call), and no other thread is changing them. */
static const char *whole_mappings_rule(const mend_checked_books *books, uint64_t address,
                                       uint64_t size_bytes)
{
    uint64_t covered = 0;
    if (size_bytes == 0) {
        return "a range has a size";
    }
    while (covered < size_bytes) {
        const mend_checked_mapping *mapping = mapping_at(books, address + covered);
        if (mapping == NULL) {
            if (covered > 0) {
                return "the range has no hole";
            }
            return "the range begins where a mapping begins";
        }
        if (mapping->changing) {
            return being_changed;
        }
        if (mapping->record.size_bytes > size_bytes - covered) {
            return "the range ends where a mapping ends";
        }
        covered += mapping->record.size_bytes;
    }
    bool is_one = lies_in_one_reservation(books, address, covered);
    return is_one ? NULL : "the range lies in one reservation";
}

const char *mend_checked_unmap_begin(mend_checked_books *books, uint64_t address,
                                     uint64_t size_bytes)
{
    mend_mutex_lock(&books->mutex);
    const char *rule = whole_mappings_rule(books, address, size_bytes);
    for (uint64_t at = 0; rule == NULL && at < size_bytes;) {
        mend_checked_mapping *mapping = mapping_at(books, address + at);
        mapping->changing = true;
        at += mapping->record.size_bytes;
    }
    mend_mutex_unlock(&books->mutex);
    return rule;
}

void mend_checked_unmap_end(mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                            bool done)
{
    mend_mutex_lock(&books->mutex);
    for (uint64_t at = 0; at < size_bytes;) {
        mend_checked_mapping *mapping = mapping_at(books, address + at);
        at += mapping->record.size_bytes;
        if (done) {
            remove_mapping(books, mapping);
        } else {
            mapping->changing = false;
        }
    }
    mend_mutex_unlock(&books->mutex);
}

const char *mend_checked_access_begin(mend_checked_books *books, uint64_t address,
                                      uint64_t size_bytes, const int *devices, int device_count)
{
    if (devices == NULL || device_count < 1) {
        return "access is given to at least one device";
    }
    mend_mutex_lock(&books->mutex);
    const char *rule = whole_mappings_rule(books, address, size_bytes);
    mend_mutex_unlock(&books->mutex);
    return rule;
}

void mend_checked_access_end(mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                             bool done)
{
    mend_mutex_lock(&books->mutex);
    for (uint64_t at = 0; done && at < size_bytes;) {
        mend_checked_mapping *mapping = mapping_at(books, address + at);
        if (mapping == NULL) {
            break; /* unmapped meanwhile by another thread */
        }
        mapping->accessible = true;
        at += mapping->record.size_bytes;
    }
    mend_mutex_unlock(&books->mutex);
}

/* ---- work -------------------------------------------------------------------------------- */

static const char *touch_rule(const mend_checked_books *books, uint64_t address,
                              uint64_t size_bytes)
{
    uint64_t touched = 0;
    if (mend_checked_around(&books->reservations, address) == NULL) {
        return NULL;
    }
    while (touched < size_bytes) {
        uint64_t at = address + touched;
        const mend_checked_record *record = mend_checked_around(&books->mappings, at);
        if (record == NULL) {
            return "work touches mapped memory only";
        }
        if (!mend_checked_mapping_of(&record->node)->accessible) {
            return "work touches memory only after access was set";
        }
        touched += record->size_bytes - (at - record->key);
    }
    return NULL;
}

const char *mend_checked_touch(mend_checked_books *books, uint64_t address, uint64_t size_bytes)
{
    mend_mutex_lock(&books->mutex);
    const char *rule = touch_rule(books, address, size_bytes);
    mend_mutex_unlock(&books->mutex);
    return rule;
}

const char *mend_checked_launch(mend_checked_books *books, const mend_kernel *kernel)
{
    if (kernel == NULL || (unsigned)kernel->kind >= (unsigned)MEND_KERNEL_KINDS) {
        return "a kernel is one of the known kinds";
    }
    if (kernel->kind == MEND_KERNEL_SPIN) {
        return NULL;
    }
    if (!mend_kernel_is_sound(kernel)) {
        return "a kernel touches whole words";
    }
    if (kernel->stride_bytes < kernel->granule_bytes) {
        return "the granules of a kernel do not overlap";
    }
    const char *rule = NULL;
    for (uint64_t i = 0; rule == NULL && i < kernel->granule_count; i++) {
        rule = mend_checked_touch(books, kernel->address + i * kernel->stride_bytes,
                                  kernel->granule_bytes);
    }
    if (rule == NULL && kernel->kind == MEND_KERNEL_VERIFY) {
        rule = kernel->mismatches == 0
                   ? "a kernel that verifies has a counter of mismatches"
                   : mend_checked_touch(books, kernel->mismatches, sizeof(uint64_t));
    }
    return rule;
}
