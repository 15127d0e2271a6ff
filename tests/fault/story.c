#include "tests/fault/story.h"

#include "tests/support/test.h"

#define KIB(n) ((n)*MEND_KIB)

static const operation room_operations[] = {
    {ALLOC, 0, 0, KIB(900)},  {ALLOC, 1, 0, KIB(700)},  {ALLOC, 2, 0, KIB(3000)},
    {FREE, 0, 0, 0},          {ALLOC, 3, 0, KIB(1900)}, {FREE, 2, 0, 0},
    {ALLOC, 4, 0, KIB(5000)}, {ALLOC, 5, 0, 700},       {ALLOC, 6, 0, KIB(30)},
    {FREE, 4, 0, 0},          {WAIT, 0, 0, 0},          {ALLOC, 7, 0, KIB(6000)},
    {FREE, 1, 0, 0},          {ALLOC, 8, 0, KIB(9000)}, {FREE, 7, 0, 0},
    {FREE, 8, 0, 0},          {TRIM, 0, 0, KIB(2048)},  {WAIT, 0, 0, 0},
    {TRIM, 0, 0, 0},          {ALLOC, 9, 0, KIB(4000)}, {LIMIT, 0, 0, KIB(4096)},
};

static const operation stream_operations[] = {
    {LIMIT, 0, 0, KIB(8192)}, {ALLOC, 0, 0, KIB(3000)}, {ALLOC, 1, 1, KIB(3000)},
    {SHARE, 0, 1, 0},         {FREE, 0, 0, 0},          {ALLOC, 2, 1, KIB(4000)},
    {FREE_ANYWHERE, 1, 0, 0}, {ALLOC, 3, 0, KIB(3500)}, {FREE, 2, 1, 0},
    {FORGET, 0, 1, 0},        {WAIT, 0, 0, 0},          {ALLOC, 4, 0, KIB(4000)},
    {FREE, 3, 0, 0},          {FREE, 4, 0, 0},          {WAIT, 0, 0, 0},
    {TRIM, 0, 0, 0},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

const story story_of_room = {"room", room_operations, COUNT_OF(room_operations)};
const story story_of_streams = {"streams", stream_operations, COUNT_OF(stream_operations)};

void story_begin(story_run *run)
{
    for (int i = 0; i < STORY_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(run->world.sim, &run->streams[i]));
    }
}

void story_end(story_run *run)
{
    mend_sim_advance(run->world.sim, 1000);
    for (int i = 0; i < STORY_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(run->world.sim, run->streams[i]));
    }
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

mend_result story_call(story_run *run, const operation *op)
{
    mend_pool *pool = run->world.pool;
    slot *block = &run->slots[op->slot];
    switch (op->action) {
    case ALLOC:
        return mend_alloc(pool, op->bytes, run->streams[op->stream], &block->pointer);
    case FREE:
        return free_slot(run, op, run->streams[op->stream]);
    case FREE_ANYWHERE:
        return free_slot(run, op, MEND_NO_STREAM);
    case SHARE:
        return block->pointer == NULL
                   ? MEND_OK
                   : mend_record_stream(pool, block->pointer, run->streams[op->stream]);
    case TRIM:
        return mend_trim(pool, op->bytes, NULL);
    case LIMIT:
        return mend_set_limit(pool, op->bytes);
    case FORGET:
        return mend_forget_stream(pool, run->streams[op->stream]);
    case WAIT:
        return MEND_OK;
    }
    return MEND_OK;
}

static void launch(story_run *run, const slot *block, mend_sim_work_kind kind, int stream)
{
    mend_sim_work work = {.kind = kind,
                          .address = (uint64_t)(uintptr_t)block->pointer,
                          .size_bytes = mend_align_up(block->bytes, MEND_GRANULE_BYTES),
                          .tag = block->tag,
                          .finish_ns = mend_sim_now_ns(run->world.sim) + 10};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(run->world.sim, run->streams[stream], &work));
}

void story_use(story_run *run, const operation *op)
{
    if (op->action == ALLOC) {
        slot *block = &run->slots[op->slot];
        block->bytes = op->bytes;
        block->tag = ++run->next_tag;
        launch(run, block, MEND_SIM_WORK_WRITE, op->stream);
        launch(run, block, MEND_SIM_WORK_VERIFY, op->stream);
    } else if (op->action == WAIT) {
        mend_sim_advance(run->world.sim, 1000);
    }
}

void story_expect_unchanged(const mend_stats *before, const mend_stats *after)
{
    EXPECT_U64_EQ(before->live_bytes, after->live_bytes);
    EXPECT_U64_EQ(before->requested_bytes, after->requested_bytes);
    EXPECT_U64_EQ(before->live_blocks, after->live_blocks);
    EXPECT_U64_EQ(before->peak_live_bytes, after->peak_live_bytes);
    EXPECT_U64_EQ(before->allocations, after->allocations);
    EXPECT_U64_EQ(before->frees, after->frees);
}

void story_expect_explained(mend_result result)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(result, error.result);
    EXPECT_TRUE(error.message[0] != '\0');
}
