/* A fork inside of an allocator's last function: the child's counts begin at zero. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/unit/hooks/devices_counter.h"
#include "tests/unit/hooks/devices_fixture.h"

static pid_t child;
static int retirements;

static void fork_at_the_end(KIT_UNUSED void *ctx)
{
    int status = -1;
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

/* Whether the child's allocator serves, and is the first to serve. */
static bool child_begins_anew(void)
{
    counter c;
    counter_serve(&c, 0, 8192);
    counter_give(0, counter_allocate(0));
    return retirements == 1 && c.allocs == 1 && c.frees == 1 && !mend_test_has_failed();
}

/* So many allocators are replaced by one call. The first to be retired forks. */
static void replace(int count)
{
    counter c;
    child = 0;
    retirements = 0;
    mend_allocator allocator = counter_allocator(&c, 4096);
    allocator.retired = fork_at_the_end;
    for (int device = 0; device < count; device++) {
        ASSERT_RESULT(MEND_OK, mend_set_allocator(device, &allocator));
    }
    ASSERT_RESULT(MEND_OK, mend_set_allocator(MEND_ALL_DEVICES, NULL));
    if (child == 0) {
        mend_test_end_child(child_begins_anew());
    }
    EXPECT_INT_EQ(count, retirements);
}

DEVICES_TEST(devices_fork, a_child_born_in_a_retirement_counts_from_nothing)
{
    replace(1);
}

DEVICES_TEST(devices_fork, a_child_born_in_a_retirement_ends_none_of_its_parents)
{
    replace(2);
}
