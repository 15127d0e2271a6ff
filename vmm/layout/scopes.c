/* What a heap counts for each scope. */
#include "layout/scopes.h"

#include <assert.h>
#include <stdlib.h>

#include "base/align.h"
#include "base/scopes.h"

enum { FIRST_CAPACITY = 64 };

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

void mend_scopes_count_alloc(mend_scope_table *table, uint16_t *scope, uint64_t size_bytes,
                             uint64_t pool_bytes, uint64_t reserved_bytes)
{
    assert(*scope != 0);
    if (*scope >= table->capacity && !make_place(table, *scope)) {
        while (*scope >= table->capacity && *scope != 0) {
            *scope = (uint16_t)mend_scopes_entry(*scope)->around;
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
