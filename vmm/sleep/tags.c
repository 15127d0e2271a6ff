/* How much has which sleep tag. */
#include <stdlib.h>

#include "base/error.h"
#include "layout/layout.h"
#include "sleep/sleep.h"

typedef struct listing {
    const mend_heap *heap;
    mend_sleep_tag_info *infos; /* by tag */
    size_t count;
    size_t capacity;
} listing;

/* Where the tag is, or belongs. */
static size_t place_of(const listing *l, uint64_t tag)
{
    size_t first = 0;
    for (size_t end = l->count; first < end;) {
        const size_t middle = first + (end - first) / 2;
        const bool is_before = l->infos[middle].tag < tag;
        first = is_before ? middle + 1 : first;
        end = is_before ? end : middle;
    }
    return first;
}

static bool has_room(listing *l)
{
    if (l->count < l->capacity) {
        return true;
    }
    const size_t capacity = l->capacity > 0 ? 2 * l->capacity : 16;
    mend_sleep_tag_info *infos = realloc(l->infos, capacity * sizeof(infos[0]));
    if (infos == NULL) {
        return false;
    }
    l->infos = infos;
    l->capacity = capacity;
    return true;
}

/* Adds a block, or memory of graphs. True: malloc failed. */
static bool add(void *context, const mend_span *span)
{
    listing *l = context;
    const size_t at = place_of(l, span->sleep_tag);
    if (at == l->count || l->infos[at].tag != span->sleep_tag) {
        if (!has_room(l)) {
            return true;
        }
        for (size_t i = l->count; i > at; i--) {
            l->infos[i] = l->infos[i - 1];
        }
        l->infos[at] = (mend_sleep_tag_info){.tag = span->sleep_tag};
        l->count++;
    }
    mend_sleep_tag_info *info = &l->infos[at];
    const bool sleeps = span->live && mend_layout_sleeps(l->heap, span);
    info->live_blocks += span->live;
    info->live_bytes += span->live ? span->size_bytes : 0;
    info->asleep_live_bytes += sleeps ? span->size_bytes : 0;
    info->graph_bytes += span->live ? 0 : span->size_bytes;
    return false;
}

mend_result mend_sleep_list_tags(const mend_heap *heap, mend_sleep_tag_info **infos, size_t *count)
{
    listing l = {.heap = heap};
    if (mend_look_at_blocks(heap, add, &l)) {
        free(l.infos);
        return mend_no_host_memory("a list of tags");
    }
    *infos = l.infos;
    *count = l.count;
    return MEND_OK;
}
