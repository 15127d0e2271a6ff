/* The simulated runtime has, or refuses, all imports of PyTorch, CuPy, cuda.core and Triton
 * (imports.txt), and every error has a name and a text. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/simulate/runtime.h"

static bool is_found(const runtime *r, const char *name, bool is_linked)
{
    void *found = NULL;
    if (is_linked || strncmp(name, "nvml", 4) == 0) {
        return dlsym(r->cuda, name) != NULL || dlsym(r->nvml, name) != NULL;
    }
    runtime_entry(r, name, &found);
    return found != NULL;
}

RUNTIME_TEST(simulate_imports, are_all_there_or_refused)
{
    char line[256];
    bool is_linked = false;
    int names = 0;
    FILE *list = fopen(IMPORTS, "r");
    ASSERT_TRUE(list != NULL);
    while (fgets(line, sizeof(line), list) != NULL) {
        if (line[0] == '[') {
            is_linked = strcmp(line, "[linked]\n") == 0;
        }
        if (line[0] == '[' || line[0] == '#') {
            continue;
        }
        char *rest = line;
        for (char *name = NULL; (name = strsep(&rest, " \n")) != NULL;) {
            if (*name != 0 && !is_found(r, name, is_linked)) {
                mend_test_fail(__FILE__, __LINE__, "%s is neither there nor refused", name);
            }
            names += *name != 0;
        }
    }
    fclose(list);
    EXPECT_TRUE(names > 800);
}

RUNTIME_TEST(simulate_imports, refuse_what_is_not_simulated)
{
    int (*refused)(void) = NULL;
    void *found = NULL;
    int status = -1;
    runtime_symbol(r, "cudaGraphAddNode", &refused);
    EXPECT_ERROR(NOT_SUPPORTED, refused());
    EXPECT_ERROR(NOT_SUPPORTED, r->cudaGetLastError());
    EXPECT_OK(r->cudaGetDriverEntryPoint("cuMulticastCreate", (void **)&refused, 0, &status));
    EXPECT_INT_EQ(0, status);
    EXPECT_ERROR(NOT_SUPPORTED, refused());
    EXPECT_OK(r->cudaGetDriverEntryPoint("malloc", &found, 0, &status));
    EXPECT_TRUE(found == NULL && status == 1);
    EXPECT_OK(r->cudaGetLastError());
    EXPECT_ERROR(500, r->cuGetProcAddress_v2("malloc", &found, 13020, 0, NULL));
}

/* The plain name of a function leads to its newest version, as the driver's list does. */
RUNTIME_TEST(simulate_imports, have_the_runtime_s_functions_under_the_driver_s_names)
{
    int (*destroy)(stream) = NULL;
    int (*create)(stream *, unsigned) = NULL;
    stream made = NULL;
    runtime_entry(r, "cuStreamCreate", &create);
    runtime_entry(r, "cuStreamDestroy", &destroy);
    ASSERT_OK(create(&made, NON_BLOCKING));
    EXPECT_OK(r->cudaStreamQuery(made));
    EXPECT_OK(destroy(made));
    EXPECT_ERROR(INVALID_VALUE, create(NULL, NON_BLOCKING));
    EXPECT_OK(r->cudaPeekAtLastError()); /* the driver's failure is not the runtime's */
}

/* As many as in CUDA 13.5's runtime, and the ones that its driver has too. */
RUNTIME_TEST(simulate_imports, have_names_and_words_for_every_error)
{
    const char *text = NULL;
    int of_runtime = 0, of_driver = 0;
    for (int code = -1; code < 1100; code++) {
        bool is_named = strncmp(r->cudaGetErrorName(code), "cuda", 4) == 0;
        of_runtime += is_named;
        EXPECT_TRUE(!is_named || r->cudaGetErrorString(code)[0] != 0);
        of_driver += r->cuGetErrorName(code, &text) == SUCCESS && strncmp(text, "CUDA_", 5) == 0;
    }
    EXPECT_INT_EQ(138, of_runtime);
    EXPECT_INT_EQ(104, of_driver);
    EXPECT_STR_EQ("cudaErrorCallRequiresNewerDriver", r->cudaGetErrorName(36));
    EXPECT_STR_EQ("unspecified launch failure", r->cudaGetErrorString(719));
    EXPECT_OK(r->cuGetErrorString(719, &text));
    EXPECT_STR_EQ("unspecified launch failure", text);
    EXPECT_OK(r->cuGetErrorName(719, &text));
    EXPECT_STR_EQ("CUDA_ERROR_LAUNCH_FAILED", text);
    EXPECT_ERROR(INVALID_VALUE, r->cuGetErrorName(35, &text)); /* of the runtime alone */
    EXPECT_TRUE(text == NULL);
    EXPECT_STR_EQ("unrecognized error code", r->cudaGetErrorString(-2));
}
