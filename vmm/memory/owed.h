/*
 * Deferred driver work: the one list of releases, unmaps and restores that the driver refused or
 * that must wait. Invariants, checked by the validation:
 *  - each is a node inside the record that it is about, so that nothing fails when it is noted.
 *  - it is noted from the refusal, or the start of the wait, until a settlement has done it. Calls
 *    that reach the driver begin with one. A search for memory also retries retired mappings. No
 *    other call retries.
 *  - the kinds are in the order in which a settlement goes through them.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_MEMORY_OWED_H
#define MEND_MEMORY_OWED_H

#include "base/tree.h"

typedef enum mend_owed_kind {
    MEND_OWED_NOTHING = 0,
    MEND_OWED_RESTORE,     /* the mapping or access of a chunk with live blocks */
    MEND_OWED_END,         /* of a sleeping chunk that has lost its last block */
    MEND_OWED_HOST_MEMORY, /* pinned, to be freed */
    MEND_OWED_HANDLES,     /* of an import, closed or not, to be released */
    MEND_OWED_MEMORY,      /* of a sleeping chunk, to be unmapped and released */
    MEND_OWED_MAPPING,     /* retired, to be unmapped once it is idle */
    MEND_OWED_GRAPHS,      /* an end that waits for captured graphs */
    MEND_OWED_RANGE,       /* destroyed: its addresses, once nothing is mapped there */
    MEND_OWED_KINDS
} mend_owed_kind;

/* All zeros: no deferred work. */
typedef struct mend_owed {
    mend_tree_node node;
    uint64_t at; /* its order in the kind: an address, or the number of a record */
    mend_owed_kind kind;
} mend_owed;

typedef struct mend_owing {
    mend_tree list; /* by (kind, at) */
    uint32_t count[MEND_OWED_KINDS];
    uint64_t last_number; /* of records without an address */
} mend_owing;

/* Sets its deferred work, or NOTHING. A record without an address comes LAST, and stays there. */
#define MEND_OWED_LAST UINT64_MAX
void mend_owe(mend_owing *owing, mend_owed *owed, mend_owed_kind kind, uint64_t at);

/* The first one of a kind, from this one of its order on. NULL: none. */
mend_owed *mend_owed_from(const mend_owing *owing, mend_owed_kind kind, uint64_t at);

/* The next one of its kind. NULL: none. */
mend_owed *mend_owed_next(const mend_owed *owed);

/* Whether there is deferred work up to this kind, beside retired mappings, most of which only
 * wait. */
bool mend_owing_any(const mend_owing *owing, mend_owed_kind last);

#endif
