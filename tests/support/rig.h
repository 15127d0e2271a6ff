/* Cases that begin with a rig open and end with it closed. */
#ifndef MEND_TESTS_SUPPORT_RIG_H
#define MEND_TESTS_SUPPORT_RIG_H

#include "tests/support/test.h"

/* A case that is given a pointer, named `rig`, to a rig of the type. `open` says whether it could
 * be opened: a file names its own rig in a macro of its own. */
#define RIG_TEST(suite, name, type, rig, open, close)                                              \
    static void suite##_##name##_in(type *rig);                                                    \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        type mend_rig;                                                                             \
        type *rig = &mend_rig;                                                                     \
        ASSERT_TRUE(open);                                                                         \
        suite##_##name##_in(rig);                                                                  \
        close;                                                                                     \
    }                                                                                              \
    static void suite##_##name##_in(type *rig)

/* A case in a world `w` of the kit (support/kit.h), which an expression sets up before it opens. */
#define WORLD_TEST(suite, name, setting)                                                           \
    RIG_TEST(suite, name, mend_world, w, (mend_world_init(w), (void)(setting), kit_open(w)),       \
             kit_close(w))

#endif
