/*
 * Bytes as the file of a trace, plain or compressed: it is read or refused with file, line and
 * reason. What is read is sound, also scaled, and reads the same from a compressed file.
 */
#include "lab/trace/trace.h"

#include <string.h>
#include <zlib.h>

#include "lab/trace/read.h"
#include "tests/fuzz/fuzz.h"

static bool same(const mend_trace *a, const mend_trace *b)
{
    bool is_same = a->event_count == b->event_count && a->stream_count == b->stream_count &&
                   a->peak_live_bytes == b->peak_live_bytes;
    for (size_t i = 0; is_same && i < a->event_count; i++) {
        const mend_trace_event *one = &a->events[i];
        const mend_trace_event *other = &b->events[i];
        is_same = one->size_bytes == other->size_bytes && one->block == other->block &&
                  one->stream == other->stream && one->thread == other->thread &&
                  one->is_alloc == other->is_alloc && one->has_failed == other->has_failed;
    }
    return is_same;
}

static void check_compressed(const mend_trace *trace, const uint8_t *data, size_t size)
{
    z_stream stream = {0};
    uLong most = compressBound(size) + 64;
    uint8_t *packed = malloc(most);
    FUZZ_CHECK(packed != NULL &&
                   deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
               "no compression");
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)size;
    stream.next_out = packed;
    stream.avail_out = (uInt)most;
    FUZZ_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "no compression");
    deflateEnd(&stream);
    mend_trace *again = NULL;
    mend_result result = mend_trace_read(fuzz_file(1, packed, stream.total_out), &again);
    FUZZ_CHECK(result == MEND_OK && same(trace, again), "%s", mend_result_name(result));
    mend_trace_destroy(again);
    free(packed);
}

static void check_scaled(mend_trace *trace)
{
    static const double factors[] = {3, 0.25, 1e12, 1e-9};
    for (size_t i = 0; i < sizeof(factors) / sizeof(*factors); i++) {
        mend_result result = mend_trace_scale(trace, factors[i]);
        if (result != MEND_OK) {
            fuzz_check_refusal(result, "with that scale");
            return;
        }
        fuzz_check_trace(trace);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    mend_trace *trace = NULL;
    mend_result result = mend_trace_read(path, &trace);
    FUZZ_CHECK((result == MEND_OK) == (trace != NULL), "%s", mend_result_name(result));
    if (result != MEND_OK) {
        fuzz_check_refusal(result, path);
        return 0;
    }
    char name[64];
    mend_trace_short_name(trace, name, sizeof(name));
    fuzz_check_trace(trace);
    if (size < 2 || data[0] != 0x1f) {
        check_compressed(trace, data, size);
    }
    check_scaled(trace);
    mend_trace_destroy(trace);
    return 0;
}
