/* The history of a pool, and its memory, on a simulated device of 80 GiB. */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20, ROOM = 32 };

static const char *const events[] = {
    [MEND_EVENT_ALLOC] = "alloc", [MEND_EVENT_FREE] = "free",     [MEND_EVENT_MAP] = "map",
    [MEND_EVENT_UNMAP] = "unmap", [MEND_EVENT_CREATE] = "create", [MEND_EVENT_RELEASE] = "release",
    [MEND_EVENT_KINDS] = "other"};
static const char *const regions[] = {[MEND_REGION_LIVE] = "live",
                                      [MEND_REGION_FREE] = "free",
                                      [MEND_REGION_WAITING] = "waiting",
                                      [MEND_REGION_PAGE] = "page"};

static void print_events(mend_pool *pool, uint64_t *cursor)
{
    mend_history_event happened[ROOM];
    size_t count;
    while (mend_history_read(pool, cursor, happened, sizeof(*happened), ROOM, &count) == MEND_OK &&
           count > 0) {
        for (size_t i = 0; i < count; i++) {
            int kind = happened[i].kind <= MEND_EVENT_RELEASE ? happened[i].kind : MEND_EVENT_KINDS;
            printf("%2u %-7s %3u MiB\n", (unsigned)happened[i].sequence, events[kind],
                   (unsigned)(happened[i].size_bytes / MIB));
        }
    }
}

static void print_regions(mend_pool *pool)
{
    mend_region found[ROOM];
    size_t count;
    if (mend_get_regions(pool, found, sizeof(*found), ROOM, &count) == MEND_OK && count <= ROOM) {
        for (size_t i = 0; i < count; i++) {
            printf("%-7s %3u MiB\n", regions[found[i].kind], (unsigned)(found[i].size_bytes / MIB));
        }
    }
}

int main(void)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    void *blocks[3] = {NULL};
    uint64_t cursor = 0;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    if (mend_pool_create(&config, &pool) != MEND_OK || mend_history_start(pool, 1000) != MEND_OK) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        mend_alloc(pool, 100 * MIB, NULL, &blocks[i]);
    }
    mend_free(pool, blocks[1], NULL);
    print_regions(pool);
    print_events(pool, &cursor);
    mend_free(pool, blocks[0], NULL);
    mend_free(pool, blocks[2], NULL);
    mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return 0;
}
