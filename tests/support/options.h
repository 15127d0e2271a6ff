/* Options for one call, in the call: KIT_OPTIONS(mend_alloc_options, .graph pool = graph pool). */
#ifndef MEND_TESTS_SUPPORT_OPTIONS_H
#define MEND_TESTS_SUPPORT_OPTIONS_H

#define KIT_OPTIONS(type, ...) (&(const type){.struct_size = sizeof(type), __VA_ARGS__})

#endif
