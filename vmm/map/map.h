/* Driver calls in transactions: the functions for other modules, file by file. Unless a comment
 * says otherwise the caller holds both locks of the heap, a driver scope is open, and slow driver
 * calls release `state`. */
#ifndef MEND_MAP_MAP_H
#define MEND_MAP_MAP_H

#include "base/error.h"
#include "layout/layout.h"
#include "layout/state.h"
#include "memory/waits.h"
#include "mend/mend_share.h"
#include "plan/policy.h"

/* ---- steps.c --------------------------------------------------------------------------------- */

/* While it is open, the pool's context is current, and captures of other libraries in this thread
 * do not forbid the calls. */
typedef struct mend_driver_scope {
    mend_answer answer; /* to the last call made to open it */
    mend_capture_mode mode;
} mend_driver_scope;

mend_result mend_driver_scope_open(mend_heap *heap, mend_driver_scope *scope);
void mend_driver_scope_close(mend_heap *heap, mend_driver_scope *scope);

/* Notes a failed driver call, and returns its result. */
mend_result mend_driver_refused(mend_heap *heap, mend_answer answer);

/* The same of any call: MEND_OK if it did not fail. */
mend_result mend_driver_result(mend_heap *heap, mend_answer answer);

/* Whether the driver did it. If not, that is counted. The caller works around it. */
bool mend_driver_did(mend_heap *heap, mend_status status);

/* Counts a failure that was worked around, if it is the driver's (malloc may have failed
 * instead). */
void mend_driver_work_around(mend_heap *heap, mend_result result);

/* The locks of a heap: `state` alone for calls that free mapped memory serves, and both, the grow
 * lock first, to change mappings. */

static inline void mend_heap_lock(mend_heap *heap)
{
    mend_mutex_lock(&heap->state);
}
/* Releases `state`, alone. */
static inline void mend_heap_unlock(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
}

/* Takes both locks, to change mappings. */
void mend_heap_lock_all(mend_heap *heap);
void mend_heap_unlock_all(mend_heap *heap);

/* Ends that work. The caller keeps `state`. */
void mend_heap_unlock_grow(mend_heap *heap);

/* Takes both locks, to read everything and change nothing: the front cache stays as it is. */
void mend_heap_lock_to_read(mend_heap *heap);
void mend_heap_unlock_after_read(mend_heap *heap);

/* Maps a chunk at an address, and gives access to mapped addresses, for the pool's device and its
 * peers. NOT_READY means missing memory that may appear: it tries a few
 * more times with pauses, then reports out of memory. */
mend_status mend_step_map(mend_heap *heap, uint64_t address, const mend_chunk *chunk);
mend_status mend_step_allow(mend_heap *heap, uint64_t address, uint64_t size_bytes);

/* Both for parts, by address, with one call of access for neighbors. *mapped counts the mapped
 * ones. Returns the last result. A part without access is mapped. */
mend_answer mend_step_map_parts(mend_heap *heap, const mend_cluster parts[], size_t count,
                                size_t *mapped);

/* Unmaps parts from *first on, neighbors by one call. *first is then the first remaining one. */
mend_status mend_step_unmap_parts(mend_heap *heap, const mend_cluster parts[], size_t count,
                                  size_t *first);

/* Creates a chunk. MEND_ERROR_OUT_OF_MEMORY, which is noted. */
mend_result mend_step_create(mend_heap *heap, uint64_t size_bytes, bool is_private,
                             mend_chunk **chunk);

/* Takes a free chunk out of the layout, with its mapping, for a transaction. */
void mend_step_claim(mend_heap *heap, mend_chunk *chunk);

/* The number of spans that overlap a chunk: each may be claimed, and be a run when it thaws. */
size_t mend_freeze_spans(const mend_heap *heap, const mend_chunk *chunk);

/* The nodes to freeze chunks with this many spans in all, and to thaw them. */
mend_layout_promise mend_freeze_nodes(const mend_heap *heap, size_t chunks, size_t spans);

/* Claims the free memory of a mapped chunk, span by span. Each keeps its waits. The nodes were
 * promised. */
void mend_freeze_chunk(mend_heap *heap, mend_chunk *chunk);

/* Ends that, for a completely mapped chunk. */
void mend_thaw_chunk(mend_heap *heap, mend_chunk *chunk);

/* Retries the mapping of a frozen chunk, and thaws the chunk if it succeeds. Runs for its spans
 * were promised. */
mend_answer mend_remap_chunk(mend_heap *heap, mend_chunk *chunk);

/* The result if a restore was refused. */
mend_result mend_remap_failed(mend_heap *heap, mend_answer answer);

