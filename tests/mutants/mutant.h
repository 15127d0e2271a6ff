/*
 * Which mutants, deliberate bugs of the tables beside this file, are awake in this process.
 * Included before everything else in the mutated copies of the sources, and nowhere else. The
 * ablations of bench/ablate are chosen in the same way.
 */
#ifndef MEND_TESTS_MUTANTS_MUTANT_H
#define MEND_TESTS_MUTANTS_MUTANT_H

/* By the number in the tables; not 0: awake. MEND_MUTANT in the environment names those that are
 * awake when the process starts, with commas between them. */
extern unsigned char mend_mutant_awake[];

#define mend_mutant_is(number) (mend_mutant_awake[number] != 0)

#endif
