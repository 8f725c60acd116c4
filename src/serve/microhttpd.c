/* microhttpd.c - opens libmicrohttpd and finds its functions. */
#include "serve/microhttpd.h"

#include <dlfcn.h>
#include <string.h>

static const char LIBRARY[] = "libmicrohttpd.so.12"; /* Debian's libmicrohttpd12 */

static bool find(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found); /* a pointer to a function, which ISO C does not convert */
    return found != NULL;
}

weft_status http_library_open(const struct http_library **out)
{
    static struct http_library functions;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
    if (library) {
#define FIND(name) all &= find(library, "MHD_" #name, &functions.name##_);
        HTTP_FUNCTIONS(FIND)
#undef FIND
    }
    if (!all) {
        weft_status status = failure("%s cannot be opened: %.200s", LIBRARY,
                                     library ? "it lacks a function" : dlerror());
        error_hint("install Debian's package libmicrohttpd12");
        return status;
    }
    *out = &functions;
    return WEFT_OK;
}
