/* That the pool places as well as it did when the table was made. */
#include "tests/sim/placement.h"

#include <stdio.h>

#include "tests/support/test.h"

enum { SEEDS = 16 };

/* What programs of each kind need, see placement.h. Made 2026-11-25; the test prints the present
 * table where it fails: who changes the policy on purpose takes that, and says why. */
static const placement_figures recorded[PLACEMENT_KIND_COUNT] = {
    [PLACEMENT_steady] = {{12370, 12370, 0, 0, 127, 0, 817}},
    [PLACEMENT_steady_on_streams] = {{20538, 20538, 0, 0, 241, 0, 1386}},
    [PLACEMENT_steady_and_tight] = {{10193, 10193, 0, 0, 12024, 0, 25963}},
    [PLACEMENT_phases] = {{11293, 11293, 0, 0, 239, 0, 1731}},
    [PLACEMENT_phases_and_room] = {{10243, 10243, 0, 0, 4970, 0, 11035}},
    [PLACEMENT_phases_and_tight] = {{10203, 10203, 0, 0, 9456, 0, 20598}},
    [PLACEMENT_phases_and_full] = {{10095, 10095, 0, 0, 8458, 0, 18192}},
    [PLACEMENT_never_the_same] = {{10209, 10209, 0, 0, 3120, 0, 7334}},
    [PLACEMENT_never_the_same_and_full] = {{10111, 10111, 0, 0, 7611, 0, 16880}},
    [PLACEMENT_large_device] = {{10238, 10238, 0, 0, 12930, 0, 101235}},
    [PLACEMENT_small_blocks] = {{14993, 14993, 0, 0, 98, 15, 205}},
    [PLACEMENT_few_calls] = {{10519, 10519, 0, 0, 1256, 0, 3609}},
    [PLACEMENT_little_memory] = {{10207, 10207, 0, 0, 10046, 0, 21836}},
    [PLACEMENT_streams] = {{11250, 11250, 0, 0, 10091, 0, 22032}},
    [PLACEMENT_streams_and_full] = {{10254, 10254, 0, 0, 12277, 37, 26091}},
    [PLACEMENT_trims] = {{10771, 22689, 0, 0, 25889, 79, 62253}},
    [PLACEMENT_collections] = {{10272, 13092, 0, 0, 14713, 56, 33513}},
    [PLACEMENT_compactions] = {{10208, 10208, 3, 0, 9948, 3754, 22474}},
    [PLACEMENT_limits] = {{10799, 12457, 0, 0, 12847, 0, 28785}},
    [PLACEMENT_neighbours] = {{10268, 10268, 0, 0, 6488, 0, 14277}},
};

static void print_table(const placement_figures *now)
{
    static const char *const names[] = {
#define X(name, ...) #name,
        PLACEMENT_KINDS(X)
#undef X
    };
    for (int kind = 0; kind < PLACEMENT_KIND_COUNT; kind++) {
        printf("    [PLACEMENT_%s] = {{", names[kind]);
        for (int i = 0; i < PLACEMENT_FIGURE_COUNT; i++) {
            printf("%s%llu", i == 0 ? "" : ", ", (unsigned long long)now[kind].of[i]);
        }
        printf("}},\n");
    }
}

/* Nothing here is left to chance, so a little more is worse. What is much less is better, and makes
 * the table blind: it is renewed. */
static bool is_as_recorded(uint64_t was, uint64_t is)
{
    enum { WORSE = 400, BETTER = 20 };
    return is <= was + was / WORSE && is + is / BETTER + 1 >= was;
}

MEND_TEST(simulation, placement_is_as_good_as_it_was)
{
    static placement_figures now[PLACEMENT_KIND_COUNT];
    bool all = true;
    for (int kind = 0; kind < PLACEMENT_KIND_COUNT; kind++) {
        EXPECT_TRUE(placement_run((placement_kind)kind, 1, SEEDS, &now[kind]));
        for (int i = 0; i < PLACEMENT_FIGURE_COUNT; i++) {
            all = all && is_as_recorded(recorded[kind].of[i], now[kind].of[i]);
        }
    }
    if (!all) {
        print_table(now);
    }
    EXPECT_TRUE(all);
}

/* Who looks changes nothing. */
MEND_TEST(simulation, placement_is_the_same_while_it_is_recorded)
{
    for (int kind = 0; kind < PLACEMENT_KIND_COUNT; kind++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const placement_recording recording = {.events = 64 * seed};
            EXPECT_TRUE(placement_is_the_same((placement_kind)kind, seed, &recording));
        }
    }
}
