/* `mend replay`: runs traces and workloads through policies and prints what came of it. */
#ifndef MEND_LAB_REPLAY_COMMAND_H
#define MEND_LAB_REPLAY_COMMAND_H

/* argv[0] is "replay". The exit status: 0 all completed, 1 some ran out of memory, 2 bad usage or
 * input, 3 content errors or a rule of the driver broken. */
int mend_cli_replay(int argc, char **argv);

#endif
