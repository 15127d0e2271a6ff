/* The contract judges: the hook passes, and deliberate mistakes do not. */
#include <pthread.h>

#include "tests/hooks/torch_program.h"
#include "tests/support/test.h"

enum { SEEDS = 12, STEPS = 500, MEMORY_BYTES = 256 << 10 };

static torch_functions hook_of(hooks_rig *rig)
{
    return (torch_functions){.alloc = rig->f->mend_torch_block_alloc,
                             .find = rig->f->mend_torch_block_find,
                             .free = rig->f->mend_torch_block_free,
                             .write = rig->f->mend_torch_write_out_of_memory,
                             .record_stream = rig->f->mend_device_record_stream,
                             .empty_cache = rig->f->mend_torch_empty_cache};
}

/* A thread that changes the allocator below the hook while a program runs. */
static pthread_t replacer;
static torch_functions with_changes_of_allocator(hooks_rig *rig);

/* Runs a program with functions that may be wrong. */
static torch_verdict judge(torch_functions (*choose)(hooks_rig *rig), uint64_t seed, int threads,
                           char finding[128])
{
    hooks_rig rig;
    torch_verdict verdict = {.finding = "the rig does not open"};
    if (!hooks_open(&rig, MEMORY_BYTES)) {
        return verdict;
    }
    torch_functions functions = choose(&rig);
    torch_program program = {.rig = &rig,
                             .contract = torch_contract_create(&functions),
                             .seed = seed,
                             .threads = threads,
                             .steps = STEPS};
    verdict = torch_program_run(&program);
    if (choose == with_changes_of_allocator) {
        pthread_join(replacer, NULL);
    }
    EXPECT_U64_EQ(0, torch_contract_count(program.contract));
    __builtin_snprintf(finding, 128, "%s", verdict.finding);
    verdict.finding = finding;
    torch_contract_destroy(program.contract);
    hooks_close(&rig);
    return verdict;
}

MEND_TEST(torch_judge, the_hook_passes)
{
    uint64_t failures_before = hooks_get()->mend_torch_failures();
    uint64_t out_of_memory = 0;
    char finding[128];
    for (uint64_t i = 0; i < SEEDS; i++) {
        torch_verdict verdict = judge(hook_of, mend_test_seed() + i, 1, finding);
        EXPECT_TRUE(torch_verdict_is_clean(&verdict));
        EXPECT_STR_EQ("", verdict.finding);
        EXPECT_TRUE(verdict.tensors > 50);
        out_of_memory += verdict.out_of_memory;
    }
    EXPECT_TRUE(out_of_memory > 0); /* raised, and the program goes on */
    EXPECT_U64_EQ(failures_before, hooks_get()->mend_torch_failures());
}

MEND_TEST(torch_judge, the_hook_passes_in_threads)
{
    uint64_t failures_before = hooks_get()->mend_torch_failures();
    char finding[128];
    for (uint64_t i = 0; i < SEEDS; i++) {
        torch_verdict verdict = judge(hook_of, mend_test_seed() + i, HOOKS_STREAMS, finding);
        EXPECT_TRUE(torch_verdict_is_clean(&verdict));
        EXPECT_STR_EQ("", verdict.finding);
    }
    EXPECT_U64_EQ(failures_before, hooks_get()->mend_torch_failures());
}

/* ---- what lies below changes ------------------------------------------------------------------
 */

enum { REPLACEMENTS = 100 };

typedef struct wrapper {
    hooks_rig *rig;
    mend_allocator inner;
} wrapper;

static int wrapper_alloc(void *ctx, void **pointer, size_t size, mend_stream stream)
{
    wrapper *b = ctx;
    return b->inner.handler.alloc(b->inner.handler.ctx, pointer, size, stream);
}

static int wrapper_free(void *ctx, void *pointer, size_t size, mend_stream stream)
{
    wrapper *b = ctx;
    return b->inner.handler.free(b->inner.handler.ctx, pointer, size, stream);
}

static int wrapper_record(void *ctx, void *pointer, mend_stream stream)
{
    wrapper *b = ctx;
    return b->inner.record_stream(b->inner.handler.ctx, pointer, stream);
}

static void *replace_again_and_again(void *argument)
{
    wrapper *b = argument;
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    allocator.handler =
        (mend_device_handler){.ctx = b, .alloc = wrapper_alloc, .free = wrapper_free};
    allocator.record_stream = wrapper_record;
    for (int i = 0; i < REPLACEMENTS; i++) {
        EXPECT_RESULT(MEND_OK, b->rig->f->mend_set_allocator(MEND_ALL_DEVICES, &allocator));
        EXPECT_RESULT(MEND_OK, b->rig->f->mend_set_allocator(0, NULL));
    }
    return NULL;
}

