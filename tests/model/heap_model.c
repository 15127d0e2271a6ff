/*
 * The pool against a naive model over random operations: every answer is compared, and after each
 * step the audit, the device's ledger and the bytes of all blocks are checked.
 */
#include "base/align.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

enum { MOST_BLOCKS = 256, MOST_STREAMS = 4 };

typedef struct model_block {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t requested_bytes;
    uint64_t tag;
    int stream;
    bool untouched; /* nobody has used it */
} model_block;

typedef struct model {
    mend_world world;
    mend_test_random random;
    mend_stream streams[MOST_STREAMS];
    int stream_count;
    model_block blocks[MOST_BLOCKS];
    int block_count;
    uint64_t live_bytes;
    uint64_t peak_live_bytes;
    uint64_t next_tag;
    uint64_t failures;
} model;

static uint64_t below(model *m, uint64_t bound)
{
    return mend_test_random_below(&m->random, bound);
}

/* Queues work that uses a whole block, done somewhat later. */
static void use_block(model *m, const model_block *block, mend_sim_work_kind kind, int stream)
{
    mend_sim_work work = {.kind = kind,
                          .address = block->address,
                          .size_bytes = block->size_bytes,
                          .tag = block->tag,
                          .finish_ns = mend_sim_now_ns(m->world.sim) + below(m, 40)};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(m->world.sim, m->streams[stream], &work));
}

static bool overlaps_any(const model *m, uint64_t address, uint64_t size_bytes)
{
    for (int i = 0; i < m->block_count; i++) {
        const model_block *block = &m->blocks[i];
        if (address < block->address + block->size_bytes && block->address < address + size_bytes) {
            return true;
        }
    }
    return false;
}

/* With one stream, a request may fail only when empty chunks and the room under the limit
 * together do not hold it. */
static void check_refusal(model *m, uint64_t size_bytes)
{
    mend_stats stats = mend_world_stats(&m->world);
    uint64_t page = m->world.sim_config.page_bytes;
    uint64_t room = stats.free_empty_bytes +
                    (stats.limit_bytes > stats.reserved_bytes
                         ? mend_align_down(stats.limit_bytes - stats.reserved_bytes, page)
                         : 0);
    EXPECT_TRUE(size_bytes > room);
    m->failures++;
}

static uint64_t draw_size(model *m)
{
    switch (below(m, 4)) {
    case 0:
        return 1 + below(m, 2000);
    case 1:
        return 1 + below(m, 40 * MEND_KIB);
    case 2:
        return 1 + below(m, 900 * MEND_KIB);
    default:
        return 1 + below(m, 6 * MEND_MIB);
    }
}

static void step_alloc(model *m)
{
    if (m->block_count == MOST_BLOCKS) {
        return;
    }
    int stream = (int)below(m, (uint64_t)m->stream_count);
    uint64_t size_bytes = draw_size(m);
    uint64_t alignment = below(m, 8) == 0 ? UINT64_C(1) << below(m, 20) : 512;
    void *pointer = m;
    mend_result result =
        mend_alloc_aligned(m->world.pool, size_bytes, alignment, m->streams[stream], &pointer);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        EXPECT_PTR_EQ(m, pointer);
        check_refusal(m, size_bytes);
        return;
    }
    ASSERT_RESULT(MEND_OK, result);
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    uint64_t rounded = mend_align_up(size_bytes, 512);
    EXPECT_U64_EQ(0, address % mend_max_u64(alignment, 512));
    EXPECT_FALSE(overlaps_any(m, address, rounded));
    model_block *block = &m->blocks[m->block_count++];
    *block = (model_block){.address = address,
                           .size_bytes = rounded,
                           .requested_bytes = size_bytes,
                           .tag = ++m->next_tag,
                           .stream = stream,
                           .untouched = below(m, 8) == 0};
    m->live_bytes += rounded;
    m->peak_live_bytes = mend_max_u64(m->peak_live_bytes, m->live_bytes);
    if (!block->untouched) {
        use_block(m, block, MEND_SIM_WORK_WRITE, stream);
    }
}

/* A block in use is freed behind its last use; one that nobody has used, on any stream. */
static mend_stream last_use(model *m, const model_block *block, void *pointer)
{
    if (block->untouched) {
        return m->streams[below(m, (uint64_t)m->stream_count)];
    }
    use_block(m, block, MEND_SIM_WORK_VERIFY, block->stream);
    if (m->stream_count > 1 && below(m, 4) == 0) {
        /* Another stream reads as well, after an event of the first that the test need not model:
         * it only reads what has been written by then. */
        int user = (int)below(m, (uint64_t)m->stream_count);
        EXPECT_RESULT(MEND_OK, mend_record_stream(m->world.pool, pointer, m->streams[user]));
        use_block(m, block, MEND_SIM_WORK_TOUCH, user);
    }
    return m->streams[block->stream];
}

static void step_free(model *m)
{
    if (m->block_count == 0) {
        return;
    }
    int at = (int)below(m, (uint64_t)m->block_count);
    model_block block = m->blocks[at];
    void *pointer = (void *)(uintptr_t)block.address;
    mend_stream freed_on = last_use(m, &block, pointer);
    if (below(m, 16) == 0) {
        freed_on = MEND_NO_STREAM;
    }
    ASSERT_RESULT(MEND_OK, mend_free(m->world.pool, pointer, freed_on));
    m->live_bytes -= block.size_bytes;
    m->blocks[at] = m->blocks[--m->block_count];
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(m->world.pool, pointer, freed_on));
}

