/*
 * The hooks of the core for features. A static table has a row for each (features.c). The core
 * calls a hook of all rows, in their order, and names no feature. A new one is a folder and a row.
 */
#ifndef MEND_LAYOUT_FEATURE_H
#define MEND_LAYOUT_FEATURE_H

#include "layout/state.h"

/* How a heap ends. */
typedef struct mend_ending {
    bool is_idle;         /* no work uses its memory any more, or the context is lost */
    bool has_context;     /* else memory of the host stays with the driver */
    mend_answer unmapped; /* the first refusal to unmap, or OK */
    mend_answer first;    /* the first refusal of another call, or OK */
} mend_ending;

/* A request that ran out of memory, as a failure is explained. */
typedef struct mend_unserved {
    const mend_request *request;
    const mend_oom_report *figures;
    bool is_captured; /* a capture in progress forbids waits */
    uint64_t
        refused_bytes;     /* by the driver, which has too little memory. 0: the limit forbids it */
    uint64_t most_bytes;   /* that the driver gives the pool, if it refused more */
    uint64_t empty_bytes;  /* of empty chunks that the request could use */
    uint64_t joined_bytes; /* of these, with new ones */
    uint32_t graph_pools, captures;
} mend_unserved;

/* The moments of a pool, in this order. */
typedef enum mend_moment {
    MEND_POOL_IS_MADE, /* soon: the driver is not called yet, and there is no pool: NULL */
    MEND_POOL_OPENS,   /* its device is open, and it has no heap. With its config and limit. It can
                        * fail, and may set pool->others */
    MEND_POOL_BEGINS,  /* others of the process know it. With its config. It can fail */
    MEND_POOL_IS_LEFT, /* no other pool visits it any more. It can fail by damage that is found */
    MEND_POOL_STAYS,   /* after that: a capture forbids its end. It can fail */
    MEND_POOL_ENDED    /* its heap is gone, and its device is open, or it did not begin */
} mend_moment;

/* Each hook may be NULL. The caller holds both locks, except for `init`, `clear` and `pool`. */
typedef struct mend_feature {
    /* The heap begins. */
    void (*init)(mend_heap *heap);

    /* The heap ends: release to the driver, then host memory. Neither can fail. */
    void (*give_back)(mend_heap *heap, mend_ending *ending);
    void (*clear)(mend_heap *heap);

    /* Does deferred work of these kinds, a bit for each. Refused work stays. */
    void (*retry)(mend_heap *heap, mend_deferred *deferred, uint32_t asking);
    uint32_t retries;

    /* The program wants memory back: release caches, `all` or those of no more use. */
    void (*trim)(mend_heap *heap, bool all);

    /* Calls on the pool have not begun, or are over. The config: until it begins, then NULL. */
    mend_result (*pool)(mend_pool *pool, mend_moment moment, const mend_pool_config *config);

    /* Of a pool with checks. A new block: it is told under `state`, which is released in between,
     * and a failure frees it. Else it frees the block instead of mend_free, without a lock. One row
     * at most has it. MEND_ERROR_CORRUPTION. */
    mend_result (*check)(mend_pool *pool, bool is_new, uint64_t address, mend_order order);

    /* A block or page that has a mark (is_exported) is not live any more. Under `state`. */
    void (*block_ends)(mend_heap *heap, const mend_span *span);

    /* Explains in place of a plain sentence why a request ran out of memory, or if there is none
     * (NULL) what is left at the end. Also writes the largest owners of memory, with a suspected
     * leak as the last. Under `state`, for a request under both locks. */
    void (*describe)(mend_heap *heap, const mend_unserved *unserved,
                     mend_owner owners[MEND_OWNERS_TOLD], char *text, size_t text_bytes);

    /* Adds its statistics to the core's. Under `state`. */
    void (*statistics)(const mend_heap *heap, mend_stats *stats);
} mend_feature;

enum { MEND_FEATURES = 8 };
extern const mend_feature mend_features[MEND_FEATURES];

/* Calls a hook of each feature that has it. */
#define MEND_FEATURES_CALL(hook, ...)                                                              \
    do {                                                                                           \
        for (int feature_ = 0; feature_ < MEND_FEATURES; feature_++) {                             \
            if (mend_features[feature_].hook != NULL) {                                            \
                mend_features[feature_].hook(__VA_ARGS__);                                         \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* Calls those whose hook returns a result, up to the first failure. */
#define MEND_FEATURES_TRY(result, hook, ...)                                                       \
    do {                                                                                           \
        for (int feature_ = 0; feature_ < MEND_FEATURES && (result) == MEND_OK; feature_++) {      \
            if (mend_features[feature_].hook != NULL) {                                            \
                (result) = mend_features[feature_].hook(__VA_ARGS__);                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#endif
