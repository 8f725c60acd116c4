/* without_blas.h - what the program says, without what depends on the processor alone. */
#ifndef WEFT_WITHOUT_BLAS_H
#define WEFT_WITHOUT_BLAS_H

#include <string.h>

/* Takes out the line in which the program says that it starts again with other kernels of OpenBLAS (src/cli/blas.c): a
 * word about this machine, not about what was asked. */
static char *without_blas(char *text)
{
    static const char BLAS[] = "weft: OpenBLAS does not know this processor";
    for (char *at = text; (at = strstr(at, BLAS)) != NULL;) {
        const char *end = strchrnul(at, '\n');
        end += *end != '\0';
        memmove(at, end, strlen(end) + 1);
    }
    return text;
}

#endif
