#include "lab/support/json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

size_t mend_json_character(const char *text)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t bytes;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *c = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        if (c[0] < forms[i].first_low || c[0] > forms[i].first_high) {
            continue;
        }
        bool is_valid =
            forms[i].bytes == 1 || (c[1] >= forms[i].second_low && c[1] <= forms[i].second_high);
        for (size_t k = 2; k < forms[i].bytes && is_valid; k++) {
            is_valid = c[k] >= 0x80 && c[k] <= 0xbf;
        }
        return is_valid ? forms[i].bytes : 0;
    }
    return 0;
}

static void write_string(const mend_json *json, const char *value)
{
    FILE *out = json->out;
    fputc('"', out);
    for (const char *text = value; *text != 0;) {
        const unsigned char first = (unsigned char)*text;
        size_t bytes = mend_json_character(text);
        if (bytes == 0) {
            fputs("\\ufffd", out);
            bytes = 1;
        } else if (first == '"' || first == '\\') {
            fprintf(out, "\\%c", first);
        } else if (first < 0x20 || first == 0x7f || (first == '<' && json->is_in_page)) {
            fprintf(out, "\\u%04x", first);
        } else {
            fwrite(text, 1, bytes, out);
        }
        text += bytes;
    }
    fputc('"', out);
}

static void begin_value(mend_json *json, const char *key)
{
    if (json->needs_comma) {
        fputs(", ", json->out);
    }
    if (key != NULL) {
        write_string(json, key);
        fputs(": ", json->out);
    }
    json->needs_comma = true;
}

void mend_json_begin_object(mend_json *json, const char *key)
{
    begin_value(json, key);
    fputc('{', json->out);
    json->needs_comma = false;
}

void mend_json_end_object(mend_json *json)
{
    fputc('}', json->out);
    json->needs_comma = true;
}

void mend_json_begin_array(mend_json *json, const char *key)
{
    begin_value(json, key);
    fputc('[', json->out);
    json->needs_comma = false;
}

void mend_json_end_array(mend_json *json)
{
    fputc(']', json->out);
    json->needs_comma = true;
}

void mend_json_string(mend_json *json, const char *key, const char *value)
{
    if (value == NULL) {
        mend_json_null(json, key);
        return;
    }
    begin_value(json, key);
    write_string(json, value);
}

FILE *mend_json_begin_text(mend_json *json, const char *key)
{
    begin_value(json, key);
    fputc('"', json->out);
    return json->out;
}

void mend_json_end_text(mend_json *json)
{
    fputc('"', json->out);
}

void mend_json_integer(mend_json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void mend_json_integer_if(mend_json *json, const char *key, bool applies, uint64_t value)
{
    if (applies) {
        mend_json_integer(json, key, value);
    } else {
        mend_json_null(json, key);
    }
}

/* The program stays in the C locale, so the decimal point is a point. */
void mend_json_number(mend_json *json, const char *key, double value, int digits)
{
    if (!isfinite(value)) {
        mend_json_null(json, key);
        return;
    }
    begin_value(json, key);
    fprintf(json->out, "%.*f", digits, value);
}

void mend_json_bool(mend_json *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", json->out);
}

void mend_json_null(mend_json *json, const char *key)
{
    begin_value(json, key);
    fputs("null", json->out);
}
