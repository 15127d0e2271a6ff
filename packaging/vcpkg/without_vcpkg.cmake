# Runs the port where there is no vcpkg, with what its functions do for a release build; fails
# unless the package has what a port must have. -DOUTPUT=FOLDER is where it is built.
set(CURRENT_PACKAGES_DIR ${OUTPUT}/packages/mend)
set(build ${OUTPUT}/build)
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 of "" SOURCE_PATH OPTIONS)
  run(${CMAKE_COMMAND} -S ${of_SOURCE_PATH} -B ${build} -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}
    -DCMAKE_INSTALL_LIBDIR=lib ${of_OPTIONS})
endfunction()
function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${build} --target install)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 of "" "PACKAGE_NAME;CONFIG_PATH" "")
  file(MAKE_DIRECTORY ${CURRENT_PACKAGES_DIR}/share)
  file(RENAME ${CURRENT_PACKAGES_DIR}/${of_CONFIG_PATH}
    ${CURRENT_PACKAGES_DIR}/share/${of_PACKAGE_NAME})
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 of "" "" FILE_LIST)
  file(COPY_FILE ${of_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/mend/copyright)
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/portfile.cmake)
foreach(file include/mend/mend.h lib/libmend.a lib/pkgconfig/mend.pc share/mend/copyright
    share/mend/mend-config.cmake)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/${file})
    message(FATAL_ERROR "the package has no ${file}")
  endif()
endforeach()
message("the port is whole")
