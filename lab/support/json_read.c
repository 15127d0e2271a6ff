/* A reader that calls itself for each list, as deep as lists may be nested. Values that a
 * dictionary leaves out are read and take no memory. */
#include "lab/support/json_read.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64, NONE = -1 };

typedef struct json_reader {
    mend_byte_source *source;
    mend_value_store *store;
    char text[MEND_VALUE_TEXT_BYTES + 1]; /* the last text, ends with a 0 */
    size_t length;
} json_reader;

static bool fail(json_reader *reader, const char *reason)
{
    reader->store->reason = reason;
    return false;
}

/* The next byte, which stays. NONE at the end and where the file cannot be read. */
static int peek(json_reader *reader)
{
    mend_byte_source *source = reader->source;
    const char *reason = mend_byte_source_fill(source);
    if (reason != NULL || source->end == 0) {
        fail(reader, reason != NULL ? reason : "the file ends too early");
        return NONE;
    }
    return (unsigned char)source->buffer[source->start];
}

static int next(json_reader *reader)
{
    int byte = peek(reader);
    reader->source->start += byte != NONE;
    return byte;
}

/* The next byte that is no space, which stays. */
static int peek_word(json_reader *reader)
{
    int byte = peek(reader);
    while (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
        next(reader);
        byte = peek(reader);
    }
    return byte;
}

static bool expect(json_reader *reader, const char *word, const char *complaint)
{
    for (; *word != 0; word++) {
        int byte = next(reader);
        if (byte != *word) {
            return byte != NONE && fail(reader, complaint);
        }
    }
    return true;
}

/* The character of an escape. NONE if it is wrong. */
static int read_escape(json_reader *reader)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    int byte = next(reader);
    if (byte == 'u') {
        int code = 0;
        for (int i = 0; i < 4; i++) {
            byte = next(reader);
            if (byte != NONE && !isxdigit(byte)) {
                fail(reader, "\\u without four digits");
                byte = NONE;
            }
            if (byte == NONE) {
                return NONE;
            }
            code = code * 16 + (isdigit(byte) ? byte - '0' : tolower(byte) - 'a' + 10);
        }
        return code > 0 && code < 0x80 ? code : '?';
    }
    if (byte == NONE) {
        return NONE;
    }
    const char *letter = byte == 0 ? NULL : strchr(letters, byte);
    if (letter == NULL) {
        fail(reader, "an unknown escape in a text");
        return NONE;
    }
    return meanings[letter - letters];
}

/* Reads a text to `reader->text`. */
static bool read_text(json_reader *reader)
{
    reader->length = 0;
    if (!expect(reader, "\"", "a key is no text")) {
        return false;
    }
    for (;;) {
        int byte = next(reader);
        if (byte == '"') {
            reader->text[reader->length] = 0;
            return true;
        }
        if (byte >= 0 && byte < ' ') {
            return fail(reader, "a control character in a text");
        }
        if (byte == '\\') {
            byte = read_escape(reader);
        }
        if (byte == NONE) {
            return false;
        }
        if (reader->length < MEND_VALUE_TEXT_BYTES) {
            reader->text[reader->length++] = (char)byte;
        }
    }
}

static bool push(json_reader *reader, bool is_kept, mend_value value)
{
    return !is_kept || mend_value_push(reader->store, value);
}

static bool read_number(json_reader *reader, bool is_kept)
{
    char text[NUMBER_BYTES];
    size_t length = 0;
    int byte = peek(reader);
    for (; byte > 0 && (isdigit(byte) || strchr("+-.eE", byte) != NULL); byte = peek(reader)) {
        if (length == NUMBER_BYTES - 1) {
            return fail(reader, "a number that is too long");
        }
        text[length++] = (char)next(reader);
    }
    if (byte == NONE) {
        return false;
    }
    text[length] = 0;
    char *end;
    strtod(text, &end);
    if (length == 0 || *end != 0) {
        return fail(reader, "neither a text, a number, a list nor another value");
    }
    errno = 0;
    uintmax_t number = strtoumax(text, NULL, 10);
    bool fits = strspn(text, "0123456789") == length && errno == 0;
    return push(reader, is_kept,
                fits ? (mend_value){.kind = MEND_VALUE_NUMBER, .number = number}
                     : (mend_value){.kind = MEND_VALUE_OTHER});
}

static bool read_word(json_reader *reader, bool is_kept, const char *word, mend_value value)
{
    return expect(reader, word, "an unknown word") && push(reader, is_kept, value);
}

static bool read_value(json_reader *reader, bool is_kept, int depth);

/* Reads a key, and whether it is kept. */
static bool read_key(json_reader *reader, bool *is_kept)
{
    if (peek_word(reader) == NONE || !read_text(reader)) {
        return false;
    }
    *is_kept = *is_kept && mend_value_store_keeps(reader->store, reader->text);
    if (*is_kept && !mend_value_push_text(reader->store, reader->text, reader->length)) {
        return false;
    }
    return peek_word(reader) != NONE && expect(reader, ":", "a key without a value");
}

/* A list, or a dictionary as `end` says. */
static bool read_items(json_reader *reader, bool is_kept, char end, int depth)
{
    mend_value_store *store = reader->store;
    bool is_dict = end == '}';
    if (depth == MEND_VALUE_DEPTH) {
        return fail(reader, "lists are nested too deep");
    }
    size_t from = store->count + 1;
    next(reader);
    if (is_kept && !mend_value_push_empty(store, is_dict ? MEND_VALUE_DICT : MEND_VALUE_LIST)) {
        return false;
    }
    for (int byte = peek_word(reader); byte != end; byte = peek_word(reader)) {
        bool item_is_kept = is_kept;
        if (byte == NONE || (is_dict && !read_key(reader, &item_is_kept)) ||
            !read_value(reader, item_is_kept, depth + 1)) {
            return false;
        }
        byte = peek_word(reader);
        if (byte != ',' && byte != end) {
            return byte != NONE && fail(reader, "neither a comma nor the end of a list");
        }
        if (byte == ',') {
            next(reader);
        }
    }
    next(reader);
    return !is_kept || mend_value_move(store, store->stack[from - 1], from);
}

static bool read_value(json_reader *reader, bool is_kept, int depth)
{
    switch (peek_word(reader)) {
    case NONE:
        return false;
    case '{':
        return read_items(reader, is_kept, '}', depth);
    case '[':
        return read_items(reader, is_kept, ']', depth);
    case '"':
        return read_text(reader) &&
               (!is_kept || mend_value_push_text(reader->store, reader->text, reader->length));
    case 't':
        return read_word(reader, is_kept, "true",
                         (mend_value){.kind = MEND_VALUE_NUMBER, .number = 1});
    case 'f':
        return read_word(reader, is_kept, "false", (mend_value){.kind = MEND_VALUE_NUMBER});
    case 'n':
        return read_word(reader, is_kept, "null", (mend_value){.kind = MEND_VALUE_OTHER});
    default:
        return read_number(reader, is_kept);
    }
}

mend_result mend_json_read(mend_byte_source *source, mend_value_store *store)
{
    json_reader reader = {.source = source, .store = store};
    return read_value(&reader, true, 0)
               ? MEND_OK
               : mend_value_store_fail(store, source->path, mend_byte_source_position(source),
                                       store->reason);
}
