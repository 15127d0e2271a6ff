#include "lab/trace/read.h"

#include <string.h>

#include "base/error.h"
#include "lab/support/lines.h"
#include "lab/trace/recording.h"
#include "lab/trace/rmm.h"
#include "lab/trace/snapshot.h"

/* Windows begins text files with it. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

static mend_result read_log(mend_line_source *source, mend_trace_detail *detail, mend_trace **trace)
{
    mend_result result = mend_line_source_next(source);
    if (result != MEND_OK) {
        return result;
    }
    if (source->ended) {
        return mend_line_source_fail(source, "the file is empty");
    }
    if (!mend_trace_is_rmm_log(source)) {
        return mend_line_source_fail(source, "not a known trace: neither a recording of Mend nor a "
                                             "snapshot of PyTorch nor a log whose first line is "
                                             "Thread,Time,Action,Pointer,Size,Stream");
    }
    return mend_trace_read_rmm_log(source, detail, trace);
}

mend_result mend_trace_read(const char *path, mend_trace **trace)
{
    return mend_trace_read_with(path, NULL, trace);
}

mend_result mend_trace_read_with(const char *path, mend_trace_detail *detail, mend_trace **trace)
{
    mend_line_source source;
    mend_byte_source *bytes = &source.bytes;
    mend_result result = mend_line_source_open(&source, path);
    if (result != MEND_OK) {
        return result;
    }
    /* The first bytes tell the format. */
    const char *reason = mend_byte_source_fill(bytes);
    if (reason != NULL) {
        result = mend_line_source_fail(&source, "%s", reason);
    } else {
        size_t mark_bytes = strlen(byte_order_mark);
        bool has_mark =
            bytes->end >= mark_bytes && memcmp(bytes->buffer, byte_order_mark, mark_bytes) == 0;
        bytes->start += has_mark ? mark_bytes : 0;
        result = mend_trace_is_recording(bytes)  ? mend_trace_read_recording(bytes, detail, trace)
                 : mend_trace_is_snapshot(bytes) ? mend_trace_read_snapshot(bytes, detail, trace)
                                                 : read_log(&source, detail, trace);
    }
    mend_line_source_close(&source);
    if (result == MEND_OK && detail != NULL && detail->lacks_memory) {
        mend_trace_destroy(*trace);
        *trace = NULL;
        result = mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %s", path);
    }
    return result;
}
