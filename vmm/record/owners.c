/*
 * The sums lie in a table found by hashing. It counts so many owners. Blocks of further ones count
 * by powers of two of their size, as in `libmend report`.
 *
 * The ages of live blocks show a leak: the work is divided into stretches of equally many
 * allocations, and an owner with live blocks of most of them has grown steadily. Its live blocks of
 * all stretches up to one are its line there.
 */
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/words.h"
#include "layout/layout.h"
#include "mend/mend_frameworks.h"
#include "record/record.h"

enum { SLOTS = 4096, PATH_BYTES = 128, PATH_SHOWN = 80, STACK_BYTES = 80, MANY_TIMES = 8 };
enum { LEAST_PER_MILLE = 5 };
static_assert(SLOTS / 2 > MEND_OWNERS_MOST, "a free slot is near");

typedef struct key {
    uint16_t scope, stack;
    bool has_stream;
    bool is_class; /* of blocks up to `block_bytes`, of uncounted owners */
    uint64_t tag;
    mend_stream stream;
    uint64_t block_bytes;
} key;

typedef struct sum {
    key of;
    uint64_t bytes, blocks;
    float oldest;
    uint64_t growth_bytes;
    uint64_t kept_bytes[MEND_GROWTH_STRETCHES]; /* by the stretch in which the blocks were born */
} sum;

struct mend_owners_sum {
    uint64_t below;        /* the address of the chunk that was summed last. UINT64_MAX: none was */
    uint64_t passed_below; /* the same of blocks without a chunk */
    float now;
    unsigned by;          /* MEND_BY_... */
    mend_live_free *free; /* NULL: free memory is not summed */
    size_t count;
    uint16_t slots[SLOTS];      /* indices of sums, from 1. 0: free */
    sum sums[MEND_OWNERS_MOST]; /* most often a few are used */
};
typedef mend_owners_sum table;

/* ---- sums ------------------------------------------------------------------------------------ */

static bool has_key(const key *a, const key *b)
{
    return a->scope == b->scope && a->stack == b->stack && a->tag == b->tag &&
           a->block_bytes == b->block_bytes && a->stream == b->stream && a->is_class == b->is_class;
}

/* The sum of this key, or a free slot for it. */
static uint16_t *find(table *t, const key *k)
{
    const uint64_t parts = k->tag ^ k->block_bytes << 20 ^ (uint64_t)k->scope << 1 ^
                           (uint64_t)k->stack << 33 ^ k->is_class ^
                           (uint64_t)(uintptr_t)k->stream << 3;
    uint32_t slot = (uint32_t)(parts * UINT64_C(0x9e3779b97f4a7c15) >> 52) % SLOTS;
    while (t->slots[slot] != 0 && !has_key(&t->sums[t->slots[slot] - 1].of, k)) {
        slot = (slot + 1) % SLOTS;
    }
    return &t->slots[slot];
}

static bool is_of_size(const key *k)
{
    return k->scope == 0 && k->tag == 0 && k->stack == 0 && !k->has_stream;
}

static sum *sum_of(table *t, const mend_span *span)
{
    key k = {.scope = (t->by & MEND_BY_SCOPE) != 0 ? span->scope : 0,
             .tag = (t->by & MEND_BY_TAG) != 0 ? mend_span_shown_tag(span) : 0,
             .stack = (t->by & MEND_BY_STACK) != 0 ? span->stack : 0,
             .has_stream = (t->by & MEND_BY_STREAM) != 0};
    k.stream = k.has_stream ? span->stream : NULL;
    k.block_bytes = is_of_size(&k) ? span->size_bytes : 0;
    uint16_t *slot = find(t, &k);
    if (*slot == 0 && t->count >= MEND_OWNERS_OWN) {
        const unsigned bits = 64 - (unsigned)__builtin_clzll(span->size_bytes - 1);
        k = (key){.is_class = true, .block_bytes = UINT64_C(1) << bits};
        slot = find(t, &k);
    }
    if (*slot == 0) {
        t->sums[t->count] = (sum){.of = k, .oldest = span->born};
        *slot = (uint16_t)++t->count;
    }
    return &t->sums[*slot - 1];
}

static void count_block(table *t, const mend_span *span)
{
    sum *s = sum_of(t, span);
    s->bytes += span->size_bytes;
    s->blocks++;
    s->oldest = span->born < s->oldest ? span->born : s->oldest;
    const int stretch = (int)(span->born / t->now * MEND_GROWTH_STRETCHES);
    s->kept_bytes[stretch < MEND_GROWTH_STRETCHES ? stretch : MEND_GROWTH_STRETCHES - 1] +=
        span->size_bytes;
}

