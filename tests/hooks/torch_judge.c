/* The contract judges: the hook passes, and deliberate mistakes do not. */
#include <pthread.h>
#include <string.h>

#include "tests/hooks/torch_program.h"
#include "tests/support/test.h"

/* Two threads seldom meet in a short window: one test in threads has all seeds there, too. */
#if defined(__SANITIZE_THREAD__)
enum { SEEDS = 3 };
#else
enum { SEEDS = 12 };
#endif

enum { SEEDS_IN_THREADS = 12, STEPS = 500, MEMORY_BYTES = 256 << 10 };

static torch_functions hook_of(hooks_rig *rig)
{
    return torch_functions_of(rig->f);
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

/* Programs in which nothing is wrong. Returns how often there was no memory for one. */
static uint64_t expect_clean(torch_functions (*choose)(hooks_rig *rig), int threads, uint64_t seeds)
{
    uint64_t failures_before = hooks_get()->mend_torch_failures();
    uint64_t out_of_memory = 0;
    char finding[128];
    for (uint64_t i = 0; i < seeds; i++) {
        torch_verdict verdict = judge(choose, mend_test_seed() + i, threads, finding);
        EXPECT_TRUE(torch_verdict_is_clean(&verdict));
        EXPECT_STR_EQ("", verdict.finding);
        EXPECT_TRUE(verdict.tensors > 50);
        out_of_memory += verdict.out_of_memory;
    }
    EXPECT_U64_EQ(failures_before, hooks_get()->mend_torch_failures());
    return out_of_memory;
}

MEND_TEST(torch_judge, the_hook_passes)
{
    EXPECT_TRUE(expect_clean(hook_of, 1, SEEDS) > 0); /* raised, and the program goes on */
}

MEND_TEST(torch_judge, the_hook_passes_in_threads)
{
    expect_clean(hook_of, HOOKS_STREAMS, SEEDS_IN_THREADS);
}

/* ---- what lies below changes ----------------------------------------------------------------- */

enum { REPLACEMENTS = 100 };

static hooks_below below; /* outlives every call */

static void *replace_again_and_again(void *argument)
{
    hooks_rig *rig = argument;
    mend_allocator allocator = hooks_below_allocator(rig, &below);
    allocator.block_info = NULL;
    for (int i = 0; i < REPLACEMENTS; i++) {
        HOOKS_OK(mend_set_allocator(MEND_ALL_DEVICES, &allocator));
        HOOKS_OK(mend_set_allocator(0, NULL));
    }
    return NULL;
}

static torch_functions with_changes_of_allocator(hooks_rig *rig)
{
    EXPECT_INT_EQ(0, pthread_create(&replacer, NULL, replace_again_and_again, rig));
    return hook_of(rig);
}

MEND_TEST(torch_judge, the_hook_passes_while_allocators_are_replaced)
{
    expect_clean(with_changes_of_allocator, 3, SEEDS);
}

/* ---- deliberate mistakes --------------------------------------------------------------------- */

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

/* The second: uses on other streams are not declared. */
static torch_functions forgets_streams(hooks_rig *rig)
{
    torch_functions functions = hook_of(rig);
    functions.record_stream = NULL;
    return functions;
}

/* The third: freed memory is taken for idle on another stream. */
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

/* Each is seen in many programs, by this finding or by the device. */
MEND_TEST(torch_judge, sees_deliberate_mistakes)
{
    static const struct {
        torch_functions (*choose)(hooks_rig *rig);
        const char *finding;
    } mistakes[] = {{gives_null, "NULL was given for a tensor that is not empty"},
                    {forgets_streams, ""},
                    {frees_elsewhere, ""},
                    {gives_twice, "a pointer was given that is in use"}};
    for (size_t m = 0; m < sizeof(mistakes) / sizeof(*mistakes); m++) {
        int red = 0;
        for (uint64_t i = 0; i < SEEDS; i++) {
            char finding[128];
            torch_verdict verdict = judge(mistakes[m].choose, 1000 + i, 1, finding);
            bool is_red = !torch_verdict_is_clean(&verdict);
            EXPECT_TRUE(!is_red || strcmp(mistakes[m].finding, verdict.finding) == 0);
            red += is_red;
        }
        MEND_TEST_CHECK(red >= SEEDS / 2, (void)0, "mistake %zu is seen %d times", m + 1, red);
    }
}
