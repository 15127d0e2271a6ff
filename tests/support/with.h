/* Options for one call, in the call: &MEND_TEST_WITH(mend_alloc_options, .alignment_bytes = 4096).
 */
#ifndef MEND_TESTS_SUPPORT_WITH_H
#define MEND_TESTS_SUPPORT_WITH_H

#define MEND_TEST_WITH(type, ...) ((type){.struct_size = sizeof(type), __VA_ARGS__})

#endif
