#include "lab/report/words.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "lab/support/json.h"

mend_word mend_word_size(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    mend_word word;
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 999.5 && unit + 1 < sizeof(units) / sizeof(*units)) {
        number /= 1024;
        unit++;
    }
    int digits = unit == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
    snprintf(word.text, sizeof(word.text), "%.*f %s", digits, number, units[unit]);
    return word;
}

mend_word mend_word_change(uint64_t before, uint64_t after)
{
    mend_word size = mend_word_size(before > after ? before - after : after - before);
    mend_word word;
    snprintf(word.text, sizeof(word.text), "%s%.30s",
             before == after  ? ""
             : before > after ? "-"
                              : "+",
             size.text);
    return word;
}

mend_word mend_word_count(uint64_t count)
{
    char digits[24];
    mend_word word;
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    size_t at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            word.text[at++] = ',';
        }
        word.text[at++] = digits[i];
    }
    word.text[at] = 0;
    return word;
}

mend_word mend_word_percent(uint64_t part, uint64_t whole)
{
    mend_word word;
    double percent = whole == 0 ? 0 : 100 * (double)part / (double)whole;
    snprintf(word.text, sizeof(word.text), "%.0f %%", percent);
    return word;
}

/* Bytes of the character at `text`, which is not the end. 0: none that a terminal prints. */
static size_t character_bytes(const char *text)
{
    const unsigned char first = (unsigned char)*text;
    const bool is_control =
        first < 0x20 || first == 0x7f || first == 0xc2; /* and U+0080 to U+00BF */
    return is_control ? 0 : mend_json_character(text);
}

static size_t step(const char *text)
{
    size_t bytes = character_bytes(text);
    return bytes == 0 ? 1 : bytes;
}

static size_t columns_of(const char *text, size_t bytes)
{
    size_t columns = 0;
    for (size_t at = 0; at < bytes; at += step(text + at)) {
        columns++;
    }
    return columns;
}

static void put(FILE *out, const char *text)
{
    size_t bytes = character_bytes(text);
    if (bytes == 0) {
        fputc('?', out);
    } else {
        fwrite(text, 1, bytes, out);
    }
}

/* The first `head` of its characters, and of the others only so many that all are `columns`. */
static size_t put_parts(FILE *out, const char *text, size_t columns, size_t head)
{
    const size_t all = columns_of(text, strlen(text));
    const size_t left_out = all > columns ? all - columns + 1 : 0;
    for (size_t at = 0; *text != 0; text += step(text), at++) {
        if (at == head && left_out > 0) {
            fputc('~', out);
        } else if (at < head || at >= head + left_out) {
            put(out, text);
        }
    }
    return left_out > 0 ? columns : all;
}

void mend_words_cut(FILE *out, const char *text, size_t columns, int fills)
{
    size_t printed = put_parts(out, text, columns, columns / 2);
    for (; fills && printed < columns; printed++) {
        fputc(' ', out);
    }
}

/* The bytes of the longest beginning that ends at a blank, or at the end, within so many columns.
 */
static size_t line_bytes(const char *text, size_t columns)
{
    size_t best = 0;
    size_t used = 0;
    size_t at = 0;
    for (; text[at] != 0 && used < columns; at += step(text + at), used++) {
        best = text[at] == ' ' ? at : best;
    }
    return text[at] == 0 || text[at] == ' ' || best == 0 ? at : best;
}

size_t mend_words_wrap(FILE *out, const char *text, size_t indent, size_t most_lines)
{
    size_t lines = 0;
    while (*text != 0 && lines < most_lines) {
        size_t columns = MEND_WORDS_WIDTH - indent;
        bool is_last = lines + 1 == most_lines;
        size_t bytes = is_last ? strlen(text) : line_bytes(text, columns);
        char line[1024];
        snprintf(line, sizeof(line), "%.*s", (int)bytes, text);
        fprintf(out, "%*s", (int)indent, "");
        put_parts(out, line, columns, columns - 1);
        fputc('\n', out);
        text += bytes;
        text += *text == ' ';
        lines++;
    }
    return lines;
}
