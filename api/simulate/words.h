/* What the stand-in says to the user of a program: lines on standard error. */
#ifndef MEND_SIMULATE_WORDS_H
#define MEND_SIMULATE_WORDS_H

__attribute__((format(printf, 1, 2))) void simulate_say(const char *format, ...);

#endif
