/*
 * Fresh memory: unwritten memory has poison, so that work that expects zeros is found. The bytes of
 * chunks lie in a sparse file, in which untouched pages are holes. Work that is about to read a
 * hole, or to write a part of one, fills it first, so untouched memory costs none. The host's own
 * accesses to device addresses fill nothing: a page that they touch first has zeros. Does nothing
 * if the device is to have zeros.
 */
#include "sim/state.h"

#include <assert.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/align.h"
#include "base/system.h"

/* Of the host: files are mapped by whole ones, of 4 KiB or, on some 64-bit Arm, 64 KiB. */
static uint64_t host_page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* By one call for many pages: a mapping costs a fault for each, and zeros before the poison. */
static bool write_poison(int file, uint64_t at, uint64_t end)
{
    enum { PIECE = 4096, PIECES = 64 };
    unsigned char piece[PIECE];
    struct iovec pieces[PIECES];
    memset(piece, MEND_SIM_POISON, PIECE);
    while (at < end && mend_may_be_file_size(end)) {
        int count = 0;
        for (uint64_t to = at; to < end && count < PIECES; to += PIECE) {
            const uint64_t size = mend_min_u64(PIECE, end - to);
            pieces[count++] = (struct iovec){.iov_base = piece, .iov_len = (size_t)size};
        }
        const ssize_t written = pwritev(file, pieces, count, (off_t)at);
        if (written <= 0) {
            return false;
        }
        at += (uint64_t)written;
    }
    return at == end;
}

/* Fills the holes of a part of a file. False if the system writes no more: they stay. */
static bool fill_holes(int file, uint64_t at, uint64_t end)
{
    while (at < end) {
        off_t hole = lseek(file, (off_t)at, SEEK_HOLE);
        if (hole < 0 || (uint64_t)hole >= end) {
            break;
        }
        off_t data = lseek(file, hole, SEEK_DATA); /* -1: none behind it */
        at = data < 0 ? end : mend_min_u64((uint64_t)data, end);
        if (!write_poison(file, (uint64_t)hole, at)) {
            return false;
        }
    }
    return true;
}

/* Remembers the last fill, because the system looks for a hole page by page, also behind the
 * part. */
static void fill_chunk(mend_sim *sim, mend_sim_chunk *chunk, uint64_t from, uint64_t to)
{
    assert(from <= to);
    assert(to <= chunk->size_bytes);
    const bool is_full = chunk->filled_from <= from && to <= chunk->filled_to;
    if (chunk->plain || chunk->foreign || to == from || is_full) {
        return;
    }
    from = mend_align_down(from, host_page_bytes());
    to = mend_align_up(to, host_page_bytes());
    if (!fill_holes(sim->devices[chunk->device].memory_file, chunk->file_offset + from,
                    chunk->file_offset + to)) {
        return;
    }
    const bool adjoins = from <= chunk->filled_to && chunk->filled_from <= to;
    chunk->filled_from = adjoins ? mend_min_u64(from, chunk->filled_from) : from;
    chunk->filled_to = adjoins ? mend_max_u64(to, chunk->filled_to) : to;
}

static bool is_poison(const mend_sim *sim)
{
    return sim->config.content == MEND_SIM_CONTENT_BYTES && sim->config.fresh_is_zero == 0;
}

void mend_sim_fresh_fill_chunk(mend_sim *sim, mend_sim_chunk *chunk)
{
    if (is_poison(sim)) {
        fill_chunk(sim, chunk, 0, chunk->size_bytes);
    }
}

/* All of the range is mapped. */
static void fill(mend_sim *sim, uint64_t address, uint64_t size)
{
    const uint64_t end = address + size;
    for (uint64_t at = address; at < end;) {
        const mend_sim_mapping *mapping = mend_sim_mapping_at(sim, at);
        assert(mapping != NULL);
        const uint64_t to = mend_min_u64(end, mapping->address + mapping->size_bytes);
        fill_chunk(sim, mapping->chunk, at - mapping->address, to - mapping->address);
        at = to;
    }
}

/* Before all of the range is written: only its first and last page keep anything. */
static void fill_edges(mend_sim *sim, uint64_t address, uint64_t size)
{
    if (size > 0) {
        fill(sim, address, 1);
        fill(sim, address + (size - 1), 1);
    }
}

static void fill_granules(mend_sim *sim, const mend_sim_item *item)
{
    for (uint64_t i = 0; i < item->granule_count; i++) {
        fill(sim, item->address + i * item->stride_bytes, item->granule_bytes);
    }
}

void mend_sim_fresh_fill_for(mend_sim *sim, const mend_sim_item *item)
{
    if (!is_poison(sim)) {
        return;
    }
    const bool is_written = item->kind == MEND_SIM_ITEM_FILL ||
                            (item->kind == MEND_SIM_ITEM_COPY && item->host == NULL);
    const bool is_touched =
        item->kind == MEND_SIM_ITEM_WRITE_TAG || item->kind == MEND_SIM_ITEM_VERIFY_TAG ||
        item->kind == MEND_SIM_ITEM_WRITE_WORDS || item->kind == MEND_SIM_ITEM_VERIFY_WORDS;
    const bool is_dense = item->granule_count <= 1 || item->stride_bytes == item->granule_bytes;
    if (is_written) {
        fill_edges(sim, item->address, item->granule_bytes);
    } else if (is_touched && is_dense) {
        fill(sim, item->address, item->granule_count * item->granule_bytes);
    } else if (is_touched) {
        fill_granules(sim, item);
    }
    if (item->source != 0) {
        fill(sim, item->source, item->granule_bytes);
    }
    if (item->kind == MEND_SIM_ITEM_VERIFY_WORDS) {
        fill(sim, item->mismatches, sizeof(uint64_t));
    }
}
