/* The files that this process has open, for tests that none stays open. */
#ifndef MEND_TESTS_SUPPORT_FILES_H
#define MEND_TESTS_SUPPORT_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* Set where files stay open by design: those of a CUDA driver, from its first use on, and
 * recordings that were read. Else each test closes its own. */
extern bool mend_test_files_stay;

/* Without the socket for exports, which stays open until the process ends. */
int mend_test_open_files(void);

/* Whether just so many files are open, once other threads have closed theirs. */
bool mend_test_files_are(int count);

/* How long the files may be that this process writes (RLIMIT_FSIZE). UINT64_MAX: as long as the
 * system lets them be. */
void mend_test_shared_limit_file_size(uint64_t bytes);

#endif
