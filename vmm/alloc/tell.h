/* The words of an allocation that found no room: figures, what would help, and who holds memory. */
#ifndef MEND_ALLOC_TELL_H
#define MEND_ALLOC_TELL_H

#include "alloc/ladder.h"

typedef struct mend_sentence {
    char text[MEND_MESSAGE_BYTES];
    size_t used;
} mend_sentence;

__attribute__((format(printf, 2, 3))) void mend_sentence_add(mend_sentence *s, const char *format,
                                                             ...);

/* Parts, which begin with a capital letter, are joined by semicolons. */
void mend_sentence_join(mend_sentence *s, const char *part);

/* Notes the report as the failure, never cut off whatever the numbers, with the shortfall: a
 * sentence of figures, one of what would help, one of who holds it. `advice` follows the limit that
 * would help; it may be "". `pages` may be NULL. Of `holders`, those with most bytes come first,
 * and a suspect of a leak is last; cut off before the rest is. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_fail(const mend_shortfall *shortfall, const char *advice,
                             const mend_pages *pages,
                             const mend_holder holders[MEND_HOLDERS_SHOWN + 1]);

#endif
