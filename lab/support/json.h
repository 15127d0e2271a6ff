/*
 * The one writer of JSON: value by value, with commas, quotes and escapes. A value that does not
 * apply is null, so that an object of a kind always has the same keys.
 */
#ifndef MEND_LAB_SUPPORT_JSON_H
#define MEND_LAB_SUPPORT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mend_json {
    FILE *out;
    bool is_in_page; /* within an element of HTML: no text ends it */
    bool needs_comma;
} mend_json;

/* `key` is the name of the value in the current object. NULL in an array and at the top. */
void mend_json_begin_object(mend_json *json, const char *key);
void mend_json_end_object(mend_json *json);
void mend_json_begin_array(mend_json *json, const char *key);
void mend_json_end_array(mend_json *json);

/* Bytes that are not UTF-8 become U+FFFD. NULL for `value`: null. */
void mend_json_string(mend_json *json, const char *key, const char *value);
/* A string that the caller writes to the file returned. Nothing in it needs an escape. */
FILE *mend_json_begin_text(mend_json *json, const char *key);
void mend_json_end_text(mend_json *json);

/* The bytes of the character of UTF-8 that the text begins with. 0: it ends, or begins with none.
 */
size_t mend_json_character(const char *text);

void mend_json_integer(mend_json *json, const char *key, uint64_t value);
void mend_json_integer_if(mend_json *json, const char *key, bool applies, uint64_t value);
/* At most `digits` decimal digits. Null if the value is not finite. */
void mend_json_number(mend_json *json, const char *key, double value, int digits);
void mend_json_bool(mend_json *json, const char *key, bool value);
void mend_json_null(mend_json *json, const char *key);

#endif
