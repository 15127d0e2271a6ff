/* mend demo: runs a few workloads on a device with barely enough memory, and draws a page. */
#ifndef MEND_CLI_DEMO_H
#define MEND_CLI_DEMO_H

/* argv[0] is "demo". The exit status: 0 Mend completed every workload, 1 it ran out of memory in
 * one, 2 bad usage, a recording is missing or the page cannot be written, 3 a rule of the driver
 * was broken. Progress goes to standard error, the table to standard output. */
int mend_cli_demo(int argc, char **argv);

#endif
