/* `libmend replay`: runs traces and workloads through policies and prints the results. */
#ifndef MEND_LAB_REPLAY_COMMAND_H
#define MEND_LAB_REPLAY_COMMAND_H

/* argv[0] is "replay". Exit status: 0 every run completed, 1 some ran out of memory, 2 wrong usage
 * or input, 3 content errors or a broken rule of the driver. */
int mend_cli_replay(int argc, char **argv);

#endif
