/* The hooks in plain C: the effect of each framework's calls. */
#include "driver/driver.h"
#include "tests/hooks/hook.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

enum { LONG_NS = 1000 };

/* Device 1 is current, and is not any more. */
static void make_current(hooks_rig *rig)
{
    const mend_driver *driver = mend_sim_driver(rig->sim);
    mend_device_info info = {0};
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 1, &info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, info.context));
}

static void end_current(hooks_rig *rig)
{
    const mend_driver *driver = mend_sim_driver(rig->sim);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 1));
}

static void expect_on(hooks_rig *rig, int device, const void *block)
{
    mend_pool *pool = NULL;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    HOOKS_OK(mend_pool_for_device(device, &pool));
    HOOKS_OK(mend_get_block_info(pool, block, &info));
}

/* A block is freed while work on one still writes it, and handed to another who uses another
 * stream. By each hook, and by one that names no stream: memory that a stream-ordered hook has
 * freed is ready for its stream, and not for one of which nothing is known. */
KIT_RIG_EACH(plain_hooks, memory_in_flight_is_handed_to_nobody, int, i, 2 * HOOKS, hooks_rig, rig,
             hooks_open(rig, MIB), hooks_close(rig))
{
    hook h = hooks[i / 2];
    size_t bytes = 600 * KIB; /* two do not fit */
    h.alloc = i % 2 == 0 ? h.alloc : hooks[HOOKS - 1].alloc;
    void *block = h.alloc(rig, bytes, rig->streams[0]);
    hooks_launch(rig, rig->streams[0], MEND_SIM_WORK_WRITE, block, bytes, 1, LONG_NS);
    h.free(rig, block, bytes, rig->streams[0]);
    block = h.alloc(rig, bytes, rig->streams[1]);
    ASSERT_TRUE(block != NULL);
    hooks_launch(rig, rig->streams[1], MEND_SIM_WORK_WRITE, block, bytes, 2, 1);
    hooks_launch(rig, rig->streams[1], MEND_SIM_WORK_VERIFY, block, bytes, 2, 3 * LONG_NS);
    h.free(rig, block, bytes, rig->streams[1]);
    mend_sim_advance(rig->sim, 5 * LONG_NS);
    EXPECT_TRUE(hooks_device_is_well(rig));
}

/* ---- by threads ------------------------------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 60 };

typedef struct worker {
    hooks_rig *rig;
    int number;
    int refused;
} worker;

/* Each hook in turn: a block is written and read late, and freed while that is in flight. */
static void *use_hooks(void *argument)
{
    worker *w = argument;
    mend_stream stream = w->rig->streams[w->number];
    for (int i = 0; i < ROUNDS; i++) {
        const hook *h = &hooks[(w->number + i) % HOOKS];
        size_t bytes = (size_t)(1 + (i * 7 + w->number) % 16) * KIB;
        uint64_t tag = (uint64_t)(w->number * ROUNDS + i + 1);
        void *block = h->alloc(w->rig, bytes, stream);
        if (block == NULL) {
            w->refused++;
            continue;
        }
        hooks_launch(w->rig, stream, MEND_SIM_WORK_WRITE, block, bytes, tag, 1);
        hooks_launch(w->rig, stream, MEND_SIM_WORK_VERIFY, block, bytes, tag, LONG_NS);
        h->free(w->rig, block, bytes, stream);
        mend_sim_advance(w->rig->sim, LONG_NS / 50);
    }
    return NULL;
}

HOOKS_TEST(plain_hooks, threads_use_them_all_at_once, 256 * KIB)
{
    worker workers[THREADS];
    uint64_t failures = hooks_failures(rig);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.rig = rig, .number = i};
    }
    mend_test_run_threads(use_hooks, workers, THREADS);
    for (int i = 0; i < THREADS; i++) {
        EXPECT_INT_EQ(0, workers[i].refused); /* work in flight is waited for */
    }
    EXPECT_U64_EQ(failures, hooks_failures(rig));
    mend_sim_advance(rig->sim, 100 * LONG_NS);
    EXPECT_TRUE(hooks_device_is_well(rig));
}

HOOKS_TEST(plain_hooks, a_handler_is_for_a_device_or_for_the_current_one, MIB)
{
    mend_device_handler handler;
    void *pointer = NULL;
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_hook_handler(64, &handler));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_hook_handler(0, NULL));
    HOOKS_OK(mend_hook_handler(MEND_ALL_DEVICES, &handler));
    EXPECT_STR_EQ("mend", handler.name);
    make_current(rig);
    EXPECT_INT_EQ(0, handler.alloc(handler.ctx, &pointer, 512, NULL));
    end_current(rig);
    expect_on(rig, 1, pointer);
    EXPECT_INT_EQ(0, handler.free(handler.ctx, pointer, 512, NULL)); /* of whichever device */
    EXPECT_TRUE(handler.free(handler.ctx, pointer, 512, NULL) != 0);
    EXPECT_TRUE(handler.alloc(handler.ctx, &pointer, 2 * MIB, NULL) != 0);
}