static torch_functions with_changes_of_allocator(hooks_rig *rig)
{
    static wrapper b; /* outlives every call */
    b = (wrapper){.rig = rig, .inner = MEND_ALLOCATOR_INIT};
    EXPECT_RESULT(MEND_OK, rig->f->mend_get_allocator(0, &b.inner));
    EXPECT_INT_EQ(0, pthread_create(&replacer, NULL, replace_again_and_again, &b));
    return hook_of(rig);
}

MEND_TEST(torch_judge, the_hook_passes_while_allocators_are_replaced)
{
    uint64_t failures_before = hooks_get()->mend_torch_failures();
    char finding[128];
    for (uint64_t i = 0; i < SEEDS; i++) {
        torch_verdict verdict = judge(with_changes_of_allocator, mend_test_seed() + i, 3, finding);
        EXPECT_TRUE(torch_verdict_is_clean(&verdict));
        EXPECT_STR_EQ("", verdict.finding);
    }
    EXPECT_U64_EQ(failures_before, hooks_get()->mend_torch_failures());
}

/* ---- deliberate mistakes ----------------------------------------------------------------------
 */

/* Each in one of many programs at least. */
static int count_red(torch_functions (*choose)(hooks_rig *rig), const char *finding)
{
    int red = 0;
    for (uint64_t i = 0; i < SEEDS; i++) {
        char found[128];
        torch_verdict verdict = judge(choose, 1000 + i, 1, found);
        bool is_red = !torch_verdict_is_clean(&verdict);
        if (is_red) {
            EXPECT_STR_EQ(finding, verdict.finding);
        }
        red += is_red;
    }
    return red;
}

/* The first: NULL where memory cannot be had, as a MemPool's function may. */
static mend_result give_null(int device, uint64_t size, mend_stream stream, void **pointer,
                             int *is_foreign)
{
    *is_foreign = 0;
    *pointer = hooks_get()->mend_torch_alloc_or_null(size, device, stream);
    return MEND_OK;
}

static torch_functions gives_null(hooks_rig *rig)
{
    torch_functions functions = hook_of(rig);
    functions.alloc = give_null;
    return functions;
}

MEND_TEST(torch_judge, sees_null_in_place_of_memory)
{
    EXPECT_TRUE(count_red(gives_null, "NULL was given for a tensor that is not empty") >=
                SEEDS / 2);
}

/* The second: uses on other streams are not declared. */
static torch_functions forgets_streams(hooks_rig *rig)
{
    torch_functions functions = hook_of(rig);
    functions.record_stream = NULL;
    return functions;
}

MEND_TEST(torch_judge, sees_streams_that_are_not_recorded)
{
    EXPECT_TRUE(count_red(forgets_streams, "") >= SEEDS / 2);
}

/* The third: what is freed is taken for idle on another stream. */
static mend_stream wrong_stream;

static mend_result free_elsewhere(const mend_torch_block *block)
{
    mend_torch_block wrong = *block;
    wrong.stream = wrong_stream;
    return hooks_get()->mend_torch_block_free(&wrong);
}

static torch_functions frees_elsewhere(hooks_rig *rig)
{
    torch_functions functions = hook_of(rig);
    wrong_stream = rig->streams[1];
    functions.free = free_elsewhere;
    return functions;
}

MEND_TEST(torch_judge, sees_frees_on_the_wrong_stream)
{
    EXPECT_TRUE(count_red(frees_elsewhere, "") >= SEEDS / 2);
}

/* The fourth: a pointer that is in use is given again. */
static void *last_given;
static int given;

static mend_result forget_and_free(const mend_torch_block *block)
{
    last_given = last_given == block->base ? NULL : last_given;
    return hooks_get()->mend_torch_block_free(block);
}

static mend_result give_again(int device, uint64_t size, mend_stream stream, void **pointer,
                              int *is_foreign)
{
    if (++given % 8 == 0 && last_given != NULL) {
        *pointer = last_given;
        return MEND_OK;
    }
    mend_result result =
        hooks_get()->mend_torch_block_alloc(device, size, stream, pointer, is_foreign);
    last_given = result == MEND_OK ? *pointer : NULL;
    return result;
}

static torch_functions gives_twice(hooks_rig *rig)
{
    torch_functions functions = hook_of(rig);
    functions.alloc = give_again;
    functions.free = forget_and_free;
    given = 0;
    return functions;
}

MEND_TEST(torch_judge, sees_a_pointer_that_is_given_twice)
{
    EXPECT_TRUE(count_red(gives_twice, "a pointer was given that is in use") >= SEEDS / 2);
}
