/* mend: the program. Each subcommand is a function with its own argv. */
#include "cli/commands.h"
#include "lab/support/output.h"

/* Commands print without checks. mend_output_end checks that everything was written. */
int main(int argc, char **argv)
{
    mend_output_begin();
    return mend_output_end(mend_commands_run(argc, argv));
}
