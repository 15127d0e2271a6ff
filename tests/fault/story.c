#include "tests/fault/story.h"

#include <stdio.h>

#include "base/process.h"

#include "driver/driver.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_sleep.h"
#include "tests/support/test.h"

void story_begin(story_run *run)
{
    run->streams[STORY_PER_THREAD] = MEND_STREAM_PER_THREAD;
    mend_set_alloc_options(NULL, NULL);
    for (int i = 0; i < STORY_PER_THREAD; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(run->world.sim, NULL, &run->streams[i]));
    }
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(run->world.sim, NULL, &run->reader));
}

void story_end(story_run *run)
{
    mend_sim_advance(run->world.sim, 1000);
    for (int i = 0; i < STORY_PER_THREAD; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(run->world.sim, run->streams[i]));
    }
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(run->world.sim, run->reader));
    mend_world_close(&run->world);
}

static mend_result free_slot(story_run *run, const operation *op, mend_stream stream)
{
    slot *block = &run->slots[op->slot];
    if (block->pointer == NULL) {
        return MEND_OK; /* its allocation failed for good */
    }
    mend_result result = mend_free(run->world.pool, block->pointer, stream);
    if (result == MEND_OK) {
        block->pointer = NULL;
    }
    return result;
}

static int look_for_memory(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    (void)context;
    (void)needed_bytes;
    const mend_thread_error before = *mend_process_error();
    (void)mend_trim(pool, UINT64_MAX, MEND_TRIM_IDLE,
                    NULL); /* which may fail as any call, and says so itself */
    *mend_process_error() = before;
    return 0;
}

static mend_result ask(story_run *run, bool is_for_room, mend_stream stream)
{
    mend_available room = MEND_AVAILABLE_INIT;
    mend_usage usage = MEND_USAGE_INIT;
    if (!is_for_room) {
        return mend_get_usage(run->world.pool, NULL, &usage);
    }
    room.now_bytes = run->released_bytes; /* which a failure leaves alone */
    mend_result result = mend_get_available(run->world.pool, stream, &room);
    run->released_bytes = room.now_bytes;
    return result;
}

static mend_result begin_graph_pool(story_run *run, mend_stream stream)
{
    mend_result result = mend_graph_pool_create(run->world.pool, &run->graph_pool);
    return result == MEND_OK ? mend_graph_pool_begin(run->graph_pool, stream) : result;
}

static mend_result release_graph_pool(story_run *run, mend_stream stream)
{
    mend_result result = mend_graph_pool_destroy(run->graph_pool, stream);
    if (result == MEND_OK) {
        run->graph_pool = NULL;
    }
    return result;
}

static mend_result alloc_in_graph_pool(story_run *run, const operation *op, void **pointer)
{
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.graph_pool = run->graph_pool;
    return mend_alloc_with(run->world.pool, op->bytes, run->streams[op->stream], &options, pointer);
}

static mend_result free_in_graph_pool(story_run *run, const operation *op, slot *block)
{
    mend_result result =
        mend_graph_pool_free(run->graph_pool, block->pointer, run->streams[op->stream]);
    block->pointer = result == MEND_OK ? NULL : block->pointer;
    return result;
}

/* The first block of the checkpoint is the slot's. The others live. */
static mend_result restore(story_run *run, slot *block)
{
    mend_result result = mend_graph_pool_restore(
        run->graph_pool, run->checkpoint, sizeof(mend_graph_pool_block), run->checkpoint_count);
    EXPECT_TRUE(run->checkpoint_count > 0);
    block->pointer = result == MEND_OK ? run->checkpoint[0].pointer : block->pointer;
    return result;
}

static mend_result pin(mend_pool *pool, slot *block, uint64_t size_bytes)
{
    mend_result result = mend_pin(pool, block->pointer, size_bytes);
    block->pinned_bytes = result == MEND_OK ? size_bytes : 0;
    return result;
}

static mend_result unpin(mend_pool *pool, slot *block)
{
    mend_result result = mend_unpin(pool, block->pointer, block->pinned_bytes);
    block->pinned_bytes = result == MEND_OK ? 0 : block->pinned_bytes;
    return result;
}

static mend_result close_import(story_run *run, slot *block, mend_stream stream)
{
    mend_result result = mend_import_close(run->world.pool, block->imported, stream);
    block->imported = result == MEND_OK ? NULL : block->imported;
    return result;
}

static mend_result create_range(story_run *run, const operation *op)
{
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    static const uint64_t pages[] = {STORY_PAGE_BYTES, STORY_PAGE_BYTES / 4, 16 * STORY_PAGE_BYTES};
    options.page_bytes = pages[op->slot];
    return mend_range_create(run->world.pool, op->bytes, &options, &run->range);
}

