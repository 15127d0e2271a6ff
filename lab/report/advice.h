/* The words of a report: the verdict, and the most useful single change. */
#ifndef MEND_LAB_REPORT_ADVICE_H
#define MEND_LAB_REPORT_ADVICE_H

#include "lab/report/model.h"

enum { MEND_ADVICE_MOST = 4, MEND_VERDICT_BYTES = 512 };

typedef struct mend_advice {
    uint64_t saved_bytes; /* of the memory that the device must have. 0: not known */
    char what[384];
    char evidence[512];
} mend_advice;

/* The kind of its owners: "line", "scope", "tag", several of these ("owner"), or "size". */
const char *mend_report_owner_kind(const mend_report *report);

/* The kind and the size of the file. */
void mend_report_tell_source(const mend_report *report, char *text, size_t size);

/* Mend's reason for the last failed request, without the request. NULL: the file does not have
 * it. */
const char *mend_report_reason(const mend_report *report);

/* One sentence. */
void mend_report_judge(const mend_report *report, char *verdict, size_t size);

/* At most MEND_ADVICE_MOST, the one that saves most first. Returns how many. */
size_t mend_report_advise(const mend_report *report, mend_advice *advice);

/* Its letter, if it has one, and its name. */
typedef struct mend_report_call {
    char text[232];
} mend_report_call;

mend_report_call mend_report_call_of(const mend_report_owner *owner);

/* The owner with most of a number, or NULL. */
const mend_report_owner *mend_report_largest(const mend_report *report, size_t figure);
#define MEND_REPORT_LARGEST(report, figure)                                                        \
    mend_report_largest(report, offsetof(mend_report_owner, figure))

/* The owner that holds most of the free memory in place. Memory freed at the failure and still
 * used. New and large blocks then. The most memory asleep, and allocated beyond the reserved
 * memory. False: there is none. */
bool mend_report_tell_keeper(const mend_report *report, char *text, size_t size);
bool mend_report_tell_waiting(const mend_report *report, char *text, size_t size);
bool mend_report_tell_new(const mend_report *report, char *text, size_t size);
bool mend_report_tell_away(const mend_report *report, char *text, size_t size);

#endif
