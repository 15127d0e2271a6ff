/* mend_pin: pinned memory keeps its address and its chunk, whatever is asked of the pool. */
#include "lab/heap/explain.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
enum { CHUNKS = 8 };

typedef struct rig {
    mend_world w;
    mend_stream stream;
    void *blocks[CHUNKS]; /* each fills a chunk of its own */
} rig;

KIT_SETTING(use_small_chunks, w->placement.chunk_bytes = CHUNK);

/* All memory of the device is in blocks. */
static bool open_rig(rig *r)
{
    *r = (rig){.stream = NULL};
    if (!kit_open_with(&r->w, CHUNKS * CHUNK, use_small_chunks)) {
        return false;
    }
    r->stream = r->w.streams[0];
    kit_alloc_row(&r->w, r->blocks, CHUNKS, CHUNK, r->stream);
    return r->blocks[CHUNKS - 1] != NULL;
}

static void release(rig *r, int block)
{
    kit_free(&r->w, r->blocks[block], r->stream);
    r->blocks[block] = NULL;
}

#define SMALL_TEST(suite, name)                                                                    \
    KIT_TEST_IN(suite, name, kit_open_with(w, CHUNKS *CHUNK, use_small_chunks))
#define RIG_TEST(suite, name) KIT_RIG_TEST(suite, name, rig, open_rig(r), kit_close(&r->w))

RIG_TEST(pool_pins, count_and_may_overlap)
{
    const char *first = r->blocks[0];
    EXPECT_OK(mend_pin(w->pool, first, CHUNK));
    EXPECT_OK(mend_pin(w->pool, first, CHUNK));
    EXPECT_OK(mend_pin(w->pool, first + CHUNK / 2, CHUNK / 4));
    EXPECT_STATS(w, pinned_bytes, CHUNK);
    mend_available room = MEND_AVAILABLE_INIT;
    EXPECT_OK(mend_get_available(w->pool, r->stream, &room));
    EXPECT_U64_EQ(0, room.pinned_bytes); /* it lives */
    for (int i = 0; i < CHUNKS; i++) {
        release(r, i);
    }
    EXPECT_OK(mend_get_available(w->pool, r->stream, &room));
    EXPECT_U64_EQ(CHUNK, room.pinned_bytes);
    EXPECT_OK(mend_unpin(w->pool, first, CHUNK));
    EXPECT_OK(mend_unpin(w->pool, first + CHUNK / 2, CHUNK / 4));
    kit_expect_trim(w, 0, (CHUNKS - 1) * CHUNK);
    EXPECT_OK(mend_unpin(w->pool, first, CHUNK));
    kit_expect_trim(w, 0, CHUNK);
}

static void expect_refused(rig *r, mend_result expected, const void *pointer, uint64_t size_bytes)
{
    EXPECT_RESULT(expected, mend_pin(r->w.pool, pointer, size_bytes));
    EXPECT_STATS(&r->w, pinned_bytes, 0);
}

RIG_TEST(pool_pins, what_is_no_mapped_memory_of_the_pool_is_refused)
{
    char outside = 0;
    expect_refused(r, MEND_ERROR_INVALID_ARGUMENT, NULL, 512);
    expect_refused(r, MEND_ERROR_INVALID_ARGUMENT, r->blocks[0], 0);
    expect_refused(r, MEND_ERROR_INVALID_ARGUMENT, r->blocks[0], UINT64_MAX);
    expect_refused(r, MEND_ERROR_FOREIGN_POINTER, &outside, 1);
    expect_refused(r, MEND_ERROR_FOREIGN_POINTER, r->blocks[CHUNKS - 1], MEND_GIB);
    kit_expect_words("is not all mapped memory of this pool");
    for (int i = 0; i < 3; i++) {
        release(r, i);
    }
    kit_free(w, kit_alloc(w, 3 * CHUNK, r->stream), r->stream);
    kit_alloc_row(w, r->blocks, 3, CHUNK, r->stream); /* side by side */
    release(r, 1);
    kit_expect_trim(w, 0, CHUNK);
    expect_refused(r, MEND_ERROR_FOREIGN_POINTER, r->blocks[0], 3 * CHUNK); /* with a hole in it */
    EXPECT_INVALID(mend_pin(NULL, r->blocks[0], 512));
    EXPECT_INVALID(mend_unpin(NULL, r->blocks[0], 512));
}

