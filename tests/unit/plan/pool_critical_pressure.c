/*
 * Under critical pressure empty chunks are not broken without need: a block is made of chunks of
 * the right size, or a chunk is remade for it. Fitting memory is found all the same, and a refusal
 * loses nothing.
 */
#include "tests/support/kit.h"

#define PAGE (64 * MEND_KIB)

enum { LIMIT_PAGES = 256, BLOCKS = 6 };

/* Of one chunk each: they fill the limit. */
static const uint64_t pages_of[BLOCKS] = {64, 64, 48, 32, 32, 16};
enum { LARGE = 0 };

/* Blocks are allocated for one stream, and requested on another: for one's own stream no fence is
 * recorded. */
typedef struct full_program {
    mend_world w;
    mend_stream owner;
    mend_stream asking;
    void *blocks[BLOCKS];
} full_program;

static bool open_filled(full_program *f)
{
    if (!kit_open_set(&f->w, f->w.sim_config.memory_bytes = 2 * LIMIT_PAGES * PAGE,
                      f->w.placement.chunk_bytes = 64 * PAGE,
                      f->w.placement.small_chunk_bytes = PAGE,
                      f->w.pool_config.limit_bytes = LIMIT_PAGES * PAGE)) {
        return false;
    }
    f->owner = f->w.streams[1];
    f->asking = f->w.streams[0];
    for (int i = 0; i < BLOCKS; i++) {
        f->blocks[i] = kit_alloc(&f->w, pages_of[i] * PAGE, f->owner);
    }
    EXPECT_STATS(&f->w, reserved_bytes, LIMIT_PAGES * PAGE, chunks, BLOCKS);
    return !mend_test_has_failed();
}

/* A large request sees that all is in use, and six pages trapped behind the last block: from then
 * on the pressure is critical. */
static bool open_critical(full_program *f)
{
    bool is_open = open_filled(f);
    kit_free(&f->w, f->blocks[BLOCKS - 1], f->owner);
    f->blocks[BLOCKS - 1] = kit_alloc(&f->w, 10 * PAGE, f->owner);
    kit_expect_none(&f->w, 8 * PAGE, f->asking, "");
    return is_open && !mend_test_has_failed();
}

static void release(full_program *f, int block)
{
    kit_free(&f->w, f->blocks[block], f->owner);
}

static void *request(full_program *f, uint64_t pages)
{
    return kit_alloc(&f->w, pages * PAGE, f->asking);
}

/* All chunks that are free and all that may be created do not hold it, but for half a page that is
 * free behind a block. Chunks are exact. */
KIT_SET_TEST(pool_critical_pressure, a_smaller_run_may_need_less,
             (w->placement.chunk_bytes = 64 * PAGE, w->placement.small_chunk_bytes = PAGE,
              w->placement.low_pressure_percent = 100,
              w->pool_config.limit_bytes = LIMIT_PAGES / 2 * PAGE))
{
    void *whole = kit_alloc(w, 32 * PAGE, w->streams[0]);
    kit_alloc(w, 63 * PAGE + PAGE / 2, w->streams[0]);
    kit_free(w, whole, w->streams[0]);
    EXPECT_U64_EQ(32 * PAGE, mend_world_stats(w).free_empty_bytes);
    kit_alloc(w, 64 * PAGE + PAGE / 4, w->streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(w).chunks_moved);
}

KIT_CASE(pool_critical_pressure, nothing_is_remade_beside_a_capture, full_program, f,
         open_critical(f), kit_close(&f->w))
{
    mend_stream captured = f->w.streams[2];
    release(f, LARGE);
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(&f->w, captured);
    void *broken = request(f, 16);
    EXPECT_PTR_EQ(f->blocks[LARGE], broken);
    EXPECT_STATS(&f->w, chunks_remade, 0);
    mend_sim_graph_destroy(f->w.sim, kit_end_captured_graph_pool(&f->w, captured, graph_pool));
    EXPECT_RESULT(MEND_OK, mend_graph_pool_destroy(graph_pool, captured));
    kit_free(&f->w, broken, f->owner);
    request(f, 16);
    EXPECT_STATS(&f->w, chunks_remade, 1);
}

/* Chunks that cannot be released are broken. */
KIT_CASE(pool_critical_pressure, a_driver_that_refuses_a_release_loses_nothing, full_program, f,
         open_critical(f), kit_close(&f->w))
{
    release(f, LARGE);
    kit_fail(&f->w, "release", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    request(f, 16);
    EXPECT_STATS(&f->w, chunks_remade, 0);
    mend_sim_clear_faults(f->w.sim);
    mend_world_check(&f->w);
    request(f, 48);
}
