/* Amounts of memory as people read them: "576.00 MiB". */
#ifndef MEND_BASE_WORDS_H
#define MEND_BASE_WORDS_H

#include <stdint.h>

enum { MEND_AMOUNT_BYTES = 32 };
typedef struct mend_amount {
    char text[MEND_AMOUNT_BYTES];
} mend_amount;

/* In the largest unit up to TiB of which there is one, with two digits behind the point; bytes
 * without. What is behind these digits is left out, or (above) makes the last one greater: a limit
 * of what is shown is no lower than what was meant. */
mend_amount mend_words_amount(uint64_t bytes);
mend_amount mend_words_amount_above(uint64_t bytes);

#endif
