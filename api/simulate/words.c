#include "simulate/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void simulate_say(const char *format, ...)
{
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(line, sizeof(line), "libmend.simulate: ");
    length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, arguments);
    va_end(arguments);
    length = length < (int)sizeof(line) - 2 ? length : (int)sizeof(line) - 2;
    line[length] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)length + 1);
    (void)written; /* there is no other place to report it */
}
