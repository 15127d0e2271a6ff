/* Shared by programs that look for faults from seed to seed: arguments, the first seed, a clock.
 */
#ifndef MEND_TESTS_SUPPORT_SEARCH_H
#define MEND_TESTS_SUPPORT_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An option of the command line: a flag, or a number, or a name that `find` knows. */
typedef struct mend_test_option {
    const char *name;              /* "--seed" */
    bool *given;                   /* set where the option is there. May be NULL */
    uint64_t *number;              /* NULL: it takes none */
    uint64_t most;                 /* of the number. 0: any */
    int *index;                    /* the result of `find`, -1 for an unknown name */
    int (*find)(const char *name); /* NULL: it takes no name */
} mend_test_option;

/* Reads argv[1] and later arguments by a table of options. False: something is no option, or its
 * value is missing, no number (decimal or 0x...), too large, or not known. */
bool mend_test_read_options(int argc, char **argv, const mend_test_option *options, size_t count);

/* Where seeds begin: at `seed` where one is given, else where they never began before. For programs
 * that search. A test has the same seeds each time. */
uint64_t mend_test_first_seed(bool has_seed, uint64_t seed);

/* Of a clock that only rises. */
double mend_test_now_s(void);

#endif