/* ---- the walk -------------------------------------------------------------------------------- */

mend_free_reason mend_observe_reason(const mend_heap *heap, const mend_span *span, uint32_t asking)
{
    assert(!span->live);
    const mend_streams *streams = &heap->streams;
    unsigned holds = mend_waits_blocked_by(streams, &span->waits, asking);
    if (holds & MEND_BLOCKED_BY_GRAPH_POOLS) {
        return MEND_FREE_GRAPH_POOLS;
    }
    if (holds & MEND_BLOCKED_UNTIL_WAIT) {
        return MEND_FREE_STREAMLESS;
    }
    if (holds & MEND_BLOCKED_BY_STREAMS) {
        return MEND_FREE_STREAMS;
    }
    bool is_idle = mend_waits_blocked_by(streams, &span->waits, MEND_STREAM_UNKNOWN) == 0;
    return is_idle ? MEND_FREE_IDLE : MEND_FREE_OWN;
}

/* `idle`: the sum for memory that nothing keeps from use. */
static void count_free(mend_live_free *sums, uint64_t *idle, mend_free_reason reason,
                       uint64_t bytes)
{
    uint64_t *const sum_of[MEND_FREE_REASONS] = {
        [MEND_FREE_IDLE] = idle,
        [MEND_FREE_OWN] = &sums->streams_bytes,
        [MEND_FREE_STREAMS] = &sums->streams_bytes,
        [MEND_FREE_STREAMLESS] = &sums->no_stream_bytes,
        [MEND_FREE_GRAPH_POOLS] = &sums->graphs_bytes,
    };
    *sum_of[reason] += bytes;
}

/* A block of several chunks counts in the first. Returns the lowest span of the chunk. `above` is
 * the lowest span of the chunk above it. Adds to *count how many there are. */
static const mend_span *add_chunk(table *t, const mend_heap *heap, const mend_chunk *chunk,
                                  const mend_span *above, size_t *count)
{
    const bool is_told = t->free != NULL && !mend_chunk_sleeps(chunk);
    const bool is_empty = is_told && mend_chunk_is_empty(chunk);
    const uint64_t end = chunk->address + chunk->size_bytes;
    mend_free_reason worst = MEND_FREE_IDLE;
    const mend_span *lowest = NULL;
    const mend_span *span = mend_layout_last_span(heap, chunk, above);
    for (; span != NULL; span = span->address > chunk->address ? span->previous : NULL) {
        lowest = span;
        ++*count;
        if (span->live && span->address >= chunk->address) {
            count_block(t, span);
        }
        if (span->live || !is_told) {
            continue;
        }
        const uint64_t bytes =
            mend_min_u64(mend_span_end(span), end) - mend_max_u64(span->address, chunk->address);
        const mend_free_reason reason = mend_observe_reason(heap, span, MEND_STREAM_UNKNOWN);
        worst = reason > worst ? reason : worst;
        if (!is_empty) {
            count_free(t->free, &t->free->beside_bytes, reason, bytes);
        }
    }
    if (is_empty) {
        count_free(t->free, &t->free->whole_bytes, worst, chunk->size_bytes);
    } else if (t->free != NULL && !is_told && mend_chunk_is_reserved(chunk)) {
        t->free->beside_bytes += chunk->size_bytes; /* the driver refused to take it back */
    }
    return lowest;
}

/* From the highest address down: a step can find its way by that alone. */
bool mend_owners_add(mend_owners_sum *of, const mend_heap *heap, size_t spans)
{
    assert(mend_mutex_is_held(&heap->state));
    const mend_span *above = NULL;
    size_t count = 0;
    if (of->below == UINT64_MAX) {
        of->now = (float)(int64_t)heap->counters.births;
        if (of->free != NULL) {
            *of->free = (mend_live_free){.whole_bytes = heap->chunks.unmapped_bytes};
        }
    }
    const mend_chunk *chunk = mend_chunk_below(&heap->chunks, of->below);
    for (; chunk != NULL && count < spans; chunk = mend_chunk_previous(chunk)) {
        above = add_chunk(of, heap, chunk, above, &count);
        of->below = chunk->address;
    }
    for (size_t i = 0; chunk == NULL && i < spans; i++) { /* blocks without a chunk */
        const mend_span before = {.address = of->passed_below};
        const mend_tree_node *end =
            mend_tree_at_or_before(&heap->zones[MEND_ZONE_PASSED].segment_ends, &before.by_end);
        if (end == NULL) {
            return false;
        }
        const mend_span *span = MEND_CONTAINER_OF(end, mend_span, by_end);
        count_block(of, span);
        of->passed_below = span->address;
    }
    return true;
}

