#include "lab/replay/causes.h"

#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "base/tree.h"
#include "lab/driver/traced.h"

#define CHUNK_OF(node)   MEND_CONTAINER_OF(node, known_chunk, by_handle)
#define MAPPING_OF(node) MEND_CONTAINER_OF(node, known_mapping, by_address)

typedef struct known_chunk {
    mend_tree_node by_handle; /* in the tree until it is released */
    mend_chunk_handle handle;
    size_t size_class;
    uint64_t mappings;
    bool had_access; /* by any mapping */
    bool is_released;
} known_chunk;

typedef struct known_mapping {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    known_chunk *chunk;
    bool is_first; /* its chunk had no access before */
    bool has_access;
} known_mapping;

typedef struct causes_driver {
    mend_driver table; /* its `state` is this structure */
    const mend_driver *inner;
    mend_sim *sim;
    mend_tree chunks;   /* by handle */
    mend_tree mappings; /* by address */
    mend_replay_costs costs;
} causes_driver;

size_t mend_cause_class(uint64_t chunk_bytes)
{
    size_t size_class = 0;
    while (chunk_bytes > mend_cause_class_bytes(size_class)) {
        size_class++;
    }
    return size_class;
}

uint64_t mend_cause_class_bytes(size_t size_class)
{
    return size_class + 1 < MEND_CAUSE_CLASSES ? (2 * MEND_MIB) << size_class : UINT64_MAX;
}

void mend_replay_costs_subtract(mend_replay_costs *from, const mend_replay_costs *costs)
{
    for (size_t cause = 0; cause < MEND_CAUSE_COUNT; cause++) {
        from->by_cause[cause].calls -= costs->by_cause[cause].calls;
        from->by_cause[cause].time_ns -= costs->by_cause[cause].time_ns;
    }
    for (size_t cause = 0; cause <= MEND_CAUSE_undoing; cause++) {
        for (size_t i = 0; i < MEND_CAUSE_CLASSES; i++) {
            from->by_size[cause][i].chunks -= costs->by_size[cause][i].chunks;
            from->by_size[cause][i].time_ns -= costs->by_size[cause][i].time_ns;
        }
    }
}

static uint64_t price_ns(const causes_driver *causes)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(causes->sim, &ledger);
    return ledger.driver_time_ns;
}

/* ---- charging
 * --------------------------------------------------------------------------------- */

static void charge(causes_driver *causes, mend_replay_cause cause, uint64_t time_ns)
{
    causes->costs.by_cause[cause].time_ns += time_ns;
}

/* Charges the part of a price that is for one chunk. */
static void charge_chunk(causes_driver *causes, mend_replay_cause cause, size_t size_class,
                         uint64_t time_ns, bool counts)
{
    charge(causes, cause, time_ns);
    causes->costs.by_size[cause][size_class].time_ns += time_ns;
    causes->costs.by_size[cause][size_class].chunks += counts;
}

static void count_call(causes_driver *causes, mend_replay_cause cause)
{
    causes->costs.by_cause[cause].calls++;
}

