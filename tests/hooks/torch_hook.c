/* PyTorch's hook, function by function. */
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/hooks/torch_contract.h"
#include "tests/support/test.h"

enum { LONG_NS = 1000 };

/* The exception of PyTorch for the last tensor. */
static char raised[TORCH_RAISED_BYTES];

/* A test with a copy of PyTorch's contract, in which nothing must be found. */
#define TORCH_TEST(name)                                                                           \
    static void name(hooks_rig *rig, torch_contract *contract);                                    \
    HOOKS_TEST(torch_hook, name, MIB)                                                              \
    {                                                                                              \
        torch_functions functions = torch_functions_of(rig->f);                                    \
        torch_contract *contract = torch_contract_create(&functions);                              \
        name(rig, contract);                                                                       \
        EXPECT_STR_EQ("", torch_contract_finding(contract));                                       \
        torch_contract_destroy(contract);                                                          \
    }                                                                                              \
    static void name(hooks_rig *rig, torch_contract *contract)

TORCH_TEST(blocks_come_from_the_default_pool_of_the_device)
{
    void *block = torch_contract_malloc(contract, 700, 0, rig->streams[0], raised);
    void *other = torch_contract_malloc(contract, 700, 1, NULL, raised);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    HOOKS_OK(mend_get_block_info(hooks_pool(rig), block, &info));
    EXPECT_U64_EQ(700, info.requested_bytes);
    EXPECT_PTR_EQ(rig->streams[0], info.stream);
    HOOKS_ANSWER(MEND_ERROR_FOREIGN_POINTER, mend_get_block_info(hooks_pool(rig), other, &info));
    torch_contract_delete(contract, block);
    torch_contract_delete(contract, other);
}

/* An empty tensor has no memory, and PyTorch frees none. */
HOOKS_TEST(torch_hook, nothing_is_null, MIB)
{
    int is_foreign = 1;
    void *pointer = rig;
    HOOKS_OK(mend_torch_block_alloc(0, 0, NULL, &pointer, &is_foreign));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_INT_EQ(0, is_foreign);
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(0, 0, NULL));
    rig->f->mend_torch_free(NULL, 0, 0, NULL);
    EXPECT_U64_EQ(0, hooks_stats(rig).allocations);
}

TORCH_TEST(what_cannot_be_had_is_raised_with_the_report)
{
    void *held = torch_contract_malloc(contract, 600 * KIB, 0, NULL, raised);
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, 500 * KIB, 0, NULL, raised));
    /* PyTorch's text, then Mend's report. Nothing is said twice. */
    EXPECT_STR_EQ(
        "CUDA out of memory. Tried to allocate 500.00 KiB. GPU 0 has a total capacity of "
        "1024.00 KiB of which 424.00 KiB is free. Mend has 600.00 KiB memory in use. Of the "
        "allocated memory 600.00 KiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
        "but unallocated.\nMend: the limit is 1.00 MiB, in use 600.00 KiB. Free blocks: no "
        "setting would help; a request of 424.00 KiB would fit. Largest owners: blocks of 600.00 "
        "KiB "
        "(600.00 KiB in 1 block, 0 allocations old) (MEND_STACKS=1MiB names lines).",
        raised);
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(500 * KIB, 0, NULL));
    /* The next call works. */
    void *more = torch_contract_malloc(contract, 300 * KIB, 0, NULL, raised);
    EXPECT_TRUE(more != NULL);
    torch_contract_delete(contract, more);
    torch_contract_delete(contract, held);
}

TORCH_TEST(what_is_no_lack_of_memory_is_not_called_so)
{
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, 512, 7, NULL, raised));
    char expected[16];
    __builtin_snprintf(expected, sizeof(expected), "%d", MEND_ERROR_NO_DEVICE);
    EXPECT_STR_EQ(expected, raised);
    EXPECT_FALSE(rig->f->mend_torch_lacks_memory(MEND_ERROR_NO_DEVICE));
    EXPECT_TRUE(rig->f->mend_torch_lacks_memory(MEND_ERROR_OUT_OF_ADDRESS_SPACE));
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The tensor is freed on its own stream while another still reads it. */
TORCH_TEST(a_recorded_stream_keeps_the_memory)
{
    size_t bytes = 600 * KIB; /* two do not fit */
    void *block = torch_contract_malloc(contract, bytes, 0, rig->streams[0], raised);
    hooks_launch(rig, rig->streams[0], MEND_SIM_WORK_WRITE, block, bytes, 1, 1);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(rig->sim, rig->streams[1], rig->streams[0]));
    hooks_launch(rig, rig->streams[1], MEND_SIM_WORK_VERIFY, block, bytes, 1, LONG_NS);
    torch_contract_record_stream(contract, block, rig->streams[1]);
    torch_contract_delete(contract, block);
    block = torch_contract_malloc(contract, bytes, 0, rig->streams[0], raised);
    ASSERT_TRUE(block != NULL);
    hooks_launch(rig, rig->streams[0], MEND_SIM_WORK_WRITE, block, bytes, 2, 1);
    EXPECT_U64_EQ(1, hooks_stats(rig).stream_waits + hooks_stats(rig).host_waits);
    torch_contract_delete(contract, block);
    mend_sim_advance(rig->sim, 2 * LONG_NS);
    EXPECT_TRUE(hooks_device_is_well(rig));
}

