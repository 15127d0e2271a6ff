// The same in C++.
#include "both.c"
