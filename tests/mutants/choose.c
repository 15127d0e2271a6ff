/* Chooses the mutants before main begins, once: those that MEND_MUTANT names in the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutant_names.h"
#include "tests/mutants/mutant.h"

/* The exit status where there is no such mutant; that of a failed test is 1. */
enum { NO_SUCH_MUTANT = 3, COUNT = sizeof(mutant_names) / sizeof(mutant_names[0]) };

unsigned char mend_mutant_awake[COUNT];

static void wake(const char *name, size_t length)
{
    for (int number = 0; number < COUNT; number++) {
        if (strlen(mutant_names[number]) == length &&
            strncmp(mutant_names[number], name, length) == 0) {
            mend_mutant_awake[number] = 1;
            return;
        }
    }
    fprintf(stderr, "MEND_MUTANT=%s: there is no such mutant\n", name);
    _Exit(NO_SUCH_MUTANT);
}

__attribute__((constructor)) static void choose(void)
{
    const char *names = getenv("MEND_MUTANT");
    while (names != NULL) {
        size_t length = strcspn(names, ",");
        wake(names, length);
        names = names[length] == ',' ? names + length + 1 : NULL;
    }
}
