# How everything of ours is compiled: one interface target that each library and program links.
add_library(mend_compile INTERFACE)
target_compile_definitions(mend_compile INTERFACE _GNU_SOURCE)
# Libraries are bound as they are loaded, so a call needs no stub. Counters side by side are added
# one by one: in vectors of two they take more instructions (bench/counts.py).
target_compile_options(mend_compile INTERFACE
  -Wall -Wextra -Wconversion -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wvla>
  -fvisibility=hidden -fno-common -fno-plt -fno-tree-slp-vectorize)
if(MEND_WERROR)
  target_compile_options(mend_compile INTERFACE -Werror)
endif()
if(MEND_PORTABLE)
  # Programs alone: PyTorch's hook shares the libstdc++ of the process it is loaded into.
  target_link_options(mend_compile INTERFACE
    $<$<AND:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,$<LINK_LANGUAGE:CXX>>:-static-libstdc++>
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static-libgcc>)
endif()
if(MEND_SANITIZE)
  target_compile_options(mend_compile INTERFACE
    -fsanitize=${MEND_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(mend_compile INTERFACE -fsanitize=${MEND_SANITIZE})
endif()
if(MEND_FUZZ)
  target_compile_options(mend_compile INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(MEND_COVERAGE)
  # Threads count in the same counters.
  target_compile_options(mend_compile INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(mend_compile INTERFACE --coverage)
endif()

# What turns a mistake into an end instead of a way in. Fortified functions need optimization;
# sanitizers bring their own.
if(MEND_HARDEN AND NOT MEND_SANITIZE AND NOT MEND_COVERAGE)
  set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
  # Undefined first: some distributions' compilers define it themselves, with another value.
  target_compile_options(mend_compile INTERFACE
    $<${optimised}:-U_FORTIFY_SOURCE>
    $<${optimised}:-D_FORTIFY_SOURCE=2>
    $<${optimised}:-fstack-protector-strong>)
  target_link_options(mend_compile INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
endif()

# mend_precompile(NAME HEADER...): headers that most files of NAME include are read once for all. A
# file without an include is seen only where this is off; a compiler cache has no use for it. Not
# for optimized builds, in which headers are a small part.
function(mend_precompile name)
  if(MEND_PRECOMPILE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    target_precompile_headers(${name} PRIVATE ${ARGN})
  endif()
endfunction()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
