/*
 * Bytes of chunks that are mapped twice, as by Mend's lazy moves: a chunk gets a second address,
 * and the first mapping is removed while kernels use the second. Then a range that is written while
 * its neighbors come and go, and a graph whose addresses get other memory. Every word is compared.
 */
#include <string.h>

#include "probe/questions.h"
#include "probe/range.h"

/* Two places for one chunk, a counter of words that differ, and a stream. */
typedef struct alias {
    probe *p;
    mend_stream work;
    mend_event event;
    uint64_t counter;
    uint64_t address[2];
    mend_chunk_handle chunk;
    bool mapped[2];
    uint64_t size_bytes;
} alias;

static mend_status map_at(alias *a, int place)
{
    const mend_driver *driver = a->p->driver;
    const int device = 0;
    mend_status status = driver->map(driver, a->address[place], a->size_bytes, 0, a->chunk);
    a->mapped[place] = status == MEND_DRIVER_OK;
    return status == MEND_DRIVER_OK ? driver->set_access(driver, a->address[place], a->size_bytes,
                                                         &device, 1, MEND_ACCESS_READ_WRITE)
                                    : status;
}

static mend_status unmap_at(alias *a, int place)
{
    mend_status status = a->p->driver->unmap(a->p->driver, a->address[place], a->size_bytes);
    a->mapped[place] = status != MEND_DRIVER_OK;
    return status;
}

static mend_status alias_open(alias *a, probe *p, uint64_t pages)
{
    const mend_driver *driver = p->driver;
    const mend_chunk_properties properties = {0};
    *a = (alias){.p = p, .size_bytes = pages * p->page_bytes};
    mend_status status = driver->stream_create(driver, &a->work);
    if (status == MEND_DRIVER_OK) {
        status = driver->event_create(driver, &a->event);
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->plain_alloc(driver, sizeof(uint64_t), &a->counter);
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->create(driver, a->size_bytes, &properties, &a->chunk);
    }
    for (int i = 0; status == MEND_DRIVER_OK && i < 2; i++) {
        status = driver->reserve(driver, a->size_bytes, 0, 0, &a->address[i]);
    }
    return status;
}

static void alias_close(alias *a)
{
    const mend_driver *driver = a->p->driver;
    driver->context_synchronize(driver);
    for (int i = 0; i < 2; i++) {
        if (a->mapped[i]) {
            driver->unmap(driver, a->address[i], a->size_bytes);
        }
        if (a->address[i] != 0) {
            driver->address_free(driver, a->address[i], a->size_bytes);
        }
    }
    if (a->chunk != 0) {
        driver->release(driver, a->chunk);
    }
    if (a->counter != 0) {
        driver->plain_free(driver, a->counter);
    }
    if (a->event != NULL) {
        driver->event_destroy(driver, a->event);
    }
    if (a->work != NULL) {
        driver->stream_destroy(driver, a->work);
    }
}

/* A kernel over every piece of the chunk, or every second one, at one of its places. */
static mend_status use(alias *a, mend_stream stream, mend_kernel_kind kind, int place,
                       uint32_t value, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = kind,
                                .value = value,
                                .duration_ns = duration_ns,
                                .address = a->address[place],
                                .granule_bytes = MEND_GRANULE_BYTES,
                                .stride_bytes = MEND_GRANULE_BYTES,
                                .granule_count = a->size_bytes / MEND_GRANULE_BYTES,
                                .mismatches = a->counter};
    return a->p->driver->launch(a->p->driver, stream, &kernel);
}

static mend_status clear_counter(alias *a)
{
    return a->p->driver->fill(a->p->driver, a->counter, 0, sizeof(uint64_t), a->work);
}

/* Waits for everything. */
static mend_status read_counter(alias *a, uint64_t *words)
{
    const mend_driver *driver = a->p->driver;
    *words = UINT64_MAX;
    mend_status status = driver->context_synchronize(driver);
    if (status == MEND_DRIVER_OK) {
        status =
            driver->copy(driver, (uint64_t)(uintptr_t)words, a->counter, sizeof(*words), a->work);
    }
    return status == MEND_DRIVER_OK ? driver->stream_synchronize(driver, a->work) : status;
}

