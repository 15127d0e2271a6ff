/* The pool, shared by the files of this module. */
#ifndef MEND_POOL_POOL_H
#define MEND_POOL_POOL_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "alloc/heap.h"
#include "base/error.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/tree.h"
#include "map/map.h"
#include "memory/others.h"
#include "mend/mend.h"

/* ---- configuration --------------------------------------------------------------------------- */

/* Settings for programs that cannot be edited: MEND_CONF="limit:64GiB,allow_stream_waits:off" in
 * the environment sets the fields of mend_pool_config that the program left at their defaults. */

/*
 * X(key, field of mend_pool_config, kind of value, default, meaning): every key. docs/tuning.md
 * shows this table. configuration.c has the values of each kind.
 */
#define MEND_CONFIGURATION(X)                                                                      \
    X(limit, limit_bytes, LIMIT, "the device's memory", "most physical memory of a pool")          \
    X(soft_limit, soft_limit_bytes, BYTES, "none", "limit that gives way")                         \
    X(growth, growth_percent, GROWTH, "none",                                                      \
      "of the most live bytes: above it streams wait before the pool grows")                       \
    X(min_free, min_free_bytes, BYTES, "none",                                                     \
      "of the device's memory, which the pool leaves free")                                        \
    X(idle_ms, idle_ms, COUNT, "none", "milliseconds until a thread releases unused memory")       \
    X(shared_limit_file, shared_limit_file, PATH, "none",                                          \
      "file of processes that share the limit, the same in each")                                  \
    X(record, record, PATH, "none", "file for a recording: see history.md")                        \
    X(observe, observe, OBSERVE, "none",                                                           \
      "for libmend top, blocks at SIGUSR2, checks of writes: see history.md, troubleshooting.md")  \
    X(strategy, strategy, STRATEGY, "3", "from fewest driver calls (1) to least memory (5)")       \
    X(plain, plain, SWITCH, "off", "each block is a cuMemAlloc of its own: see sharing.md")        \
    X(address_reservation, address_reservation_bytes, BYTES, "twice the device's memory",          \
      "addresses reserved at a time")                                                              \
    X(in_one_chunk, in_one_chunk_bytes, BYTES, "none",                                             \
      "blocks from this size on are one physical allocation each")                                 \
    X(allow_stream_waits, allow_stream_waits, SWITCH, "on",                                        \
      "a stream may wait for another on the GPU")                                                  \
    X(allow_context_fences, allow_context_fences, SWITCH, "on",                                    \
      "the pool may wait for the whole context")                                                   \
    X(detect_destroyed_streams, detect_destroyed_streams, SWITCH, "off",                           \
      "streams end without mend_unregister_stream")                                                \
    X(capture_checks, capture_checks, SWITCH, "on",                                                \
      "asks the driver at each call whether the stream is captured")                               \
    X(rdma, rdma, SWITCH, "on", "memory can be registered for GPUDirect RDMA")                     \
    X(peers, peers, PEERS, "auto", "other devices that may use the memory")                        \
    X(shareable, shareable, SHARING, "off", "other processes can import the memory")               \
    X(log_level, log_level, LOG, "each warning once", "lines that go to standard error")

/*
 * Reads "key:value,..." and sets the fields that are 0. NULL or "" changes nothing. On an error
 * `config` is untouched, even if the wrong item names a field that would have stayed:
 * MEND_ERROR_INVALID_ARGUMENT for an unknown or repeated key, a value that its kind does not allow,
 * an empty item (a comma at the end makes one), white space anywhere. A path that comes from the
 * text ends there with a comma or the text. It is shorter than MEND_CONFIGURATION_PATH.
 */
enum { MEND_CONFIGURATION_PATH = 256 };
mend_result mend_configuration_read(const char *text, mend_pool_config *config);

/* The contents of mend_pool_config.observe. */
enum { MEND_CHECK_POISON = 1, MEND_CHECK_GUARD = 2 };
typedef struct mend_observed {
    bool top;
    int checks;                              /* MEND_CHECK_ bits */
    char snapshots[MEND_CONFIGURATION_PATH]; /* their path. "": none */
} mend_observed;

/* Reads as many of its words as the text begins with, each one once. Returns their length, with the
 * commas between them. */
size_t mend_configuration_read_observe(const char *text, mend_observed *observed);

/* MEND_ERROR_INVALID_ARGUMENT: a field is beyond the numbers of its kind. */
mend_result mend_configuration_check(const mend_pool_config *config);

/* ---- pressure -------------------------------------------------------------------------------- */

/* One run of a callback, on the stack of the thread that runs it. */
typedef struct mend_callback_run {
    mend_list link;
    pthread_t thread;
} mend_callback_run;

