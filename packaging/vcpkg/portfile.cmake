# The port of the tree that it lies in: vcpkg install mend --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH} OPTIONS
  -DMEND_BUILD_TESTS=OFF -DMEND_BUILD_BENCH=OFF -DMEND_BUILD_TOOLS=OFF -DMEND_BUILD_TORCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME mend CONFIG_PATH lib/cmake/mend)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/debug/include ${CURRENT_PACKAGES_DIR}/debug/share)
vcpkg_install_copyright(FILE_LIST ${SOURCE_PATH}/LICENSE)