/* `expected` words must differ. `judged` false: any number is a finding. */
static void report(probe *p, const char *what, uint64_t rounds, uint64_t words, uint64_t expected,
                   bool judged)
{
    bool right = words == expected;
    mend_json record = probe_record(p, "alias");
    mend_json_string(&record, "what", what);
    mend_json_integer(&record, "rounds", rounds);
    mend_json_integer(&record, "words_that_differ", words);
    mend_json_integer(&record, "expected", expected);
    mend_json_bool(&record, "judged", judged);
    probe_record_end(p, &record);
    printf("%s: %llu words differ in %llu rounds, expected %llu%s\n", what,
           (unsigned long long)words, (unsigned long long)rounds, (unsigned long long)expected,
           right    ? ""
           : judged ? "  WRONG"
                    : "  (no promise)");
    p->problems += judged && !right ? 1 : 0;
}

/* ---- lazy moves ------------------------------------------------------------------------------ */

/* Written at one place. Mapped at the other, checked and hammered there, while the first mapping
 * goes. In one stream, as Mend orders it. */
static mend_status move_once(alias *a, int from, uint32_t value)
{
    const mend_driver *driver = a->p->driver;
    const uint64_t hammer_ns = 2 * UINT64_C(1000000);
    int to = 1 - from;
    mend_status status = use(a, a->work, MEND_KERNEL_WRITE, from, value, 0);
    if (status == MEND_DRIVER_OK) {
        status = driver->event_record(driver, a->event, a->work);
    }
    if (status == MEND_DRIVER_OK) {
        status = map_at(a, to);
    }
    if (status == MEND_DRIVER_OK) {
        status = use(a, a->work, MEND_KERNEL_VERIFY, to, value, 0);
    }
    if (status == MEND_DRIVER_OK) {
        status = use(a, a->work, MEND_KERNEL_WRITE, to, value + 1, hammer_ns);
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->event_synchronize(driver, a->event); /* the old place is done with */
    }
    if (status == MEND_DRIVER_OK) {
        status = unmap_at(a, from);
    }
    return status == MEND_DRIVER_OK ? use(a, a->work, MEND_KERNEL_VERIFY, to, value + 1, 0)
                                    : status;
}