typedef struct mend_callback_entry {
    mend_list link;
    mend_pressure_callback callback;
    void *context;
    uint64_t number; /* rises with each entry */
    mend_list runs;  /* runs in progress. The entry stays in the list until there are none */
    bool is_removed; /* it is not called any more */
} mend_callback_entry;

/* Guarded by the `state` lock of the pool's heap. */
typedef struct mend_callbacks {
    mend_list entries;      /* in the order of adding */
    pthread_cond_t changed; /* a run ended */
    uint64_t last_entry;
    uint64_t calls;
    uint64_t peer_pool_trims;
} mend_callbacks;

/* ---- pool ------------------------------------------------------------------------------------ */

struct mend_pool {
    mend_heap heap; /* has the locks of the pool */
    const mend_driver *driver;
    int device;
    uint64_t generation;        /* of the process that created it. 0: it was destroyed */
    mend_process_member member; /* in the process's list of pools */
    mend_callbacks callbacks;
    mend_others *others; /* as of the heap's config */
    uint64_t idle_ns;    /* 0: none */
    mend_observed observed;
    struct mend_checks *checks;       /* NULL: nothing is checked */
    struct mend_collector *collector; /* NULL: no thread collects */
    bool meets_peers; /* devices with a pool in this process may access its memory */
};

/* Copies the caller's config to one of full size, as many fields as the caller's version has. NULL:
 * the defaults. MEND_ERROR_INVALID_ARGUMENT. */
mend_result mend_pool_copy_config(const mend_pool_config *given, mend_pool_config *config);

/* Whether the pointer lies in memory of the pool, live or free. True for every pointer if another
 * process created the pool. Takes the `state` lock. */
bool mend_pool_holds(mend_pool *pool, const void *pointer);

/* mend_get_block_info of a live block. The caller holds `state`. */
mend_block_info mend_pool_describe(mend_pool *pool, const mend_span *span);

/* Fills every field except struct_size. The caller holds `state`. O(1), but while a driver refuses
 * to map blocks again, and while there are graph pools. */
void mend_pool_statistics(mend_pool *pool, mend_stats *stats);

/* ---- callbacks.c ----------------------------------------------------------------------------- */

void mend_callbacks_destroy(mend_callbacks *callbacks);

/* The functions by which the fallback chain reaches the pool's callbacks and its peer pools. */
extern const mend_helpers mend_pool_helpers;

/* ---- limits.c -------------------------------------------------------------------------------- */

/* mend_trim with MEND_TRIM_BY_POLICY. */
mend_result mend_pool_collect(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes);

/* ---- enter.c --------------------------------------------------------------------------------- */

/* Fails with MEND_ERROR_INVALID_ARGUMENT and this message. */
mend_result mend_pool_invalid(const char *what);

/* Ends a call in that way where something is wrong with its arguments. */
#define MEND_INVALID_IF(is_wrong, what)                                                            \
    do {                                                                                           \
        if (is_wrong) {                                                                            \
            return mend_pool_invalid(what);                                                        \
        }                                                                                          \
    } while (0)

/* MEND_ERROR_INVALID_ARGUMENT: the size of a struct of the caller, which begins as that macro or is
 * NULL, is wrong, or it is of a newer version and to be read. That is over `own`, which has the
 * defaults, as many fields as the caller's version has. */
mend_result mend_pool_check_struct(const void *given, const char *init);
mend_result mend_pool_read_struct(const void *given, const char *init, void *own, size_t own_bytes);

/* Checks an array that a call fills, which may be NULL without a capacity, then the process. */
mend_result mend_pool_check_array(const mend_pool *pool, const void *array, size_t element_bytes,
                                  size_t capacity, const size_t *count, const char *call);

/* MEND_ERROR_NOT_SUPPORTED: the pool has no chunks, which `what` needs. No lock. */
mend_result mend_pool_needs_chunks(const mend_pool *pool, const char *what);

/* MEND_ERROR_INVALID_ARGUMENT: the pool was destroyed. MEND_ERROR_FORKED: another process created
 * it. No lock. */
mend_result mend_pool_unusable(const mend_pool *pool);
static inline mend_result mend_pool_check_process(const mend_pool *pool)
{
    return pool->generation == mend_process_generation() ? MEND_OK : mend_pool_unusable(pool);
}

/* MEND_ERROR_DEVICE_LOST if the pool's context is lost. The caller holds `state`. */
mend_result mend_pool_check_context(const mend_pool *pool);

/* The same, and releases the lock. */
mend_result mend_pool_refuse(mend_pool *pool);

/* Whether the handle is none of a stream that the program created: MEND_EVERY_STREAM,
 * MEND_NO_STREAM, NULL and the two of the driver are -2 to 2. */
