/* A request and a heap in, a plan out: the functions for other modules, file by file. No driver
 * call. */
#ifndef MEND_PLAN_POLICY_H
#define MEND_PLAN_POLICY_H

#include "layout/layout.h"
#include "layout/state.h"

/* All is guarded by the heap's `state` lock. */

/* ---- budget.c -------------------------------------------------------------------------------- */

/* *Used* bytes are in partly used chunks: live bytes, and free ones trapped beside them. Programs
 * repeat their steps, so the largest value of a window counts. It ends after a number of allocated
 * bytes. */

/* Whether pressure is high: chunks of exactly the needed size. While it is low, most of the limit
 * is not reserved: large chunks, few calls. */
bool mend_budget_is_pressed(const mend_heap *heap);

/* Updates the peaks of used bytes, for the pressure. The caller holds `grow`: only then it
 * matters. */
void mend_budget_note_use(mend_heap *heap);

/* The part of the limit that is not reserved: of the soft one, while the request keeps to it. */
uint64_t mend_budget_room_bytes(const mend_heap *heap, const mend_request *request);

/* How much must be released before `create_bytes` can be created, which there is no room for. */
uint64_t mend_budget_lacking_bytes(const mend_heap *heap, const mend_request *request,
                                   uint64_t create_bytes);

/* Whether it needs chunks of a size of its own, for which others may have to be released. */
static inline bool mend_request_makes_chunks(const mend_request *request)
{
    return request->pages != NULL || request->in_one_chunk;
}

/* Its total need: for pages, without committed ones. */
static inline uint64_t mend_request_missing_bytes(const mend_request *request)
{
    return request->pages != NULL ? request->pages->missing_bytes(request->pages)
                                  : request->size_bytes;
}

/* The part of the limit that chunks may take. The same, or the device's memory if that is less. */
static inline uint64_t mend_budget_limit_of_chunks(const mend_heap *heap)
{
    const uint64_t limit = heap->config.limit_bytes;
    return limit - mend_min_u64(mend_heap_passed_bytes(heap), limit);
}
static inline uint64_t mend_budget_hard_limit(const mend_heap *heap)
{
    const uint64_t limit = mend_budget_limit_of_chunks(heap);
    return heap->effective_limit.is_known ? mend_min_u64(limit, heap->effective_limit.bytes)
                                          : limit;
}

/* Notes that the device has too little memory to create this much. The smallest of a search counts.
 * And whether the limit allows to create this much, but the device is known to have less. */
void mend_budget_note_lack(mend_heap *heap, uint64_t create_bytes);
bool mend_budget_lacks_device_memory(const mend_heap *heap, uint64_t create_bytes);

/* How many bytes of an empty chunk a block may leave free if it breaks the chunk. Unlimited until
 * much was trapped while most of the limit was used. Then a part of the block. */
uint64_t mend_budget_waste_allowed(const mend_heap *heap, const mend_request *request);

/* The usual size of a chunk of a zone, and of chunks that one large request has for itself. */
uint64_t mend_budget_usual_chunk(const mend_heap *heap, int zone);
uint64_t mend_budget_lone_chunk(const mend_heap *heap, const mend_request *request);

/* How much may be created for the request if it needs less: for one with a home, a part of its
 * sleep tag's memory, because no other tag uses the rest. A multiple of a page. */
uint64_t mend_budget_share(const mend_heap *heap, const mend_request *request);

/* Notes a trim by the program. And whether the program empties the pool again and again, far below
 * the limit: then few calls count more than the last bytes. */
void mend_budget_note_emptying(mend_heap *heap);
bool mend_budget_is_emptied(const mend_heap *heap);

/* Created memory for a large request is rounded up to a multiple of this. */
uint64_t mend_budget_page(const mend_heap *heap, bool is_pressed);

enum { MEND_STRATEGY_LEVELS = 5 };

/* Fills the placement of a new heap, whose limit and device are known. 0 means the default. */
void mend_strategy_apply(mend_heap *heap, int strategy);

