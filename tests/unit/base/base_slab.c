/* Objects of one size, and the host memory that they are in. */
#include "base/slab.h"

#include <malloc.h>

#include "tests/support/kit.h"

enum { OBJECT_BYTES = 40, MOST = 400 };

MEND_TEST(base_slab, the_end_gives_its_host_memory_back)
{
    mend_slab slab;
    mend_slab_init(&slab, OBJECT_BYTES);
    const size_t before = mallinfo2().uordblks;
    ASSERT_TRUE(mend_slab_reserve(&slab, MOST));
    ASSERT_TRUE(mend_slab_reserve(&slab, 2 * MOST));
    mend_slab_clear(&slab);
    EXPECT_U64_EQ(before, mallinfo2().uordblks);
}
