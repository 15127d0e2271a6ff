/*
 * The flags of the mutants, deliberate bugs of the tables beside this file, and who raises them
 * before main begins: MEND_MUTANT in the environment names those that are awake, with commas
 * between them. The ablations of bench/ablate are chosen in the same way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The exit status where there is no such mutant. That of a failed test is 1. */
enum { NO_SUCH_MUTANT = 3 };

#define MEND_MUTANT(flag, name) unsigned char flag;
#include "mutant_names.h"
#undef MEND_MUTANT

static const struct {
    unsigned char *flag;
    const char *name;
} mutants[] = {
#define MEND_MUTANT(flag, name) {&flag, name},
#include "mutant_names.h"
#undef MEND_MUTANT
};

static void wake(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        if (strlen(mutants[i].name) == length && strncmp(mutants[i].name, name, length) == 0) {
            *mutants[i].flag = 1;
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
