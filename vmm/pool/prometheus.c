/*
 * The statistics of a pool in Prometheus's text format: for each metric a line of help, one of its
 * type, and one for each value.
 */
#include "pool/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"

enum {
    MOST_SCOPES = 256,
    MOST_HOLDERS = 64,
    PATH_BYTES = MEND_SCOPE_PATH_NAMES * MEND_SCOPE_NAME_BYTES
};

/* X(field): figures that count what has happened, and never fall, beside the counters of the heap
 * that are no peaks. All others are gauges. */
#define COUNTERS(X)                                                                                \
    X(allocations)                                                                                 \
    X(frees)                                                                                       \
    X(chunks_created)                                                                              \
    X(chunks_released)                                                                             \
    X(stream_waits)                                                                                \
    X(host_waits)                                                                                  \
    X(context_fences)                                                                              \
    X(pressure_calls)                                                                              \
    X(peer_pool_trims)                                                                             \
    X(created_bytes)                                                                               \
    X(allocated_bytes)                                                                             \
    X(allocated_requested_bytes)                                                                   \
    X(small_allocations)                                                                           \
    X(small_allocated_bytes)                                                                       \
    X(small_allocated_requested_bytes)                                                             \
    X(history_events)                                                                              \
    X(history_lost)                                                                                \
    X(pages_committed)                                                                             \
    X(pages_decommitted)                                                                           \
    X(record_lost)

typedef struct shown_scope {
    uint32_t number;
    mend_scope_figures figures;
} shown_scope;

/* The text; at first it is only measured. */
typedef struct exposition {
    char *text; /* NULL: it is measured */
    size_t text_bytes, length;
    char labels[64];      /* of the pool */
    mend_holder *holders; /* tags, then streams; the rest is room for those that are found */
    const char
        *names[2 * MOST_HOLDERS]; /* of both, looked up once: another may be given meanwhile */
    size_t counts[2];             /* of tags, of streams */
    shown_scope scopes[MOST_SCOPES];
    size_t scope_count;
} exposition;

__attribute__((format(printf, 2, 3))) static void print(exposition *e, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    e->length +=
        (size_t)vsnprintf(e->text != NULL ? e->text + e->length : NULL,
                          e->text != NULL ? e->text_bytes - e->length : 0, format, arguments);
    va_end(arguments);
    assert(e->text == NULL || e->length < e->text_bytes);
}

static bool is_counter(const char *name, size_t offset)
{
    bool is_counted = false;
#define X(field) is_counted = is_counted || offset == offsetof(mend_stats, field);
    MEND_HEAP_COUNTERS(X)
    COUNTERS(X)
#undef X
    return is_counted && strncmp(name, "peak_", strlen("peak_")) != 0;
}

static void put_head(exposition *e, const char *name, const char *meaning, bool is_counted)
{
    const char *total = is_counted ? "_total" : "";
    print(e, "# HELP mend_%s%s %s\n# TYPE mend_%s%s %s\n", name, total, meaning, name, total,
          is_counted ? "counter" : "gauge");
}

static void put_figure(exposition *e, const char *name, const char *meaning, size_t offset,
                       const mend_stats *stats)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + offset, sizeof(value));
    const bool is_counted = is_counter(name, offset);
    put_head(e, name, meaning, is_counted);
    print(e, "mend_%s%s{%s} %llu\n", name, is_counted ? "_total" : "", e->labels,
          (unsigned long long)value);
}

/* A label's value: quotes, backslashes and ends of lines are escaped; what is no UTF-8 is written
 * in hexadecimal. */
static void put_escaped(exposition *e, const char *text)
{
    for (size_t bytes; *text != '\0'; text += bytes > 0 ? bytes : 1) {
        bytes = mend_words_character(text);
        if (bytes == 0) {
            print(e, "\\\\x%02x", (unsigned char)*text);
        } else if (*text == '\n') {
            print(e, "\\n");
        } else {
            print(e, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)bytes, text);
        }
    }
}

/* Deeper scopes count for those around; their paths would be cut, and two be the same. */
static bool is_shown(const mend_heap *heap, uint32_t number)
{
    if (heap->scopes.of[number].allocations == 0) {
        return false; /* of other pools, or not given yet */
    }
    uint32_t depth = 0;
    for (uint32_t at = number; at != 0; at = mend_scopes_around(at)) {
        depth++;
    }
    return depth <= MEND_SCOPE_PATH_NAMES;
}

static void take_scopes(exposition *e, const mend_heap *heap)
{
    for (uint32_t n = 1; n < heap->scopes.capacity && e->scope_count < MOST_SCOPES; n++) {
        if (is_shown(heap, n)) {
            e->scopes[e->scope_count++] = (shown_scope){n, heap->scopes.of[n]};
        }
    }
}