RIG_TEST(pool_pins, a_refusal_counts_pinned_memory_once)
{
    void *pinned = r->blocks[0];
    release(r, 2);
    kit_alloc(w, CHUNK / 2, r->stream);
    EXPECT_OK(mend_pin(w->pool, pinned, CHUNK));
    release(r, 0);
    kit_expect_none(w, 3 * CHUNK, r->stream, "(512.00 KiB beside live blocks, 1.00 MiB pinned)");
    EXPECT_OK(mend_unpin(w->pool, pinned, CHUNK));
}

RIG_TEST(pool_pins, only_what_was_pinned_is_unpinned)
{
    EXPECT_OK(mend_pin(w->pool, r->blocks[0], 1024));
    EXPECT_REFUSAL(INVALID_ARGUMENT, "no pin of 512 bytes", mend_unpin(w->pool, r->blocks[0], 512));
    EXPECT_INVALID(mend_unpin(w->pool, r->blocks[1], 1024));
    EXPECT_STATS(w, pinned_bytes, CHUNK);
    EXPECT_OK(mend_unpin(w->pool, r->blocks[0], 1024));
    EXPECT_INVALID(mend_unpin(w->pool, r->blocks[0], 1024));
}

/* ---- blocks in one chunk ------------------------------------------------------------------- */

static mend_result in_one_chunk(mend_world *w, uint64_t size_bytes, mend_stream stream,
                                void **block)
{
    return mend_alloc_with(w->pool, size_bytes, stream,
                           KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1), block);
}

SMALL_TEST(pool_pins, a_block_in_one_chunk_stays_so)
{
    mend_compact_report report = MEND_COMPACT_REPORT_INIT;
    kit_free(w, kit_alloc(w, CHUNK, S(0)), S(0));
    void *block = kit_alloc_with(w, CHUNK / 4, S(0), .in_one_chunk = 1);
    kit_write(w, S(0), block, CHUNK / 4);
    EXPECT_OK(mend_compact(w->pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_ERROR(PINNED, mend_sleep(w->pool, NULL, NULL));
    const uint64_t address = (uint64_t)(uintptr_t)block;
    const mend_chunk *chunk = mend_chunk_at(&w->pool->heap.chunks, address);
    ASSERT_TRUE(chunk != NULL && chunk->pins == 1); /* nothing moves it */
    EXPECT_TRUE(address + CHUNK / 4 <= chunk->address + chunk->size_bytes);
    kit_verify(w, S(0), block, CHUNK / 4);
    kit_free(w, block, S(0));
    EXPECT_STATS(w, pinned_bytes, 0);
}

/* The free memory would do for a block over several chunks. */
RIG_TEST(pool_pins, a_block_in_one_chunk_is_refused_where_no_chunk_can_hold_it)
{
    void *block = NULL;
    const mend_alloc_options *there =
        KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1, .address = r->blocks[0]);
    EXPECT_INVALID(mend_alloc_with(w->pool, 512, r->stream, there, &block));
    const void *pinned = r->blocks[1];
    EXPECT_OK(mend_pin(w->pool, pinned, 512));
    release(r, 1);
    EXPECT_OK(mend_set_limit(w->pool, mend_world_stats(w).reserved_bytes));
    EXPECT_ERROR(OUT_OF_MEMORY, in_one_chunk(w, 512, r->stream, &block));
    release(r, 2);
    EXPECT_ERROR(OUT_OF_MEMORY, in_one_chunk(w, 2 * CHUNK, r->stream, &block));
    EXPECT_OK(in_one_chunk(w, CHUNK, r->stream, &block));
    kit_free(w, block, r->stream);
    EXPECT_OK(mend_unpin(w->pool, pinned, 512));
    pinned = kit_alloc(w, 2 * CHUNK, r->stream); /* two neighbors, which stay */
    EXPECT_OK(mend_pin(w->pool, pinned, 2 * CHUNK));
    kit_free(w, (void *)(uintptr_t)pinned, r->stream);
    EXPECT_ERROR(OUT_OF_MEMORY, in_one_chunk(w, 2 * CHUNK, r->stream, &block));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 0); /* in no two chunks */
    EXPECT_OK(mend_unpin(w->pool, pinned, 2 * CHUNK));
}

/* Of two chunks in a row each begins a page behind an address that would do. */
SMALL_TEST(pool_pins, an_aligned_block_in_one_chunk_does_not_reach_into_the_next)
{
    kit_free(w, kit_alloc(w, 2 * CHUNK, S(0)), S(0));
    const uint64_t address = (uint64_t)(uintptr_t)kit_alloc_with(
        w, 3 * CHUNK / 4, S(0), .in_one_chunk = 1, .alignment_bytes = CHUNK);
    const mend_chunk *chunk = mend_chunk_at(&w->pool->heap.chunks, address);
    EXPECT_U64_EQ(0, address % CHUNK);
    EXPECT_TRUE(address + 3 * CHUNK / 4 <= chunk->address + chunk->size_bytes);
}