/* Calls that always have the same cause. The five calls for chunks and mappings are below. */
static mend_replay_cause cause_of(mend_driver_call call)
{
    switch (call) {
    case MEND_CALL_reserve:
    case MEND_CALL_address_free:
        return MEND_CAUSE_addresses;
    case MEND_CALL_event_create:
    case MEND_CALL_event_record:
    case MEND_CALL_context_record:
    case MEND_CALL_event_query:
    case MEND_CALL_event_destroy:
    case MEND_CALL_stream_wait:
        return MEND_CAUSE_fences;
    case MEND_CALL_event_synchronize:
    case MEND_CALL_stream_synchronize:
    case MEND_CALL_context_synchronize:
        return MEND_CAUSE_host_waits;
    case MEND_CALL_copy:
    case MEND_CALL_fill:
        return MEND_CAUSE_copying;
    case MEND_CALL_plain_alloc:
    case MEND_CALL_async_alloc:
        return MEND_CAUSE_growing;
    case MEND_CALL_plain_free:
    case MEND_CALL_async_free:
        return MEND_CAUSE_giving_back;
    default:
        return MEND_CAUSE_asking;
    }
}

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status sorted_##member parameters                                                  \
    {                                                                                              \
        causes_driver *causes = driver->state;                                                     \
        const mend_driver *inner = causes->inner;                                                  \
        uint64_t before_ns = price_ns(causes);                                                     \
        mend_status status = inner->member arguments;                                              \
        charge(causes, cause_of(MEND_CALL_##member), price_ns(causes) - before_ns);                \
        count_call(causes, cause_of(MEND_CALL_##member));                                          \
        return status;                                                                             \
    }
MEND_DRIVER_CALLS(X)
#undef X

/* ---- chunks ---------------------------------------------------------------------------------- */

static int compare_handles(const mend_tree_node *a, const mend_tree_node *b)
{
    return (CHUNK_OF(a)->handle > CHUNK_OF(b)->handle) -
           (CHUNK_OF(a)->handle < CHUNK_OF(b)->handle);
}

/* NULL: not known, because malloc failed. */
static known_chunk *find_chunk(const causes_driver *causes, mend_chunk_handle handle)
{
    known_chunk key = {.handle = handle};
    mend_tree_node *at = mend_tree_at_or_after(&causes->chunks, &key.by_handle);
    return at != NULL && CHUNK_OF(at)->handle == handle ? CHUNK_OF(at) : NULL;
}

static void free_when_gone(known_chunk *chunk)
{
    if (chunk->is_released && chunk->mappings == 0) {
        free(chunk);
    }
}

static mend_status grow_by_chunk(const mend_driver *driver, uint64_t size_bytes,
                                 const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    causes_driver *causes = driver->state;
    uint64_t before_ns = price_ns(causes);
    mend_status status = causes->inner->create(causes->inner, size_bytes, properties, handle);
    bool is_done = status == MEND_DRIVER_OK;
    size_t size_class = mend_cause_class(size_bytes);
    charge_chunk(causes, MEND_CAUSE_growing, size_class, price_ns(causes) - before_ns, is_done);
    count_call(causes, MEND_CAUSE_growing);
    known_chunk *chunk = is_done ? calloc(1, sizeof(*chunk)) : NULL;
    if (chunk != NULL) {
        chunk->handle = *handle;
        chunk->size_class = size_class;
        mend_tree_insert(&causes->chunks, &chunk->by_handle);
    }
    causes->costs.is_complete = causes->costs.is_complete && (chunk != NULL || !is_done);
    return status;
}

static mend_status release_chunk(const mend_driver *driver, mend_chunk_handle handle)
{
    causes_driver *causes = driver->state;
    known_chunk *chunk = find_chunk(causes, handle);
    uint64_t before_ns = price_ns(causes);
    mend_status status = causes->inner->release(causes->inner, handle);
    uint64_t time_ns = price_ns(causes) - before_ns;
    bool is_undone = chunk != NULL && !chunk->had_access;
    mend_replay_cause cause = is_undone ? MEND_CAUSE_undoing : MEND_CAUSE_giving_back;
    bool is_gone = chunk != NULL && status == MEND_DRIVER_OK;
    count_call(causes, cause);
    charge_chunk(causes, cause, chunk != NULL ? chunk->size_class : 0, time_ns, is_gone);
    if (is_gone) {
        mend_tree_remove(&causes->chunks, &chunk->by_handle);
        chunk->is_released = true;
        free_when_gone(chunk);
    }
    return status;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static int compare_addresses(const mend_tree_node *a, const mend_tree_node *b)
{
    return (MAPPING_OF(a)->address > MAPPING_OF(b)->address) -
           (MAPPING_OF(a)->address < MAPPING_OF(b)->address);
}

static known_mapping *next_mapping(const causes_driver *causes, uint64_t address, uint64_t end)
{
    known_mapping key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_after(&causes->mappings, &key.by_address);
    return at != NULL && MAPPING_OF(at)->address < end ? MAPPING_OF(at) : NULL;
}

static void forget_mapping(causes_driver *causes, known_mapping *mapping)
{
    mend_tree_remove(&causes->mappings, &mapping->by_address);
    mapping->chunk->mappings--;
    free_when_gone(mapping->chunk);
    free(mapping);
}

static mend_status map_chunk(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                             uint64_t offset_bytes, mend_chunk_handle handle)
{
    causes_driver *causes = driver->state;
    const mend_driver *inner = causes->inner;
    known_chunk *chunk = find_chunk(causes, handle);
    bool is_first = chunk == NULL || !chunk->had_access;
    mend_replay_cause cause = is_first ? MEND_CAUSE_growing : MEND_CAUSE_moving;
    uint64_t before_ns = price_ns(causes);
    mend_status status = inner->map(inner, address, size_bytes, offset_bytes, handle);
    bool is_done = status == MEND_DRIVER_OK;
    charge_chunk(causes, cause, mend_cause_class(size_bytes), price_ns(causes) - before_ns,
                 is_done && !is_first);
    count_call(causes, cause);
    known_mapping *mapping = is_done && chunk != NULL ? calloc(1, sizeof(*mapping)) : NULL;
    if (mapping != NULL) {
        mapping->address = address;
        mapping->size_bytes = size_bytes;
        mapping->chunk = chunk;
        mapping->is_first = is_first;
        chunk->mappings++;
        mend_tree_insert(&causes->mappings, &mapping->by_address);
    }
    causes->costs.is_complete = causes->costs.is_complete && (mapping != NULL || !is_done);
    return status;
}

static mend_replay_cause cause_of_access(const known_mapping *mapping)
{
    return mapping->is_first ? MEND_CAUSE_growing : MEND_CAUSE_moving;
}

static mend_replay_cause cause_of_unmap(const known_mapping *mapping)
{
    if (!mapping->has_access) {
        return MEND_CAUSE_undoing;
    }
    return mapping->chunk->mappings > 1 ? MEND_CAUSE_retiring : MEND_CAUSE_giving_back;
}

static void note_access(known_mapping *mapping)
{
    mapping->has_access = true;
    mapping->chunk->had_access = true;
}

/* A call about a range of mappings. */
typedef struct range_call {
    uint64_t address;
    uint64_t end;
    uint64_t time_ns;
    bool is_done;
    mend_replay_cause (*cause_of)(const known_mapping *mapping);
    mend_replay_cause otherwise; /* the cause if no mapping is known */
} range_call;

/* Shares the price of a call among the mappings of its range. The first one gets the remainder. */
static void share(causes_driver *causes, const range_call *call)
{
    uint64_t mappings = 0;
    mend_replay_cause first = MEND_CAUSE_COUNT;
    const known_mapping *at = next_mapping(causes, call->address, call->end);
    for (; at != NULL; at = next_mapping(causes, at->address + 1, call->end)) {
        mappings++;
        first = call->cause_of(at) < first ? call->cause_of(at) : first;
    }
    first = mappings > 0 ? first : call->otherwise;
    uint64_t part_ns = mappings > 0 ? call->time_ns / mappings : 0;
    uint64_t rest_ns = call->time_ns - part_ns * mappings;
    at = next_mapping(causes, call->address, call->end);
    for (; at != NULL; at = next_mapping(causes, at->address + 1, call->end)) {
        mend_replay_cause cause = call->cause_of(at);
        bool counts = call->is_done && cause == MEND_CAUSE_retiring;
        charge_chunk(causes, cause, at->chunk->size_class, part_ns + rest_ns, counts);
        rest_ns = 0;
    }
    charge(causes, first, rest_ns);
    count_call(causes, first);
}

static mend_status give_access(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                               const int *devices, int device_count, mend_access access)
{
    causes_driver *causes = driver->state;
    const mend_driver *inner = causes->inner;
    uint64_t before_ns = price_ns(causes);
    mend_status status =
        inner->set_access(inner, address, size_bytes, devices, device_count, access);
    range_call call = {.address = address,
                       .end = address + size_bytes,
                       .time_ns = price_ns(causes) - before_ns,
                       .is_done = status == MEND_DRIVER_OK,
                       .cause_of = cause_of_access,
                       .otherwise = MEND_CAUSE_growing};
    share(causes, &call);
    known_mapping *at = call.is_done ? next_mapping(causes, address, call.end) : NULL;
    for (; at != NULL; at = next_mapping(causes, at->address + 1, call.end)) {
        note_access(at);
    }
    return status;
}

static mend_status unmap_range(const mend_driver *driver, uint64_t address, uint64_t size_bytes)
{
    causes_driver *causes = driver->state;
    uint64_t before_ns = price_ns(causes);
    mend_status status = causes->inner->unmap(causes->inner, address, size_bytes);
    range_call call = {.address = address,
                       .end = address + size_bytes,
                       .time_ns = price_ns(causes) - before_ns,
                       .is_done = status == MEND_DRIVER_OK,
                       .cause_of = cause_of_unmap,
                       .otherwise = MEND_CAUSE_retiring};
    share(causes, &call);
    known_mapping *at = call.is_done ? next_mapping(causes, address, call.end) : NULL;
    for (; at != NULL; at = next_mapping(causes, address, call.end)) {
        forget_mapping(causes, at);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static uint64_t inner_clock_ns(const mend_driver *driver)
{
    const causes_driver *causes = driver->state;
    return causes->inner->clock_ns(causes->inner);
}

static void inner_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const causes_driver *causes = driver->state;
    causes->inner->pause(causes->inner, duration_ns);
}

static const char *inner_status_name(const mend_driver *driver, mend_status status)
{
    const causes_driver *causes = driver->state;
    return causes->inner->status_name(causes->inner, status);
}

mend_result mend_causes_driver_create(mend_sim *sim, const mend_driver *inner, mend_driver **causes)
{
    causes_driver *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory to sort driver calls");
    }
    created->table = (mend_driver){
#define X(member, name, bytes, parameters, arguments) .member = sorted_##member,
        MEND_DRIVER_CALLS(X)
#undef X
            .clock_ns = inner_clock_ns,
        .pause = inner_pause,
        .status_name = inner_status_name,
    };
    created->table.create = grow_by_chunk;
    created->table.release = release_chunk;
    created->table.map = map_chunk;
    created->table.set_access = give_access;
    created->table.unmap = unmap_range;
    created->table.state = created;
    created->table.name = inner->name;
    created->inner = inner;
    created->sim = sim;
    created->costs.is_complete = true;
    mend_tree_init(&created->chunks, compare_handles);
    mend_tree_init(&created->mappings, compare_addresses);
    *causes = &created->table;
    return MEND_OK;
}

void mend_causes_driver_get(const mend_driver *causes, mend_replay_costs *costs)
{
    const causes_driver *self = causes->state;
    *costs = self->costs;
}

void mend_causes_driver_destroy(mend_driver *causes)
{
    if (causes == NULL) {
        return;
    }
    causes_driver *self = causes->state;
    for (mend_tree_node *at; (at = mend_tree_first(&self->mappings)) != NULL;) {
        forget_mapping(self, MAPPING_OF(at));
    }
    for (mend_tree_node *at; (at = mend_tree_first(&self->chunks)) != NULL;) {
        mend_tree_remove(&self->chunks, at);
        free(CHUNK_OF(at));
    }
    free(self);
}