static void put_scopes(exposition *e)
{
    static const struct {
        const char *name;
        const char *meaning;
        size_t offset;
        bool is_counted;
    } metrics[] = {
        {"scope_live_bytes", "live bytes of blocks allocated in the scope and those inside it",
         offsetof(mend_scope_figures, live_bytes), false},
        {"scope_peak_live_bytes", "largest of these", offsetof(mend_scope_figures, peak_live_bytes),
         false},
        {"scope_allocations", "blocks and pages allocated in the scope and those inside it",
         offsetof(mend_scope_figures, allocations), true},
    };
    for (size_t i = 0; e->scope_count > 0 && i < sizeof(metrics) / sizeof(*metrics); i++) {
        put_head(e, metrics[i].name, metrics[i].meaning, metrics[i].is_counted);
        for (const shown_scope *s = e->scopes; s < e->scopes + e->scope_count; s++) {
            char path[PATH_BYTES];
            uint64_t value;
            memcpy(&value, (const char *)&s->figures + metrics[i].offset, sizeof(value));
            mend_scopes_write_path(s->number, path, sizeof(path));
            print(e, "mend_%s%s{%s,scope=\"", metrics[i].name,
                  metrics[i].is_counted ? "_total" : "", e->labels);
            put_escaped(e, path);
            print(e, "\"} %llu\n", (unsigned long long)value);
        }
    }
}

/* ---- tags and streams ------------------------------------------------------------------------ */

/* Whether holders of a kind are found: those that have most, behind the ones before. Blocks without
 * a tag have none. False: no host memory. */
static bool find_holders(exposition *e, mend_heap *heap, mend_holder *to, unsigned by, size_t *kept)
{
    mend_holder *found = e->holders + (size_t)2 * MOST_HOLDERS;
    mend_holders_sum *sum = mend_holders_begin(by);
    mend_holder suspect;
    size_t count = 0;
    bool goes_on = sum != NULL;
    *kept = 0;
    if (sum == NULL) {
        return false;
    }
    while (goes_on) {
        mend_heap_lock(heap);
        goes_on = mend_holders_add(sum, heap, MEND_SPANS_OF_A_STEP);
        if (!goes_on) {
            mend_holders_end(sum, heap, found, MEND_HOLDERS_MOST, &suspect, &count);
        }
        mend_heap_unlock(heap);
    }
    for (size_t i = 0; i < count && *kept < MOST_HOLDERS; i++) {
        const bool is_stream = by == MEND_BY_STREAM;
        if (is_stream || found[i].tag != 0) {
            const uint64_t key = is_stream ? (uint64_t)(uintptr_t)found[i].stream : found[i].tag;
            e->names[to - e->holders + (ptrdiff_t)*kept] =
                mend_names_find(is_stream ? MEND_NAME_STREAM : MEND_NAME_TAG, key);
            to[(*kept)++] = found[i];
        }
    }
    return true;
}

static void put_holders(exposition *e, bool are_tags, const mend_holder *first, size_t count)
{
    const char *kind = are_tags ? "tag" : "stream";
    if (count > 0) {
        put_head(e, are_tags ? "tag_live_bytes" : "stream_live_bytes",
                 are_tags ? "live bytes of blocks and pages with the tag"
                          : "live bytes of blocks and pages of the stream",
                 false);
    }
    for (const mend_holder *h = first; h < first + count; h++) {
        char number[32] = "none";
        const uint64_t key = are_tags ? h->tag : (uint64_t)(uintptr_t)h->stream;
        if (are_tags || h->stream != MEND_NO_STREAM) {
            snprintf(number, sizeof(number), are_tags ? "%llu" : "%llx", (unsigned long long)key);
        }
        const char *name = e->names[h - e->holders];
        print(e, "mend_%s_live_bytes{%s,%s=\"%s\",name=\"", kind, e->labels, kind, number);
        put_escaped(e, name != NULL ? name : "");
        print(e, "\"} %llu\n", (unsigned long long)h->live_bytes);
    }
}

static void put_all(exposition *e, const mend_stats *stats)
{
#define X(field, unit, meaning) put_figure(e, #field, meaning, offsetof(mend_stats, field), stats);
    MEND_STATS(X)
#undef X
    put_scopes(e);
    put_holders(e, true, e->holders, e->counts[0]);
    put_holders(e, false, e->holders + e->counts[0], e->counts[1]);
}

mend_result mend_stats_prometheus(mend_pool *pool, char *text, size_t text_bytes, size_t *length)
{
    MEND_INVALID_IF(pool == NULL || length == NULL || (text == NULL && text_bytes > 0),
                    "mend_stats_prometheus: pool, text or length is NULL");
    mend_stats stats = MEND_STATS_INIT;
    MEND_TRY(mend_pool_check_process(pool));
    exposition e = {.text = NULL};
    snprintf(e.labels, sizeof(e.labels), "device=\"%d\",pool=\"%llu\"", pool->device,
             (unsigned long long)pool->member.number);
    e.holders = calloc((size_t)2 * MOST_HOLDERS + MEND_HOLDERS_MOST, sizeof(*e.holders));
    const bool are_found =
        e.holders != NULL && find_holders(&e, &pool->heap, e.holders, MEND_BY_TAG, &e.counts[0]) &&
        find_holders(&e, &pool->heap, e.holders + e.counts[0], MEND_BY_STREAM, &e.counts[1]);
    if (are_found) {
        mend_heap_lock(&pool->heap);
        mend_pool_statistics(pool, &stats);
        take_scopes(&e, &pool->heap);
        mend_heap_unlock(&pool->heap);
        put_all(&e, &stats);
        *length = e.length;
    }
    if (are_found && e.length < text_bytes) {
        e.text = text;
        e.text_bytes = text_bytes;
        e.length = 0;
        put_all(&e, &stats);
        assert(e.length == *length);
    }
    free(e.holders);
    return are_found ? MEND_OK
                     : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for the figures of "
                                                                "tags and streams");
}
