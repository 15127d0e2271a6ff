/*
 * Checks for use after free and overrun: see mend_pool_config.observe. Behind each block lies a
 * guard of known bytes, which its free reads again. A freed block is filled with poison, which is
 * read again where the memory is given out.
 *
 * All of it is host-ordered. A call waits for the stream that it names, then works on the checks'
 * own stream and waits for that. So memory is filled before a caller gets it, and read after all
 * work that precedes the call. Memory with other legal users is left out: memory of graphs, with
 * declared users, exported or asleep.
 *
 * Poison is known by address. A mapping or an unmapping at an address drops the record: an event
 * tells. A driver call that fails ends a check, and no call of the program. After a failed wait a
 * fill or a copy may run: its memory is in use until a wait for the context
 * (mend_retire_end_copies).
 *
 * Guarded by both locks of the heap. Poisoned memory by `state` alone.
 */
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/fast.h"
#include "base/error.h"
#include "base/words.h"
#include "check/check.h"
#include "mend/mend_frameworks.h"
#include "sleep/sleep.h"

enum { GUARD_BYTE = 0xa7, POISON_BYTE = 0xd5, BUFFER_BYTES = 64 * 1024, PATH_BYTES = 128 };

/* Of more than WHOLE_BYTES of poison, a MiB with its guard, the ends are read, and samples between
 * them. */
enum {
    WHOLE_BYTES = (1 << 20) + MEND_GRANULE_BYTES,
    END_BYTES = 256 * 1024,
    SAMPLE_BYTES = 4096,
    SAMPLES = 64
};

/* A block as it is told. */
typedef struct subject {
    uint64_t address, requested_bytes, tag;
    uint32_t scope;
} subject;

/* Poisoned memory. A part of the block that was freed there. */
typedef struct poison {
    mend_tree_node by_address;
    struct poison *next; /* of those taken */
    uint64_t address, size_bytes;
    subject was;
} poison;

struct mend_checks {
    mend_listener listener; /* guarded by `state` */
    bool has_stream;
    mend_stream stream;    /* its own */
    mend_tree poisoned;    /* by address. They do not overlap */
    poison *taken;         /* contents where the last block was allocated */
    unsigned char *buffer; /* pinned, of BUFFER_BYTES. NULL: none yet */
};

#define POISON_OF(node) MEND_CONTAINER_OR_NULL(node, poison, by_address)

MEND_TREE_ORDER(by_address, poison, by_address, address);

static uint64_t end_of(const poison *p)
{
    return p->address + p->size_bytes;
}

/* ---- what is poisoned ------------------------------------------------------------------------ */

static void insert(struct mend_checks *c, uint64_t from, uint64_t end, const subject *was)
{
    poison *p = from < end ? malloc(sizeof(*p)) : NULL;
    if (p != NULL) { /* else it is not checked */
        *p = (poison){.address = from, .size_bytes = end - from, .was = *was};
        mend_tree_insert(&c->poisoned, &p->by_address);
    }
}

/* The first record that reaches behind the address. */
static poison *first_behind(const struct mend_checks *c, uint64_t address)
{
    const poison key = {.address = address};
    poison *before = POISON_OF(mend_tree_at_or_before(&c->poisoned, &key.by_address));
    return before != NULL && end_of(before) > address
               ? before
               : POISON_OF(mend_tree_at_or_after(&c->poisoned, &key.by_address));
}

/* Takes the records of these addresses out, cut to them. */
static poison *take(struct mend_checks *c, uint64_t from, uint64_t end)
{
    poison *taken = NULL;
    poison *p = first_behind(c, from);
    while (p != NULL && p->address < end) {
        mend_tree_remove(&c->poisoned, &p->by_address);
        insert(c, p->address, from, &p->was);
        insert(c, end, end_of(p), &p->was);
        const uint64_t last = mend_min_u64(end, end_of(p));
        p->address = mend_max_u64(from, p->address);
        p->size_bytes = last - p->address;
        p->next = taken;
        taken = p;
        p = first_behind(c, last);
    }
    return taken;
}

static void drop(poison *list)
{
    while (list != NULL) {
        poison *next = list->next;
        free(list);
        list = next;
    }
}

static void hear(mend_listener *listener, mend_history_event *event)
{
    struct mend_checks *c = MEND_CONTAINER_OF(listener, struct mend_checks, listener);
    const uint64_t from = (uint64_t)(uintptr_t)event->address;
    switch (event->kind) {
    case MEND_EVENT_ALLOC:
        drop(c->taken);
        c->taken = take(c, from, from + event->size_bytes);
        break;
    case MEND_EVENT_MAP:
    case MEND_EVENT_UNMAP:
    case MEND_EVENT_EXCHANGE:
    case MEND_EVENT_SLEEP:
    case MEND_EVENT_WAKE:
        drop(take(c, from, from + event->size_bytes));
        break;
    default:
        break;
    }
}