static mend_status probe_moves(probe *p)
{
    const uint64_t most_rounds = p->quick ? 8 : 500;
    const uint64_t until_ns = probe_now_ns(p) + UINT64_C(10000000000);
    alias a;
    uint64_t words = 0;
    uint64_t rounds = 0;
    mend_status status = alias_open(&a, p, 8);
    if (status == MEND_DRIVER_OK) {
        status = map_at(&a, 0);
    }
    if (status == MEND_DRIVER_OK) {
        status = clear_counter(&a);
    }
    while (status == MEND_DRIVER_OK && rounds < most_rounds && probe_now_ns(p) < until_ns) {
        status = move_once(&a, (int)(rounds % 2), 2 * (uint32_t)rounds + 1);
        rounds++;
    }
    if (status == MEND_DRIVER_OK) {
        status = read_counter(&a, &words);
    }
    if (status == MEND_DRIVER_OK) {
        report(p, "a chunk moves under kernels", rounds, words, 0, true);
    }
    alias_close(&a);
    return status;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

typedef struct recorded {
    void *graph;
    void *executable;
} recorded;

/* Writes 7 at the first place and compares at the second. */
static mend_status record_graph(alias *a, recorded *r)
{
    const probe_program *program = &a->p->program;
    mend_status status = program->begin_capture(a->work, MEND_CAPTURE_MODE_RELAXED);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    status = use(a, a->work, MEND_KERNEL_WRITE, 0, 7, 0);
    mend_status verified = use(a, a->work, MEND_KERNEL_VERIFY, 1, 7, 0);
    mend_status ended = program->end_capture(a->work, &r->graph);
    status = status != MEND_DRIVER_OK ? status : verified != MEND_DRIVER_OK ? verified : ended;
    return status == MEND_DRIVER_OK ? program->instantiate(&r->executable, r->graph, 0) : status;
}

static mend_status launch_graph(alias *a, const recorded *r, uint64_t launches, uint64_t *words)
{
    mend_status status = clear_counter(a);
    for (uint64_t i = 0; status == MEND_DRIVER_OK && i < launches; i++) {
        status = a->p->program.graph_launch(r->executable, a->work);
    }
    return status == MEND_DRIVER_OK ? read_counter(a, words) : status;
}

/* Gives the first place its own memory. The graph's writes are not seen at the second then. */
static mend_status take_memory_away(alias *a)
{
    const mend_chunk_properties properties = {0};
    const mend_driver *driver = a->p->driver;
    mend_chunk_handle kept = a->chunk;
    mend_status status = unmap_at(a, 0);
    if (status == MEND_DRIVER_OK) {
        status = driver->create(driver, a->size_bytes, &properties, &a->chunk);
    }
    if (status == MEND_DRIVER_OK) {
        driver->release(driver, kept); /* its mapping holds it */
        status = map_at(a, 0);
    }
    return status == MEND_DRIVER_OK ? use(a, a->work, MEND_KERNEL_WRITE, 1, 9, 0) : status;
}

static mend_status probe_graph(probe *p)
{
    const uint64_t launches = p->quick ? 4 : 200;
    alias a;
    recorded r = {NULL, NULL};
    uint64_t words = 0;
    mend_status status = alias_open(&a, p, 2);
    for (int i = 0; status == MEND_DRIVER_OK && i < 2; i++) {
        status = map_at(&a, i);
    }
    if (status == MEND_DRIVER_OK) {
        status = record_graph(&a, &r);
    }
    if (status == MEND_DRIVER_OK) {
        status = launch_graph(&a, &r, launches, &words);
    }
    if (status == MEND_DRIVER_OK) {
        report(p, "a graph writes by one address and reads by another", launches, words, 0, true);
        status = take_memory_away(&a);
    }
    if (status == MEND_DRIVER_OK) {
        status = launch_graph(&a, &r, 1, &words);
    }
    if (status == MEND_DRIVER_OK) {
        report(p, "a graph writes what is mapped when it runs", 1, words, a.size_bytes / 4, true);
    }
    p->driver->context_synchronize(p->driver);
    if (r.executable != NULL) {
        p->program.executable_destroy(r.executable);
    }
    if (r.graph != NULL) {
        p->program.graph_destroy(r.graph);
    }
    alias_close(&a);
    return status;
}

/* ---- neighbors ------------------------------------------------------------------------------- */

/* The second place is mapped and unmapped all the time while the first is written. */
static mend_status probe_neighbours(probe *p)
{
    const uint64_t rounds = p->quick ? 8 : 1000;
    alias a;
    uint64_t words = 0;
    mend_status status = alias_open(&a, p, 8);
    if (status == MEND_DRIVER_OK) {
        status = map_at(&a, 0);
    }
    if (status == MEND_DRIVER_OK) {
        status = clear_counter(&a);
    }
    for (uint64_t i = 0; status == MEND_DRIVER_OK && i < rounds; i++) {
        if (i % 8 == 0) {
            status = use(&a, a.work, MEND_KERNEL_WRITE, 0, (uint32_t)i, 5 * UINT64_C(1000000));
        }
        if (status == MEND_DRIVER_OK) {
            status = map_at(&a, 1);
        }
        if (status == MEND_DRIVER_OK) {
            status = unmap_at(&a, 1);
        }
        if (status == MEND_DRIVER_OK && i % 8 == 7) {
            status = use(&a, a.work, MEND_KERNEL_VERIFY, 0, (uint32_t)(i / 8 * 8), 0);
        }
    }
    if (status == MEND_DRIVER_OK) {
        status = read_counter(&a, &words);
    }
    if (status == MEND_DRIVER_OK) {
        report(p, "a chunk is written while its alias comes and goes", rounds, words, 0, true);
    }
    alias_close(&a);
    return status;
}

void probe_aliases(probe *p)
{
    static const struct {
        const char *name;
        mend_status (*run)(probe *p);
    } parts[] = {{"moves", probe_moves}, {"neighbours", probe_neighbours}, {"graphs", probe_graph}};
    /* The first launch loads a module, which is no call for a capture. */
    probe_expect(p, "a first kernel", p->driver->launch(p->driver, NULL, &(mend_kernel){0}));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !probe_is_over(p); i++) {
        mend_status status = parts[i].run(p);
        if (!probe_expect(p, parts[i].name, status) && mend_status_is_fatal(status)) {
            return;
        }
    }
}
