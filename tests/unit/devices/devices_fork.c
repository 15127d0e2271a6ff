/* A fork inside of an allocator's last function: what the child counts begins at nothing. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/unit/devices/devices_fixture.h"

enum { BLOCK = 1 << 20 };

static int give_a_number(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    (void)size_bytes;
    (void)stream;
    *pointer = ctx;
    return MEND_OK;
}

static int take_it_back(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    (void)size_bytes;
    (void)stream;
    return pointer == ctx ? MEND_OK : MEND_ERROR_FOREIGN_POINTER;
}

/* Its blocks all lie at `address`. */
static mend_allocator allocator_at(uintptr_t address)
{
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    allocator.handler = (mend_device_handler){
        .ctx = (void *)address, .alloc = give_a_number, .free = take_it_back, .name = "number"};
    return allocator;
}

static pid_t child;
static int retirements;

static void fork_at_the_end(void *ctx)
{
    int status = -1;
    (void)ctx;
    retirements++;
    if (child != 0) {
        return; /* one is enough */
    }
    child = fork();
    if (child != 0) {
        EXPECT_INT_EQ(child, waitpid(child, &status, 0));
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Whether what the child sets serves, and is the first to serve. */
static bool child_begins_anew(void)
{
    mend_allocator allocator = allocator_at(8192);
    void *pointer = NULL;
    return retirements == 1 && mend_set_allocator(0, &allocator) == MEND_OK &&
           mend_device_alloc(0, BLOCK, NULL, &pointer) == MEND_OK &&
           pointer == allocator.handler.ctx && mend_device_free(0, pointer, BLOCK, NULL) == MEND_OK;
}

/* So many are replaced by one call; the first to be retired forks. */
static void replace(int count)
{
    devices_world world;
    ASSERT_TRUE(devices_open(&world));
    child = 0;
    retirements = 0;
    mend_allocator allocator = allocator_at(4096);
    allocator.retired = fork_at_the_end;
    for (int device = 0; device < count; device++) {
        ASSERT_RESULT(MEND_OK, mend_set_allocator(device, &allocator));
    }
    ASSERT_RESULT(MEND_OK, mend_set_allocator(MEND_ALL_DEVICES, NULL));
    if (child == 0) {
        mend_test_end_child(child_begins_anew());
    }
    EXPECT_INT_EQ(count, retirements);
    devices_close(&world);
}

MEND_TEST(devices_fork, a_child_born_in_a_retirement_counts_from_nothing)
{
    replace(1);
}

MEND_TEST(devices_fork, a_child_born_in_a_retirement_ends_none_of_its_parents)
{
    replace(2);
}