/* Memory above the limit is released first: of four chunks that wait for work two are left for one
 * chunk. The host does not wait where that would not be enough. */
RIG_TEST(pool_pins, a_block_in_one_chunk_has_what_the_limit_leaves)
{
    void *block = NULL;
    for (int i = 0; i < 4; i++) {
        kit_use(w, r->stream, r->blocks[i], CHUNK, 1000 * 1000);
        release(r, i);
    }
    EXPECT_OK(mend_set_limit(w->pool, (CHUNKS - 2) * CHUNK));
    EXPECT_ERROR(OUT_OF_MEMORY, in_one_chunk(w, CHUNKS * CHUNK, S(1), &block));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 2 * CHUNK);
    EXPECT_OK(in_one_chunk(w, 2 * CHUNK, S(1), &block));
}

/* The driver takes one of two. */
RIG_TEST(pool_pins, no_chunk_is_remade_where_too_little_went_back)
{
    void *block = NULL;
    release(r, 0);
    release(r, 1);
    kit_fail(w, "release", 1, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(OUT_OF_MEMORY, in_one_chunk(w, 2 * CHUNK, r->stream, &block));
    EXPECT_STATS(w, chunks_remade, 0, reserved_bytes, (CHUNKS - 1) * CHUNK);
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(in_one_chunk(w, 2 * CHUNK, r->stream, &block));
    EXPECT_STATS(w, chunks_remade, 1);
}

/* Then empty chunks are not released for a larger one. */
RIG_TEST(pool_pins, a_capture_keeps_chunks_from_a_block_in_one_chunk)
{
    void *block = NULL;
    for (int i = 1; i < 6; i++) {
        kit_free(w, r->blocks[i], S(1));
        r->blocks[i] = NULL;
    }
    EXPECT_OK(mend_set_limit(w->pool, (CHUNKS - 3) * CHUNK)); /* gives three of them back */
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w->sim, r->stream, MEND_SIM_CAPTURE_RELAXED));
    EXPECT_ERROR(OUT_OF_MEMORY, in_one_chunk(w, 3 * CHUNK, S(1), &block));
    EXPECT_FIELDS(kit_oom_report(), sufficient_limit_bytes, CHUNKS * CHUNK);
    EXPECT_OK(mend_set_limit(w->pool, CHUNKS * CHUNK));
    EXPECT_OK(in_one_chunk(w, 3 * CHUNK, S(1), &block));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w->sim, r->stream, NULL));
}

/* ---- in one chunk by the pool's own setting, or the thread's --------------------------------- */

enum { KV_BLOCKS = 64 };

/* As of a KV cache beside weights, on a large device: how many lie in one chunk. Then all go,
 * and come again without a driver call but for the stream. */
static int kv_in_one_chunk(mend_world *w)
{
    const uint64_t kv_bytes = 640 * MEND_MIB;
    void *blocks[KV_BLOCKS];
    uint64_t random = 3;
    int in_one = 0;
    for (int i = 0; i < 300; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        void *weights = kit_alloc(w, (1 + (random >> 33) % 100) * MEND_MIB + 4096, NULL);
        if (i % 9 == 0) {
            kit_free(w, weights, NULL);
        }
    }
    mend_heap *heap = &w->pool->heap;
    kit_alloc_row(w, blocks, KV_BLOCKS, kv_bytes, NULL);
    for (int i = 0; i < KV_BLOCKS; i++) {
        const uint64_t address = (uint64_t)(uintptr_t)blocks[i];
        const mend_chunk *first = mend_chunk_at(&heap->chunks, address);
        in_one += first == mend_chunk_at(&heap->chunks, address + kv_bytes - 1);
    }
    const uint64_t created = mend_world_stats(w).chunks_created;
    const uint64_t calls = mend_sim_call_count(w->sim);
    kit_free_row(w, blocks, KV_BLOCKS, NULL);
    kit_alloc_row(w, blocks, KV_BLOCKS, kv_bytes, NULL);
    if (in_one == KV_BLOCKS) {
        EXPECT_STATS(w, chunks_created, created);
        EXPECT_U64_EQ(calls, mend_sim_call_count(w->sim));
    }
    return in_one;
}

#define KV_DEVICE                                                                                  \
    w->sim_config.memory_bytes = 160 * MEND_GIB, w->sim_config.content = MEND_SIM_CONTENT_NONE

