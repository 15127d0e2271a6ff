/* The hash table: promised entries exist. */
#include "base/pointer_map.h"

#include "tests/support/test.h"

MEND_TEST(base_pointer_map, what_is_promised_is_left_when_others_inserted_theirs)
{
    mend_pointer_map map;
    mend_pointer_map_init(&map);
    ASSERT_TRUE(mend_pointer_map_promise(&map));
    for (uint64_t i = 1; i < 2000; i++) {
        ASSERT_TRUE(mend_pointer_map_reserve(&map));
        mend_pointer_map_insert(&map, i * 512, &map);
        EXPECT_TRUE((map.count + 1) * 2 <= map.capacity);
    }
    mend_pointer_map_end_promise(&map);
    mend_pointer_map_clear(&map);
}
