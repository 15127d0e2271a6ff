/*
 * Deferred driver work: the one list of releases, unmaps and restores that the driver refused or
 * that must wait. Invariants, checked by the validation:
 *  - each is a node inside the record that it is about, so that nothing fails when it is noted.
 *  - it is noted from the refusal, or the start of the wait, until a retry has done it. Calls
 *    that reach the driver begin with one. A search for memory also retries retired mappings. No
 *    other call retries.
 *  - the kinds are in the order in which a retry goes through them.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_MEMORY_DEFERRED_H
#define MEND_MEMORY_DEFERRED_H

#include "base/tree.h"

typedef enum mend_deferred_kind {
    MEND_DEFERRED_NOTHING = 0,
    MEND_DEFERRED_RESTORE,     /* the mapping or access of a chunk with live blocks */
    MEND_DEFERRED_END,         /* of a sleeping chunk that has lost its last block */
    MEND_DEFERRED_HOST_MEMORY, /* pinned, to be freed */
    MEND_DEFERRED_HANDLES,     /* of an import, closed or not, to be released */
    MEND_DEFERRED_MEMORY,      /* of a sleeping chunk, to be unmapped and released */
    MEND_DEFERRED_MAPPING,     /* retired, to be unmapped once it is idle */
    MEND_DEFERRED_GRAPHS,      /* an end that waits for captured graphs */
    MEND_DEFERRED_RANGE,       /* destroyed: its addresses, once nothing is mapped there */
    MEND_DEFERRED_KINDS
} mend_deferred_kind;

/* All zeros: no deferred work. */
typedef struct mend_deferred {
    mend_tree_node node;
    uint64_t at; /* its order in the kind: an address, or the number of a record */
    mend_deferred_kind kind;
} mend_deferred;

typedef struct mend_deferred_list {
    mend_tree tree; /* by (kind, at) */
    uint32_t count[MEND_DEFERRED_KINDS];
    uint64_t last_number; /* of records without an address */
} mend_deferred_list;

/* Sets its deferred work, or NOTHING. A record without an address comes LAST, and stays there. */
#define MEND_DEFERRED_LAST UINT64_MAX
void mend_defer(mend_deferred_list *list, mend_deferred *deferred, mend_deferred_kind kind,
                uint64_t at);

/* The first one of a kind, from this one of its order on. NULL: none. */
mend_deferred *mend_deferred_from(const mend_deferred_list *list, mend_deferred_kind kind,
                                  uint64_t at);

/* The next one of its kind. NULL: none. */
mend_deferred *mend_deferred_next(const mend_deferred *deferred);

/* Whether there is deferred work up to this kind, beside retired mappings, most of which only
 * wait. */
bool mend_deferred_any(const mend_deferred_list *list, mend_deferred_kind last);

#endif