KIT_SET_TEST(pool_pins, blocks_of_a_size_lie_in_one_chunk_where_the_pool_is_told_so,
             (KV_DEVICE, w->pool_config.in_one_chunk_bytes = 16 * MEND_MIB))
{
    EXPECT_U64_EQ(KV_BLOCKS, kv_in_one_chunk(w));
    const uint64_t pinned_bytes = mend_world_stats(w).pinned_bytes;
    kit_alloc(w, 16 * MEND_MIB - 1, NULL);
    EXPECT_STATS(w, pinned_bytes, pinned_bytes);
}

KIT_SET_TEST(pool_pins, blocks_lie_in_one_chunk_while_the_thread_asks_for_it, KV_DEVICE)
{
    const mend_alloc_options *options =
        KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1, .alignment_bytes = 4096);
    mend_alloc_options before = MEND_ALLOC_OPTIONS_INIT;
    kit_alloc(w, 512, NULL);
    void *odd = kit_alloc(w, 512, NULL);
    EXPECT_U64_EQ(512, (uint64_t)(uintptr_t)odd % 4096);
    kit_free(w, odd, NULL);
    kit_free(w, kit_alloc(w, 512, NULL), NULL); /* it is cached */
    KIT_THREAD(.alignment_bytes = 4096);
    EXPECT_U64_EQ(0, (uint64_t)(uintptr_t)kit_alloc(w, 512, NULL) % 4096);
    EXPECT_OK(mend_set_alloc_options(options, &before));
    EXPECT_FIELDS(before, alignment_bytes, 4096, in_one_chunk, 0);
    EXPECT_U64_EQ(KV_BLOCKS, kv_in_one_chunk(w));
    EXPECT_OK(mend_set_alloc_options(NULL, &before));
    EXPECT_FIELDS(before, alignment_bytes, 4096, in_one_chunk, 1);
    EXPECT_TRUE(kv_in_one_chunk(w) < KV_BLOCKS);
}

/* Whether a block of so many bytes is in one chunk, or plain: by these options of the call, where
 * the thread has others. */
static int is_switched(mend_world *w, mend_pool *pool, const mend_alloc_options *thread,
                       const mend_alloc_options *call)
{
    const bool is_of_plain = thread->plain != 0 || call->plain != 0;
    void *block = NULL;
    EXPECT_OK(mend_set_alloc_options(thread, NULL));
    EXPECT_OK(mend_alloc_with(pool, CHUNK, S(0), call, &block));
    const mend_stats stats = kit_stats(pool);
    EXPECT_OK(mend_free(pool, block, S(0)));
    EXPECT_OK(mend_set_alloc_options(NULL, NULL));
    EXPECT_U64_EQ(0, is_of_plain ? stats.pinned_bytes : stats.passed_blocks);
    return is_of_plain ? stats.passed_blocks == 1 : stats.pinned_bytes == CHUNK;
}

/* 0 asks the next one. The cache, which has such a block without the switch, answers none. */
KIT_TEST_IN(pool_pins, a_switch_is_of_the_call_before_its_thread_before_its_pool,
            kit_open_with(w, 64 * CHUNK, use_small_chunks))
{
    w->pool_config.in_one_chunk_bytes = CHUNK;
    mend_pool *pools[] = {w->pool, kit_pool(w)};
    for (int i = 0; i < 18; i++) {
        const int told[] = {i % 3 - 1, i / 3 % 3 - 1,
                            i / 9}; /* by the call, the thread, the pool */
        const int first = told[0] != 0 ? told[0] : told[1];
        mend_pool *pool = pools[told[2]];
        EXPECT_OK(mend_free(pool, kit_alloc_from(pool, CHUNK - 1, S(0)), S(0)));
        EXPECT_INT_EQ(first != 0 ? first == 1 : told[2],
                      is_switched(w, pool, KIT_OPTIONS(mend_alloc_options, .in_one_chunk = told[1]),
                                  KIT_OPTIONS(mend_alloc_options, .in_one_chunk = told[0])));
        EXPECT_INT_EQ(first == 1,
                      is_switched(w, w->pool, KIT_OPTIONS(mend_alloc_options, .plain = told[1]),
                                  KIT_OPTIONS(mend_alloc_options, .plain = told[0])));
    }
    mend_alloc_options before = MEND_ALLOC_OPTIONS_INIT;
    KIT_THREAD(.in_one_chunk = -1, .plain = -1);
    EXPECT_OK(mend_set_alloc_options(NULL, &before));
    EXPECT_FIELDS(before, in_one_chunk, -1, plain, -1);
    EXPECT_OK(mend_pool_destroy(pools[1]));
}