/* The reserved plus the device's free memory is the effective limit: available memory, pressure,
 * plans and chunk sizes follow it. To ask the driver costs 5 us. Read under `state` alone, too. */

/* Forgets the device's free memory. The limit applies. */
static inline void mend_effective_limit_forget(mend_heap *heap)
{
    heap->effective_limit = (mend_effective_limit){0};
}

/* Called when a search begins: asks if there is no answer, if it is old, or if half of the free
 * memory then is taken. A driver scope is open. */
void mend_effective_limit_begin_search(mend_heap *heap);

/* Asks the driver for its free memory, and notes it in heap->shortage. A driver scope is open. */
void mend_effective_limit_learn(mend_heap *heap);

/* Refused memory may be there by now: the driver decides. A driver scope is open. */
void mend_effective_limit_forget_refusal(mend_heap *heap);

/* Chunks were created: the driver may have given more than it had refused. A driver scope is open.
 */
void mend_effective_limit_note_growth(mend_heap *heap);

/* Access for n devices costs the driver n times as much, so a pool names only devices in use. */

/* Empty records of retired mappings, and the devices: the pool's own, and those of the config. */
void mend_map_init(mend_heap *heap);

/* The size of the neighboring mappings from *chunk on. Moves *chunk behind them. */
uint64_t mend_access_stretch(const mend_chunk **chunk, bool with_access);

/* Lets the device access all memory of the pool, imported memory and existing mappings included. No
 * driver scope is open. After a failure some mappings may be accessible, and new ones will not be.
 * MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_access_add(mend_heap *heap, int device);

/* ---- grow.c ---------------------------------------------------------------------------------- */

/* Maps the plan's chunks behind its base or at a new address, and takes the block there. At a fixed
 * address it takes none, and *span is NULL. Calls the driver. A driver scope is open. PLACED,
 * FAILED, AGAIN. NOTHING: the driver has too little memory or addresses, as heap->shortage says. */
mend_outcome mend_grow(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       mend_span **span);

/* ---- outcome --------------------------------------------------------------------------------- */

/* The outcome of an attempt to place a request, from the result of a step. */

/* PLACED: the step succeeded. NOTHING: the driver had no memory for it. */
static inline mend_outcome mend_outcome_of(mend_result result)
{
    if (result == MEND_OK) {
        return MEND_PLACED;
    }
    if (result == MEND_LOOK_AGAIN) {
        return MEND_AGAIN;
    }
    return result == MEND_ERROR_OUT_OF_MEMORY ? MEND_NOTHING : MEND_FAILED;
}

/* malloc failed. */
static inline mend_outcome mend_outcome_without_host_memory(void)
{
    mend_no_host_memory("the pool's own records");
    return MEND_FAILED;
}

/* ---- retire.c -------------------------------------------------------------------------------- */

/* Frees their records, and reserves them for so many mappings. False if malloc fails. */
static inline void mend_retire_clear(mend_heap *heap)
{
    mend_slab_clear(&heap->retire.nodes);
}
static inline bool mend_retire_reserve(mend_heap *heap, size_t count)
{
    return mend_slab_reserve(&heap->retire.nodes, count);
}

/* Retires a mapping. Takes over the nodes of its waits. */
void mend_retire(mend_heap *heap, const mend_retired *mapping);

/* The same of a chunk, which is still in the zone that the mapping was in. */
void mend_retire_mapping(mend_heap *heap, const mend_chunk *chunk, uint64_t address,
                         mend_waits *waits);

/* The same for the mapping of a claimed chunk, if it has one: true. */
bool mend_retire_claim(mend_heap *heap, mend_chunk *chunk);

/* Waits for copies and fills on a stream that a failed transaction may have left running. If the
 * driver refuses, they may run until a wait for the context, and until then no mapping retires for
 * good, and no memory is freed that they may use. False: they may run. */
bool mend_retire_end_copies(mend_heap *heap, mend_stream stream);
bool mend_retire_copies_have_ended(const mend_heap *heap);

/*
 * Unmaps retired mappings whose fences have passed. Polls first, and records events for those
 * without a fence, so that a later call can unmap them. Refused mappings stay retired, and count as
 * driver failures: heap->retire.refused. Unmaps nothing while the pool knows of a capture (`asking`
 * is the stream of the current call, or MEND_STREAM_UNKNOWN), or while copies of a failed
 * transaction may run. Calls the driver.
 */
void mend_retire_flush(mend_heap *heap, uint32_t asking);

/* Retired mappings by address: the first one, and the next one. NULL: none. */
mend_retired *mend_retire_first(const mend_heap *heap);
mend_retired *mend_retire_next(const mend_retired *retired);

/* A retired mapping that still maps the chunk. NULL: none. */
mend_retired *mend_retire_holds(const mend_heap *heap, const mend_chunk *chunk);

