/*
 * A program that loads libmend and libmend_sim while it runs, and unloads them: nothing of them may
 * be called afterwards, by a fork or by the end of the process.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "mend/mend_share.h"
#include "tests/process/scenes.h"

#define MEND_CALLS(X)                                                                              \
    X(mend_pool_create)                                                                            \
    X(mend_pool_destroy)                                                                           \
    X(mend_alloc)                                                                                  \
    X(mend_free)                                                                                   \
    X(mend_get_stats)                                                                              \
    X(mend_export)

#define SIM_CALLS(X)                                                                               \
    X(mend_sim_create)                                                                             \
    X(mend_sim_driver)                                                                             \
    X(mend_sim_destroy)

static struct {
    void *mend;
    void *sim;
#define X(name) __typeof__(&name) name;
    MEND_CALLS(X) SIM_CALLS(X)
#undef X
} loaded;

static mend_sim *device;
static mend_pool *pool;
static void *block;

/* dlsym gives an object pointer. POSIX promises that its bytes are those of the function's. */
static void find(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(function, &found, size);
}

static void load(void)
{
    loaded.mend = dlopen(MEND_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    CHECK(loaded.mend != NULL);
    loaded.sim = dlopen(MEND_SIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    CHECK(loaded.sim != NULL);
#define X(name) find(loaded.mend, #name, &loaded.name, sizeof(loaded.name));
    MEND_CALLS(X)
#undef X
#define X(name) find(loaded.sim, #name, &loaded.name, sizeof(loaded.name));
    SIM_CALLS(X)
#undef X
}

static void unload(void)
{
    CHECK(dlclose(loaded.mend) == 0);
    CHECK(dlopen(MEND_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == NULL);
    CHECK(dlclose(loaded.sim) == 0);
    CHECK(dlopen(MEND_SIM_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == NULL);
}

static void open_pool(void)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    CHECK(loaded.mend_sim_create(&config, &device) == MEND_OK);
    pool_config.driver = loaded.mend_sim_driver(device);
    pool_config.shareable = MEND_SHAREABLE_ON;
    pool_config.log_level = -1; /* scenes end with live blocks */
    CHECK(loaded.mend_pool_create(&pool_config, &pool) == MEND_OK);
    void *freed = NULL;
    CHECK(loaded.mend_alloc(pool, 3 << 20, NULL, &freed) == MEND_OK);
    CHECK(loaded.mend_alloc(pool, 4096, NULL, &block) == MEND_OK);
    CHECK(loaded.mend_free(pool, freed, NULL) == MEND_OK);
}

static void close_pool(void)
{
    CHECK(loaded.mend_pool_destroy(pool) == MEND_OK);
    loaded.mend_sim_destroy(device);
    pool = NULL;
    device = NULL;
}

static void unloads_after_destroying(void)
{
    load();
    open_pool();
    close_pool();
    unload();
}

static void do_nothing(void) {}

static void unloads_with_a_live_pool(void)
{
    load();
    open_pool();
    unload();
    scene_in_a_child(do_nothing);
}

/* The thread that serves importers goes on in the library's code. */
static void unloads_with_an_export(void)
{
    mend_export_token token;
    load();
    open_pool();
    CHECK(loaded.mend_export(pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL) ==
          MEND_OK);
    close_pool();
    CHECK(dlclose(loaded.mend) == 0);
    CHECK(dlopen(MEND_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == loaded.mend);
    CHECK(dlclose(loaded.mend) == 0);
    CHECK(dlclose(loaded.sim) == 0);
    scene_in_a_child_of_threads(do_nothing);
}

static void loads_again(void)
{
    for (int i = 0; i < 3; i++) {
        unloads_after_destroying();
    }
}

static void refuse_and_try(void)
{
    mend_stats stats = MEND_STATS_INIT;
    CHECK(loaded.mend_free(pool, block, NULL) == MEND_ERROR_FORKED);
    CHECK(loaded.mend_get_stats(pool, &stats) == MEND_ERROR_FORKED);
    CHECK(loaded.mend_pool_destroy(pool) == MEND_ERROR_FORKED);
    open_pool();
    close_pool();
    unload();
}

static void forks_while_loaded(void)
{
    load();
    open_pool();
    scene_in_a_child_of_threads(refuse_and_try);
    CHECK(loaded.mend_free(pool, block, NULL) == MEND_OK);
    close_pool();
    unload();
}

static void forks_after_unloading(void)
{
    unloads_after_destroying();
    scene_in_a_child(unloads_after_destroying);
}

static void exits_while_loaded(void)
{
    load();
    open_pool();
}

const scene scenes[] = {
#define X(name) {#name, name},
    LOADED_SCENES(X)
#undef X
        {NULL, NULL},
};
