/*
 * Near the limit: available memory, against the driver's total and free memory. The time of a
 * refused creation, and of one right after a release, whose pages may need cleaning. The size of
 * page tables. The number of addresses, and the cost of reserving them.
 */
#include <stdlib.h>
#include <time.h>

#include "probe/questions.h"
#include "probe/range.h"

/* ---- all there is ---------------------------------------------------------------------------- */

enum { MOST_PIECES = 4096, REFUSALS = 20 };

typedef struct hoard {
    unsigned count;
    uint64_t held_bytes;
    mend_chunk_handle piece[MOST_PIECES];
} hoard;

/* Takes pieces of that size until one is refused. The time of the refusal. */
static mend_status take_pieces(const probe *p, hoard *all, uint64_t piece_bytes,
                               uint64_t *refused_ns)
{
    const mend_chunk_properties properties = {0};
    mend_status status = MEND_DRIVER_OK;
    while (all->count < MOST_PIECES) {
        uint64_t began_ns = probe_now_ns(p);
        status = p->driver->create(p->driver, piece_bytes, &properties, &all->piece[all->count]);
        if (status != MEND_DRIVER_OK) {
            *refused_ns = probe_now_ns(p) - began_ns;
            return status;
        }
        all->count++;
        all->held_bytes += piece_bytes;
    }
    return status;
}

static void drop_pieces(const probe *p, hoard *all)
{
    for (unsigned i = 0; i < all->count; i++) {
        p->driver->release(p->driver, all->piece[i]);
    }
    *all = (hoard){0};
}

static void probe_refusals(probe *p, uint64_t size_bytes)
{
    static probe_samples samples;
    const mend_chunk_properties properties = {0};
    mend_chunk_handle piece = 0;
    samples.count = 0;
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    for (int i = 0; status == MEND_DRIVER_OUT_OF_MEMORY && i < REFUSALS; i++) {
        uint64_t began_ns = probe_now_ns(p);
        status = p->driver->create(p->driver, size_bytes, &properties, &piece);
        probe_sample(&samples, probe_now_ns(p) - began_ns);
    }
    if (status == MEND_DRIVER_OK) {
        p->driver->release(p->driver, piece);
    }
    mend_json record = probe_record(p, "refused");
    mend_json_integer(&record, "size_bytes", size_bytes);
    mend_json_string(&record, "status", probe_name(p, status));
    probe_record_samples(&record, &samples);
    probe_record_end(p, &record);
    printf("a creation of %llu MiB with nothing left: %s, median %.1f us, max %.1f us\n",
           (unsigned long long)(size_bytes / MEND_MIB), probe_name(p, status),
           (double)probe_quantile_ns(&samples, 50) / 1000,
           (double)probe_quantile_ns(&samples, 100) / 1000);
}

