/*
 * The cost of creating, mapping, giving access, unmapping and releasing: by number and size, by one
 * call for all or one for each, with or without a streaming load, and beside many other mappings.
 *
 * Only the end of the last reference frees memory, so there are three cases: a release of a mapped
 * chunk, of an unmapped one, and the unmap that ends the last reference.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/measure/lists.h"
#include "lab/measure/measure.h"
#include "probe/questions.h"
#include "probe/range.h"

/* X(step, its name): each is measured by call. */
#define STEPS(X)                                                                                   \
    X(RESERVE, "reserve")                                                                          \
    X(CREATE, "create")                                                                            \
    X(MAP, "map")                                                                                  \
    X(ACCESS, "set_access")                                                                        \
    X(UNMAP, "unmap")                                                                              \
    X(ACCESS_EACH, "set_access_each")                                                              \
    X(UNMAP_EACH, "unmap_each")                                                                    \
    X(RELEASE_LAST, "release_last")                                                                \
    X(RELEASE_MAPPED, "release_mapped")                                                            \
    X(UNMAP_LAST, "unmap_last")                                                                    \
    X(ADDRESS_FREE, "address_free")

typedef enum step {
#define X(step, name) STEP_##step,
    STEPS(X)
#undef X
        STEP_COUNT
} step;

static const char *const step_names[STEP_COUNT] = {
#define X(step, name) name,
    STEPS(X)
#undef X
};

/* One setting and all that was measured in it. */
typedef struct cell {
    probe *p;
    const probe_load *load; /* NULL: idle */
    uint64_t chunk_bytes;
    uint64_t count;
    uint64_t standing;
    uint64_t began_ns;
    probe_samples samples[STEP_COUNT];
} cell;

static void step_begins(cell *c)
{
    if (c->load != NULL) {
        probe_load_keep(c->p, c->load);
    }
    c->began_ns = probe_now_ns(c->p);
}

/* `calls` calls were made since the step began. A sample is the time of one. */
static void step_ended(cell *c, step which, uint64_t calls)
{
    probe_sample(&c->samples[which], (probe_now_ns(c->p) - c->began_ns) / calls);
}

/* ---- a round --------------------------------------------------------------------------------- */

static mend_status create_all(cell *c, probe_range *range, bool measured)
{
    const mend_driver *driver = c->p->driver;
    const mend_chunk_properties properties = {0};
    mend_status status = MEND_DRIVER_OK;
    step_begins(c);
    while (status == MEND_DRIVER_OK && range->created < range->count) {
        mend_chunk_handle *chunk = &range->chunk[range->created];
        status = driver->create(driver, c->chunk_bytes, &properties, chunk);
        range->created += status == MEND_DRIVER_OK ? 1 : 0;
    }
    if (status == MEND_DRIVER_OK && measured) {
        step_ended(c, STEP_CREATE, c->count);
    }
    return status;
}

static mend_status map_all(cell *c, probe_range *range)
{
    const mend_driver *driver = c->p->driver;
    mend_status status = MEND_DRIVER_OK;
    step_begins(c);
    while (status == MEND_DRIVER_OK && range->mapped < range->count) {
        uint64_t address = range->address + range->mapped * c->chunk_bytes;
        status = driver->map(driver, address, c->chunk_bytes, 0, range->chunk[range->mapped]);
        range->mapped += status == MEND_DRIVER_OK ? 1 : 0;
    }
    if (status == MEND_DRIVER_OK) {
        step_ended(c, STEP_MAP, c->count);
    }
    return status;
}

static mend_status access_all(cell *c, const probe_range *range, bool each)
{
    const mend_driver *driver = c->p->driver;
    const int device = 0;
    uint64_t calls = each ? c->count : 1;
    uint64_t size_bytes = probe_range_bytes(range) / calls;
    mend_status status = MEND_DRIVER_OK;
    step_begins(c);
    for (uint64_t i = 0; status == MEND_DRIVER_OK && i < calls; i++) {
        status = driver->set_access(driver, range->address + i * size_bytes, size_bytes, &device, 1,
                                    MEND_ACCESS_READ_WRITE);
    }
    if (status == MEND_DRIVER_OK) {
        step_ended(c, each ? STEP_ACCESS_EACH : STEP_ACCESS, calls);
    }
    return status;
}