static mend_result commit(story_run *run, const operation *op, slot *block)
{
    const uint64_t offset_bytes = (uint64_t)op->slot * STORY_PAGE_BYTES;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    mend_result result =
        mend_range_commit(run->range, offset_bytes, op->bytes, run->streams[op->stream]);
    if (result == MEND_OK) {
        EXPECT_RESULT(MEND_OK, mend_range_get_info(run->range, &info));
        block->pointer = (char *)info.base + offset_bytes;
        block->readable_ns = UINT64_MAX; /* until it is written */
    }
    return result;
}

/* Of a slot: the pages that were committed for it. */
static mend_result call_for_pages(story_run *run, const operation *op, slot *block)
{
    const uint64_t offset_bytes = (uint64_t)op->slot * STORY_PAGE_BYTES;
    mend_stream stream = run->streams[op->stream];
    if (block->pointer == NULL) {
        return MEND_OK; /* their commit failed for good */
    }
    if (op->action == SHARE_PAGES) {
        return mend_range_record_stream(run->range, offset_bytes, block->bytes, stream);
    }
    mend_result result = mend_range_decommit(run->range, offset_bytes, block->bytes, stream);
    block->pointer = result == MEND_OK ? NULL : block->pointer;
    return result;
}

static mend_result end_range(story_run *run, mend_stream stream)
{
    mend_range_info info = MEND_RANGE_INFO_INIT;
    mend_range *range = run->range;
    EXPECT_RESULT(MEND_OK, mend_range_get_info(range, &info));
    mend_result result = mend_range_destroy(range, stream);
    run->range = result == MEND_OK ? NULL : range;
    for (int i = 0; i < STORY_SLOTS && result == MEND_OK; i++) {
        const uintptr_t offset = (uintptr_t)run->slots[i].pointer - (uintptr_t)info.base;
        run->slots[i].pointer = offset < info.size_bytes ? NULL : run->slots[i].pointer;
    }
    return result;
}

static mend_result call_range(story_run *run, const operation *op, slot *block)
{
    switch (op->action) {
    case RANGE:
        return create_range(run, op);
    case COMMIT:
        return commit(run, op, block);
    case RANGE_END:
        return end_range(run, run->streams[op->stream]);
    default:
        return call_for_pages(run, op, block);
    }
}

static mend_result share(story_run *run, const operation *op, slot *block)
{
    mend_pool *pool = run->world.pool;
    switch (op->action) {
    case EXPORT:
        return mend_export(pool, block->pointer, NULL, &block->token, MEND_EXPORT_TOKEN_BYTES, NULL,
                           NULL);
    case IMPORT:
        return mend_import(pool, &block->token, MEND_EXPORT_TOKEN_BYTES, &block->imported, NULL);
    case EXPORT_BY_FABRIC:
        return mend_export(
            pool, block->pointer, KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC),
            run->description, sizeof(run->description), &run->description_bytes, NULL);
    case IMPORT_BY_FABRIC:
        return mend_import(pool, run->description, run->description_bytes, &block->imported, NULL);
    default:
        return close_import(run, block,
                            op->action == CLOSE ? run->streams[op->stream] : MEND_NO_STREAM);
    }
}

static mend_result sleep_or_prepare(story_run *run, const operation *op)
{
    static const mend_sleep_rule rules[] = {{1, MEND_BACKUP_HOST}, {2, MEND_BACKUP_FILE}};
    mend_pool *pool = run->world.pool;
    switch (op->action) {
    case TAG:
        KIT_THREAD(.sleep_tag = op->bytes);
        return MEND_OK;
    case SLEEP:
        run->has_slept = true;
        return mend_sleep(pool,
                          KIT_OPTIONS(mend_sleep_options, .rules = rules,
                                      .rule_count = op->slot == 2 ? 2 : 1, .directory = P_tmpdir,
                                      .keep_free = op->stream),
                          NULL);
    case WAKE:
        return mend_wake(pool, NULL, 0, NULL);
    default:
        return mend_prepare_checkpoint(pool, NULL);
    }
}

