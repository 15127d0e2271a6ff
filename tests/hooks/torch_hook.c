/* PyTorch's hook, function by function. */
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/support/test.h"

HOOKS_TEST(torch_hook, blocks_come_from_the_default_pool_of_the_device, MIB)
{
    void *block = torch_alloc(rig, 700, rig->streams[0]);
    void *other = rig->f->mend_torch_alloc_or_null(700, 1, NULL);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    HOOKS_OK(mend_get_block_info(hooks_pool(rig), block, &info));
    EXPECT_U64_EQ(700, info.requested_bytes);
    EXPECT_PTR_EQ(rig->streams[0], info.stream);
    HOOKS_ANSWER(MEND_ERROR_FOREIGN_POINTER, mend_get_block_info(hooks_pool(rig), other, &info));
    torch_give(rig, block);
    torch_give(rig, other);
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

HOOKS_TEST(torch_hook, what_is_no_lack_of_memory_is_not_called_so, MIB)
{
    int is_foreign = 0;
    void *pointer = NULL;
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_block_alloc(7, 512, NULL, &pointer, &is_foreign));
    EXPECT_FALSE(rig->f->mend_torch_lacks_memory(MEND_ERROR_NO_DEVICE));
    EXPECT_TRUE(rig->f->mend_torch_lacks_memory(MEND_ERROR_OUT_OF_ADDRESS_SPACE));
}

HOOKS_TEST(torch_hook, empty_cache_gives_back_what_is_free, MIB)
{
    void *kept = torch_alloc(rig, 64 * KIB, NULL);
    torch_give(rig, torch_alloc(rig, 256 * KIB, NULL));
    torch_give(rig, rig->f->mend_torch_alloc_or_null(256 * KIB, 1, NULL));
    EXPECT_U64_EQ(320 * KIB, hooks_stats(rig).reserved_bytes);
    HOOKS_OK(mend_torch_empty_cache());
    EXPECT_U64_EQ(64 * KIB, hooks_stats(rig).reserved_bytes);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(rig->sim, &ledger));
    EXPECT_U64_EQ(64 * KIB, ledger.chunk_bytes); /* of the other device, too */
    torch_give(rig, kept);
}

/* As PyTorch's own allocator does. */
HOOKS_TEST(torch_hook, empty_cache_waits_for_what_the_gpu_still_uses, MIB)
{
    void *tensor = torch_alloc(rig, 256 * KIB, rig->streams[0]);
    hooks_write_long(rig, 0, tensor, 256 * KIB);
    torch_give(rig, tensor);
    HOOKS_OK(mend_torch_empty_cache());
    EXPECT_U64_EQ(0, hooks_stats(rig).reserved_bytes);
}

HOOKS_TEST(torch_hook, the_base_of_a_pointer_is_that_of_its_block, MIB)
{
    char *block = rig->f->mend_torch_alloc_or_null(5000, 1, NULL);
    mend_torch_block found = torch_found(rig, block + 4000);
    EXPECT_PTR_EQ(block, found.base);
    EXPECT_U64_EQ(5120, found.usable_bytes);
    HOOKS_ANSWER(MEND_ERROR_FOREIGN_POINTER, mend_torch_block_find(rig, &found));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_block_find(NULL, &found));
    torch_give(rig, block);
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
HOOKS_TEST(torch_hook, another_allocator_is_asked_what_a_free_needs, MIB)
{
    for (int describes = 0; describes < 2; describes++) {
        asked a;
        mend_allocator allocator = hooks_below_allocator(rig, &a.below);
        allocator.handler.free = note_free;
        allocator.block_info = describes ? allocator.block_info : NULL;
        HOOKS_OK(mend_set_allocator(0, &allocator));
        torch_give(rig, torch_alloc(rig, 5000, rig->streams[1]));
        EXPECT_U64_EQ(describes ? 5000 : 0, a.freed_bytes);
        EXPECT_PTR_EQ(describes ? rig->streams[1] : MEND_NO_STREAM, a.freed_on);
        EXPECT_U64_EQ(0, hooks_stats(rig).live_blocks);
        HOOKS_OK(mend_set_allocator(0, NULL));
    }
}
