# Libraries over copies of the sources in which each entry of some tables sleeps until it is chosen:
# deliberate bugs for the tests, mechanisms that are switched off for bench/ablate.
#
#   mend_read_entries(KEY TABLES... ) sets entry_files to the files that the tables name, and
#     entry_names to ROOM.NAME for each KEY.
#   mend_library_over_copies(TARGET COPIES) builds all of mend_internal from the copies in the
#     folder COPIES, where entry_files has one, and from the originals otherwise.
#   mend_torch_over_copies(TARGET COPIES FILES...) builds libmend_torch in the same way, where FILES
#     are those of api/torch that the tables name.
set(MEND_MUTANTS_DIR ${CMAKE_CURRENT_LIST_DIR})

macro(mend_read_entries key)
  set(entry_names)
  set(entry_files)
  foreach(table ${ARGN})
    get_filename_component(room ${table} NAME_WE)
    file(STRINGS ${table} lines REGEX "^(${key}|file) ")
    foreach(line ${lines})
      if(line MATCHES "^${key} +(.*)$")
        list(APPEND entry_names ${room}.${CMAKE_MATCH_1})
      elseif(line MATCHES "^file +(.*)$")
        list(APPEND entry_files ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES entry_files)
  list(REMOVE_DUPLICATES entry_names)
endmacro()

# In CMAKE_CURRENT_BINARY_DIR the commands that make the copies are known by their outputs.
function(mend_library_over_copies target copies)
  list(TRANSFORM entry_files PREPEND ${copies}/ OUTPUT_VARIABLE generated)
  list(TRANSFORM entry_files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE originals)
  set(sources ${generated} ${copies}/mutant_names.h ${MEND_MUTANTS_DIR}/choose.c)
  foreach(room mend_base mend_core mend_traced mend_sim_core)
    get_target_property(files ${room} SOURCES)
    foreach(file ${files})
      cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/vmm)
      if(NOT file IN_LIST originals)
        list(APPEND sources ${file})
      endif()
    endforeach()
  endforeach()
  add_library(${target} STATIC ${sources})
  # A header that has entries is found among the copies.
  target_include_directories(${target} PRIVATE
    ${copies} ${copies}/vmm
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/vmm ${PROJECT_SOURCE_DIR}/api/include)
  # The originals were compiled with warnings; a bug may well deserve one.
  target_compile_options(${target} PRIVATE -include ${MEND_MUTANTS_DIR}/mutant.h -w)
  target_link_libraries(${target} PUBLIC Threads::Threads ${CMAKE_DL_LIBS} PRIVATE mend_compile)
endfunction()

function(mend_torch_over_copies target copies)
  set(sources ${copies}/mutant_names.h ${MEND_MUTANTS_DIR}/choose.c)
  get_target_property(files mend_torch SOURCES)
  get_target_property(folder mend_torch SOURCE_DIR)
  foreach(file ${files})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${folder} NORMALIZE)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    if(name IN_LIST ARGN)
      list(APPEND sources ${copies}/${name})
    else()
      list(APPEND sources ${file})
    endif()
  endforeach()
  add_library(${target} SHARED ${sources})
  target_include_directories(${target} PRIVATE ${copies} ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/api ${PROJECT_SOURCE_DIR}/api/include)
  target_compile_options(${target} PRIVATE -include ${MEND_MUTANTS_DIR}/mutant.h -w)
  target_link_libraries(${target} PRIVATE mend mend_compile)
endfunction()