/* A program whose sizes never fit the freed memory would move chunks for ever. More memory ends
 * that. So chunks are created instead of moved: up to twice the peak of live bytes, or a little
 * more than the peak where the program wants the least memory, or has used nearly all of the limit.
 * Guarded by `grow`, too. */

/* Whether this much, for which there is room, may be created to avoid moves. */
bool mend_headroom_allows(const mend_heap *heap, uint64_t create_bytes);

/* A large request needs memory: updates the peak of live bytes, and ends the window. The driver
 * refused to create memory: it is not asked again in this window. A trim: the old peak is over. */
void mend_headroom_note_request(mend_heap *heap, uint64_t size_bytes);
void mend_headroom_note_refusal(mend_heap *heap);
void mend_headroom_forget(mend_heap *heap);

/* ---- plan.c ---------------------------------------------------------------------------------- */

/* Chunks in the order in which they are mapped. */
typedef struct mend_picks {
    mend_chunk **chunks;
    size_t count;
    size_t capacity;
    size_t sorted_count; /* length of the sorted copy for mend_plan_uses. 0: none */
} mend_picks;

typedef struct mend_plan {
    mend_run *base;        /* the run to extend. NULL: use a new address */
    uint64_t base_address; /* in the base: the chunks from there on stay */
    uint64_t base_bytes;
    const mend_pages *pages; /* pages of the request: memory there stays. NULL: a block */
    uint64_t start;          /* with a base: where the block begins in it */
    uint64_t fixed_address;  /* where the chunks are mapped, in a range: free memory there, and no
                              * block is taken. 0: behind the base, or at a new address */
    mend_picks picks;
    size_t moved_count; /* picked chunks that are mapped */
    uint64_t picked_bytes;
    uint64_t create_bytes;      /* bytes to create behind the picked chunks */
    uint64_t create_unit_bytes; /* size of the created chunks. The last may be smaller */
    uint64_t create_tail_bytes; /* size of the last created chunk. 0: as the others */
    uint64_t create_head_bytes; /* size of the first one. 0: as the others */
    uint64_t lacking_bytes;     /* if there is no plan: bytes to release first, because of the
                                 * limit. 0: another reason */
    uint64_t refused_bytes;     /* smallest creation that the limit allows and the device has no
                                 * memory for. 0: none */
    bool lacks_host_memory;     /* there is no plan because malloc failed */
} mend_plan;

/* Frees the host memory of a plan and empties it. Does nothing for an empty plan. */
void mend_plan_clear(mend_plan *plan);

/* Whether the chunk lies in the plan's base, or among its pages. */
static inline bool mend_plan_is_in_base(const mend_plan *plan, const mend_chunk *chunk)
{
    return plan->pages != NULL ? plan->pages->contain(plan->pages, chunk->address)
                               : chunk->address - plan->base_address < plan->base_bytes;
}

/* Whether the plan uses the chunk: it picked it, or extends the run that the chunk is in. */
bool mend_plan_uses(mend_plan *plan, const mend_chunk *chunk);

/* The size of the next chunk to create if `left_bytes` of create_bytes are left. */
uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes);

/* Whether the plan may use an empty chunk: the request's stream may, and it is not in the base. And
 * adds one. plan->lacks_host_memory says if malloc failed. */
bool mend_pick_may(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                   mend_chunk *chunk);
void mend_pick_add(mend_plan *plan, mend_chunk *chunk);

/* The rules of a plan. */
typedef struct mend_plan_rules {
    bool may_extend; /* extend a run */
    bool may_create; /* create missing memory */
    bool may_move;   /* use empty chunks, mapped or not */
    bool exact;      /* create no more than is missing */
} mend_plan_rules;

/* Finds a plan for the request in its zone. False if these rules allow none, or if malloc fails:
 * then *plan is the one that misses least. The caller always ends it with mend_plan_clear. */
bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan);

/* The same for a large request that no other plan serves: behind the usable end of any run that can
 * grow, even if its stream may not use the rest. Looks at all free spans. Sets no missing bytes,
 * because the other plans have them. */
bool mend_plan_find_behind(mend_heap *heap, const mend_request *request, mend_plan *plan);