/* ---- suspects -------------------------------------------------------------------------------- */

uint64_t mend_growth_judge(const uint64_t least_bytes[MEND_GROWTH_STRETCHES], uint64_t peak_bytes)
{
    const uint64_t *least = least_bytes + MEND_GROWTH_WARM_UP;
    uint64_t most_bytes = 0;
    uint64_t fall_bytes = 0;
    unsigned up = 0;
    for (size_t i = 0; i < MEND_GROWTH_JUDGED; i++) {
        up += i > 0 && least[i] > least[i - 1];
        most_bytes = mend_max_u64(most_bytes, least[i]);
        fall_bytes = mend_max_u64(fall_bytes, most_bytes - least[i]);
    }
    uint64_t needed_bytes = mend_max_u64(MEND_MIB, peak_bytes / 1000 * LEAST_PER_MILLE);
    bool has_grown = least[MEND_GROWTH_JUDGED - 1] > least[0];
    uint64_t growth_bytes = has_grown ? least[MEND_GROWTH_JUDGED - 1] - least[0] : 0;
    const uint64_t *half = &least[MEND_GROWTH_JUDGED / 2];
    const uint64_t quarter_bytes = growth_bytes / 4;
    bool keeps_growing = up * 2 >= MEND_GROWTH_JUDGED - 1 && fall_bytes <= quarter_bytes &&
                         half[-1] >= least[0] + quarter_bytes &&
                         least[MEND_GROWTH_JUDGED - 1] >= half[0] + quarter_bytes;
    return growth_bytes >= needed_bytes && keeps_growing ? growth_bytes : 0;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* The program's name for it, or its number: "kv cache", "tag 7", "stream 7f3a10". */
static void put_named(char *text, size_t text_bytes, mend_name_kind kind, uint64_t number,
                      const char *otherwise)
{
    const char *name = mend_names_find(kind, number);
    mend_words_join(text, text_bytes, name != NULL ? name : otherwise);
}

/* Of a long name the stack has its full length, and others the rest. */
static void name(const key *of, char text[MEND_OWNER_NAME_BYTES])
{
    char number[32];
    char path[PATH_BYTES] = "";
    char stack[STACK_BYTES] = "";
    if (is_of_size(of)) {
        snprintf(text, MEND_OWNER_NAME_BYTES, "%s %s",
                 of->is_class ? "other blocks up to" : "blocks of",
                 mend_words_amount(of->block_bytes).text);
        return;
    }
    if (of->stack != 0) {
        snprintf(number, sizeof(number), "stack %u", (unsigned)of->stack);
        put_named(stack, sizeof(stack), MEND_NAME_STACK, of->stack, number);
    }
    if (of->scope != 0) {
        mend_scopes_write_path(of->scope, path, sizeof(path));
    }
    const size_t left_bytes =
        MEND_OWNER_NAME_BYTES - (of->stack != 0 ? strlen(", ") + strlen(stack) : 0);
    mend_words_join(text, mend_min_u64(left_bytes, PATH_SHOWN), path);
    if (of->tag != 0) {
        snprintf(number, sizeof(number), "tag %lu", of->tag);
        put_named(text, left_bytes, MEND_NAME_TAG, of->tag, number);
    }
    mend_words_join(text, MEND_OWNER_NAME_BYTES, stack);
    if (of->has_stream) {
        const uint64_t handle = (uint64_t)(uintptr_t)of->stream;
        snprintf(number, sizeof(number), "stream %lx", handle);
        put_named(text, MEND_OWNER_NAME_BYTES, MEND_NAME_STREAM, handle,
                  of->stream == MEND_NO_STREAM ? "no stream"
                  : handle == 0                ? "default stream"
                                               : number);
    }
}

static mend_owner owner_of(const table *t, const sum *s)
{
    mend_owner owner = {.scope = s->of.scope,
                        .tag = s->of.tag,
                        .stream = s->of.stream,
                        .stack = s->of.stack,
                        .block_bytes = s->of.block_bytes,
                        .live_bytes = s->bytes,
                        .live_blocks = s->blocks,
                        .oldest = s->oldest < t->now ? (uint64_t)(t->now - s->oldest) : 0,
                        .growth_bytes = s->growth_bytes};
    name(&s->of, owner.name);
    return owner;
}

static int by_bytes(const void *a, const void *b)
{
    const sum *one = a;
    const sum *other = b;
    return one->bytes != other->bytes
               ? (one->bytes < other->bytes ? 1 : -1)
               : (one->oldest > other->oldest) - (one->oldest < other->oldest);
}

mend_owners_sum *mend_owners_begin(unsigned by, mend_live_free *unused)
{
    table *t = malloc(sizeof(*t));
    if (t != NULL) {
        memset(t, 0, offsetof(table, sums));
        t->by = by;
        t->free = unused;
        t->below = t->passed_below = UINT64_MAX;
    }
    return t;
}

void mend_owners_end(mend_owners_sum *t, const mend_heap *heap, mend_owner *largest,
                     size_t capacity, mend_owner *suspect, size_t *total)
{
    assert(mend_mutex_is_held(&heap->state));
    const sum *most = NULL;
    const uint64_t births = heap->counters.births;
    const uint64_t frees = mend_heap_frees(heap);
    const uint64_t freed_bytes =
        MEND_HEAP_SUM(heap, allocated_bytes) - MEND_HEAP_SUM(heap, live_bytes);
    const uint64_t peak_bytes = mend_usage_counter_peak(heap, MEND_USE_BYTES, MEND_USAGE_ALL);
    /* At first a program builds up its permanent memory, so half of its blocks must have been
     * freed. */
    const bool is_judged = births + frees >= MEND_GROWTH_LEAST_EVENTS && frees >= births / 2;
    for (size_t i = 0; is_judged && i < t->count; i++) {
        sum *const s = &t->sums[i];
        uint64_t *line = s->kept_bytes;
        for (int k = 1; k < MEND_GROWTH_STRETCHES; k++) {
            line[k] = line[k - 1] + (k < MEND_GROWTH_STRETCHES - 1 ? line[k] : 0); /* else in use */
        }
        const uint64_t growth_bytes = mend_growth_judge(line, peak_bytes);
        /* One pass through a model frees less than three quarters of its blocks, few bytes beside
         * its permanent memory, and leaves fewer blocks of an owner than there are layers. */
        const bool works_again = frees >= births / 4 * 3 || s->blocks >= MEND_GROWTH_MANY_BLOCKS ||
                                 freed_bytes / MANY_TIMES >= growth_bytes;
        s->growth_bytes = works_again ? growth_bytes : 0;
    }
    qsort(t->sums, t->count, sizeof(*t->sums), by_bytes);
    for (size_t i = 0; i < t->count; i++) {
        const uint64_t growth_bytes = t->sums[i].growth_bytes;
        most = growth_bytes > (most != NULL ? most->growth_bytes : 0) ? &t->sums[i] : most;
        if (i < capacity) {
            largest[i] = owner_of(t, &t->sums[i]);
        }
    }
    *suspect = most != NULL ? owner_of(t, most) : (mend_owner){0};
    *total = t->count;
    free(t);
}

bool mend_owners_find(const mend_heap *heap, unsigned by, mend_owner *largest, size_t capacity,
                      mend_owner *suspect, size_t *total)
{
    mend_owners_sum *of = mend_owners_begin(by, NULL);
    if (of == NULL) {
        return false;
    }
    while (mend_owners_add(of, heap, SIZE_MAX)) {
    }
    mend_owners_end(of, heap, largest, capacity, suspect, total);
    return true;
}

/* Sums under the lock, then copies as much of each as the caller knows. */
mend_result mend_get_owners(mend_pool *pool, unsigned by, mend_owner *owners, size_t owner_bytes,
                            size_t capacity, size_t *count)
{
    MEND_TRY(mend_pool_check_array(pool, owners, owner_bytes, capacity, count, "mend_get_owners"));
    MEND_INVALID_IF((by & ~(unsigned)MEND_BY_ANY) != 0,
                    "mend_get_owners: by is not a sum of MEND_BY_...");
    size_t room = mend_min_u64(capacity, MEND_OWNERS_MOST);
    mend_owner *found = calloc(room + 1, sizeof(*found)); /* the last is the suspect */
    size_t total = 0;
    bool is_found = false;
    if (found != NULL) {
        mend_heap_lock(&pool->heap);
        is_found = mend_owners_find(&pool->heap, by != 0 ? by : MEND_BY_DEFAULT, found, room,
                                    &found[room], &total);
        mend_heap_unlock(&pool->heap);
    }
    if (!is_found) {
        free(found);
        return mend_publish(mend_no_host_memory("the sums of owners"));
    }
    for (size_t i = 0; i < room && i < total; i++) {
        mend_element_write(owners, owner_bytes, i, &found[i], sizeof(*found));
    }
    *count = total;
    free(found);
    return MEND_OK;
}
