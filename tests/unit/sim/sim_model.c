/*
 * The simulated device against a naive model: random calls on a few pages, legal ones and others,
 * where an array of pages says what each must answer.
 */
#include <inttypes.h>

#include "tests/unit/sim/sim_fixture.h"

enum { PAGES = 24, CHUNKS = 6, MOST_CHUNK_PAGES = 4, STEPS = 20000 };

typedef struct page_state {
    int mapping; /* 0: none; a number of its own for each mapping */
    int chunk;
    bool accessible;
} page_state;

typedef struct chunk_state {
    mend_chunk_handle handle; /* 0: released, or never made */
    uint64_t pages;
    bool alive; /* held by its handle or by a mapping */
} chunk_state;

typedef struct model {
    sim_fixture *f;
    mend_test_random random;
    uint64_t base; /* of the only reservation, PAGES long */
    page_state page[PAGES + 1];
    chunk_state chunk[CHUNKS];
    int last_mapping;
    uint64_t refused;
} model;

static uint64_t below(model *m, uint64_t bound)
{
    return mend_test_random_below(&m->random, bound);
}

/* [first, first + count) begins and ends where mappings do and has no hole. */
static bool is_whole(const model *m, uint64_t first, uint64_t count)
{
    if (count == 0 || first + count > PAGES) {
        return false;
    }
    for (uint64_t i = first; i < first + count; i++) {
        if (m->page[i].mapping == 0) {
            return false;
        }
    }
    bool begins = first == 0 || m->page[first - 1].mapping != m->page[first].mapping;
    bool ends = m->page[first + count - 1].mapping != m->page[first + count].mapping;
    return begins && ends;
}

static mend_status answer_if(bool legal)
{
    return legal ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE;
}

static void expect_answer(model *m, mend_status is, mend_status expected, const char *call,
                          uint64_t first, uint64_t count)
{
    m->refused += expected != MEND_DRIVER_OK;
    MEND_TEST_CHECK(is == expected, (void)0, "%s of %" PRIu64 " pages at %" PRIu64 ": %s, not %s",
                    call, count, first, mend_status_name(is), mend_status_name(expected));
}

static void step_create(model *m)
{
    chunk_state *chunk = &m->chunk[below(m, CHUNKS)];
    if (!chunk->alive) {
        chunk->pages = 1 + below(m, MOST_CHUNK_PAGES);
        chunk->handle = sim_fixture_chunk(m->f, chunk->pages * m->f->page);
        chunk->alive = true;
    }
}

static void step_release(model *m)
{
    chunk_state *chunk = &m->chunk[below(m, CHUNKS)];
    mend_status is = m->f->driver->release(m->f->driver, chunk->handle);
    expect_answer(m, is, answer_if(chunk->handle != 0), "release", 0, 0);
    chunk->handle = 0;
}

static void step_map(model *m)
{
    int number = (int)below(m, CHUNKS);
    const chunk_state *chunk = &m->chunk[number];
    uint64_t first = below(m, PAGES);
    uint64_t count = below(m, 4) != 0 ? chunk->pages : 1 + below(m, MOST_CHUNK_PAGES);
    bool legal = chunk->handle != 0 && count == chunk->pages && first + count <= PAGES;
    for (uint64_t i = first; legal && i < first + count; i++) {
        legal = m->page[i].mapping == 0;
    }
    mend_status is = m->f->driver->map(m->f->driver, m->base + first * m->f->page,
                                       count * m->f->page, 0, chunk->handle);
    const bool is_part = chunk->handle != 0 && count != chunk->pages;
    expect_answer(m, is, is_part ? MEND_DRIVER_NOT_SUPPORTED : answer_if(legal), "map", first,
                  count);
    m->last_mapping += legal;
    for (uint64_t i = first; legal && i < first + count; i++) {
        m->page[i] = (page_state){m->last_mapping, number, false};
    }
}

