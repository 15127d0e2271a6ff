/* The finding of the validation for a heap that is broken in one place. */
#ifndef MEND_TESTS_UNIT_OBSERVE_FOUND_H
#define MEND_TESTS_UNIT_OBSERVE_FOUND_H

#include <string.h>

#include "check/check.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define expect_finding(heap, words) expect_finding_at(KIT_LINE, heap, words)
static inline void expect_finding_at(kit_line at, const mend_heap *heap, const char *words)
{
    char finding[MEND_VALIDATE_FINDING_BYTES] = "";
    bool is_right = mend_observe_validate(heap, finding);
    if (is_right || strstr(finding, words) == NULL) {
        mend_test_fail(at.file, at.line, "expected \"%s\", the audit says \"%s\"", words, finding);
    }
}

/* With another value in one place of `heap` the audit says these words. */
#define EXPECT_FOUND(place, wrong, words)                                                          \
    do {                                                                                           \
        __typeof__(place) mend_right = place;                                                      \
        (place) = wrong;                                                                           \
        expect_finding(heap, words);                                                               \
        (place) = mend_right;                                                                      \
    } while (0)

#endif
