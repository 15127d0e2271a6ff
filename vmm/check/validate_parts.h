/* Shared by the files of the validation: the counts of a walk, the report of a finding, and what
 * validate_layout.c checks. Private to them. */
#ifndef MEND_CHECK_VALIDATE_PARTS_H
#define MEND_CHECK_VALIDATE_PARTS_H

#include "layout/state.h"

/* Ends a check of the walk `a` with a finding, unless this holds. */
#define MUST(holds, ...)                                                                           \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            return mend_validate_broken(a, __VA_ARGS__);                                           \
        }                                                                                          \
    } while (0)

typedef struct mend_validate_walk {
    const mend_heap *heap;
    char *finding; /* of MEND_VALIDATE_FINDING_BYTES */
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
    uint64_t records;    /* of chunks */
    uint64_t exported;   /* live spans marked as exported */
    uint64_t user_marks; /* sum of a mark for each user not stamped yet */
    mend_keeping kept;   /* of sleeping memory: the bytes of each kind */
    mend_chunks chunks;  /* the sums and counts */
} mend_validate_walk;

/* Writes the finding. Returns false. */
__attribute__((format(printf, 2, 3))) bool mend_validate_broken(const mend_validate_walk *a,
                                                                const char *format, ...);

/* Checks that the waits at an address can end. Counts their nodes. */
bool mend_validate_waits(mend_validate_walk *a, const mend_waits *waits, uint64_t address);

/* Checks streams, and that each counts its users. Runs after all waits were visited. */
bool mend_validate_streams(const mend_validate_walk *a);

/* Checks spans, runs, indices and the front cache of a zone. */
bool mend_validate_zone(mend_validate_walk *a, int zone);

/* Checks chunks, and the backups of sleeping ones, after the zones. */
bool mend_validate_chunks(mend_validate_walk *a);

#endif
