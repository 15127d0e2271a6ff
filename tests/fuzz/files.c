/* Inputs as texts and as files in memory, for parsers that take paths. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL, "no memory for an input");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = 0;
    return text;
}

const char *fuzz_file(int slot, const uint8_t *data, size_t size)
{
    static struct {
        int descriptor; /* 0: none yet */
        char path[64];
    } files[FUZZ_FILES];
    if (files[slot].descriptor == 0) {
        files[slot].descriptor = memfd_create("mend-fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(files[slot].descriptor > 0, "no file in memory");
        snprintf(files[slot].path, sizeof(files[slot].path), "/proc/self/fd/%d",
                 files[slot].descriptor);
    }
    FUZZ_CHECK(ftruncate(files[slot].descriptor, 0) == 0 &&
                   pwrite(files[slot].descriptor, data, size, 0) == (ssize_t)size,
               "a file in memory cannot be written");
    return files[slot].path;
}

void fuzz_check_refusal(mend_result result, const char *beginning)
{
    fuzz_check_failure(MEND_ERROR_INVALID_ARGUMENT, result, beginning);
}

void fuzz_check_failure(mend_result expected, mend_result result, const char *beginning)
{
    mend_error error = MEND_ERROR_INIT;
    FUZZ_CHECK(result == expected, "%s", mend_result_name(result));
    mend_get_last_error(&error);
    FUZZ_CHECK(error.result == result, "%s", error.message);
    FUZZ_CHECK(strncmp(error.message, beginning, strlen(beginning)) == 0, "%s", error.message);
    for (const char *c = error.message; *c != 0; c++) {
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f, "byte %d of \"%s\"",
                   (int)(c - error.message), error.message);
    }
}
