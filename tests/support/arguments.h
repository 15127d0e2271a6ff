/* Arguments of the programs that look for faults without end. */
#ifndef MEND_TESTS_SUPPORT_ARGUMENTS_H
#define MEND_TESTS_SUPPORT_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* A whole text that is a number, decimal or 0x...; NULL is none. */
static inline bool mend_test_read_number(const char *text, uint64_t *number)
{
    char *end = NULL;
    *number = text != NULL ? strtoull(text, &end, 0) : 0;
    return end != NULL && *end == '\0' && end != text;
}

#endif
