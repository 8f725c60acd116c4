/* mpirun.h - how tests start ranks. */
#ifndef WEFT_TESTS_MPIRUN_H
#define WEFT_TESTS_MPIRUN_H

/* LeakSanitizer is silent about what Open MPI loses, and only about that. It follows frames by their
 * unwind tables, for libraries built without frame pointers (x86-64) hide those that called them. */
#define FIND_LEAKS                                                                                 \
    "LSAN_OPTIONS=suppressions='" WEFT_SOURCE_DIR "/tests/support/openmpi.supp'"                   \
    ":print_suppressions=0:fast_unwind_on_malloc=0 "
#define MPIRUN                                                                                     \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " FIND_LEAKS                        \
    "mpirun --oversubscribe "

#endif
