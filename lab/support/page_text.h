/* Text, counts and sizes as HTML. */
#ifndef MEND_LAB_SUPPORT_PAGE_TEXT_H
#define MEND_LAB_SUPPORT_PAGE_TEXT_H

#include <stdint.h>
#include <stdio.h>

/* Writes text with HTML's special characters escaped. */
void mend_page_text(FILE *out, const char *text);

/* 40,706 */
void mend_page_count(FILE *out, uint64_t count);

/* 5.42 GiB */
void mend_page_bytes(FILE *out, uint64_t bytes);

#endif
