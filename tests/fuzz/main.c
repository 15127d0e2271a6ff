/*
 * Without libFuzzer: runs a target with the named files and the files of the named folders, each
 * once. So findings stay found, in every build.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

enum { MOST_BYTES = 1 << 20 };

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MOST_BYTES);
    FUZZ_CHECK(file != NULL && data != NULL, "%s cannot be read", path);
    size_t size = fread(data, 1, MOST_BYTES, file);
    fclose(file);
    /* A copy of just that size, so that a sanitizer sees an overrun. */
    uint8_t *input = malloc(size > 0 ? size : 1);
    FUZZ_CHECK(input != NULL, "%s is too large", path);
    memcpy(input, data, size);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
    free(data);
    return 1;
}

static int run_folder(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    int ran = 0;
    for (int i = 0; i < count; i++) {
        char inside[4096];
        snprintf(inside, sizeof(inside), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            ran += run_file(inside);
        }
        free(entries[i]);
    }
    free(entries);
    return ran;
}

int main(int argc, char **argv)
{
    int ran = 0;
    for (int i = 1; i < argc; i++) {
        struct stat status;
        bool is_folder = stat(argv[i], &status) == 0 && S_ISDIR(status.st_mode);
        ran += is_folder ? run_folder(argv[i]) : run_file(argv[i]);
    }
    fprintf(stderr, "%d inputs\n", ran);
    return ran > 0 ? 0 : 1;
}