/* A range that often begins and ends where mappings do. */
static void pick_range(model *m, uint64_t *first, uint64_t *count)
{
    *first = below(m, PAGES);
    *count = 1 + below(m, MOST_CHUNK_PAGES * 2);
    if (below(m, 3) == 0) {
        return;
    }
    while (*first > 0 && m->page[*first].mapping == m->page[*first - 1].mapping) {
        (*first)--;
    }
    while (*first + *count < PAGES && m->page[*first + *count].mapping != 0 &&
           m->page[*first + *count].mapping == m->page[*first + *count - 1].mapping) {
        (*count)++;
    }
}

static void step_range(model *m, bool unmaps)
{
    uint64_t first = 0;
    uint64_t count = 0;
    pick_range(m, &first, &count);
    sim_fixture *f = m->f;
    bool legal = is_whole(m, first, count);
    uint64_t address = m->base + first * f->page;
    const int device = 0;
    mend_status is = unmaps ? f->driver->unmap(f->driver, address, count * f->page)
                            : f->driver->set_access(f->driver, address, count * f->page, &device, 1,
                                                    MEND_ACCESS_READ_WRITE);
    expect_answer(m, is, answer_if(legal), unmaps ? "unmap" : "set_access", first, count);
    for (uint64_t i = first; legal && i < first + count; i++) {
        m->page[i].accessible = true;
        if (unmaps) {
            m->page[i] = (page_state){0};
        }
    }
}

static void step_unmap(model *m)
{
    step_range(m, true);
}

static void step_access(model *m)
{
    step_range(m, false);
}

/* Work on whatever may be touched; the device must find nothing wrong with it. */
static void step_touch(model *m)
{
    uint64_t first = below(m, PAGES);
    uint64_t count = 0;
    while (first + count < PAGES && m->page[first + count].accessible) {
        count++;
    }
    if (count > 0) {
        EXPECT_PASS(m->f->driver->fill(m->f->driver, m->base + first * m->f->page, 1,
                                       count * m->f->page, m->f->stream));
    }
}

static void compare(model *m)
{
    uint64_t mapped = 0;
    uint64_t accessible = 0;
    uint64_t mappings = 0;
    uint64_t chunk_pages = 0;
    uint64_t handles = 0;
    for (int i = 0; i < PAGES; i++) {
        mapped += m->page[i].mapping != 0;
        accessible += m->page[i].accessible;
        mappings += m->page[i].mapping != 0 && m->page[i].mapping != m->page[i + 1].mapping;
    }
    for (int c = 0; c < CHUNKS; c++) {
        bool held = m->chunk[c].handle != 0;
        for (int i = 0; i < PAGES; i++) {
            held |= m->page[i].mapping != 0 && m->page[i].chunk == c;
        }
        m->chunk[c].alive &= held;
        chunk_pages += m->chunk[c].alive ? m->chunk[c].pages : 0;
        handles += m->chunk[c].handle != 0;
    }
    mend_sim_ledger ledger = sim_fixture_ledger(m->f);
    EXPECT_U64_EQ(mapped * m->f->page, ledger.mapped_bytes);
    EXPECT_U64_EQ(accessible * m->f->page, ledger.accessible_bytes);
    EXPECT_U64_EQ(mappings, ledger.mappings);
    EXPECT_U64_EQ(chunk_pages * m->f->page, ledger.chunk_bytes);
    EXPECT_U64_EQ(handles, ledger.handles);
    EXPECT_U64_EQ(m->refused, ledger.violations);
}

SIM_TEST(sim_model, random_calls_are_answered_as_the_naive_model_says)
{
    static void (*const steps[])(model *) = {step_create, step_release, step_map,  step_map,
                                             step_unmap,  step_access,  step_touch};
    model m = {.f = f};
    mend_test_random_init(&m.random, mend_test_seed());
    PASS(reserve, PAGES * f->page, 0, 0, &m.base);
    for (int i = 0; i < STEPS && !mend_test_has_failed(); i++) {
        steps[below(&m, sizeof(steps) / sizeof(steps[0]))](&m);
        compare(&m);
    }
    EXPECT_TRUE(m.refused > STEPS / 20 && m.last_mapping > STEPS / 100);
}
