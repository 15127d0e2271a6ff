/*
 * What the files of the audit share: what is counted on the way, and how a finding is made.
 * Private to them.
 */
#ifndef MEND_OBSERVE_AUDIT_PARTS_H
#define MEND_OBSERVE_AUDIT_PARTS_H

#include "layout/state.h"

#define MEND_AUDIT_HEX(value) ((unsigned long long)(value))

typedef struct mend_audit_walk {
    const mend_heap *heap;
    char *finding;
    size_t finding_bytes;
    struct {
        uint64_t blocks;
        uint64_t bytes;
        uint64_t requested_bytes;
    } live[MEND_ZONE_COUNT];
    uint32_t cached[MEND_ZONE_COUNT]; /* spans that say so */
    uint64_t spans;
    uint64_t runs;
    uint64_t wait_nodes;
    uint64_t
        user_marks; /* a sum over users that are not stamped yet, each with its stream's mark */
} mend_audit_walk;

/* Writes the finding. False. */
__attribute__((format(printf, 2, 3))) bool mend_audit_broken(const mend_audit_walk *a,
                                                             const char *format, ...);

/* Streams, and that each counts its users: after all waits have been met (audit_streams.c). */
bool mend_audit_streams(const mend_audit_walk *a);

/* What is at the address waits for nothing that never comes; counts the nodes. */
bool mend_audit_waits(mend_audit_walk *a, const mend_waits *waits, uint64_t address);

/* Spans, runs, indices and the front cache of a zone (audit_layout.c). */
bool mend_audit_zone(mend_audit_walk *a, int zone);

/* Chunks, addresses, and retired mappings (audit_memory.c). */
bool mend_audit_chunks(const mend_audit_walk *a);
bool mend_audit_space(const mend_audit_walk *a);
bool mend_audit_retired(mend_audit_walk *a);

#endif
