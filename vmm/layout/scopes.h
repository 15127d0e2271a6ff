/*
 * Blocks and pages by the scope that they were allocated in (base/scopes.h): for each scope the
 * bytes that live, with those of the scopes inside it, and the peaks. A block keeps the number of
 * its scope until it is freed, by whichever thread.
 *
 * A heap makes room for the numbers that it meets. If the host has no memory for it, a block counts
 * for the scope around; so counting never fails. Invariants (mend_audit): a scope's live bytes and
 * blocks are those of the live spans with its number and of the scopes inside it; a live span's
 * number has a place.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_SCOPES_H
#define MEND_LAYOUT_SCOPES_H

#include <stddef.h>
#include <stdint.h>

/* One scope of one heap. Bytes are rounded up, as live_bytes of mend_stats. */
typedef struct mend_scope_figures {
    uint32_t around;                /* number of the scope around it; 0: none */
    uint64_t own_bytes, own_blocks; /* live; without the scopes inside it */
    uint64_t live_bytes;            /* with the scopes inside it */
    uint64_t peak_live_bytes;
    uint64_t allocations;         /* in it and the scopes inside it */
    uint64_t pool_peak_bytes;     /* most live bytes of the heap after an allocation in it */
    uint64_t pool_reserved_bytes; /* most that the heap held at such a moment */
} mend_scope_figures;

typedef struct mend_scope_table {
    mend_scope_figures *of; /* by number; 0 is unused */
    uint32_t capacity;
} mend_scope_table;

/* A span was counted as live in its heap, which has `pool_bytes` live and `reserved_bytes` now.
 * *scope is not 0; it is set to the scope that the span counts for. */
void mend_scopes_count_alloc(mend_scope_table *table, uint16_t *scope, uint64_t size_bytes,
                             uint64_t pool_bytes, uint64_t reserved_bytes);

/* A span is free now. Its scope is not 0. */
void mend_scopes_count_free(mend_scope_table *table, uint32_t scope, uint64_t size_bytes);

/* Sets peaks to what is live now. */
void mend_scopes_reset_peaks(mend_scope_table *table);

#endif
