# Libraries over copies of the sources in which each entry of some tables sleeps until it is chosen:
# deliberate bugs for the tests, mechanisms that are switched off for bench/ablate.
#
#   mend_make_copies(COPIES GENERATOR TABLES...) makes a copy of each file of vmm, api/torch,
#     lab/driver and lab/heap in the folder COPIES. A copy that stays as it is, and what is built of
#     it, are not made again.
#   mend_library_over_copies(TARGET COPIES) builds all of mend_internal from copies.
#   mend_torch_over_copies(TARGET COPIES) builds libmend_torch from copies.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(MEND_MUTANTS_DIR ${CMAKE_CURRENT_LIST_DIR})

# In CMAKE_CURRENT_BINARY_DIR the command that makes the copies is known by its outputs.
function(mend_make_copies copies generator)
  file(GLOB_RECURSE originals CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/vmm/*.[ch] ${PROJECT_SOURCE_DIR}/api/torch/*.[ch]
    ${PROJECT_SOURCE_DIR}/lab/driver/*.[ch] ${PROJECT_SOURCE_DIR}/lab/heap/*.[ch])
  list(TRANSFORM originals PREPEND ${copies}/ OUTPUT_VARIABLE generated)
  list(TRANSFORM originals PREPEND ${PROJECT_SOURCE_DIR}/)
  set(scripts generate.py places.py table.py)
  list(TRANSFORM scripts PREPEND ${MEND_MUTANTS_DIR}/)
  add_custom_command(OUTPUT ${generated} ${copies}/mutant_names.h
    COMMAND ${Python3_EXECUTABLE} -B ${generator} ${PROJECT_SOURCE_DIR} ${copies}
    DEPENDS ${originals} ${generator} ${scripts} ${ARGN} COMMENT "Copies of the sources")
endfunction()

# Sets sources to the copies of a target's, beside what chooses.
function(mend_copies_of copies)
  set(found ${copies}/mutant_names.h ${MEND_MUTANTS_DIR}/choose.c)
  foreach(target ${ARGN})
    get_target_property(files ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(file ${files})
      cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${folder} NORMALIZE)
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
      if(name MATCHES "^(vmm|api/torch|lab/driver|lab/heap)/")
        set(file ${copies}/${name})
      endif()
      list(APPEND found ${file})
    endforeach()
  endforeach()
  set(sources ${found} PARENT_SCOPE)
endfunction()

# The originals were compiled with warnings; a bug may well deserve one. Headers are found among the
# copies. Nobody debugs a copy.
function(mend_library_over_copies target copies)
  mend_copies_of(${copies} mend_base mend_core mend_inside mend_sim_core)
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PRIVATE
    ${copies} ${copies}/vmm
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/vmm ${PROJECT_SOURCE_DIR}/api/include)
  target_compile_options(${target} PRIVATE -w -g0)
  if(NOT MEND_VALIDATE)
    target_compile_definitions(${target} PRIVATE MEND_WITHOUT_VALIDATE)
  endif()
  target_link_libraries(${target} PUBLIC Threads::Threads ${CMAKE_DL_LIBS} PRIVATE mend_compile)
endfunction()

function(mend_torch_over_copies target copies)
  mend_copies_of(${copies} mend_torch)
  add_library(${target} SHARED ${sources})
  target_include_directories(${target} PRIVATE ${copies} ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/api ${PROJECT_SOURCE_DIR}/api/include)
  target_compile_options(${target} PRIVATE -w -g0)
  target_link_libraries(${target} PRIVATE mend mend_compile)
endfunction()