mend_result story_call(story_run *run, const operation *op)
{
    mend_pool *pool = run->world.pool;
    slot *block = &run->slots[op->slot];
    mend_stream stream = run->streams[op->stream];
    if (op->action >= RANGE && op->action <= PREPARE_CHECKPOINT) {
        return op->action <= RANGE_END ? call_range(run, op, block) : sleep_or_prepare(run, op);
    }
    switch (op->action) {
    case ALLOC:
        return mend_alloc(pool, op->bytes, stream, &block->pointer);
    case ALLOC_ALIGNED:
        return mend_alloc_with(
            pool, op->bytes, stream,
            KIT_OPTIONS(mend_alloc_options, .alignment_bytes = STORY_ALIGNMENT_BYTES),
            &block->pointer);
    case ALLOC_FOR_ANY:
        return mend_alloc(pool, op->bytes, MEND_NO_STREAM, &block->pointer);
    case FREE:
        return free_slot(run, op, stream);
    case FREE_ANYWHERE:
        return free_slot(run, op, MEND_NO_STREAM);
    case SHARE:
        return block->pointer == NULL ? MEND_OK : mend_record_stream(pool, block->pointer, stream);
    case TRIM:
        return mend_trim(pool, op->bytes, MEND_TRIM_IDLE, &run->released_bytes);
    case TRIM_WAIT:
        return mend_trim(pool, op->bytes, MEND_TRIM_WAIT, &run->released_bytes);
    case ROOM:
    case LOOK:
        return ask(run, op->action == ROOM, stream);
    case COMPACT:
        return mend_compact(pool, NULL, NULL);
    case PIN:
        return pin(pool, block, op->bytes);
    case EXPORT:
    case IMPORT:
    case EXPORT_BY_FABRIC:
    case IMPORT_BY_FABRIC:
    case CLOSE:
    case CLOSE_ANYWHERE:
        return share(run, op, block);
    case UNPIN:
        return unpin(pool, block);
    case HISTORY:
        return mend_history_start(pool, op->bytes);
    case LIMIT:
        return mend_set_limit(pool, op->bytes);
    case FORGET:
        return mend_unregister_stream(pool, stream);
    case GRAPH_POOL_BEGIN:
        return begin_graph_pool(run, stream);
    case GRAPH_POOL_END:
        return mend_graph_pool_end(run->graph_pool);
    case GRAPH_POOL_RELEASE:
        return release_graph_pool(run, stream);
    case ALLOC_IN_GRAPH_POOL:
        return alloc_in_graph_pool(run, op, &block->pointer);
    case FREE_IN_GRAPH_POOL:
        return free_in_graph_pool(run, op, block);
    case CHECKPOINT:
        return mend_graph_pool_checkpoint(run->graph_pool, run->checkpoint, sizeof *run->checkpoint,
                                          STORY_SLOTS, &run->checkpoint_count);
    case RESTORE:
        return restore(run, block);
    case PRESSURE:
        return mend_add_pressure_callback(pool, look_for_memory, NULL);
    default: /* FOREIGN, USE, WAIT */
        return MEND_OK;
    }
}

static uint64_t launch(story_run *run, const slot *block, mend_sim_work_kind kind,
                       mend_stream stream, uint64_t duration_ns)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = kind,
                          .address = (uint64_t)(uintptr_t)block->pointer,
                          .size_bytes = mend_align_up(block->bytes, MEND_GRANULE_BYTES),
                          .tag = block->tag,
                          .finish_ns = mend_sim_now_ns(run->world.sim) + duration_ns};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(run->world.sim, stream, &work));
    return work.finish_ns;
}

/* Work on one of the story's streams, which is busy with it for so long. */
static void occupy(story_run *run, const slot *block, mend_sim_work_kind kind, int stream,
                   uint64_t duration_ns)
{
    uint64_t finish_ns = launch(run, block, kind, run->streams[stream], duration_ns);
    run->busy_until_ns[stream] = mend_max_u64(run->busy_until_ns[stream], finish_ns);
}

void story_use(story_run *run, const operation *op)
{
    slot *block = &run->slots[op->slot];
    if (op->action == ALLOC || op->action == ALLOC_ALIGNED || op->action == ALLOC_FOR_ANY ||
        op->action == COMMIT) {
        block->bytes = op->bytes;
        block->tag = ++run->next_tag;
        block->stream = op->stream;
        occupy(run, block, MEND_SIM_WORK_WRITE, op->stream, 0);
        block->readable_ns = run->busy_until_ns[op->stream];
        occupy(run, block, MEND_SIM_WORK_VERIFY, op->stream, 0);
    } else if (op->action == USE) {
        occupy(run, block, MEND_SIM_WORK_VERIFY, op->stream, 500);
    } else if (op->action == FOREIGN) {
        mend_sim_set_foreign_bytes(run->world.sim, 0, op->bytes);
    } else if (op->action == WAIT) {
        mend_sim_advance(run->world.sim, 1000);
    }
}

static bool sleeps(story_run *run, const slot *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(run->world.pool, block->pointer, &info));
    return info.is_asleep != 0;
}

void story_read_all(story_run *run)
{
    uint64_t now_ns = mend_sim_now_ns(run->world.sim);
    for (int i = 0; i < STORY_SLOTS; i++) {
        const slot *block = &run->slots[i];
        if (block->pointer != NULL && block->readable_ns <= now_ns &&
            !(run->has_slept && sleeps(run, block))) {
            launch(run, block, MEND_SIM_WORK_VERIFY, run->reader, 0);
        }
    }
}
