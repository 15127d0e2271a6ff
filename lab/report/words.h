/* Sizes, counts and names as a report writes them. */
#ifndef MEND_LAB_REPORT_WORDS_H
#define MEND_LAB_REPORT_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mend_word {
    char text[32];
} mend_word;

/* "1.11 GiB", "245 MiB": three digits. */
mend_word mend_word_size(uint64_t bytes);
/* The same with its sign: "+2.75 GiB", "-764 MiB", "0 B". */
mend_word mend_word_change(uint64_t before, uint64_t after);
/* "37,413" */
mend_word mend_word_count(uint64_t count);
mend_word mend_word_percent(uint64_t part, uint64_t whole);

#define SIZE(bytes)  mend_word_size(bytes).text
#define COUNT(count) mend_word_count(count).text

/* Prints at most `columns` characters, and blanks up to them if `fills`. A character that no
 * terminal prints becomes `?`. Where characters are left out, in the middle, there is `~`: names of
 * lines begin alike and end alike. */
void mend_words_cut(FILE *out, const char *text, size_t columns, int fills);

enum { MEND_WORDS_WIDTH = 110 };

/* Prints lines of at most MEND_WORDS_WIDTH characters, broken at blanks, each behind so many
 * blanks. Text beyond `most_lines` is cut. Returns how many lines. */
size_t mend_words_wrap(FILE *out, const char *text, size_t indent, size_t most_lines);

#endif
