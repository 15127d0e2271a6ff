/* The rows of a page: all that the program and its allocator did, in order, as columns. */
#ifndef MEND_LAB_REPORT_ROWS_H
#define MEND_LAB_REPORT_ROWS_H

#include "lab/report/model.h"
#include "lab/support/columns.h"

enum { MEND_ROW_UNIT_BYTES = 512 };

typedef enum mend_row_kind {
    MEND_ROW_ALLOC,
    MEND_ROW_FREE,
    MEND_ROW_TAKE, /* the allocator took memory from the driver */
    MEND_ROW_GIVE,
    MEND_ROW_REFUSE,
    MEND_ROW_PLACE, /* addresses have memory behind them: then taken memory has no address */
    MEND_ROW_UNPLACE,
    MEND_ROW_WAIT /* the host waited for the device */
} mend_row_kind;

/* Sizes are rounded up to MEND_ROW_UNIT_BYTES, and addresses down. Both are counted in it. */
#define MEND_ROW_COLUMNS(X)                                                                        \
    X(kind)            /* of each row */                                                           \
    X(size)            /* of each block: 0 as its owner's block before, else one more than it */   \
    X(address)         /* of each block, as changes. Empty where they are not known */             \
    X(owner)           /* of each block: its number */                                             \
    X(stream)          /* of each block: its index */                                              \
    X(wait)            /* of each block: rows from its allocation to where its free was asked for, \
                          if it was done later; else 0 */                                          \
    X(back)            /* of each free: the number of allocations since the block's */             \
    X(segment_address) /* of each row that takes, gives or places, as changes */                   \
    X(segment_size)                                                                                \
    X(segment_stream) /* as the file names it */                                                   \
    X(refused_size)   /* of each row that refuses */                                               \
    X(refused_short)  /* of these: how much smaller it would have fitted. 0: not known */          \
    X(refused_stream)                                                                              \
    X(waited_us) /* of each row that waits */

typedef struct mend_rows {
    size_t count;
    size_t failures;
    size_t moment; /* the row that is reported */
    size_t peak;
    size_t last_failure;
#define X(name) mend_column name;
    MEND_ROW_COLUMNS(X)
#undef X
} mend_rows;

/* The caller clears *rows, also after a failure. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_rows_make(const mend_report *report, mend_rows *rows);
void mend_rows_clear(mend_rows *rows);

#endif
