/*
 * What is held through a checked table, and the rules that follow from it.
 *
 * Most calls come in two halves around the inner call. `..._begin` checks the rules and claims what
 * the call is about, so that no lock is held while the inner table runs; it answers NULL, or the
 * rule that forbids the call, in words. `..._end` is told whether the call succeeded and keeps or
 * takes back. What the inner table may hand out again the moment it has it back (handles, reserved
 * ranges, events) leaves the ledger in the first half. All functions are thread-safe.
 */
#ifndef MEND_DRIVER_CHECKED_LEDGER_H
#define MEND_DRIVER_CHECKED_LEDGER_H

#include "base/mutex.h"
#include "base/tree.h"
#include "driver/checked.h"

enum { MEND_CHECKED_DEVICE_LIMIT = 64 };

/* A range or a handle, by its first address or its value. */
typedef struct mend_checked_record {
    mend_tree_node node;
    uint64_t key;
    uint64_t size_bytes;
} mend_checked_record;

typedef struct mend_checked_chunk {
    mend_checked_record record; /* key: the handle; size 0: imported, not known */
    uint64_t handles;           /* in the tree while not 0 */
    uint64_t mappings;
    uint64_t calls; /* releases under way */
    int share_types;
    bool imported;
} mend_checked_chunk;

typedef struct mend_checked_mapping {
    mend_checked_record record;
    mend_checked_chunk *chunk;
    bool accessible;
    bool changing; /* a map or unmap of it is under way */
} mend_checked_mapping;

typedef struct mend_checked_books {
    mend_mutex mutex;
    mend_tree reservations;
    mend_tree mappings;
    mend_tree chunks;
    mend_tree events;
    mend_tree allocations; /* of the driver's own allocators */
    int opens[MEND_CHECKED_DEVICE_LIMIT];
    uint64_t page_bytes; /* the smallest of the devices opened so far; 0: none */
    mend_checked_ledger ledger;
} mend_checked_books;

/* The one answer of ..._begin that is no rule: host memory for a record is lacking. */
extern const char mend_checked_no_memory[];

void mend_checked_books_init(mend_checked_books *books);
void mend_checked_books_clear(mend_checked_books *books);
void mend_checked_books_read(mend_checked_books *books, mend_checked_ledger *ledger);
void mend_checked_count_breach(mend_checked_books *books);

/* ---- devices ----------------------------------------------------------------------------- */

void mend_checked_opened(mend_checked_books *books, int device, const mend_device_info *info);
const char *mend_checked_close_begin(mend_checked_books *books, int device);
void mend_checked_close_end(mend_checked_books *books, int device, bool done);

/* ---- records of one value: reservations, events, allocations ----------------------------- */

const char *mend_checked_reserve_begin(mend_checked_books *books, uint64_t size_bytes,
                                       uint64_t alignment_bytes, mend_checked_record **record);
const char *mend_checked_free_begin(mend_checked_books *books, uint64_t address,
                                    uint64_t size_bytes, mend_checked_record **record);
const char *mend_checked_allocate_begin(uint64_t size_bytes, mend_checked_record **record);
const char *mend_checked_record_begin(mend_checked_record **record);

/* Enters a record made before, or frees it. */
void mend_checked_enter(mend_checked_books *books, mend_tree *tree, mend_checked_record *record,
                        uint64_t key, bool done);

/* Takes the record of `key` out (NULL where there is none), and frees it or puts it back. */
mend_checked_record *mend_checked_take(mend_checked_books *books, mend_tree *tree, uint64_t key);
void mend_checked_taken(mend_checked_books *books, mend_tree *tree, mend_checked_record *record,
                        bool done);

bool mend_checked_knows(mend_checked_books *books, const mend_tree *tree, uint64_t key);

/* ---- chunks ------------------------------------------------------------------------------ */

const char *mend_checked_create_begin(mend_checked_books *books, uint64_t size_bytes,
                                      const mend_chunk_properties *properties,
                                      mend_checked_chunk **chunk);
const char *mend_checked_import_begin(mend_checked_books *books, int share_type,
                                      mend_checked_chunk **chunk);
void mend_checked_create_end(mend_checked_books *books, mend_checked_chunk *chunk,
                             mend_chunk_handle handle, bool done);
const char *mend_checked_release_begin(mend_checked_books *books, mend_chunk_handle handle,
                                       mend_checked_chunk **chunk);
void mend_checked_release_end(mend_checked_books *books, mend_checked_chunk *chunk, bool done);
const char *mend_checked_export(mend_checked_books *books, mend_chunk_handle handle,
                                int share_type);

/* ---- mappings ---------------------------------------------------------------------------- */

const char *mend_checked_map_begin(mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                                   uint64_t offset_bytes, mend_chunk_handle handle,
                                   mend_checked_mapping **mapping);
void mend_checked_map_end(mend_checked_books *books, mend_checked_mapping *mapping, bool done);
const char *mend_checked_unmap_begin(mend_checked_books *books, uint64_t address,
                                     uint64_t size_bytes);
void mend_checked_unmap_end(mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                            bool done);
const char *mend_checked_access_begin(mend_checked_books *books, uint64_t address,
                                      uint64_t size_bytes, const int *devices, int device_count);
void mend_checked_access_end(mend_checked_books *books, uint64_t address, uint64_t size_bytes,
                             bool done);

/* Work may use the range: it is mapped with access, or is none of our reservations. */
const char *mend_checked_touch(mend_checked_books *books, uint64_t address, uint64_t size_bytes);
const char *mend_checked_launch(mend_checked_books *books, const mend_kernel *kernel);

#endif
