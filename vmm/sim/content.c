/*
 * Content: if bytes are kept, the device's addresses are real addresses of this process, and a
 * chunk is a range of a file in memory. Two mappings of a chunk map the same bytes. An access to an
 * address that is not mapped or not accessible crashes.
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/align.h"
#include "base/system.h"
#include "sim/state.h"

/* If no bytes are kept, addresses are numbers from here on. */
#define INVENTED_BASE (UINT64_C(1) << 40)

/* The most real addresses to ask for. Less if the system refuses, or if a sanitizer leaves the
 * process only a part of its addresses. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MOST_REAL_BYTES (UINT64_C(512) << 30)
#else
#define MOST_REAL_BYTES (UINT64_C(16) << 40)
#endif
#define LEAST_REAL_BYTES (UINT64_C(64) << 20)

/* The system chooses where the addresses begin, but they always begin one page behind a multiple of
 * this. So anything aligned to at most this much has the same distance from there in every run. */
#define BASE_ALIGNMENT_BYTES (UINT64_C(1) << 30)

enum { PATTERN_BYTES = 16 };

static bool kept(const mend_sim *sim)
{
    return sim->config.content == MEND_SIM_CONTENT_BYTES;
}

static void *pointer_of(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* Removes the mappings at the addresses and forbids access. */
static bool close_addresses(uint64_t address, uint64_t size_bytes)
{
    return mmap(pointer_of(address), (size_t)size_bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool open_space(mend_sim *sim)
{
    uint64_t page = sim->config.page_bytes;
    uint64_t alignment = mend_max_u64(page, BASE_ALIGNMENT_BYTES);
    uint64_t size = mend_min_u64(sim->config.address_bytes, MOST_REAL_BYTES);
    for (; size >= LEAST_REAL_BYTES || size == sim->config.address_bytes; size /= 2) {
        uint64_t all_bytes = size + alignment + page;
        void *space = mmap(NULL, (size_t)all_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space != MAP_FAILED) {
            sim->space_base = mend_align_up((uint64_t)(uintptr_t)space, alignment) + page;
            sim->space_bytes = mend_align_down(size, page);
            uint64_t lead = sim->space_base - (uint64_t)(uintptr_t)space;
            munmap(space, (size_t)lead);
            munmap(pointer_of(sim->space_base + sim->space_bytes),
                   (size_t)(all_bytes - lead - sim->space_bytes));
            return true;
        }
    }
    return false;
}

mend_status mend_sim_content_open(mend_sim *sim)
{
    for (int i = 0; i < sim->config.device_count; i++) {
        sim->devices[i].memory_file = -1;
    }
    if (!kept(sim)) {
        sim->space_base = INVENTED_BASE;
        sim->space_bytes = mend_align_down(sim->config.address_bytes, sim->config.page_bytes);
        return MEND_DRIVER_OK;
    }
    return open_space(sim) ? MEND_DRIVER_OK : MEND_DRIVER_OUT_OF_MEMORY;
}

void mend_sim_content_close(mend_sim *sim)
{
    if (!kept(sim)) {
        return;
    }
    if (sim->space_base != 0) {
        munmap(pointer_of(sim->space_base), (size_t)sim->space_bytes);
    }
    for (int i = 0; i < sim->config.device_count; i++) {
        if (sim->devices[i].memory_file >= 0) {
            close(sim->devices[i].memory_file);
        }
    }
}

/* The file is made for the first chunk: until then a child of fork may use its copy of the device.
 */
static bool has_file(mend_sim_device *device)
{
    if (device->memory_file < 0) {
        device->memory_file = memfd_create("mend-sim-memory", MFD_CLOEXEC);
    }
    return device->memory_file >= 0;
}

/* Each chunk gets its own part of the file, which is never reused: the file is sparse. */
bool mend_sim_content_take(mend_sim *sim, mend_sim_chunk *chunk)
{
    if (!kept(sim)) {
        return true;
    }
    assert(!chunk->plain);
    mend_sim_device *device = &sim->devices[chunk->device];
    uint64_t end = device->file_bytes + chunk->size_bytes;
    if (end > INT64_MAX || !has_file(device) || !mend_may_be_file_size(end) ||
        ftruncate(device->memory_file, (off_t)end) != 0) {
        return false;
    }
    chunk->file_offset = device->file_bytes;
    chunk->filled_from = chunk->filled_to = 0;
    device->file_bytes = end;
    return true;
}

void mend_sim_content_give(mend_sim *sim, const mend_sim_chunk *chunk)
{
    if (kept(sim)) {
        (void)fallocate(sim->devices[chunk->device].memory_file,
                        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)chunk->file_offset,
                        (off_t)chunk->size_bytes);
    }
}

bool mend_sim_content_map(mend_sim *sim, const mend_sim_mapping *mapping)
{
    if (!kept(sim)) {
        return true;
    }
    const mend_sim_chunk *chunk = mapping->chunk;
    int protection = chunk->plain ? PROT_READ | PROT_WRITE : PROT_NONE;
    int flags = chunk->plain ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    int file = chunk->foreign ? chunk->memory_file : sim->devices[chunk->device].memory_file;
    return mmap(pointer_of(mapping->address), (size_t)mapping->size_bytes, protection,
                flags | MAP_FIXED, chunk->plain ? -1 : file,
                (off_t)chunk->file_offset) != MAP_FAILED;
}

bool mend_sim_content_unmap(mend_sim *sim, uint64_t address, uint64_t size_bytes)
{
    return !kept(sim) || close_addresses(address, size_bytes);
}

bool mend_sim_content_allow(mend_sim *sim, uint64_t address, uint64_t size_bytes)
{
    return !kept(sim) ||
           mprotect(pointer_of(address), (size_t)size_bytes, PROT_READ | PROT_WRITE) == 0;
}

/* ---- work ------------------------------------------------------------------------------------ */

static_assert(PATTERN_BYTES == 2 * sizeof(uint64_t), "a pattern is two numbers");
static_assert(PATTERN_BYTES <= MEND_GRANULE_BYTES, "each granule has room for a pattern");

/* Work runs under the lock of the device and is checked by its rules. The thread sanitizer would
 * learn nothing from its bytes, and take most of the time. */
#define BYTES_OF_WORK __attribute__((no_sanitize("thread")))

/* Before a write: for a read the system also maps the pages around it, and for a write only this
 * one. */
BYTES_OF_WORK static void read_pages(uint64_t address, uint64_t size_bytes)
{
    enum { PAGES_AROUND_BYTES = 64 << 10 };
    for (uint64_t at = address; at < address + size_bytes;
         at = mend_align_down(at, PAGES_AROUND_BYTES) + PAGES_AROUND_BYTES) {
        (void)*(const volatile unsigned char *)pointer_of(at);
    }
}

/* Each granule begins with the tag and its index. A last granule shorter than that is ignored. */
BYTES_OF_WORK static uint64_t run_pattern(const mend_sim_item *item, bool verify)
{
    uint64_t different = 0;
    if (!verify) {
        read_pages(item->address, item->granule_bytes);
    }
    for (uint64_t at = 0; at + PATTERN_BYTES <= item->granule_bytes; at += MEND_GRANULE_BYTES) {
        uint64_t pattern[2] = {item->value, at / MEND_GRANULE_BYTES};
        void *granule = pointer_of(item->address + at);
        if (!verify) {
            memcpy(granule, pattern, sizeof(pattern));
        } else {
            uint64_t found[2];
            memcpy(found, granule, sizeof(found));
            different += found[0] != pattern[0] || found[1] != pattern[1];
        }
    }
    return different;
}

BYTES_OF_WORK static uint64_t run_words(const mend_sim_item *item, bool verify)
{
    uint32_t value = (uint32_t)item->value;
    uint64_t different = 0;
    for (uint64_t i = 0; i < item->granule_count; i++) {
        uint32_t *words = pointer_of(item->address + i * item->stride_bytes);
        for (uint64_t w = 0; w < item->granule_bytes / sizeof(value); w++) {
            if (!verify) {
                words[w] = value;
            } else {
                different += words[w] != value;
            }
        }
    }
    return different;
}

static void run_copy(const mend_sim_item *item)
{
    void *destination = item->host != NULL ? item->host : pointer_of(item->address);
    const void *source = item->staged;
    if (source == NULL) {
        source = item->host_source != NULL ? item->host_source : pointer_of(item->source);
    }
    if (item->granule_bytes > 0) {
        memmove(destination, source, (size_t)item->granule_bytes);
    }
}

void mend_sim_content_run(mend_sim *sim, const mend_sim_item *item)
{
    if (!kept(sim)) {
        return;
    }
    switch (item->kind) {
    case MEND_SIM_ITEM_WRITE_TAG:
        (void)run_pattern(item, false);
        break;
    case MEND_SIM_ITEM_VERIFY_TAG:
        sim->ledger.content_errors += run_pattern(item, true);
        break;
    case MEND_SIM_ITEM_WRITE_WORDS:
        (void)run_words(item, false);
        break;
    case MEND_SIM_ITEM_VERIFY_WORDS: {
        uint64_t different = run_words(item, true);
        uint64_t counter;
        memcpy(&counter, pointer_of(item->mismatches), sizeof(counter));
        counter += different;
        memcpy(pointer_of(item->mismatches), &counter, sizeof(counter));
        break;
    }
    case MEND_SIM_ITEM_COPY:
        run_copy(item);
        break;
    case MEND_SIM_ITEM_FILL:
        memset(pointer_of(item->address), (int)item->value, (size_t)item->granule_bytes);
        break;
    default:
        break;
    }
}
