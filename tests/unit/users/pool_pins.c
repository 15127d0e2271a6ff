/* mend_pin: pinned memory keeps its address and its chunk, whatever is asked of the pool. */
#include "observe/explain.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
enum { CHUNKS = 8 };

typedef struct rig {
    mend_world w;
    mend_stream stream;
    char *blocks[CHUNKS]; /* each fills a chunk of its own */
} rig;

static void use_small_chunks(mend_world *w)
{
    w->placement.chunk_bytes = CHUNK;
}

/* All memory of the device is in blocks. */
static bool open_rig(rig *r)
{
    *r = (rig){.stream = NULL};
    if (!kit_open_with(&r->w, CHUNKS * CHUNK, use_small_chunks)) {
        return false;
    }
    r->stream = r->w.streams[0];
    for (int i = 0; i < CHUNKS; i++) {
        r->blocks[i] = kit_alloc(&r->w, CHUNK, r->stream);
    }
    return r->blocks[CHUNKS - 1] != NULL;
}

static void release(rig *r, int block)
{
    kit_free(&r->w, r->blocks[block], r->stream);
    r->blocks[block] = NULL;
}

static void release_all(rig *r)
{
    for (int i = 0; i < CHUNKS; i++) {
        if (r->blocks[i] != NULL) {
            release(r, i);
        }
    }
}

/* Where it is, it may grow. */
MEND_TEST(pool_pins, free_pinned_chunks_are_not_moved_until_they_are_unpinned)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    const char *pinned = r.blocks[1];
    const char *other = r.blocks[5];
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, pinned, CHUNK));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, other, CHUNK));
    release(&r, 1);
    release(&r, 5);
    kit_expect_none(&r.w, 2 * CHUNK, r.stream, "");
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).chunks_moved);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, other, CHUNK));
    void *large = kit_alloc(&r.w, 2 * CHUNK, r.stream);
    kit_use(&r.w, r.stream, large, 2 * CHUNK, 10);
    EXPECT_TRUE(large == pinned);
    EXPECT_U64_EQ(1, mend_world_stats(&r.w).chunks_moved);
    kit_free(&r.w, large, r.stream);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, pinned, CHUNK));
    release_all(&r);
    kit_close(&r.w);
}

MEND_TEST(pool_pins, freed_memory_serves_others_where_it_is)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    char *pinned = r.blocks[2];
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, pinned, CHUNK));
    release(&r, 2);
    r.blocks[2] = kit_alloc(&r.w, CHUNK, r.stream);
    EXPECT_TRUE(r.blocks[2] == pinned);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, pinned, CHUNK));
    release_all(&r);
    kit_close(&r.w);
}

MEND_TEST(pool_pins, a_trim_leaves_pinned_memory)
{
    rig r;
    uint64_t released_bytes = 0;
    ASSERT_TRUE(open_rig(&r));
    const char *pinned = r.blocks[3];
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, pinned, 512));
    release_all(&r);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ((CHUNKS - 1) * CHUNK, released_bytes);
    EXPECT_RESULT(MEND_OK, mend_trim_wait(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(0, released_bytes);
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).pinned_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, pinned, 512));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).pinned_bytes);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(CHUNK, released_bytes);
    kit_close(&r.w);
}

MEND_TEST(pool_pins, a_partly_used_pinned_chunk_is_not_compacted)
{
    mend_world w;
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    ASSERT_TRUE(kit_open_with(&w, CHUNKS * CHUNK, use_small_chunks));
    mend_stream stream = w.streams[0];
    char *large = kit_alloc(&w, CHUNK, stream);
    kit_free(&w, large, stream);
    char *kept = kit_alloc(&w, CHUNK / 4, stream);
    kit_write(&w, stream, kept, CHUNK / 4);
    EXPECT_RESULT(MEND_OK, mend_pin(w.pool, kept, CHUNK / 4));
    EXPECT_RESULT(MEND_OK, mend_defrag(w.pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_RESULT(MEND_OK, mend_unpin(w.pool, kept, CHUNK / 4));
    EXPECT_RESULT(MEND_OK, mend_defrag(w.pool, NULL, &report));
    EXPECT_U64_EQ(1, report.compactions);
    kit_verify(&w, stream, kept, CHUNK / 4);
    kit_free(&w, kept, stream);
    kit_close(&w);
}

MEND_TEST(pool_pins, count_and_may_overlap)
{
    rig r;
    uint64_t released_bytes = 0;
    ASSERT_TRUE(open_rig(&r));
    const char *first = r.blocks[0];
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, first, CHUNK));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, first, CHUNK));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, first + CHUNK / 2, CHUNK / 4));
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).pinned_bytes);
    release_all(&r);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, first, CHUNK));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, first + CHUNK / 2, CHUNK / 4));
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ((CHUNKS - 1) * CHUNK, released_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, first, CHUNK));
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(CHUNK, released_bytes);
    kit_close(&r.w);
}