static uint64_t probe_attainable(probe *p)
{
    static hoard all;
    uint64_t free_before = probe_free_bytes(p);
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    uint64_t piece_bytes = mend_align_up(p->quick ? 64 * MEND_MIB : MEND_GIB, p->page_bytes);
    for (; piece_bytes >= p->page_bytes && status == MEND_DRIVER_OUT_OF_MEMORY; piece_bytes /= 2) {
        uint64_t refused_ns = 0;
        status = take_pieces(p, &all, mend_align_up(piece_bytes, p->page_bytes), &refused_ns);
        mend_json record = probe_record(p, "taken");
        mend_json_integer(&record, "piece_bytes", piece_bytes);
        mend_json_integer(&record, "held_bytes", all.held_bytes);
        mend_json_integer(&record, "refused_ns", refused_ns);
        mend_json_string(&record, "status", probe_name(p, status));
        probe_record_end(p, &record);
    }
    uint64_t held_bytes = all.held_bytes;
    uint64_t free_full = probe_free_bytes(p);
    probe_refusals(p, p->page_bytes);
    probe_refusals(p, mend_align_up(MEND_GIB, p->page_bytes));
    uint64_t began_ns = probe_now_ns(p);
    drop_pieces(p, &all);
    uint64_t dropped_ns = probe_now_ns(p) - began_ns;
    uint64_t free_after = probe_free_bytes(p);
    mend_json record = probe_record(p, "attainable");
    mend_json_integer(&record, "total_bytes", p->info.total_bytes);
    mend_json_integer(&record, "free_before_bytes", free_before);
    mend_json_integer(&record, "attainable_bytes", held_bytes);
    mend_json_integer(&record, "free_when_full_bytes", free_full);
    mend_json_integer(&record, "free_after_bytes", free_after);
    mend_json_integer(&record, "released_ns", dropped_ns);
    probe_record_end(p, &record);
    printf("total %.2f GiB, free %.2f, attainable %.2f; then %.3f GiB are said to be free; "
           "released in %.1f ms\n",
           (double)p->info.total_bytes / (double)MEND_GIB, (double)free_before / (double)MEND_GIB,
           (double)held_bytes / (double)MEND_GIB, (double)free_full / (double)MEND_GIB,
           (double)dropped_ns / 1e6);
    return held_bytes;
}

/* ---- created, released, created again -------------------------------------------------------- */

static mend_status time_creation(const probe *p, uint64_t size_bytes, uint64_t *duration_ns)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle chunk = 0;
    uint64_t began_ns = probe_now_ns(p);
    mend_status status = p->driver->create(p->driver, size_bytes, &properties, &chunk);
    *duration_ns = probe_now_ns(p) - began_ns;
    return status == MEND_DRIVER_OK ? p->driver->release(p->driver, chunk) : status;
}

/* In one chunk: after a pause, at once after its release, and after another pause. */
static void probe_again(probe *p, uint64_t size_bytes)
{
    const struct timespec pause = {p->quick ? 0 : 1, 0};
    uint64_t duration_ns[3] = {0};
    mend_status status = MEND_DRIVER_OK;
    for (int i = 0; status == MEND_DRIVER_OK && i < 3; i++) {
        if (i != 1) {
            nanosleep(&pause, NULL);
        }
        status = time_creation(p, size_bytes, &duration_ns[i]);
    }
    mend_json record = probe_record(p, "again");
    mend_json_integer(&record, "size_bytes", size_bytes);
    mend_json_string(&record, "status", probe_name(p, status));
    mend_json_integer(&record, "first_ns", duration_ns[0]);
    mend_json_integer(&record, "right_after_release_ns", duration_ns[1]);
    mend_json_integer(&record, "after_a_second_ns", duration_ns[2]);
    probe_record_end(p, &record);
    printf("%6llu MiB in a chunk: created in %.2f ms, right after its release in %.2f, a second "
           "later in %.2f (%s)\n",
           (unsigned long long)(size_bytes / MEND_MIB), (double)duration_ns[0] / 1e6,
           (double)duration_ns[1] / 1e6, (double)duration_ns[2] / 1e6, probe_name(p, status));
}

/* ---- page tables ----------------------------------------------------------------------------- */

