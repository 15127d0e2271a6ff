# What `cmake --install` puts where: the libraries, their headers, a CMake package (mend::mend,
# mend::mend_static, mend::mend_sim, mend::mend_sim_static, mend::mend_hooks, mend::mend_torch) and
# a pkg-config file for each library that programs link; PyTorch opens its own by name.
# Every path in them is relative to the file itself, so that an installed tree may be moved.
include(CMakePackageConfigHelpers)

set(plug_ins mend_hooks)
if(MEND_BUILD_TORCH)
  list(APPEND plug_ins mend_torch)
endif()
install(TARGETS mend mend_static mend_sim mend_sim_static ${plug_ins} EXPORT mend-targets)
# Two headers are between Mend and its own hooks, which the Python package compiles.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/include/mend DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  PATTERN mend_torch.h EXCLUDE PATTERN mend_frameworks.h EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mend)
install(EXPORT mend-targets NAMESPACE mend:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mend-config.cmake.in
  ${PROJECT_BINARY_DIR}/mend-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mend-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/mend-config.cmake ${PROJECT_BINARY_DIR}/mend-config-version.cmake
  DESTINATION ${package_dir})

# mend_pkg_config(LIBRARY REQUIRES DESCRIPTION PRIVATE_LIBS...): what a static link needs is last.
function(mend_pkg_config library requires description)
  list(JOIN ARGN " " private_libs)
  set(package_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH prefix ${package_dir} ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH includedir ${package_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/library.pc.in
    ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
mend_pkg_config(mend "" "${PROJECT_DESCRIPTION}" -pthread -ldl)
mend_pkg_config(mend_sim ""
  "A simulated device to test programs that use Mend without a GPU" -pthread)
mend_pkg_config(mend_hooks mend "What frameworks call to allocate through Mend")
