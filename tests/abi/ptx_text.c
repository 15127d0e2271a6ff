/* Writes the program of driver/ptx.c to standard output, for ptx_test.sh. */
#include <stdio.h>

#include "driver/cuda_state.h"

int main(void)
{
    return fputs(mend_ptx_program, stdout) == EOF ? 1 : 0;
}
