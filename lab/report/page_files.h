/* The files of lab/report/page, as the build embeds them: each ends with a 0. */
#ifndef MEND_LAB_REPORT_PAGE_FILES_H
#define MEND_LAB_REPORT_PAGE_FILES_H

extern const unsigned char mend_report_html[]; /* with names of parts in double braces */
extern const unsigned char mend_report_style[];
extern const unsigned char mend_report_script[];

#endif
