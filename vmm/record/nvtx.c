/*
 * Ranges of NVTX's domain "mend", for a profiler that the environment names
 * (NVTX_INJECTION64_PATH): slow steps, as spans of the thread's time. Without one a range is a
 * comparison (base/process.h).
 *
 * This is the program's half of the protocol of NVTX 3: the profiler's library gets a table of
 * places, and stores there the functions that it wants to be called.
 */
#include "record/record.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"

/* ---- the layout of NVTX 3 -------------------------------------------------------------------- */

enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3 };
enum { MODULES_FIRST = 1, MODULE_DOMAINS = 5, MODULES_LAST = 6 };
enum { PUSH = 4, POP = 5, CREATE_DOMAIN = 12 }; /* functions of MODULE_DOMAINS */
enum { NVTX_VERSION = 3, MESSAGE_IS_TEXT = 1 };

typedef struct range_attributes {
    uint16_t version;
    uint16_t bytes;
    uint32_t category;
    int32_t color_type; /* 0: none */
    uint32_t color;
    int32_t payload_type; /* 0: none */
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} range_attributes;
static_assert(sizeof(range_attributes) == 48, "as nvtxEventAttributes_t");

typedef void *(*create_domain)(const char *name);
typedef int (*push_range)(void *domain, const range_attributes *attributes);
typedef int (*pop_range)(void *domain);
typedef int (*initialize)(const void *(*export_table)(uint32_t number));

static int give_places(int module, mend_nvtx_function ***places, unsigned *count)
{
    mend_nvtx *nvtx = &mend_process_nvtx;
    if (module < MODULES_FIRST || module > MODULES_LAST) {
        return 0;
    }
    if (places != NULL) {
        *places = module == MODULE_DOMAINS ? nvtx->places : nvtx->unused_places;
    }
    if (count != NULL) {
        *count = MEND_NVTX_FUNCTIONS;
    }
    return 1;
}

static void hear_version(uint32_t version)
{
    (void)version; /* of the profiler. Newer ones know this one */
}

static const void *export_table(uint32_t number)
{
    static const struct {
        size_t bytes;
        int (*give_places)(int module, mend_nvtx_function ***places, unsigned *count);
    } callbacks = {sizeof(callbacks), give_places};
    static const struct {
        size_t bytes;
        uint32_t version;
        uint32_t reserved;
        void (*hear_version)(uint32_t version);
    } version = {sizeof(version), NVTX_VERSION, 0, hear_version};
    return number == TABLE_CALLBACKS ? (const void *)&callbacks
           : number == TABLE_VERSION ? (const void *)&version
                                     : NULL;
}

/* ---- what Mend calls ------------------------------------------------------------------------- */

/* The library stays, because threads may be in it whenever the process ends. */
static bool load(mend_nvtx *nvtx, const char *path)
{
    for (int i = 1; i < MEND_NVTX_FUNCTIONS; i++) {
        nvtx->places[i] = &nvtx->functions[i];
        nvtx->unused_places[i] = &nvtx->unused;
    }
    void *library = dlopen(path, RTLD_LAZY);
    void *function = library != NULL ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    initialize begin = NULL;
    memcpy(&begin, &function, sizeof(begin));
    if (begin == NULL) {
        const char *reason = dlerror();
        mend_warn("no NVTX ranges: %s", reason != NULL ? reason : path);
        return false;
    }
    if (begin(export_table) == 0 || nvtx->functions[PUSH] == NULL || nvtx->functions[POP] == NULL) {
        return false;
    }
    const create_domain create = (create_domain)nvtx->functions[CREATE_DOMAIN];
    nvtx->domain = create != NULL ? create("mend") : NULL;
    return true;
}

static void push(const char *name)
{
    const mend_nvtx *nvtx = &mend_process_nvtx;
    const range_attributes attributes = {.version = NVTX_VERSION,
                                         .bytes = sizeof(attributes),
                                         .message_type = MESSAGE_IS_TEXT,
                                         .message = name};
    assert(name != NULL);
    ((push_range)nvtx->functions[PUSH])(nvtx->domain, &attributes);
}

static void pop(void)
{
    const mend_nvtx *nvtx = &mend_process_nvtx;
    ((pop_range)nvtx->functions[POP])(nvtx->domain);
}

void mend_nvtx_load(void)
{
    mend_nvtx *nvtx = &mend_process_nvtx;
    const char *path = mend_process_variable("NVTX_INJECTION64_PATH");
    mend_mutex_lock(&nvtx->mutex);
    if (!nvtx->is_loaded) {
        nvtx->is_loaded = true;
        if (path != NULL && load(nvtx, path)) {
            nvtx->pop = pop;
            nvtx->push = push;
            mend_hold_library(); /* the profiler keeps pointers into it */
        }
    }
    mend_mutex_unlock(&nvtx->mutex);
}