/* ---- reading and filling --------------------------------------------------------------------- */

/* Waits for the work of the stream. False: it is not known or captured, or the driver refuses. */
static bool await_stream(mend_heap *heap, mend_stream stream)
{
    mend_stream_info info = {0};
    const mend_driver *driver = heap->driver;
    return stream != MEND_NO_STREAM &&
           driver->stream_get_info(driver, stream, &info) == MEND_DRIVER_OK &&
           info.capture == MEND_CAPTURE_NONE &&
           driver->stream_synchronize(driver, stream) == MEND_DRIVER_OK;
}

/* The stream and the buffer. */
static bool has_means(mend_pool *pool)
{
    const mend_driver *driver = pool->heap.driver;
    struct mend_checks *c = pool->checks;
    void *buffer = c->buffer;
    c->has_stream = c->has_stream || driver->stream_create(driver, &c->stream) == MEND_DRIVER_OK;
    if (buffer == NULL && driver->host_alloc(driver, BUFFER_BYTES, &buffer) == MEND_DRIVER_OK) {
        c->buffer = buffer;
    }
    return c->has_stream && c->buffer != NULL;
}

static bool fill(mend_pool *pool, uint64_t address, uint64_t size_bytes, uint8_t value)
{
    const mend_driver *driver = pool->heap.driver;
    const mend_stream own = pool->checks->stream;
    return driver->fill(driver, address, value, size_bytes, own) == MEND_DRIVER_OK &&
           mend_retire_end_copies(&pool->heap, own);
}

/* The first byte in the memory that is not `value`, counted from its start. UINT64_MAX: none was
 * found. */
static uint64_t find_other(mend_pool *pool, uint64_t address, uint64_t size_bytes, uint8_t value)
{
    const mend_driver *driver = pool->heap.driver;
    struct mend_checks *c = pool->checks;
    for (uint64_t at = 0; at < size_bytes; at += BUFFER_BYTES) {
        const uint64_t bytes = mend_min_u64(BUFFER_BYTES, size_bytes - at);
        memset(c->buffer, value, (size_t)bytes);
        if (driver->copy(driver, (uint64_t)(uintptr_t)c->buffer, address + at, bytes, c->stream) !=
                MEND_DRIVER_OK ||
            !mend_retire_end_copies(&pool->heap, c->stream)) {
            return UINT64_MAX;
        }
        for (uint64_t i = 0; i < bytes; i++) {
            if (c->buffer[i] != value) {
                return at + i;
            }
        }
    }
    return UINT64_MAX;
}