#define MEND_IS_SPECIAL_STREAM(stream) ((uintptr_t)(stream) + 2 <= 4)

/* Whether the driver must be asked if the stream is captured. Even if the program promises to
 * capture only in graph pools, it may free other blocks during such a capture. Of the special
 * streams only the thread's own can be captured. */
static inline bool mend_pool_may_be_captured(const mend_pool *pool, mend_stream stream)
{
    bool is_asked =
        pool->heap.config.capture_checks || mend_heap_has_begun_graph_pools(&pool->heap);
    return is_asked && (!MEND_IS_SPECIAL_STREAM(stream) || stream == MEND_STREAM_PER_THREAD);
}

/* The capture that records the stream's work, or 0. Checks the process, and asks the driver without
 * a lock, so that no other thread waits for the answer. After the driver has shut down there is no
 * capture. MEND_ERROR_FORKED, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST.
 * Out of line: the thread's own stream, of the pool's context, and a failed query. */
mend_result mend_pool_ask_own_capture(mend_pool *pool, uint64_t *capture);
mend_result mend_pool_miss_capture(mend_pool *pool, mend_stream stream, mend_answer answer,
                                   uint64_t *capture);
static inline mend_result mend_pool_find_capture(mend_pool *pool, mend_stream stream,
                                                 uint64_t *capture)
{
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK || !mend_pool_may_be_captured(pool, stream)) {
        *capture = 0;
        return result;
    }
    if (MEND_IS_SPECIAL_STREAM(stream)) { /* the thread's own, so it is tested once */
        return mend_pool_ask_own_capture(pool, capture);
    }
    const mend_driver *driver = pool->driver;
    mend_status status = driver->stream_get_capture(driver, stream, capture);
    return status == MEND_DRIVER_OK
               ? MEND_OK
               : mend_pool_miss_capture(pool, stream, MEND_ANSWER(stream_get_capture, status),
                                        capture);
}

/* Takes the `state` lock. The caller has checked the process. MEND_ERROR_DEVICE_LOST: the lock is
 * not taken. */
static inline mend_result mend_pool_take(mend_pool *pool)
{
    assert(mend_process_generation() == pool->generation);
    mend_heap_lock(&pool->heap);
    return pool->heap.unlocking.lost == MEND_DRIVER_OK ? MEND_OK : mend_pool_refuse(pool);
}

/* The same, but succeeds after the driver has shut down: frees work while a process ends. The first
 * one has the lock already. */
static inline mend_result mend_pool_check_to_free(mend_pool *pool)
{
    mend_status lost = pool->heap.unlocking.lost;
    return lost == MEND_DRIVER_OK || lost == MEND_DRIVER_DEINITIALIZED ? MEND_OK
                                                                       : mend_pool_refuse(pool);
}
static inline mend_result mend_pool_take_to_free(mend_pool *pool)
{
    assert(mend_process_generation() == pool->generation);
    mend_heap_lock(&pool->heap);
    return mend_pool_check_to_free(pool);
}

/* Checks the process, then takes the `state` lock: for a call that calls no driver. */
static inline mend_result mend_pool_look(mend_pool *pool)
{
    MEND_TRY(mend_pool_check_process(pool));
    mend_heap_lock(&pool->heap);
    return MEND_OK;
}

/* The same of a pool whose context is not lost. mend_pool_enter_all takes both locks. */
static inline mend_result mend_pool_enter(mend_pool *pool)
{
    MEND_TRY(mend_pool_check_process(pool));
    return mend_pool_take(pool);
}
mend_result mend_pool_enter_all(mend_pool *pool);

/* Warns, once, if no limit is shared any more. The caller holds no lock. */
static inline void mend_pool_tell_lost_limit(mend_pool *pool)
{
    mend_others *others = pool->others;
    if (others != NULL && atomic_load_explicit(&others->is_lost, memory_order_relaxed)) {
        others->tell_lost(others, pool->device);
    }
}

/* Releases the lock. Publishes a failure, and returns `result`. */
static inline mend_result mend_pool_leave(mend_pool *pool, mend_result result)
{
    assert(mend_mutex_is_held(&pool->heap.state));
    mend_heap_unlock(&pool->heap);
    mend_publish(result);
    return result;
}

/* The same of a call with a pointer: if another pool has that memory, the failure names the pool.
 */
mend_result mend_pool_leave_of(mend_pool *pool, const void *pointer, mend_result result);

/* The same of both locks. And after a success fills the struct that the caller gave, or NULL. */
mend_result mend_pool_leave_all(mend_pool *pool, mend_result result);
mend_result mend_pool_leave_all_with(mend_pool *pool, mend_result result, void *given,
                                     const void *all, size_t all_bytes);

#endif
