#include "tests/process/rig.h"
#include "mend/mend_frameworks.h"

static const uint64_t KIB = 1024;

void rig_open(rig *r)
{
    *r = (rig){0};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 64 * KIB * KIB;
    config.page_bytes = 64 * KIB;
    config.content = MEND_SIM_CONTENT_BYTES;
    CHECK(mend_sim_create(&config, &r->sim) == MEND_OK);
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    pool_config.driver = mend_sim_driver(r->sim);
    pool_config.log_level = -1; /* scenes end with live blocks */
    pool_config.address_reservation_bytes = KIB * KIB * KIB;
    CHECK(mend_pool_create(&pool_config, &r->pool) == MEND_OK);
    for (int i = 0; i < RIG_STREAMS; i++) {
        CHECK(mend_sim_stream_create(r->sim, NULL, &r->streams[i]) == MEND_OK);
    }
    CHECK(mend_alloc(r->pool, 512, r->streams[0], &r->kept) == MEND_OK);
    CHECK(mend_graph_pool_create(r->pool, &r->graph_pool) == MEND_OK);
}

static void launch(const rig *r, const rig_block *block, mend_sim_work_kind kind)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = kind,
                          .address = (uint64_t)(uintptr_t)block->pointer,
                          .size_bytes = block->size_bytes,
                          .tag = (uint64_t)(block - r->blocks),
                          .finish_ns = mend_sim_now_ns(r->sim) + 1000};
    CHECK(mend_sim_launch(r->sim, block->stream, &work) == MEND_OK);
}

void rig_fill(rig *r)
{
    for (int i = 0; i < RIG_BLOCKS; i++) {
        rig_block *block = &r->blocks[i];
        block->stream = r->streams[i % RIG_STREAMS];
        block->size_bytes = i % 3 == 0 ? 1536 * KIB : 512 * (1 + (uint64_t)i);
        void *passing = NULL;
        CHECK(mend_alloc(r->pool, 700 * KIB, block->stream, &passing) == MEND_OK);
        CHECK(mend_alloc(r->pool, block->size_bytes, block->stream, &block->pointer) == MEND_OK);
        launch(r, block, MEND_SIM_WORK_WRITE);
        CHECK(mend_record_stream(r->pool, passing, r->streams[0]) == MEND_OK);
        CHECK(mend_free(r->pool, passing, block->stream) == MEND_OK);
    }
}

void rig_check(rig *r)
{
    for (int i = 0; i < RIG_BLOCKS; i++) {
        if (r->blocks[i].pointer != NULL) {
            launch(r, &r->blocks[i], MEND_SIM_WORK_VERIFY);
        }
    }
    mend_sim_advance(r->sim, 1000000);
    mend_stats stats = MEND_STATS_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    CHECK(mend_validate(r->pool) == MEND_OK);
    CHECK(mend_get_stats(r->pool, &stats) == MEND_OK);
    CHECK(mend_sim_get_ledger(r->sim, &ledger) == MEND_OK);
    CHECK(ledger.pending_work == 0);
    CHECK(ledger.content_errors == 0);
    CHECK(ledger.violations == 0);
    CHECK(ledger.chunk_bytes == stats.reserved_bytes);
    CHECK(ledger.mapped_bytes == stats.mapped_bytes);
}

void rig_free_blocks(rig *r)
{
    for (int i = 0; i < RIG_BLOCKS; i++) {
        rig_block *block = &r->blocks[i];
        if (block->pointer != NULL) {
            CHECK(mend_free(r->pool, block->pointer, block->stream) == MEND_OK);
            block->pointer = NULL;
        }
    }
}

void rig_close(rig *r)
{
    CHECK(mend_pool_destroy(r->pool) == MEND_OK);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    CHECK(mend_sim_get_ledger(r->sim, &ledger) == MEND_OK);
    CHECK(ledger.violations == 0);
    CHECK(ledger.chunks == 0);
    CHECK(ledger.mappings == 0);
    CHECK(ledger.reservations == 0);
    CHECK(ledger.events == 0);
    CHECK(ledger.contexts_open == 0);
    mend_sim_destroy(r->sim);
    *r = (rig){0};
}

void rig_try_all(void)
{
    rig own;
    rig_open(&own);
    rig_fill(&own);
    rig_check(&own);
    rig_free_blocks(&own);
    rig_check(&own);
    rig_close(&own);
}