/* Mapped parts are noted on the way, so that probe_range_drop can undo a failure. */
static mend_status unmap_all(cell *c, probe_range *range, step which)
{
    const mend_driver *driver = c->p->driver;
    uint64_t calls = which == STEP_UNMAP_EACH ? c->count : 1;
    uint64_t size_bytes = probe_range_bytes(range) / calls;
    mend_status status = MEND_DRIVER_OK;
    step_begins(c);
    for (uint64_t i = calls; status == MEND_DRIVER_OK && i > 0; i--) {
        status = driver->unmap(driver, range->address + (i - 1) * size_bytes, size_bytes);
        range->mapped -= status == MEND_DRIVER_OK ? size_bytes / c->chunk_bytes : 0;
    }
    if (status == MEND_DRIVER_OK) {
        step_ended(c, which, calls);
    }
    return status;
}

static mend_status release_all(cell *c, probe_range *range, step which)
{
    const mend_driver *driver = c->p->driver;
    mend_status status = MEND_DRIVER_OK;
    step_begins(c);
    while (status == MEND_DRIVER_OK && range->created > 0) {
        status = driver->release(driver, range->chunk[range->created - 1]);
        range->created -= status == MEND_DRIVER_OK ? 1 : 0;
    }
    if (status == MEND_DRIVER_OK) {
        step_ended(c, which, c->count);
    }
    return status;
}

/* Everything once, with the addresses reserved. */
static mend_status run_steps(cell *c, probe_range *range)
{
    mend_status status = create_all(c, range, true);
    for (int each = 0; status == MEND_DRIVER_OK && each < 2; each++) {
        status = map_all(c, range);
        if (status == MEND_DRIVER_OK) {
            status = access_all(c, range, each == 1);
        }
        if (status == MEND_DRIVER_OK) {
            status = unmap_all(c, range, each == 1 ? STEP_UNMAP_EACH : STEP_UNMAP);
        }
    }
    if (status == MEND_DRIVER_OK) {
        status = release_all(c, range, STEP_RELEASE_LAST);
    }
    if (status == MEND_DRIVER_OK) {
        status = create_all(c, range, false); /* right after a release: the probe of memory's */
    }
    if (status == MEND_DRIVER_OK) {
        status = map_all(c, range);
    }
    if (status == MEND_DRIVER_OK) {
        status = access_all(c, range, false);
    }
    if (status == MEND_DRIVER_OK) {
        status = release_all(c, range, STEP_RELEASE_MAPPED);
    }
    return status == MEND_DRIVER_OK ? unmap_all(c, range, STEP_UNMAP_LAST) : status;
}

