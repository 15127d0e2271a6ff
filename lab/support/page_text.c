#include "lab/support/page_text.h"

#include "base/align.h"
#include "lab/support/capacity.h"

void mend_page_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void mend_page_count(FILE *out, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            fputc(',', out);
        }
        fputc(digits[i], out);
    }
}

void mend_page_bytes(FILE *out, uint64_t bytes)
{
    char text[32];
    mend_format_bytes(bytes, text, sizeof(text));
    mend_page_text(out, text);
}