MEND_TEST(pool_pins, cover_all_chunks_of_their_range)
{
    mend_world w;
    uint64_t released_bytes = 0;
    ASSERT_TRUE(kit_open_with(&w, CHUNKS * CHUNK, use_small_chunks));
    char *block = kit_alloc(&w, 4 * CHUNK, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_pin(w.pool, block + CHUNK - 512, CHUNK + 1024));
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(CHUNK, released_bytes);
    EXPECT_U64_EQ(3 * CHUNK, mend_world_stats(&w).pinned_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(w.pool, block + CHUNK - 512, CHUNK + 1024));
    kit_close(&w);
}

static void expect_refused(rig *r, mend_result expected, const void *pointer, uint64_t size_bytes)
{
    EXPECT_RESULT(expected, mend_pin(r->w.pool, pointer, size_bytes));
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).pinned_bytes);
}

MEND_TEST(pool_pins, what_is_no_mapped_memory_of_the_pool_is_refused)
{
    rig r;
    char outside = 0;
    ASSERT_TRUE(open_rig(&r));
    expect_refused(&r, MEND_ERROR_INVALID_ARGUMENT, NULL, 512);
    expect_refused(&r, MEND_ERROR_INVALID_ARGUMENT, r.blocks[0], 0);
    expect_refused(&r, MEND_ERROR_INVALID_ARGUMENT, r.blocks[0], UINT64_MAX);
    expect_refused(&r, MEND_ERROR_FOREIGN_POINTER, &outside, 1);
    expect_refused(&r, MEND_ERROR_FOREIGN_POINTER, r.blocks[CHUNKS - 1], MEND_GIB);
    kit_expect_words("is not all mapped memory of this pool");
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pin(NULL, r.blocks[0], 512));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_unpin(NULL, r.blocks[0], 512));
    release_all(&r);
    kit_close(&r.w);
}

MEND_TEST(pool_pins, only_what_was_pinned_is_unpinned)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.blocks[0], 1024));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_unpin(r.w.pool, r.blocks[0], 512));
    kit_expect_words("no pin of 512 bytes");
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_unpin(r.w.pool, r.blocks[1], 1024));
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).pinned_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, r.blocks[0], 1024));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_unpin(r.w.pool, r.blocks[0], 1024));
    release_all(&r);
    kit_close(&r.w);
}

MEND_TEST(pool_pins, without_host_memory_nothing_is_pinned)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_test_fail_host_memory_after(0, 1);
    mend_test_watch_host_memory(true);
    mend_result result = mend_pin(r.w.pool, r.blocks[0], CHUNK);
    mend_test_watch_host_memory(false);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).pinned_bytes);
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.blocks[0], CHUNK));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, r.blocks[0], CHUNK));
    release_all(&r);
    kit_close(&r.w);
}

/* Nothing lives there, and it is not empty: no block holds it. */
MEND_TEST(pool_pins, end_with_the_pool_and_are_explained_before)
{
    rig r;
    mend_explanation explanation;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.blocks[4], CHUNK));
    release_all(&r);
    EXPECT_RESULT(MEND_OK, mend_pool_explain(r.w.pool, r.stream, &explanation));
    EXPECT_U64_EQ(CHUNKS * CHUNK, mend_explanation_free_bytes(&explanation));
    EXPECT_U64_EQ(0, explanation.emptiest_count);
    EXPECT_U64_EQ((CHUNKS - 1) * CHUNK, mend_world_stats(&r.w).free_empty_bytes);
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).free_partial_bytes);
    kit_close(&r.w);
}
