/*
 * Every driver call of a scenario fails once, and from there on for ever: each operation then
 * answers with an error or succeeds all the same, the pool stays as it was, nothing leaks, no rule
 * of the driver is broken, no byte is lost, and once the fault is over the same operation works.
 */
#include "base/align.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

enum { SLOTS = 12, STREAMS = 2 };

/* One operation of a scenario. */
typedef enum action { ALLOC, FREE, FREE_ANYWHERE, SHARE, TRIM, LIMIT, FORGET, WAIT } action;

typedef struct operation {
    action action;
    int slot;       /* ALLOC, FREE..., SHARE */
    int stream;     /* by number */
    uint64_t bytes; /* ALLOC: size; TRIM: what is kept; LIMIT: the limit */
} operation;

typedef struct scenario {
    const char *name;
    const operation *operations;
    size_t count;
} scenario;

#define KIB(n) ((n)*MEND_KIB)

/* A request covered by an extension with moved chunks, by a fresh place, by creation at the limit.
 */
static const operation room_operations[] = {
    {ALLOC, 0, 0, KIB(900)},  {ALLOC, 1, 0, KIB(700)},  {ALLOC, 2, 0, KIB(3000)},
    {FREE, 0, 0, 0},          {ALLOC, 3, 0, KIB(1900)}, {FREE, 2, 0, 0},
    {ALLOC, 4, 0, KIB(5000)}, {ALLOC, 5, 0, 700},       {ALLOC, 6, 0, KIB(30)},
    {FREE, 4, 0, 0},          {WAIT, 0, 0, 0},          {ALLOC, 7, 0, KIB(6000)},
    {FREE, 1, 0, 0},          {ALLOC, 8, 0, KIB(9000)}, {FREE, 7, 0, 0},
    {FREE, 8, 0, 0},          {TRIM, 0, 0, KIB(2048)},  {WAIT, 0, 0, 0},
    {TRIM, 0, 0, 0},          {ALLOC, 9, 0, KIB(4000)}, {LIMIT, 0, 0, KIB(4096)},
};

/* Memory that crosses from one stream to the other, behind fences and waits. */
static const operation stream_operations[] = {
    {LIMIT, 0, 0, KIB(8192)}, {ALLOC, 0, 0, KIB(3000)}, {ALLOC, 1, 1, KIB(3000)},
    {SHARE, 0, 1, 0},         {FREE, 0, 0, 0},          {ALLOC, 2, 1, KIB(4000)},
    {FREE_ANYWHERE, 1, 0, 0}, {ALLOC, 3, 0, KIB(3500)}, {FREE, 2, 1, 0},
    {FORGET, 0, 1, 0},        {WAIT, 0, 0, 0},          {ALLOC, 4, 0, KIB(4000)},
    {FREE, 3, 0, 0},          {FREE, 4, 0, 0},          {WAIT, 0, 0, 0},
    {TRIM, 0, 0, 0},
};

#define SCENARIO(operations)                                                                       \
    {                                                                                              \
#operations, operations, sizeof(operations) / sizeof(operations[0])                        \
    }

static const scenario scenarios[] = {SCENARIO(room_operations), SCENARIO(stream_operations)};

typedef struct slot {
    void *pointer;
    uint64_t bytes;
    uint64_t tag;
} slot;

typedef struct fault_run {
    mend_world world;
    mend_stream streams[STREAMS];
    slot slots[SLOTS];
    uint64_t next_tag;
    bool undo_works; /* the driver takes back what it gave; else it stays, as free memory */
} fault_run;

static void launch(fault_run *run, const slot *block, mend_sim_work_kind kind, int stream)
{
    mend_sim_work work = {.kind = kind,
                          .address = (uint64_t)(uintptr_t)block->pointer,
                          .size_bytes = mend_align_up(block->bytes, 512),
                          .tag = block->tag,
                          .finish_ns = mend_sim_now_ns(run->world.sim) + 10};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(run->world.sim, run->streams[stream], &work));
}

static mend_result free_slot(fault_run *run, const operation *op, mend_stream stream)
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