/* After a failed transaction parts lose their chunks: claimed ones return to their places, and
 * created ones are released, unless the driver did not unmap them. The caller reserved nodes for
 * each. */
void mend_step_drop_parts(mend_heap *heap, mend_cluster parts[], size_t count);

/* The retired mapping that contains the address. NULL: none. */
mend_retired *mend_retire_at(const mend_heap *heap, uint64_t address);

/* The chunk returns to its old mapping, which is still there, and its present mapping retires. The
 * chunk is empty. The caller reserved nodes of the layout for a chunk. No driver call. */
void mend_retire_swap(mend_heap *heap, mend_retired *retired, mend_chunk *chunk);

/* Retries are never in a transaction. */

/* In an open scope: retries the deferred work of the kinds from `first` to `last`. `asking`: as for
 * mend_retire_flush. Notes no failure. */
void mend_retry_these(mend_heap *heap, mend_deferred_kind first, mend_deferred_kind last,
                      uint32_t asking);

/* The same up to a kind, if there is any besides retired mappings, most of which only wait. */
static inline void mend_retry(mend_heap *heap, mend_deferred_kind last, uint32_t asking)
{
    if (mend_deferred_any(&heap->chunks.deferred, last)) {
        mend_retry_these(heap, MEND_DEFERRED_RESTORE, last, asking);
    }
}

/* The begin of a call: opens a driver scope, and retries deferred work. */
static inline mend_result mend_enter(mend_heap *heap, mend_driver_scope *scope)
{
    MEND_TRY(mend_driver_scope_open(heap, scope));
    mend_retry(heap, MEND_DEFERRED_MAPPING, MEND_STREAM_UNKNOWN);
    return MEND_OK;
}

/* The mappings of live blocks alone. Returns the first failure. */
mend_result mend_retry_restores(mend_heap *heap);

/* All, without a scope. Opens one if there is any. */
void mend_retry_all(mend_heap *heap);

/* The same for a thread that holds `state` alone, if no other thread holds `grow`. */
void mend_retry_ends(mend_heap *heap);

/* ---- trim.c ---------------------------------------------------------------------------------- */

/* Releases idle empty chunks until at most `keep_bytes` are reserved. makes_room: only chunks from
 * whose memory others can be created. Errors as mend_trim. */
mend_result mend_trim_to(mend_heap *heap, uint64_t keep_bytes, bool makes_room,
                         uint64_t *released_bytes);

/* The missing bytes of a creation. */
typedef struct mend_lack {
    uint64_t limit_bytes;
    uint64_t device_bytes;
} mend_lack;

/* Releases the bytes missing for a creation, below the limit and on the device, if idle empty
 * chunks are enough. `is_refused`: the driver has just refused it, whatever it reports as free.
 * *lack: the bytes missing beyond these. Asks the driver. Errors as mend_trim. */
mend_result mend_trim_to_create(mend_heap *heap, uint64_t create_bytes, bool is_refused,
                                mend_lack *lack);

/* As mend_trim_to, but only chunks that no block has used for `unused_ns` by the driver's clock, as
 * far as earlier calls of this function saw. Without such a chunk there is no driver call. */
mend_result mend_trim_unused(mend_heap *heap, uint64_t unused_ns, uint64_t keep_bytes,
                             uint64_t *released_bytes);

/* Releases idle empty chunks that the plan does not use, for its missing bytes: the smallest that
 * is enough, or, for a request that makes chunks of `all_bytes`, several, the largest first. Then
 * it notes the bytes missing on the device for the plan. 0: only one chunk. Bytes for others are
 * released besides. If there are not enough, or the driver refuses, they stay as free memory.
 * *goes_on: there may be another plan, because chunks were released or became idle. Fails only if
 * the context is lost, or malloc failed. */
mend_result mend_trim_for(mend_heap *heap, uint32_t asking, mend_plan *plan, uint64_t all_bytes,
                          bool *goes_on);

/* Unmaps idle empty chunks that are mapped between two addresses. Then they can be mapped anywhere,
 * and stay free memory. Busy and refused chunks stay. */
void mend_trim_between(mend_heap *heap, uint64_t from, uint64_t end, uint32_t asking);

/*
 * Idle empty chunks become the memory of sleeping ones, which ascend by size, as far as sizes
 * match, except chunks that can be shared less than new ones. Adds their bytes to *given_bytes.
 * During a capture only unmapped chunks. Calls the driver. Refused mappings stay, and it fails only
 * if the context is lost.
 */
mend_result mend_trim_give_to(mend_heap *heap, const mend_cluster sleepers[], size_t count,
                              uint64_t *given_bytes);

#endif
