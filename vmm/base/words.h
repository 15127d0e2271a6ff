/* Amounts of memory in words: "576.00 MiB". */
#ifndef MEND_BASE_WORDS_H
#define MEND_BASE_WORDS_H

#include <stddef.h>
#include <stdint.h>

enum { MEND_AMOUNT_BYTES = 32 };
typedef struct mend_amount {
    char text[MEND_AMOUNT_BYTES];
} mend_amount;

/* Uses the largest unit up to TiB that is not above the amount, with two decimal digits. Bytes have
 * none. The first function rounds down. The second rounds up, so that a limit set to the amount
 * shown is not below the exact one. */
mend_amount mend_words_amount(uint64_t bytes);
mend_amount mend_words_amount_above(uint64_t bytes);

/* The bytes of the character of UTF-8 that the text begins with. 0: it ends, or begins with none.
 */
size_t mend_words_character(const char *text);

/* Adds a part to a list, ", " between: as many whole characters of it as fit. Returns their
 * bytes. */
size_t mend_words_join(char *text, size_t text_bytes, const char *part);

/* Parts of texts come from files and from the environment: control characters become '?', so that a
 * terminal does not obey them, and a line stays one. */
void mend_words_make_printable(char *text);

#endif