static void step_info(model *m)
{
    if (m->block_count == 0) {
        return;
    }
    const model_block *block = &m->blocks[below(m, (uint64_t)m->block_count)];
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    void *inside = (void *)(uintptr_t)(block->address + below(m, block->size_bytes));
    ASSERT_RESULT(MEND_OK, mend_get_block_info(m->world.pool, inside, &info));
    EXPECT_U64_EQ(block->address, (uint64_t)(uintptr_t)info.base);
    EXPECT_U64_EQ(block->requested_bytes, info.requested_bytes);
    EXPECT_U64_EQ(block->size_bytes, info.usable_bytes);
    EXPECT_PTR_EQ(m->streams[block->stream], info.stream);
}

static void step_trim(model *m)
{
    uint64_t keep_bytes = below(m, m->world.sim_config.memory_bytes);
    uint64_t before = mend_world_stats(&m->world).reserved_bytes;
    uint64_t released = 0;
    EXPECT_RESULT(MEND_OK, mend_trim(m->world.pool, keep_bytes, &released));
    EXPECT_U64_EQ(before - released, mend_world_stats(&m->world).reserved_bytes);
}

static void step_limit(model *m)
{
    uint64_t limit = below(m, 3) == 0 ? 0 : below(m, m->world.sim_config.memory_bytes) + 1;
    EXPECT_RESULT(MEND_OK, mend_set_limit(m->world.pool, limit));
}

/* Nothing the program has is changed by it. */
static void step_defrag(model *m)
{
    mend_stats before = mend_world_stats(&m->world);
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_defrag(m->world.pool, NULL, &report));
    mend_stats after = mend_world_stats(&m->world);
    EXPECT_U64_EQ(before.live_bytes, after.live_bytes);
    EXPECT_U64_EQ(before.requested_bytes, after.requested_bytes);
    EXPECT_U64_EQ(report.compactions, after.compactions - before.compactions);
    EXPECT_TRUE(after.reserved_bytes - after.free_empty_bytes <=
                before.reserved_bytes - before.free_empty_bytes - report.gained_bytes);
}

/* A stream ends and another takes its place, often under the same handle. */
static void step_stream(model *m)
{
    int at = (int)below(m, (uint64_t)m->stream_count);
    for (int i = 0; i < m->block_count; i++) {
        if (m->blocks[i].stream == at) {
            return; /* its blocks would have no stream to be freed on */
        }
    }
    EXPECT_RESULT(MEND_OK, mend_forget_stream(m->world.pool, m->streams[at]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(m->world.sim, m->streams[at]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(m->world.sim, &m->streams[at]));
}

static void step(model *m)
{
    uint64_t draw = below(m, 100);
    mend_sim_advance(m->world.sim, below(m, 4));
    if (draw < 48) {
        step_alloc(m);
    } else if (draw < 90) {
        step_free(m);
    } else if (draw < 94) {
        step_info(m);
    } else if (draw < 96) {
        step_trim(m);
    } else if (draw < 97) {
        step_limit(m);
    } else if (draw < 98) {
        step_defrag(m);
    } else {
        step_stream(m);
    }
}

static void finish(model *m)
{
    EXPECT_RESULT(MEND_OK, mend_set_limit(m->world.pool, 0));
    while (m->block_count > 0 && !mend_test_has_failed()) {
        step_free(m);
    }
    mend_sim_advance(m->world.sim, 1000);
    mend_world_check(&m->world);
    for (int i = 0; i < m->stream_count; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(m->world.pool, m->streams[i]));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(m->world.sim, m->streams[i]));
    }
    mend_world_close(&m->world);
}

static void run_model(int stream_count, int steps, uint64_t seed)
{
    static model m;
    m = (model){.stream_count = stream_count};
    mend_test_random_init(&m.random, seed);
    mend_world_init(&m.world);
    m.world.sim_config.memory_bytes = (16 + below(&m, 48)) * MEND_MIB;
    m.world.pool_config.allow_stream_waits = below(&m, 2) ? 0 : -1;
    m.world.pool_config.compact_when_full = (int)below(&m, 2);
    ASSERT_TRUE(mend_world_open(&m.world));
    for (int i = 0; i < stream_count; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(m.world.sim, &m.streams[i]));
    }
    for (int i = 0; i < steps && !mend_test_has_failed(); i++) {
        step(&m);
        mend_stats stats = mend_world_stats(&m.world);
        EXPECT_U64_EQ(m.live_bytes, stats.live_bytes);
        EXPECT_U64_EQ((uint64_t)m.block_count, stats.live_blocks);
        EXPECT_U64_EQ(m.peak_live_bytes, stats.peak_live_bytes);
        if (!mend_world_check(&m.world)) {
            mend_test_fail(__FILE__, __LINE__, "at step %d of seed %llu", i,
                           (unsigned long long)seed);
        }
    }
    finish(&m);
}

MEND_TEST(heap_model, one_stream)
{
    for (uint64_t i = 0; i < 12 && !mend_test_has_failed(); i++) {
        run_model(1, 1500, mend_test_seed() + i);
    }
}

MEND_TEST(heap_model, several_streams)
{
    for (uint64_t i = 0; i < 12 && !mend_test_has_failed(); i++) {
        run_model(2 + (int)(i % 3), 1500, mend_test_seed() + i);
    }
}
