#include "lab/support/columns.h"

#include <stdlib.h>
#include <zlib.h>

#include "lab/support/room.h"

enum { LEVEL = 6 };

static void add_byte(mend_column *column, uint8_t byte)
{
    uint8_t *bytes = mend_with_room(column->bytes, column->count, &column->room, 1);
    if (bytes == NULL) {
        column->lacks_memory = true;
        return;
    }
    column->bytes = bytes;
    column->bytes[column->count++] = byte;
}

void mend_column_add(mend_column *column, uint64_t value)
{
    for (; value > 127; value >>= 7) {
        add_byte(column, (uint8_t)(value | 128));
    }
    add_byte(column, (uint8_t)value);
}

void mend_column_add_change(mend_column *column, uint64_t value)
{
    uint64_t change = value - column->last;
    column->last = value;
    mend_column_add(column, change >> 63 == 0 ? change << 1 : ~(change << 1));
}

static void write_base64(const uint8_t *bytes, size_t count, FILE *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        putc(digits[three >> 18], out);
        putc(digits[three >> 12 & 63], out);
        putc(left > 1 ? digits[three >> 6 & 63] : '=', out);
        putc(left > 2 ? digits[three & 63] : '=', out);
    }
}

bool mend_column_write(const mend_column *column, FILE *out)
{
    static const uint8_t nothing[1];
    uLongf size = compressBound((uLong)column->count);
    uint8_t *packed = malloc(size);
    bool is_good = !column->lacks_memory && packed != NULL &&
                   compress2(packed, &size, column->count == 0 ? nothing : column->bytes,
                             (uLong)column->count, LEVEL) == Z_OK;
    if (is_good) {
        write_base64(packed, size, out);
    }
    free(packed);
    return is_good;
}

void mend_column_clear(mend_column *column)
{
    free(column->bytes);
    *column = (mend_column){0};
}
