/* Chooses the mutant before main begins, once: by the name MEND_MUTANT has in the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutant_names.h"
#include "tests/mutants/mutant.h"

/* The exit status where there is no such mutant; that of a failed test is 1. */
enum { NO_SUCH_MUTANT = 3 };

int mend_mutant_chosen;

__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("MEND_MUTANT");
    int count = (int)(sizeof(mutant_names) / sizeof(mutant_names[0]));
    if (name == NULL) {
        return;
    }
    for (int number = 0; number < count; number++) {
        if (strcmp(mutant_names[number], name) == 0) {
            mend_mutant_chosen = number;
            return;
        }
    }
    fprintf(stderr, "MEND_MUTANT=%s: there is no such mutant\n", name);
    _Exit(NO_SUCH_MUTANT);
}
