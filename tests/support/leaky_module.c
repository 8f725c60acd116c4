/* leaky_module.c - a module that loses memory and has a name as Open MPI's modules have theirs. */
#include <stdlib.h>

void lose_memory(void);

void lose_memory(void)
{
    for (int i = 0; i < 100; i++) { /* a stale register may still point to one of them */
        void *volatile lost = malloc(10);
        (void)lost;
    }
}
