# Cross-building for 64-bit Arm (Grace, GB10, Jetson) by g++-aarch64-linux-gnu of Debian; what is
# built runs under qemu-user. Debian offers libgtest for another architecture to machines alone that
# add that architecture: the preset `aarch64` builds it from the sources of package `googletest`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# qemu 7 keeps some 32 bytes for each page of addresses, mapped or not, and the simulated device
# reserves as many TiB as it can get: with 32 GiB of addresses in all it takes 16 GiB.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -R 32G)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