static mend_status run_round(cell *c)
{
    const mend_driver *driver = c->p->driver;
    probe_range range = {.chunk_bytes = c->chunk_bytes, .count = c->count};
    range.chunk = calloc(c->count, sizeof(*range.chunk));
    if (range.chunk == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    step_begins(c);
    mend_status status = driver->reserve(driver, probe_range_bytes(&range), 0, 0, &range.address);
    if (status == MEND_DRIVER_OK) {
        step_ended(c, STEP_RESERVE, 1);
        status = run_steps(c, &range);
    }
    if (status == MEND_DRIVER_OK) {
        step_begins(c);
        status = driver->address_free(driver, range.address, probe_range_bytes(&range));
        step_ended(c, STEP_ADDRESS_FREE, 1);
        range.address = status == MEND_DRIVER_OK ? 0 : range.address;
    }
    probe_range_drop(c->p, &range);
    return status;
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void report_cell(cell *c, mend_status status)
{
    printf("%6llu standing, %s: %3llu x %3llu MiB ", (unsigned long long)c->standing,
           c->load != NULL ? "load" : "idle", (unsigned long long)c->count,
           (unsigned long long)(c->chunk_bytes / MEND_MIB));
    for (int i = 0; i < STEP_COUNT; i++) {
        if (c->samples[i].count == 0) {
            continue;
        }
        mend_json record = probe_record(c->p, "price");
        mend_json_string(&record, "step", step_names[i]);
        mend_json_integer(&record, "chunk_bytes", c->chunk_bytes);
        mend_json_integer(&record, "mappings", c->count);
        mend_json_integer(&record, "standing", c->standing);
        mend_json_bool(&record, "load", c->load != NULL);
        probe_record_samples(&record, &c->samples[i]);
        probe_record_end(c->p, &record);
        printf(" %s %.1f", step_names[i], (double)probe_quantile_ns(&c->samples[i], 50) / 1000);
    }
    printf("%s%s\n", status == MEND_DRIVER_OK ? "" : "  stopped: ",
           status == MEND_DRIVER_OK ? "" : probe_name(c->p, status));
}

/* The medians as the series of a cost table. */
static void keep_for_list(const cell *c, mend_measure_bench *list)
{
    static const struct {
        step from;
        mend_driver_call call;
        bool covers_all; /* one call is about all chunks */
    } kept[] = {
        {STEP_RESERVE, MEND_CALL_reserve, true}, {STEP_ADDRESS_FREE, MEND_CALL_address_free, true},
        {STEP_CREATE, MEND_CALL_create, false},  {STEP_RELEASE_LAST, MEND_CALL_release, false},
        {STEP_MAP, MEND_CALL_map, false},        {STEP_ACCESS, MEND_CALL_set_access, true},
        {STEP_UNMAP, MEND_CALL_unmap, true}};
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        probe_samples samples = c->samples[kept[i].from];
        if (samples.count == 0 || list->series_count == MEND_MEASURE_MOST_SERIES) {
            continue;
        }
        uint64_t chunks = kept[i].covers_all ? c->count : 1;
        list->series[list->series_count++] =
            (mend_measure_series){.call = kept[i].call,
                                  .size_bytes = chunks * c->chunk_bytes,
                                  .mappings = chunks,
                                  .sample_count = 1,
                                  .sample_ns = {probe_quantile_ns(&samples, 50)}};
    }
}

/* Rounds until there are enough, or a cell's share of the time is gone. */
static bool run_cell(probe *p, cell *c, mend_measure_bench *list)
{
    enum { ROUNDS = 7 };
    const uint64_t until_ns = probe_now_ns(p) + UINT64_C(2000000000);
    uint64_t size_bytes = c->chunk_bytes * c->count;
    mend_status status = MEND_DRIVER_OK;
    if (size_bytes > probe_free_bytes(p) / 2) {
        printf("left out: %llu x %llu MiB, more than half of what is free\n",
               (unsigned long long)c->count, (unsigned long long)(c->chunk_bytes / MEND_MIB));
        return true;
    }
    memset(c->samples, 0, sizeof(c->samples));
    for (int i = 0; i < ROUNDS && status == MEND_DRIVER_OK; i++) {
        if (i > 0 && (probe_now_ns(p) >= until_ns || probe_is_over(p))) {
            break;
        }
        status = run_round(c);
    }
    report_cell(c, status);
    if (c->load == NULL && c->standing == 0) {
        keep_for_list(c, list);
    }
    if (status != MEND_DRIVER_OK && status != MEND_DRIVER_OUT_OF_MEMORY) {
        probe_expect(p, "a round of mappings", status);
    }
    return !mend_status_is_fatal(status);
}

/* All shapes with the present mappings. Fewer where much is: the question there is how it grows. */
static bool run_cells(probe *p, const probe_load *load, uint64_t standing, mend_measure_bench *list)
{
    static const uint64_t counts[] = {1, 16, 256, 4, 64, 2048};
    static const uint64_t sizes_mib[] = {2, 64, 20, 256};
    static cell c; /* half a megabyte of samples */
    for (size_t s = 0; s < (standing == 0 ? 4 : 2); s++) {
        for (size_t n = 0; n < (standing > 0 ? 3 : s == 0 && load == NULL ? 6 : 5); n++) {
            c.p = p;
            c.load = load;
            c.standing = standing;
            c.count = counts[n];
            c.chunk_bytes = mend_align_up(sizes_mib[s] * MEND_MIB, p->page_bytes);
            if (probe_is_over(p) || !run_cell(p, &c, list)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- standing mappings ----------------------------------------------------------------------- */

/* Many mappings of few chunks, in one reservation: a quarter of free memory at most. */
typedef struct crowd {
    probe_range chunks;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t mapped;
} crowd;

static mend_status crowd_open(const probe *p, crowd *all, uint64_t count)
{
    const mend_driver *driver = p->driver;
    const int device = 0;
    enum { MAPPINGS_A_CALL = 512 };
    uint64_t most_chunks = mend_max_u64(1, probe_free_bytes(p) / 4 / p->page_bytes);
    *all = (crowd){.size_bytes = count * p->page_bytes};
    mend_status status =
        probe_range_create(p, &all->chunks, p->page_bytes, mend_min_u64(count, most_chunks));
    if (status == MEND_DRIVER_OK) {
        status = driver->reserve(driver, all->size_bytes, 0, 0, &all->address);
    }
    uint64_t allowed = 0;
    while (status == MEND_DRIVER_OK && allowed < count) {
        uint64_t until = mend_min_u64(count, allowed + MAPPINGS_A_CALL);
        while (status == MEND_DRIVER_OK && all->mapped < until) {
            status = driver->map(driver, all->address + all->mapped * p->page_bytes, p->page_bytes,
                                 0, all->chunks.chunk[all->mapped % all->chunks.count]);
            all->mapped += status == MEND_DRIVER_OK ? 1 : 0;
        }
        if (status == MEND_DRIVER_OK) {
            status = driver->set_access(driver, all->address + allowed * p->page_bytes,
                                        (until - allowed) * p->page_bytes, &device, 1,
                                        MEND_ACCESS_READ_WRITE);
            allowed = until;
        }
    }
    return status;
}

static void crowd_close(const probe *p, crowd *all)
{
    if (all->mapped > 0) {
        p->driver->unmap(p->driver, all->address, all->mapped * p->page_bytes);
    }
    if (all->address != 0) {
        p->driver->address_free(p->driver, all->address, all->size_bytes);
    }
    probe_range_drop(p, &all->chunks);
}

static bool run_crowded(probe *p, uint64_t standing, mend_measure_bench *list)
{
    crowd all;
    uint64_t began_ns = probe_now_ns(p);
    mend_status status = crowd_open(p, &all, standing);
    uint64_t duration_ns = probe_now_ns(p) - began_ns;
    mend_json record = probe_record(p, "standing");
    mend_json_integer(&record, "wanted", standing);
    mend_json_integer(&record, "mapped", all.mapped);
    mend_json_integer(&record, "duration_ns", duration_ns);
    mend_json_string(&record, "status", probe_name(p, status));
    probe_record_end(p, &record);
    printf("%llu mappings in %.1f ms: %s\n", (unsigned long long)all.mapped,
           (double)duration_ns / 1e6, probe_name(p, status));
    bool goes_on = !mend_status_is_fatal(status) && run_cells(p, NULL, all.mapped, list);
    crowd_close(p, &all);
    return goes_on;
}

void probe_mappings(probe *p)
{
    static const uint64_t standing[] = {1000, 10000, 60000};
    probe_load load;
    mend_measure_bench list = {.driver = p->driver, .info = p->info};
    list.series = calloc(MEND_MEASURE_MOST_SERIES, sizeof(*list.series));
    if (list.series == NULL || !probe_expect(p, "the load", probe_load_open(p, &load))) {
        free(list.series);
        return;
    }
    probe_stream(p, load.stream, MEND_KERNEL_STREAM, load.address, load.size_bytes,
                 p->quick ? 1 : UINT64_C(1000000000)); /* a GPU that was idle is slow at first */
    p->driver->stream_synchronize(p->driver, load.stream);
    bool goes_on = run_cells(p, NULL, 0, &list);
    goes_on = goes_on && run_cells(p, &load, 0, &list);
    p->driver->stream_synchronize(p->driver, load.stream);
    for (size_t i = 0; goes_on && i < sizeof(standing) / sizeof(standing[0]); i++) {
        goes_on = run_crowded(p, p->quick ? standing[i] / 100 : standing[i], &list);
    }
    printf("%s\n", goes_on ? "all was measured" : "cut short");
    FILE *costs = p->costs_path != NULL ? fopen(p->costs_path, "w") : NULL;
    if (costs != NULL) {
        mend_measure_write_costs(&list, costs);
    }
    if (p->costs_path != NULL && (costs == NULL || fclose(costs) != 0)) {
        fprintf(stderr, "mend-probe: cannot write %s\n", p->costs_path);
        p->problems++;
    }
    probe_load_close(p, &load);
    free(list.series);
}
