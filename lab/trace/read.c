#include "lab/trace/read.h"

#include "lab/support/lines.h"
#include "lab/trace/rmm.h"

mend_result mend_trace_read(const char *path, mend_trace **trace)
{
    mend_line_source source;
    mend_result result = mend_line_source_open(&source, path);
    if (result != MEND_OK) {
        return result;
    }
    /* The first line tells the format. */
    result = mend_line_source_next(&source);
    if (result == MEND_OK) {
        if (source.ended) {
            result = mend_line_source_fail(&source, "the file is empty");
        } else if (mend_trace_is_rmm_log(&source)) {
            result = mend_trace_read_rmm_log(&source, trace);
        } else {
            result = mend_line_source_fail(&source, "not a known trace: the first line should be "
                                                    "Thread,Time,Action,Pointer,Size,Stream");
        }
    }
    mend_line_source_close(&source);
    return result;
}
