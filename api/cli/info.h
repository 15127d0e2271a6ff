/* mend info: what device there is, what it can do, and what its driver's calls cost. */
#ifndef MEND_CLI_INFO_H
#define MEND_CLI_INFO_H

/* argv[0] is "info". The exit status: 0; 1 when a measurement failed; 2 for bad usage, when there
 * is no such device or when a file cannot be written. Prints to standard output, errors to standard
 * error. */
int mend_cli_info(int argc, char **argv);

#endif