static void probe_page_tables(probe *p)
{
    const uint64_t count = p->quick ? 64 : 8192;
    const int device = 0;
    const mend_driver *driver = p->driver;
    probe_range chunk;
    uint64_t address = 0;
    uint64_t mapped = 0;
    mend_status status = probe_range_create(p, &chunk, p->page_bytes, 1);
    uint64_t free_before = probe_free_bytes(p);
    if (status == MEND_DRIVER_OK) {
        status = driver->reserve(driver, count * p->page_bytes, 0, 0, &address);
    }
    while (status == MEND_DRIVER_OK && mapped < count) {
        status =
            driver->map(driver, address + mapped * p->page_bytes, p->page_bytes, 0, chunk.chunk[0]);
        mapped += status == MEND_DRIVER_OK ? 1 : 0;
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->set_access(driver, address, count * p->page_bytes, &device, 1,
                                    MEND_ACCESS_READ_WRITE);
    }
    uint64_t free_mapped = probe_free_bytes(p);
    uint64_t taken_bytes = free_before > free_mapped ? free_before - free_mapped : 0;
    mend_json record = probe_record(p, "page_tables");
    mend_json_integer(&record, "mappings", mapped);
    mend_json_integer(&record, "taken_bytes", taken_bytes);
    probe_record_end(p, &record);
    printf("%llu mappings of a page take %.2f MiB beside their memory\n",
           (unsigned long long)mapped, (double)taken_bytes / (double)MEND_MIB);
    probe_expect(p, "many mappings of one page", status);
    if (mapped > 0) {
        driver->unmap(driver, address, mapped * p->page_bytes);
    }
    if (address != 0) {
        driver->address_free(driver, address, count * p->page_bytes);
    }
    probe_range_drop(p, &chunk);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void probe_reservation(probe *p, uint64_t size_bytes)
{
    uint64_t address = 0;
    uint64_t began_ns = probe_now_ns(p);
    mend_status status = p->driver->reserve(p->driver, size_bytes, 0, 0, &address);
    uint64_t reserved_ns = probe_now_ns(p) - began_ns;
    uint64_t freed_ns = 0;
    if (status == MEND_DRIVER_OK) {
        began_ns = probe_now_ns(p);
        p->driver->address_free(p->driver, address, size_bytes);
        freed_ns = probe_now_ns(p) - began_ns;
    }
    mend_json record = probe_record(p, "reserve");
    mend_json_integer(&record, "size_bytes", size_bytes);
    mend_json_string(&record, "status", probe_name(p, status));
    mend_json_integer(&record, "reserve_ns", reserved_ns);
    mend_json_integer(&record, "free_ns", freed_ns);
    probe_record_end(p, &record);
    printf("%7.2f TiB of addresses: %s, reserved in %.1f us, freed in %.1f us\n",
           (double)size_bytes / (double)MEND_TIB, probe_name(p, status), (double)reserved_ns / 1000,
           (double)freed_ns / 1000);
}

/* How many addresses there are in pieces of 1 TiB. */
static void probe_addresses(probe *p)
{
    enum { MOST = 512 };
    uint64_t address[MOST];
    unsigned count = 0;
    mend_status status = MEND_DRIVER_OK;
    while (count < MOST && status == MEND_DRIVER_OK) {
        status = p->driver->reserve(p->driver, MEND_TIB, 0, 0, &address[count]);
        count += status == MEND_DRIVER_OK ? 1 : 0;
    }
    mend_json record = probe_record(p, "addresses");
    mend_json_integer(&record, "tib", count);
    mend_json_string(&record, "status", probe_name(p, status));
    probe_record_end(p, &record);
    printf("%u TiB of addresses in pieces of 1 TiB, then %s\n", count, probe_name(p, status));
    while (count > 0) {
        p->driver->address_free(p->driver, address[--count], MEND_TIB);
    }
}

void probe_memory(probe *p)
{
    static const uint64_t gib[] = {1, 16, 80};
    static const uint64_t tib[] = {2, 16, 64, 128};
    uint64_t attainable = probe_attainable(p);
    for (size_t i = 0; i < 3 && !probe_is_over(p); i++) {
        uint64_t most_bytes = mend_align_down(attainable / 100 * 98, p->page_bytes);
        probe_again(p, mend_min_u64(gib[i] * MEND_GIB, most_bytes));
    }
    for (size_t i = 0; i < 4 && !probe_is_over(p); i++) {
        probe_reservation(p, tib[i] * MEND_TIB);
    }
    if (!probe_is_over(p)) {
        probe_addresses(p);
    }
    if (!probe_is_over(p)) {
        probe_page_tables(p);
    }
}