static mend_result perform(fault_run *run, const operation *op)
{
    mend_pool *pool = run->world.pool;
    slot *block = &run->slots[op->slot];
    switch (op->action) {
    case ALLOC: {
        mend_result result = mend_alloc(pool, op->bytes, run->streams[op->stream], &block->pointer);
        if (result == MEND_OK) {
            block->bytes = op->bytes;
            block->tag = ++run->next_tag;
            launch(run, block, MEND_SIM_WORK_WRITE, op->stream);
            launch(run, block, MEND_SIM_WORK_VERIFY, op->stream);
        }
        return result;
    }
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
        mend_sim_advance(run->world.sim, 1000);
        return MEND_OK;
    }
    return MEND_OK;
}

/* What a failed operation must not change. */
static void expect_unchanged(const mend_stats *before, const mend_stats *after)
{
    EXPECT_U64_EQ(before->live_bytes, after->live_bytes);
    EXPECT_U64_EQ(before->requested_bytes, after->requested_bytes);
    EXPECT_U64_EQ(before->live_blocks, after->live_blocks);
    EXPECT_U64_EQ(before->peak_live_bytes, after->peak_live_bytes);
    EXPECT_U64_EQ(before->allocations, after->allocations);
    EXPECT_U64_EQ(before->frees, after->frees);
}

static bool open_run(fault_run *run)
{
    *run = (fault_run){0};
    mend_world_init(&run->world);
    if (!mend_world_open(&run->world)) {
        return false;
    }
    for (int i = 0; i < STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(run->world.sim, &run->streams[i]));
    }
    return true;
}

/* Performs an operation; when it fails, checks that nothing changed and, once the fault is over,
 * that the same operation works. */
static void perform_checked(fault_run *run, const operation *op)
{
    mend_stats before = mend_world_stats(&run->world);
    mend_result result = perform(run, op);
    mend_world_check(&run->world);
    if (result == MEND_OK) {
        return;
    }
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(result, error.result);
    EXPECT_TRUE(error.message[0] != '\0');
    mend_stats after = mend_world_stats(&run->world);
    expect_unchanged(&before, &after);
    if (op->action == ALLOC && run->undo_works) {
        EXPECT_U64_EQ(before.reserved_bytes, after.reserved_bytes);
        EXPECT_U64_EQ(before.address_bytes, after.address_bytes);
    }
    mend_sim_clear_faults(run->world.sim);
    EXPECT_RESULT(MEND_OK, perform(run, op));
    mend_world_check(&run->world);
}

/* Runs a scenario with a fault at a position; false when the scenario makes fewer calls. */
static bool run_with_fault(const scenario *story, uint64_t position, uint64_t count, int status)
{
    static fault_run run;
    if (!open_run(&run)) {
        return false;
    }
    run.undo_works = count == 1;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.after_calls = position;
    fault.count = count;
    fault.status = status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(run.world.sim, &fault));
    uint64_t first_call = mend_sim_call_count(run.world.sim);
    for (size_t i = 0; i < story->count && !mend_test_has_failed(); i++) {
        perform_checked(&run, &story->operations[i]);
    }
    bool reached = mend_sim_call_count(run.world.sim) - first_call > position;
    mend_sim_clear_faults(run.world.sim);
    mend_sim_advance(run.world.sim, 1000);
    for (int i = 0; i < STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(run.world.sim, run.streams[i]));
    }
    mend_world_close(&run.world);
    if (mend_test_has_failed()) {
        mend_test_fail(__FILE__, __LINE__, "%s, call %llu, %s", story->name,
                       (unsigned long long)position, count == 1 ? "once" : "for ever");
    }
    return reached;
}

static void sweep(uint64_t count, int status)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        uint64_t position = 0;
        while (!mend_test_has_failed() && run_with_fault(&scenarios[i], position, count, status)) {
            position++;
        }
        EXPECT_TRUE(position > 20);
    }
}

MEND_TEST(driver_positions, out_of_memory_once)
{
    sweep(1, 2);
}
MEND_TEST(driver_positions, out_of_memory_for_ever)
{
    sweep(UINT64_MAX, 2);
}
MEND_TEST(driver_positions, unknown_error_once)
{
    sweep(1, 999);
}
MEND_TEST(driver_positions, unknown_error_for_ever)
{
    sweep(UINT64_MAX, 999);
}
MEND_TEST(driver_positions, not_ready_once)
{
    sweep(1, 600);
}
