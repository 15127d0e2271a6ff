/*
 * Which mutant, a deliberate bug of the tables beside this file, is awake in this process. Included
 * before everything else in the mutated copies of the sources, and nowhere else.
 */
#ifndef MEND_TESTS_MUTANTS_MUTANT_H
#define MEND_TESTS_MUTANTS_MUTANT_H

/* The number of the one that MEND_MUTANT names in the environment when the process starts; 0: none.
 */
extern int mend_mutant_chosen;

#define mend_mutant_is(number) (mend_mutant_chosen == (number))

#endif
