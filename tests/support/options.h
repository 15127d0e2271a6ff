/* Options for one call, in the call: KIT_OPTIONS(mend_alloc_options, .group = group). */
#ifndef MEND_TESTS_SUPPORT_OPTIONS_H
#define MEND_TESTS_SUPPORT_OPTIONS_H

#define KIT_OPTIONS(type, ...) (&(const type){.struct_size = sizeof(type), __VA_ARGS__})

#endif
