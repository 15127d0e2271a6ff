/* Writes the program of driver/ptx.h to standard output, for ptx_test.sh. */
#include <stdio.h>

#include "driver/ptx.h"

int main(void)
{
    return fputs(mend_ptx_program, stdout) == EOF ? 1 : 0;
}
