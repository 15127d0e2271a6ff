/* What a report says in words: the verdict, and which single change helps most. */
#ifndef MEND_LAB_REPORT_ADVICE_H
#define MEND_LAB_REPORT_ADVICE_H

#include "lab/report/model.h"

enum { MEND_ADVICE_MOST = 4, MEND_VERDICT_BYTES = 512 };

typedef struct mend_advice {
    uint64_t saved_bytes; /* of the memory that the device must have; 0: not known */
    char what[256];
    char evidence[512];
} mend_advice;

/* What its owners are: "line", "scope", "tag", several of these ("owner"), or "size". */
const char *mend_report_owner_kind(const mend_report *report);

/* What kind of file it is, and how much is in it. */
void mend_report_tell_source(const mend_report *report, char *text, size_t size);

/* Why the last request failed, as Mend said it then, without what was asked for; NULL: the file
 * does not have it. */
const char *mend_report_reason(const mend_report *report);

/* One sentence. */
void mend_report_judge(const mend_report *report, char *verdict, size_t size);

/* At most MEND_ADVICE_MOST, the one that saves most first. Returns how many. */
size_t mend_report_advise(const mend_report *report, mend_advice *advice);

/* Its letter, if it has one, and its name. */
typedef struct mend_report_call {
    char text[200];
} mend_report_call;

mend_report_call mend_report_call_of(const mend_report_owner *owner);

/* The one with most of a figure; NULL: nobody has any. */
const mend_report_owner *mend_report_largest(const mend_report *report, size_t figure);
#define MEND_REPORT_LARGEST(report, figure)                                                        \
    mend_report_largest(report, offsetof(mend_report_owner, figure))

/* Who keeps most of the free memory in place; what was freed at the failure, and is still used; and
 * what is new then and large; and what was at most asleep, in use and not held.
 * False: there is none. */
bool mend_report_tell_keeper(const mend_report *report, char *text, size_t size);
bool mend_report_tell_waiting(const mend_report *report, char *text, size_t size);
bool mend_report_tell_new(const mend_report *report, char *text, size_t size);
bool mend_report_tell_away(const mend_report *report, char *text, size_t size);

#endif
