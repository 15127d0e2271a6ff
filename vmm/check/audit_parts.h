/*
 * What the files of the audit share: the counts of a walk, and how to report a finding. Private to
 * them.
 */
#ifndef MEND_CHECK_AUDIT_PARTS_H
#define MEND_CHECK_AUDIT_PARTS_H

#include "layout/state.h"

#define MEND_AUDIT_HEX(value) ((unsigned long long)(value))

/* Ends a check of the walk `a` with a finding, unless this holds. */
#define MUST(holds, ...)                                                                           \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            return mend_audit_broken(a, __VA_ARGS__);                                              \
        }                                                                                          \
    } while (0)

typedef struct mend_audit_walk {
    const mend_heap *heap;
    char *finding; /* of MEND_AUDIT_FINDING_BYTES */
    struct {
        uint64_t blocks;
        uint64_t bytes;
        uint64_t requested_bytes;
    } live[MEND_ZONE_COUNT];
    uint32_t cached[MEND_ZONE_COUNT]; /* number of spans marked as cached */
    uint64_t pending_blocks;          /* spans in the list of pending ones */
    uint64_t pending_bytes;
    uint64_t spans;
    uint64_t runs;
    uint64_t wait_nodes;
    uint64_t exported;                  /* live spans marked as exported */
    uint64_t scope_bytes, scope_blocks; /* of live spans, times the weight of their scope */
    uint64_t user_marks;                /* sum of a mark for each user not stamped yet */
    mend_keeping kept;                  /* of what sleeps: the bytes of each kind */
} mend_audit_walk;

/* What the figures of one scope count in sums over all of them; none for no scope. */
static inline uint64_t mend_audit_weight_of(uint32_t scope)
{
    return scope * UINT64_C(0x9e3779b97f4a7c15);
}

/* Writes the finding. Returns false. */
__attribute__((format(printf, 2, 3))) bool mend_audit_broken(const mend_audit_walk *a,
                                                             const char *format, ...);

/* Checks streams, and that each counts its users. Runs after all waits were visited
 * (audit_streams.c). */
bool mend_audit_streams(const mend_audit_walk *a);

/* Checks that the waits at an address can end; counts their nodes. */
bool mend_audit_waits(mend_audit_walk *a, const mend_waits *waits, uint64_t address);

/* Checks spans, runs, indices and the front cache of a zone (audit_layout.c). */
bool mend_audit_zone(mend_audit_walk *a, int zone);

/* Checks chunks, and what is kept of those that sleep; after the zones (audit_chunks.c). */
bool mend_audit_chunks(mend_audit_walk *a);

/* Checks addresses, retired mappings and imports (audit_addresses.c). */
bool mend_audit_space(const mend_audit_walk *a, const mend_space *space);
bool mend_audit_retired(mend_audit_walk *a);
bool mend_audit_imports(const mend_audit_walk *a);

/* Checks ranges and their page tables, after the zones (audit_ranges.c). */
bool mend_audit_ranges(const mend_audit_walk *a);

#endif
