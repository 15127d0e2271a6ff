/*
 * Names that the program gives: of scopes, tags, streams and stacks. They are never removed, so
 * they can be read by number without a lock, by a child of fork, too. And the counters of a heap
 * for each scope.
 */
#ifndef MEND_RECORD_NAMES_H
#define MEND_RECORD_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process.h"

/* ---- tags, streams, stacks: a new name for a number comes behind the one before ------------ */

/* False: there is no host memory, or the table is full. The same name for a number is stored
 * once. */
bool mend_names_set(mend_name_kind kind, uint64_t number, const char *name);

/* NULL: it has none. Stays as long as the process. */
const char *mend_names_find(mend_name_kind kind, uint64_t number);

/* How many have been given: their indices, and the numbers of scopes, are 1 to this. An entry stays
 * as long as the process. */
uint32_t mend_names_count(mend_process_names *names);
const mend_name_entry *mend_names_entry(mend_process_names *names, uint32_t index);

/* ---- scopes ---------------------------------------------------------------------------------- */

/* A path of names has one number in the process, given after the outer scope's. */

/* The number of `name` inside `around`. A new one for a new name. 0: there is no host memory, or no
 * number left. */
uint32_t mend_scopes_number(uint32_t around, const char *name);

/* A scope by its number, which was given, and the number of the scope around it. */
static inline const mend_name_entry *mend_scopes_entry(uint32_t number)
{
    return mend_names_entry(&mend_process_own_scopes, number);
}
static inline uint32_t mend_scopes_around(uint32_t number)
{
    return (uint32_t)mend_scopes_entry(number)->number;
}

/* Writes the names from the outermost scope to this one, "step/forward". Of a path of more than
 * MEND_SCOPE_PATH_NAMES names ".../" and the innermost. Cut off where `text` ends. Returns its
 * length. */
enum { MEND_SCOPE_PATH_NAMES = 8 };
size_t mend_scopes_write_path(uint32_t number, char *text, size_t text_bytes);

/* ---- what a heap counts for each scope ------------------------------------------------------- */

/*
 * A heap reserves counters for the numbers that it meets. If the host has no memory for it, a block
 * counts for the scope around, so counting never fails. Invariants (mend_validate): a scope's live
 * bytes and blocks are the sum of live spans with its number and of its inner scopes. A live span's
 * number has a place. Guarded by the heap's `state` lock.
 */

/* One scope of one heap. Bytes are rounded up, as live_bytes of mend_stats. */
typedef struct mend_scope_figures {
    uint32_t around;                /* number of the scope around it. 0: none */
    uint64_t own_bytes, own_blocks; /* live. Without the scopes inside it */
    uint64_t live_bytes;            /* with the scopes inside it */
    uint64_t peak_live_bytes;
    uint64_t allocations;         /* in it and the scopes inside it */
    uint64_t pool_peak_bytes;     /* most live bytes of the heap after an allocation in it */
    uint64_t pool_reserved_bytes; /* most that the heap held at such a moment */
} mend_scope_figures;

typedef struct mend_scope_table {
    mend_scope_figures *of; /* by number. 0 is unused */
    uint32_t capacity;
} mend_scope_table;

/* A span was counted as live in its heap, which has `pool_bytes` live and `reserved_bytes` now.
 * *scope is not 0. It is set to the scope that the span counts for. */
void mend_scopes_count_alloc(mend_scope_table *table, uint16_t *scope, uint64_t size_bytes,
                             uint64_t pool_bytes, uint64_t reserved_bytes);

/* A span is free now. Its scope is not 0. */
void mend_scopes_count_free(mend_scope_table *table, uint32_t scope, uint64_t size_bytes);

/* Sets peaks to the live values. */
void mend_scopes_reset_peaks(mend_scope_table *table);

#endif
