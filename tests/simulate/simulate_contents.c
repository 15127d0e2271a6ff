/* Knowledge of a device's bytes: reads of results of kernels are reported and have a defined value.
 * Blocks are told as PyTorch's allocators tell them. */
#include <string.h>

#include "api/simulate/contents.h"
#include "tests/simulate/runtime.h"

enum { BLOCK = 64, CUDA_DEVICE = 1 };

static int64_t value;
static uint64_t reads;
static uint64_t read_bytes;

static int64_t on_read(uint64_t bytes)
{
    reads++;
    read_bytes = bytes;
    return value;
}

/* A block with a listener, which sees later reads. */
static char *begin(const runtime *r)
{
    void (*listen)(int64_t(*)(uint64_t)) = NULL;
    runtime_symbol(r, "mend_simulate_on_read", &listen);
    listen(on_read);
    value = 0;
    reads = 0;
    return runtime_block(r, 1024);
}

/* One of PyTorch's allocators gives the block out. */
static void give_out(const runtime *r, void *block, int64_t bytes, uint16_t device)
{
    void (*report)(void *, int64_t, size_t, size_t, uint16_t) = NULL;
    runtime_symbol(r, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", &report);
    report(block, bytes, 0, 0, device);
}

static void copy_to(const runtime *r, void *block, char byte, size_t bytes)
{
    char text[BLOCK];
    memset(text, byte, sizeof(text));
    EXPECT_OK(r->cudaMemcpy(block, text, bytes, TO_DEVICE));
}

/* The byte that all of the block reads as. -1: they differ. */
static int read_all(const runtime *r, const void *block)
{
    char back[BLOCK];
    memset(back, 77, sizeof(back));
    EXPECT_OK(r->cudaMemcpy(back, block, BLOCK, TO_HOST));
    for (int i = 1; i < BLOCK; i++) {
        if (back[i] != back[0]) {
            return -1;
        }
    }
    return back[0];
}

RUNTIME_TEST(simulate_contents, what_was_copied_is_no_news)
{
    char *block = begin(r);
    value = 9;
    copy_to(r, block, 5, BLOCK);
    EXPECT_INT_EQ(5, read_all(r, block));
    EXPECT_OK(r->cudaMemcpy(block + 512, block, BLOCK, WITHIN_DEVICE));
    EXPECT_INT_EQ(5, read_all(r, block + 512));
    EXPECT_U64_EQ(0, reads);
}

RUNTIME_TEST(simulate_contents, a_new_block_has_none_of_the_earlier_bytes)
{
    char *block = begin(r);
    copy_to(r, block, 5, BLOCK);
    give_out(r, block, -BLOCK, CUDA_DEVICE);
    EXPECT_INT_EQ(5, read_all(r, block));
    give_out(r, block, BLOCK, CUDA_DEVICE);
    EXPECT_INT_EQ(0, read_all(r, block));
    EXPECT_U64_EQ(1, reads);
    EXPECT_U64_EQ(BLOCK, read_bytes);
    copy_to(r, block + 16, 6, 16);
    char back[BLOCK];
    EXPECT_OK(r->cudaMemcpy(back, block, BLOCK, TO_HOST));
    EXPECT_TRUE(back[15] == 0 && back[16] == 6 && back[31] == 6 && back[32] == 0);
    EXPECT_U64_EQ(2, reads);
    EXPECT_OK(r->cudaMemcpy(back, block + 16, 16, TO_HOST));
    EXPECT_U64_EQ(2, reads);
    EXPECT_OK(r->cudaMemcpy(block + 512, block, BLOCK, WITHIN_DEVICE));
    EXPECT_OK(r->cudaMemcpy(back, block + 512 + 16, 16, TO_HOST));
    EXPECT_U64_EQ(2, reads);
    EXPECT_OK(r->cudaMemcpy(back, block + 512 + 32, 16, TO_HOST));
    EXPECT_U64_EQ(3, reads);
}

RUNTIME_TEST(simulate_contents, the_listener_gives_the_value_in_each_eight_bytes)
{
    char *block = begin(r);
    int64_t back[BLOCK / 8];
    give_out(r, block, BLOCK, CUDA_DEVICE);
    copy_to(r, block + 8, 3, 8);
    value = 258;
    EXPECT_OK(r->cudaMemcpy(back, block, BLOCK, TO_HOST));
    EXPECT_TRUE(back[0] == 258 && back[1] == 0x0303030303030303 && back[2] == 258 &&
                back[7] == 258);
}

RUNTIME_TEST(simulate_contents, a_fill_is_read_as_filled_and_told)
{
    char *block = begin(r);
    give_out(r, block, BLOCK, CUDA_DEVICE);
    EXPECT_OK(r->cudaMemset(block, 7, BLOCK));
    EXPECT_INT_EQ(7, read_all(r, block));
    EXPECT_U64_EQ(1, reads);
    value = 1;
    EXPECT_INT_EQ(-1, read_all(r, block));
}

RUNTIME_TEST(simulate_contents, what_is_guessed_is_read_as_it_is_and_told)
{
    char *block = begin(r);
    void (*set)(uint64_t, uint64_t, int) = NULL;
    int (*get)(uint64_t, uint64_t) = NULL;
    runtime_symbol(r, "mend_simulate_set_contents", &set);
    runtime_symbol(r, "mend_simulate_contents", &get);
    uint64_t address = (uint64_t)(uintptr_t)block;
    value = 9;
    copy_to(r, block, 5, BLOCK);
    EXPECT_INT_EQ(SIMULATE_COPIED, get(address, BLOCK));
    set(address + 8, 8, SIMULATE_GUESSED);
    EXPECT_INT_EQ(SIMULATE_GUESSED, get(address, BLOCK));
    EXPECT_INT_EQ(SIMULATE_COPIED, get(address, 8));
    EXPECT_INT_EQ(5, read_all(r, block));
    EXPECT_U64_EQ(1, reads);
}

RUNTIME_TEST(simulate_contents, blocks_of_other_devices_are_not_the_gpus)
{
    char *block = begin(r);
    copy_to(r, block, 5, BLOCK);
    give_out(r, block, BLOCK, 0);
    EXPECT_INT_EQ(5, read_all(r, block));
    EXPECT_U64_EQ(0, reads);
}
