#include "tests/support/search.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool read_number(const char *text, uint64_t *number)
{
    char *end = NULL;
    *number = strtoull(text, &end, 0);
    return *end == '\0' && end != text;
}

/* `value` is the next argument. NULL: nothing. */
static bool read_value(const mend_test_option *option, const char *value)
{
    if (value == NULL) {
        return false;
    }
    if (option->find != NULL) {
        *option->index = option->find(value);
        return *option->index >= 0;
    }
    return read_number(value, option->number) &&
           (option->most == 0 || *option->number <= option->most);
}

bool mend_test_read_options(int argc, char **argv, const mend_test_option *options, size_t count)
{
    for (int i = 1; i < argc; i++) {
        const mend_test_option *option = NULL;
        for (size_t k = 0; k < count && option == NULL; k++) {
            option = strcmp(argv[i], options[k].name) == 0 ? &options[k] : NULL;
        }
        if (option == NULL) {
            return false;
        }
        bool takes_value = option->number != NULL || option->find != NULL;
        if (takes_value && !read_value(option, argv[++i])) {
            return false;
        }
        if (option->given != NULL) {
            *option->given = true;
        }
    }
    return true;
}

uint64_t mend_test_first_seed(bool has_seed, uint64_t seed)
{
    return has_seed ? seed : (uint64_t)time(NULL) << 24;
}

double mend_test_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
