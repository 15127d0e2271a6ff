/*
 * Plug-ins open libraries by name and close them again. libmend and libmend_sim, each in a name
 * space of its own, work together through the table one hands to the other, and leave the process.
 * Usage: install_load LIBMEND LIBMEND_SIM
 */
#include <dlfcn.h>
#include <stdio.h>

#include "mend/mend_sim.h"

enum { ROUNDS = 3 };

/* What a plug-in would look up: X(library, function). */
#define FUNCTIONS(X)                                                                               \
    X(mend, mend_pool_create)                                                                      \
    X(mend, mend_pool_destroy)                                                                     \
    X(mend, mend_alloc)                                                                            \
    X(mend, mend_free)                                                                             \
    X(sim, mend_sim_create)                                                                        \
    X(sim, mend_sim_driver)                                                                        \
    X(sim, mend_sim_destroy)

typedef struct functions {
#define X(library, name) __typeof__(&(name)) name;
    FUNCTIONS(X)
#undef X
} functions;

static int failures;

static int expect(int holds, const char *what)
{
    if (!holds) {
        printf("failed: %s\n", what);
        failures++;
    }
    return holds;
}

static int find_functions(void *mend, void *sim, functions *f)
{
#define X(library, name) *(void **)&f->name = dlsym(library, #name);
    FUNCTIONS(X)
#undef X
#define X(library, name) expect(f->name != NULL, #name " is found") &&
    return FUNCTIONS(X) 1;
#undef X
}

static void allocate(const functions *f)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    void *block = NULL;
    if (expect(f->mend_sim_create(&device, &sim) == MEND_OK, "mend_sim_create")) {
        config.driver = f->mend_sim_driver(sim);
        expect(f->mend_pool_create(&config, &pool) == MEND_OK, "mend_pool_create");
        expect(f->mend_alloc(pool, 1000, NULL, &block) == MEND_OK, "mend_alloc");
        expect(f->mend_free(pool, block, NULL) == MEND_OK, "mend_free");
        /* Leaves an error in the thread's storage, which goes with the library. */
        expect(f->mend_free(pool, block, NULL) == MEND_ERROR_DOUBLE_FREE, "freeing twice");
        expect(f->mend_pool_destroy(pool) == MEND_OK, "mend_pool_destroy");
        f->mend_sim_destroy(sim);
    }
}

static void expect_gone(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    expect(library == NULL, "a closed library leaves the process");
}

int main(int argc, char **argv)
{
    functions f;
    for (int round = 0; argc == 3 && round < ROUNDS; round++) {
        void *mend = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        void *sim = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        if (!expect(mend != NULL && sim != NULL, "both libraries load")) {
            printf("%s\n", dlerror());
            return 1;
        }
        expect(dlsym(RTLD_DEFAULT, "mend_alloc") == NULL, "names stay in their library");
        if (find_functions(mend, sim, &f)) {
            allocate(&f);
        }
        expect(dlclose(mend) == 0 && dlclose(sim) == 0, "dlclose");
        expect_gone(argv[1]);
        expect_gone(argv[2]);
    }
    printf("%d rounds, %d failures\n", ROUNDS, failures);
    return argc == 3 && failures == 0 ? 0 : 1;
}
