/* What a heap counts for each scope. */
#include "layout/scopes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/align.h"
#include "base/scopes.h"
#include "base/words.h"

enum { FIRST_CAPACITY = 64, SHOWN = 3, SHOWN_NAMES = 8 };

/* Makes a place for each number up to this one. */
static bool make_place(mend_scope_table *table, uint32_t number)
{
    uint32_t capacity = table->capacity == 0 ? FIRST_CAPACITY : table->capacity;
    while (capacity <= number) {
        capacity *= 2;
    }
    mend_scope_figures *of = realloc(table->of, capacity * sizeof(*of));
    if (of == NULL) {
        return false;
    }
    for (uint32_t i = table->capacity; i < capacity; i++) {
        of[i] = (mend_scope_figures){0};
    }
    *table = (mend_scope_table){of, capacity};
    return true;
}

void mend_scopes_count_alloc(mend_scope_table *table, uint32_t *scope, uint64_t size_bytes,
                             uint64_t pool_bytes, uint64_t reserved_bytes)
{
    assert(*scope != 0);
    if (*scope >= table->capacity && !make_place(table, *scope)) {
        while (*scope >= table->capacity && *scope != 0) {
            *scope = mend_scopes_entry(*scope)->around;
        }
    }
    for (uint32_t at = *scope; at != 0; at = table->of[at].around) {
        mend_scope_figures *figures = &table->of[at];
        figures->around = mend_scopes_entry(at)->around;
        figures->own_bytes += at == *scope ? size_bytes : 0;
        figures->own_blocks += at == *scope;
        figures->allocations++;
        figures->live_bytes += size_bytes;
        mend_raise_u64(&figures->peak_live_bytes, figures->live_bytes);
        mend_raise_u64(&figures->pool_peak_bytes, pool_bytes);
        mend_raise_u64(&figures->pool_reserved_bytes, reserved_bytes);
    }
}

void mend_scopes_count_free(mend_scope_table *table, uint32_t scope, uint64_t size_bytes)
{
    assert(scope < table->capacity);
    assert(table->of[scope].own_blocks > 0);
    table->of[scope].own_bytes -= size_bytes;
    table->of[scope].own_blocks--;
    for (uint32_t at = scope; at != 0; at = table->of[at].around) {
        assert(table->of[at].live_bytes >= size_bytes);
        table->of[at].live_bytes -= size_bytes;
    }
}

void mend_scopes_reset_peaks(mend_scope_table *table)
{
    for (uint32_t i = 1; i < table->capacity; i++) {
        mend_scope_figures *figures = &table->of[i];
        figures->peak_live_bytes = figures->live_bytes;
        figures->pool_peak_bytes = 0;
        figures->pool_reserved_bytes = 0;
    }
}

__attribute__((format(printf, 4, 5))) static size_t put(char *text, size_t text_bytes, size_t used,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text + used, text_bytes - used, format, arguments);
    va_end(arguments);
    return mend_min_u64(used + (size_t)length, text_bytes - 1);
}

/* The names from the outermost scope to this one. Of a deep path the innermost: a program that
 * forgets pops has 65,535 of them. */
static size_t put_path(char *text, size_t text_bytes, size_t used, uint32_t number)
{
    uint32_t path[SHOWN_NAMES];
    size_t count = 0;
    for (; number != 0 && count < SHOWN_NAMES; number = mend_scopes_entry(number)->around) {
        path[count++] = number;
    }
    used = put(text, text_bytes, used, "%s", number != 0 ? ".../" : "");
    while (count-- > 0) {
        const char *name = mend_scopes_entry(path[count])->name;
        used = put(text, text_bytes, used, "%s%s", name, count > 0 ? "/" : "");
    }
    return used;
}

size_t mend_scopes_describe(const mend_scope_table *table, char *text, size_t text_bytes)
{
    uint32_t largest[SHOWN] = {0};
    for (uint32_t number = 1; number < table->capacity; number++) {
        uint32_t at = number;
        for (int i = 0; i < SHOWN; i++) { /* the smallest drops out */
            if (table->of[at].own_bytes > table->of[largest[i]].own_bytes) {
                const uint32_t smaller = largest[i];
                largest[i] = at;
                at = smaller;
            }
        }
    }
    size_t used = 0;
    for (int i = 0; i < SHOWN && largest[i] != 0; i++) {
        const mend_scope_figures *figures = &table->of[largest[i]];
        used = put(text, text_bytes, used, "%s", i > 0 ? ", " : "");
        used = put_path(text, text_bytes, used, largest[i]);
        used = put(text, text_bytes, used, " %s in %llu block%s",
                   mend_words_amount(figures->own_bytes).text,
                   (unsigned long long)figures->own_blocks, figures->own_blocks == 1 ? "" : "s");
    }
    return used;
}
