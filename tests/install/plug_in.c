/* Opens a plug-in by its path, as a framework does, and finds what the framework looks up.
 * Usage: install_plug_in LIBRARY FUNCTION... */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int failures = argc < 3;
    void *library = argc < 3 ? NULL : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("%s\n", argc < 3 ? "usage: install_plug_in LIBRARY FUNCTION..." : dlerror());
        return 1;
    }
    for (int i = 2; i < argc; i++) {
        if (dlsym(library, argv[i]) == NULL) {
            printf("%s is not there\n", argv[i]);
            failures++;
        }
    }
    return failures == 0 && dlclose(library) == 0 ? 0 : 1;
}
