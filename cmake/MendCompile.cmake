# How everything of ours is compiled: one interface target that each library and program links.
add_library(mend_compile INTERFACE)
target_compile_definitions(mend_compile INTERFACE _GNU_SOURCE)
target_compile_options(mend_compile INTERFACE
  -Wall -Wextra -Wconversion -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wvla>
  -fvisibility=hidden -fno-common)
if(MEND_WERROR)
  target_compile_options(mend_compile INTERFACE -Werror)
endif()
if(MEND_SANITIZE)
  target_compile_options(mend_compile INTERFACE
    -fsanitize=${MEND_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(mend_compile INTERFACE -fsanitize=${MEND_SANITIZE})
endif()
if(MEND_COVERAGE)
  target_compile_options(mend_compile INTERFACE --coverage)
  target_link_options(mend_compile INTERFACE --coverage)
endif()
