# What `cmake --install` puts where: the libraries, their headers, a CMake package (mend::mend,
# mend::static, mend::sim) and a pkg-config file for each library.
include(CMakePackageConfigHelpers)

install(TARGETS mend mend_static mend_sim EXPORT mend-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/include/mend DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mend)
install(EXPORT mend-targets NAMESPACE mend:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mend-config.cmake.in
  ${PROJECT_BINARY_DIR}/mend-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mend-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/mend-config.cmake ${PROJECT_BINARY_DIR}/mend-config-version.cmake
  DESTINATION ${package_dir})

# Paths relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH MEND_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(library mend mend_sim)
  configure_file(
    ${CMAKE_CURRENT_LIST_DIR}/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