HOOKS_TEST(plain_hooks, onnx_runtime_is_served_on_its_current_device, MIB)
{
    const mend_ort_functions ort = hooks_ort_functions(rig, MEND_NO_STREAM);
    make_current(rig);
    void *block = ort.alloc(64 * KIB);
    end_current(rig);
    expect_on(rig, 1, block);
    void *on_first = ort.alloc(64 * KIB); /* none is current */
    expect_on(rig, 0, on_first);
    ort.free(block);
    ort.free(on_first);
    ort.free(NULL);
    EXPECT_PTR_EQ(NULL, ort.alloc(2 * MIB));
    uint64_t failures = rig->f->mend_hook_failures();
    ort.free(on_first);
    EXPECT_U64_EQ(failures + 1, rig->f->mend_hook_failures());
}

/* The functions of a stream are always the same, and no other stream's. */
HOOKS_TEST(plain_hooks, a_stream_of_onnx_runtime_has_functions_of_its_own, MIB)
{
    mend_ort_functions cut = {.struct_size = sizeof(cut) - 1};
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_ort_functions_for(NULL, NULL));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_ort_functions_for(NULL, &cut));
    const mend_ort_functions first = hooks_ort_functions(rig, rig->streams[0]);
    const mend_ort_functions other = hooks_ort_functions(rig, rig->streams[1]);
    const mend_ort_functions again = hooks_ort_functions(rig, rig->streams[0]);
    EXPECT_TRUE(first.alloc == again.alloc && first.free == again.free);
    EXPECT_TRUE(first.alloc != other.alloc && first.free != other.free);
    void *block = first.alloc(600 * KIB); /* two do not fit */
    hooks_launch(rig, rig->streams[0], MEND_SIM_WORK_TOUCH, block, 600 * KIB, 0, LONG_NS);
    first.free(block);
    block = first.alloc(600 * KIB);
    EXPECT_U64_EQ(0, hooks_stats(rig).host_waits);
    first.free(block);
}

/* In a process of its own: the others keep theirs. */
static bool uses_streams_up(void *context)
{
    hooks_rig *rig = context;
    const mend_ort_functions idle = hooks_ort_functions(rig, MEND_NO_STREAM);
    mend_ort_functions last = MEND_ORT_FUNCTIONS_INIT;
    for (uintptr_t i = 0; i <= MEND_ORT_STREAMS; i++) {
        last = hooks_ort_functions(rig, MEND_STREAM_OF(0x1000 + i));
    }
    return last.alloc == idle.alloc && last.free == idle.free;
}

/* Neither has a handle that is another stream in each thread, nor one stream too many. */
HOOKS_TEST(plain_hooks, else_its_memory_has_no_stream, MIB)
{
    const mend_ort_functions idle = hooks_ort_functions(rig, MEND_NO_STREAM);
    const mend_ort_functions per_thread = hooks_ort_functions(rig, MEND_STREAM_OF(2));
    EXPECT_TRUE(per_thread.alloc == idle.alloc && per_thread.free == idle.free);
    EXPECT_TRUE(mend_test_holds_in_a_child(uses_streams_up, rig));
}

/* Memory freed without a stream is released to the driver: a wait tells that the device is idle.
 * With events of the context or without, and with work on the memory or without. */
KIT_RIG_EACH(plain_hooks, an_empty_cache_holds_what_is_in_use, int, i, 4, hooks_rig, rig,
             hooks_open(rig, MIB), hooks_close(rig))
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "context_record";
    fault.count = UINT64_MAX;
    fault.status = MEND_DRIVER_NOT_SUPPORTED;
    EXPECT_OK(i % 2 == 0 ? MEND_OK : mend_sim_fail(rig->sim, &fault));
    const mend_ort_functions ort = hooks_ort_functions(rig, MEND_NO_STREAM);
    void *kept = ort.alloc(64 * KIB);
    void *freed = ort.alloc(256 * KIB);
    if (i / 2 == 0) {
        hooks_write_long(rig, 0, freed, 256 * KIB);
    }
    ort.free(freed);
    ort.empty_cache();
    EXPECT_U64_EQ(64 * KIB, hooks_stats(rig).reserved_bytes);
    EXPECT_U64_EQ(1, hooks_stats(rig).host_waits);
    EXPECT_TRUE(hooks_device_is_well(rig));
    ort.free(kept);
}

HOOKS_TEST(plain_hooks, nor_does_it_disturb_a_capture, MIB)
{
    const mend_ort_functions ort = hooks_ort_functions(rig, MEND_NO_STREAM);
    mend_sim_graph *graph = NULL;
    void *freed = ort.alloc(256 * KIB);
    uint64_t failures = rig->f->mend_hook_failures();
    EXPECT_INT_EQ(MEND_OK, rig->f->mend_device_free(0, freed, 256 * KIB, rig->streams[0]));
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(rig->sim, rig->streams[0], MEND_SIM_CAPTURE_RELAXED));
    ort.empty_cache();
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(rig->sim, rig->streams[0], &graph));
    EXPECT_U64_EQ(failures, rig->f->mend_hook_failures());
    mend_sim_graph_destroy(rig->sim, graph);
}