/* The least bytes that a plan for a large request must find behind a run that grows. */
uint64_t mend_plan_least_need(mend_heap *heap, const mend_request *request);

/* Whether all empty chunks, and the rest of the limit, are so many. Looks at no single chunk. */
bool mend_plan_may_have(const mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                        uint64_t need_bytes);

/* The same for a small request: one empty chunk that holds it and is not above `largest_bytes`. */
bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan);

/* The same for a block that must lie in one chunk: the smallest empty chunk that holds it, whatever
 * its size, or a new one. `exact`: the new one is no larger than needed. */
bool mend_plan_find_one(mend_heap *heap, const mend_request *request, bool exact, mend_plan *plan);

/* A place for a block over free runs and unmapped addresses. Its end is at a page, or in a run. */
typedef struct mend_bridge {
    uint64_t address; /* where the block begins, in a run */
    uint64_t end;
    uint64_t missing_bytes; /* of it, unmapped */
} mend_bridge;

/* Finds the place that needs least, for a large request whose plan moves or creates so many bytes.
 * False if none needs less. Joins idle spans. */
bool mend_bridge_find(mend_heap *heap, const mend_request *request, uint64_t moved_bytes,
                      mend_bridge *bridge);

/* Plans to move empty chunks from elsewhere into the first gap of the bridge. False: all is mapped,
 * or no chunks fit, or malloc fails. */
bool mend_bridge_plan(mend_heap *heap, const mend_request *request, const mend_bridge *bridge,
                      mend_plan *plan);

/* ---- fit.c ----------------------------------------------------------------------------------- */

typedef struct mend_fit {
    mend_run *run; /* NULL: nothing fits */
    uint64_t address;
} mend_fit;

/* Whether all of [address, end) lies in the run, and the request may use it. */
bool mend_fit_is_ready(mend_heap *heap, const mend_request *request, mend_run *run,
                       uint64_t address, uint64_t end);

/* Searches one zone, among runs not above `largest_bytes` that the request may use. Joins idle
 * spans and changes nothing else. */
mend_fit mend_fit_find(mend_heap *heap, const mend_request *request, int zone,
                       uint64_t largest_bytes);

/* The same between the ends of runs: a run of several spans may be ready there when the memory that
 * was freed at both waits. Such a place is better than memory that is created. Not for memory that
 * waits for streams: a place behind a wait keeps runs in one piece. */
mend_fit mend_fit_find_between(mend_heap *heap, const mend_request *request, int zone,
                               uint64_t largest_bytes);

/* Searches every place of every run, in time by the number of free spans: for a request that would
 * otherwise wait or fail. */
mend_fit mend_fit_find_anywhere(mend_heap *heap, const mend_request *request, int zone);

/* ---- victims.c ------------------------------------------------------------------------------- */

/* The cost and the gain of a compaction. */
typedef struct mend_compact_size {
    size_t clusters;
    uint64_t used_bytes;   /* bytes of all clusters: memory needed elsewhere */
    uint64_t copied_bytes; /* bytes to copy */
    uint64_t gained_bytes; /* bytes of pages without a live byte */
} mend_compact_size;

/* Whether the chunk is partly used, may move, and may have a page without live bytes. `holds`: why
 * its free memory stays in place (MEND_BLOCKED_...). After a CPU stall that is only graph pools. */
bool mend_victims_may_gain(mend_heap *heap, const mend_chunk *chunk, unsigned holds);

/* Addresses, and the chunk that has them, or gets them. */
typedef struct mend_cluster {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t live_address; /* of a cluster of live pages: from the first live byte to the end of the
                            * last one */
    uint64_t live_end;
    mend_chunk *chunk;   /* NULL: none yet */
    bool is_created;     /* for this */
    mend_contents *kept; /* of a chunk that sleeps, or is to: owned by the selection until then */
} mend_cluster;

/* Finds the clusters of a partly used chunk. `clusters` holds all, or is NULL. */
void mend_victims_measure(const mend_heap *heap, const mend_chunk *chunk, mend_cluster *clusters,
                          mend_compact_size *size);

#endif