static uint64_t find_in_poison(mend_pool *pool, const poison *p)
{
    if (p->size_bytes <= WHOLE_BYTES) {
        return find_other(pool, p->address, p->size_bytes, POISON_BYTE);
    }
    for (uint64_t i = 0; i <= SAMPLES + 1; i++) {
        const bool is_end = i == 0 || i > SAMPLES;
        const uint64_t at = i > SAMPLES
                                ? p->size_bytes - END_BYTES
                                : mend_align_down(p->size_bytes / (SAMPLES + 1) * i, SAMPLE_BYTES);
        const uint64_t bytes = is_end ? END_BYTES : SAMPLE_BYTES;
        const uint64_t found = find_other(pool, p->address + at, bytes, POISON_BYTE);
        if (found != UINT64_MAX) {
            return at + found;
        }
    }
    return UINT64_MAX;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static subject subject_of(const mend_span *span)
{
    return (subject){span->address, span->requested_bytes, mend_span_shown_tag(span), span->scope};
}

static mend_result tell(const subject *s, uint64_t offset, const char *what)
{
    char scope[PATH_BYTES] = "no scope";
    char tag[32];
    const char *name = s->tag != 0 ? mend_names_find(MEND_NAME_TAG, s->tag) : NULL;
    snprintf(tag, sizeof(tag), "tag %lu", s->tag);
    if (s->scope != 0) {
        mend_scopes_write_path(s->scope, scope, sizeof(scope));
    }
    return mend_failure(MEND_ERROR_CORRUPTION,
                        "the block at 0x%lx (%lu bytes, %s, %s) %s: the first byte that "
                        "differs is %lu",
                        s->address, s->requested_bytes, name != NULL ? name : tag, scope, what,
                        offset);
}

static bool is_here(const mend_heap *heap, const mend_span *span)
{
    return span != NULL && span->chunk != NULL && !mend_layout_sleeps(heap, span) &&
           !mend_layout_misses_mapping(heap, span);
}

/* Of a block with a guard: MEND_ERROR_CORRUPTION once, then it is filled again, or has none where
 * the driver refuses that. */
static mend_result check_guard(mend_pool *pool, const mend_span *span)
{
    const uint64_t from = span->address + span->requested_bytes;
    const uint64_t bytes = span->size_bytes - span->requested_bytes;
    const subject s = subject_of(span);
    const uint64_t found = find_other(pool, from, bytes, GUARD_BYTE);
    if (found == UINT64_MAX) {
        return MEND_OK;
    }
    const bool is_filled = fill(pool, from, bytes, GUARD_BYTE);
    mend_span *again = mend_heap_find(&pool->heap, s.address); /* the lock was released */
    if (again != NULL) {
        again->is_guarded = is_filled;
    }
    return tell(&s, s.requested_bytes + found, "was written past its end");
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Under both locks: reads the poison of a new block, and makes its guard. */
static mend_result check_new(mend_pool *pool, uint64_t address, mend_stream stream, poison *taken)
{
    mend_heap *heap = &pool->heap;
    mend_driver_scope scope;
    mend_result result = MEND_OK;
    if (mend_driver_scope_open(heap, &scope) != MEND_OK) {
        return MEND_OK;
    }
    const bool is_read =
        (stream == MEND_NO_STREAM || await_stream(heap, stream)) && has_means(pool);
    mend_span *span = mend_heap_find(heap, address);
    if (is_read && is_here(heap, span)) {
        for (poison *p = taken; p != NULL && result == MEND_OK; p = p->next) {
            const uint64_t found = find_in_poison(pool, p);
            if (found != UINT64_MAX) {
                p->size_bytes = 0; /* reported memory is no poison any more */
                result = tell(&p->was, p->address + found - p->was.address,
                              "was written after its free");
            }
        }
        if (result == MEND_OK && (pool->observed.checks & MEND_CHECK_GUARD) != 0) {
            const uint64_t bytes = span->size_bytes - span->requested_bytes;
            span->is_guarded = fill(pool, address + span->requested_bytes, bytes, GUARD_BYTE);
        }
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* Fills a block with poison if it has no other user. The resources of its free are reserved
 * before. */
static void poison_old(mend_pool *pool, mend_span *span)
{
    mend_heap *heap = &pool->heap;
    const uint64_t address = span->address;
    if (!is_here(heap, span) || span->waits.others != NULL || span->is_exported) {
        return;
    }
    const mend_layout_promise nodes =
        mend_layout_nodes_to_free(heap, span, mend_layout_count_chunks(heap, span));
    if (!mend_layout_promise_these(heap, &nodes)) {
        return;
    }
    const bool is_filled = fill(pool, address, span->size_bytes, POISON_BYTE);
    mend_layout_end_promise(heap, &nodes);
    span = mend_heap_find(heap, address); /* the lock was released */
    if (is_filled && span != NULL) {
        const subject was = subject_of(span);
        insert(pool->checks, address, address + span->size_bytes, &was);
    }
}

/* Under both locks, inside the scope, which it closes: reads the guard, finds the users of the
 * block, and fills it with poison when nothing of its free can fail any more. */
static mend_result check_old(mend_pool *pool, uint64_t address, mend_order order,
                             mend_driver_scope *scope, mend_block_users *users)
{
    mend_heap *heap = &pool->heap;
    const bool has_waited = await_stream(heap, order.stream);
    const bool is_read = (has_waited || order.stream == MEND_NO_STREAM) && has_means(pool);
    mend_span *span = mend_heap_find(heap, address);
    mend_result result =
        is_read && is_here(heap, span) && span->is_guarded ? check_guard(pool, span) : MEND_OK;
    if (result == MEND_OK) {
        result = mend_block_find_to_free(heap, address, order, 0, &span, users);
    }
    if (result != MEND_OK) {
        mend_driver_scope_close(heap, scope);
        return result;
    }
    mend_streams_begin_call(&heap->streams, users->first); /* keeps the slot without the lock */
    if (is_read && has_waited && (pool->observed.checks & MEND_CHECK_POISON) != 0) {
        poison_old(pool, span);
    }
    mend_driver_scope_close(heap, scope);
    mend_streams_end_call(&heap->streams, users->first);
    return MEND_OK;
}

static mend_result check_free(mend_pool *pool, uint64_t address, mend_order order)
{
    mend_heap *heap = &pool->heap;
    mend_block_users users = {MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    mend_driver_scope scope;
    mend_heap_lock_all(heap);
    const mend_status lost = heap->unlocking.lost;
    const bool is_checked = lost == MEND_DRIVER_OK &&
                            is_here(heap, mend_heap_find(heap, address)) &&
                            mend_driver_scope_open(heap, &scope) == MEND_OK;
    mend_result result = MEND_OK;
    if (lost != MEND_DRIVER_OK && lost != MEND_DRIVER_DEINITIALIZED) {
        result = mend_pool_check_context(pool);
    } else if (is_checked) {
        result = check_old(pool, address, order, &scope, &users);
    }
    mend_heap_unlock_grow(heap);
    if (result == MEND_OK) {
        mend_span *span = mend_heap_find(heap, address);
        result = is_checked && span != NULL ? mend_block_free(heap, span, users)
                                            : mend_heap_free(heap, span, address, order);
    }
    (void)mend_pool_leave_of(pool, (void *)(uintptr_t)address, result);
    if (result == MEND_ERROR_CORRUPTION) {
        mend_warn("damage on device %d: %s", pool->device, mend_process_error()->message);
    }
    return result;
}

mend_result mend_checks_of_block(mend_pool *pool, bool is_new, uint64_t address, mend_order order)
{
    if (!is_new) {
        return check_free(pool, address, order);
    }
    mend_heap *heap = &pool->heap;
    poison *taken = pool->checks->taken;
    pool->checks->taken = NULL;
    const mend_span *span = mend_heap_find(heap, address);
    assert(span != NULL);
    mend_result result = MEND_OK;
    if (!span->of_graph_pool) {
        mend_heap_unlock(heap);
        mend_heap_lock_all(heap);
        result = check_new(pool, address, order.stream, taken);
        mend_heap_unlock_grow(heap);
    }
    if (result != MEND_OK) { /* as before the call, but for the poison that was told */
        const mend_thread_error why = *mend_process_failure();
        for (const poison *p = taken; p != NULL; p = p->next) {
            insert(pool->checks, p->address, end_of(p), &p->was);
        }
        (void)mend_heap_free(heap, mend_heap_find(heap, address), address, order);
        *mend_process_failure() = why;
    }
    drop(taken);
    return result;
}

/* ---- its life -------------------------------------------------------------------------------- */

static mend_result start(mend_pool *pool)
{
    struct mend_checks *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return mend_no_host_memory("the checks of a pool");
    }
    mend_tree_init(&c->poisoned, by_address);
    c->listener.hear = hear;
    pool->checks = c;
    mend_heap_lock(&pool->heap);
    mend_events_listen(&pool->heap.events, &c->listener, MEND_EVENTS_ALL);
    mend_heap_unlock(&pool->heap);
    return MEND_OK;
}

static mend_result read_guards(mend_pool *pool)
{
    mend_heap *heap = &pool->heap;
    mend_driver_scope scope;
    mend_result result = MEND_OK;
    mend_heap_lock_all(heap);
    const bool is_open =
        heap->unlocking.lost == MEND_DRIVER_OK && mend_driver_scope_open(heap, &scope) == MEND_OK;
    const bool is_read =
        is_open && (pool->observed.checks & MEND_CHECK_GUARD) != 0 && has_means(pool);
    for (size_t i = 0; is_read && i < heap->blocks.capacity; i++) {
        const mend_span *span = heap->blocks.entries[i].value;
        const bool is_checked =
            span != NULL && span->live && span->is_guarded && is_here(heap, span);
        result = is_checked && result == MEND_OK ? check_guard(pool, span) : result;
    }
    mend_keep_drop_host(heap, pool->checks->buffer, 0);
    pool->checks->buffer = NULL;
    if (is_open) {
        mend_driver_scope_close(heap, &scope);
    }
    mend_heap_unlock_all(heap);
    return result;
}

mend_result mend_checks_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    (void)config;
    struct mend_checks *c = pool != NULL ? pool->checks : NULL;
    if (moment == MEND_POOL_BEGINS && pool->observed.checks != 0) {
        return start(pool);
    }
    if (moment == MEND_POOL_IS_LEFT && c != NULL) {
        return read_guards(pool);
    }
    if (moment != MEND_POOL_ENDED || c == NULL) {
        return MEND_OK;
    }
    const mend_driver *driver = pool->driver;
    if (c->has_stream &&
        driver->context_push(driver, pool->heap.device.context) == MEND_DRIVER_OK) {
        driver->stream_destroy(driver, c->stream);
        driver->context_pop(driver);
    }
    while (c->poisoned.count > 0) {
        drop(take(c, 0, UINT64_MAX));
    }
    drop(c->taken);
    free(c);
    pool->checks = NULL;
    return MEND_OK;
}

/* ---- the validation -------------------------------------------------------------------------- */

mend_result mend_validate(mend_pool *pool)
{
    MEND_INVALID_IF(pool == NULL, "mend_validate: pool is NULL");
    MEND_TRY(mend_pool_check_process(pool));
#ifdef MEND_WITHOUT_VALIDATE
    return mend_fail(MEND_ERROR_NOT_SUPPORTED, "mend_validate: this library was built without it");
#else
    char finding[MEND_VALIDATE_FINDING_BYTES];
    return mend_pool_validate(pool, finding) ? MEND_OK
                                             : mend_fail(MEND_ERROR_INTERNAL, "%s", finding);
#endif
}