/* ---- room ------------------------------------------------------------------------------------ */

TORCH_TEST(empty_cache_gives_back_what_is_free)
{
    void *kept = torch_contract_malloc(contract, 64 * KIB, 0, NULL, raised);
    torch_contract_delete(contract, torch_contract_malloc(contract, 256 * KIB, 0, NULL, raised));
    torch_contract_delete(contract, torch_contract_malloc(contract, 256 * KIB, 1, NULL, raised));
    EXPECT_U64_EQ(320 * KIB, hooks_stats(rig).reserved_bytes);
    torch_contract_empty_cache(contract);
    EXPECT_U64_EQ(64 * KIB, hooks_stats(rig).reserved_bytes);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(rig->sim, &ledger));
    EXPECT_U64_EQ(64 * KIB, ledger.chunk_bytes); /* of the other device, too */
    torch_contract_delete(contract, kept);
}

/* As PyTorch's own allocator does. */
TORCH_TEST(empty_cache_waits_for_what_the_gpu_still_uses)
{
    void *tensor = torch_contract_malloc(contract, 256 * KIB, 0, rig->streams[0], raised);
    hooks_write_long(rig, 0, tensor, 256 * KIB);
    torch_contract_delete(contract, tensor);
    torch_contract_empty_cache(contract);
    EXPECT_U64_EQ(0, hooks_stats(rig).reserved_bytes);
}

TORCH_TEST(the_base_of_a_pointer_is_that_of_its_block)
{
    size_t size = 77;
    char *block = torch_contract_malloc(contract, 5000, 1, NULL, raised);
    EXPECT_PTR_EQ(block, torch_contract_base(contract, block + 4000, &size));
    EXPECT_U64_EQ(5120, size);
    mend_torch_block found;
    HOOKS_ANSWER(MEND_ERROR_FOREIGN_POINTER, mend_torch_block_find(rig, &found));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_block_find(NULL, &found));
    torch_contract_delete(contract, block);
}

/* ---- what cannot be raised ------------------------------------------------------------------- */

static void keep_line(void *context, mend_log_level level, const char *line)
{
    char *kept = context;
    if (level == MEND_LOG_WARNING) {
        strncpy(kept, line, 255);
    }
}

HOOKS_TEST(torch_hook, what_no_caller_can_be_given_is_counted_and_logged, MIB)
{
    char line[256] = "";
    rig->f->mend_log_set_sink(keep_line, line);
    uint64_t before = rig->f->mend_torch_failures();
    void *block = rig->f->mend_torch_alloc_or_null(512, 0, NULL);
    rig->f->mend_torch_free(block, 512, 0, NULL);
    EXPECT_U64_EQ(before, rig->f->mend_torch_failures());
    rig->f->mend_torch_free(block, 512, 0, NULL);
    EXPECT_U64_EQ(before + 1, rig->f->mend_torch_failures());
    EXPECT_TRUE(strstr(line, "a free of PyTorch failed: MEND_ERROR_DOUBLE_FREE") != NULL);
    rig->f->mend_log_set_sink(NULL, NULL);
}

/* ---- another allocator below ----------------------------------------------------------------- */

typedef struct asked {
    hooks_below below;
    size_t freed_bytes;
    mend_stream freed_on;
} asked;

static int note_free(void *ctx, void *pointer, size_t size, mend_stream stream)
{
    asked *a = ctx;
    a->freed_bytes = size;
    a->freed_on = stream;
    return hooks_below_free(ctx, pointer, size, stream);
}

/* One that describes its blocks is given the stream and the size. Another one frees when all work
 * is done. */
TORCH_TEST(another_allocator_is_asked_what_a_free_needs)
{
    for (int describes = 0; describes < 2; describes++) {
        asked a;
        mend_allocator allocator = hooks_below_allocator(rig, &a.below);
        allocator.handler.free = note_free;
        allocator.block_info = describes ? allocator.block_info : NULL;
        HOOKS_OK(mend_set_allocator(0, &allocator));
        torch_contract_delete(contract,
                              torch_contract_malloc(contract, 5000, 0, rig->streams[1], raised));
        EXPECT_U64_EQ(describes ? 5000 : 0, a.freed_bytes);
        EXPECT_PTR_EQ(describes ? rig->streams[1] : MEND_NO_STREAM, a.freed_on);
        EXPECT_U64_EQ(0, hooks_stats(rig).live_blocks);
        HOOKS_OK(mend_set_allocator(0, NULL));
    }
}
