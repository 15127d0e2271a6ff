/* Options for one call, in the call: KIT_OPTIONS(mend_alloc_options, .graph pool = graph pool). */
#ifndef MEND_TESTS_SUPPORT_OPTIONS_H
#define MEND_TESTS_SUPPORT_OPTIONS_H

#define KIT_OPTIONS(type, ...) (&(const type){.struct_size = sizeof(type), __VA_ARGS__})

/* The options of the thread's later blocks, and no more: KIT_THREAD(.sleep_tag = 5). */
#define KIT_THREAD(...) mend_set_alloc_options(KIT_OPTIONS(mend_alloc_options, __VA_ARGS__), NULL)

#endif
