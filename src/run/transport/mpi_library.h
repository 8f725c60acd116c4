/* mpi_library.h - MPI's functions and objects, opened when a run asks for them; for mpi.c alone.
 *
 * Nothing of MPI is linked: one program runs with and without it, and says what is missing. After mpi_library_open the names
 * of mpi.h are those of the library that was found. Open MPI's handles are addresses of objects in it, which are looked up
 * as well; MPICH's are numbers.
 */
#ifndef WEFT_RUN_TRANSPORT_MPI_LIBRARY_H
#define WEFT_RUN_TRANSPORT_MPI_LIBRARY_H

#include <dlfcn.h>
#include <mpi.h>
#include <string.h>

#include "base/base.h"

#define MPI_FUNCTIONS(X)                                                                           \
    X(MPI_Abort)                                                                                   \
    X(MPI_Comm_create_group)                                                                       \
    X(MPI_Comm_free)                                                                               \
    X(MPI_Comm_get_attr)                                                                           \
    X(MPI_Comm_group)                                                                              \
    X(MPI_Comm_rank)                                                                               \
    X(MPI_Comm_size)                                                                               \
    X(MPI_Comm_split_type)                                                                         \
    X(MPI_Error_string)                                                                            \
    X(MPI_Finalize)                                                                                \
    X(MPI_Group_free)                                                                              \
    X(MPI_Group_incl)                                                                              \
    X(MPI_Iallgather)                                                                              \
    X(MPI_Ialltoallv)                                                                              \
    X(MPI_Ibcast)                                                                                  \
    X(MPI_Init_thread)                                                                             \
    X(MPI_Initialized)                                                                             \
    X(MPI_Irecv)                                                                                   \
    X(MPI_Isend)                                                                                   \
    X(MPI_Query_thread)                                                                            \
    X(MPI_Test)                                                                                    \
    X(MPI_Testall)

#ifdef OPEN_MPI
#define MPI_OBJECTS(X)                                                                             \
    X(ompi_mpi_comm_world)                                                                         \
    X(ompi_mpi_comm_null)                                                                          \
    X(ompi_mpi_group_null)                                                                         \
    X(ompi_mpi_info_null)                                                                          \
    X(ompi_mpi_float)
static const char *const MPI_LIBRARIES[] = {"libmpi.so.40", "libmpi.so", NULL}; /* 3 to 5 */
#else
#define MPI_OBJECTS(X)
static const char *const MPI_LIBRARIES[] = {"libmpi.so.12", "libmpich.so.12", "libmpi.so", NULL};
#endif

static struct {
#define MPI_FIELD(name) __typeof__(&(name)) name##_;
    MPI_FUNCTIONS(MPI_FIELD)
#undef MPI_FIELD
#define MPI_FIELD(name) void *name##_;
    MPI_OBJECTS(MPI_FIELD)
#undef MPI_FIELD
    void *handle;
} mpi_library;

/* Its own modules look for the library's names among all. */
static weft_status mpi_library_open(void)
{
    const char *missing = NULL;
    void *found;
    for (int i = 0; MPI_LIBRARIES[i] && !mpi_library.handle; i++)
        mpi_library.handle = dlopen(MPI_LIBRARIES[i], RTLD_NOW | RTLD_GLOBAL);
    if (!mpi_library.handle)
        return failure("MPI cannot be opened (%s); add its folder to LD_LIBRARY_PATH", dlerror());
#define MPI_FIND(name)                                                                             \
    found = dlsym(mpi_library.handle, #name);                                                      \
    if (!found)                                                                                    \
        missing = #name;                                                                           \
    memcpy(&mpi_library.name##_, &found, sizeof found);
    MPI_FUNCTIONS(MPI_FIND)
    MPI_OBJECTS(MPI_FIND)
#undef MPI_FIND
    return missing ? failure("%s has no %s", MPI_LIBRARIES[0], missing) : WEFT_OK;
}

#define MPI_Abort             mpi_library.MPI_Abort_
#define MPI_Comm_create_group mpi_library.MPI_Comm_create_group_
#define MPI_Comm_free         mpi_library.MPI_Comm_free_
#define MPI_Comm_get_attr     mpi_library.MPI_Comm_get_attr_
#define MPI_Comm_group        mpi_library.MPI_Comm_group_
#define MPI_Comm_rank         mpi_library.MPI_Comm_rank_
#define MPI_Comm_size         mpi_library.MPI_Comm_size_
#define MPI_Comm_split_type   mpi_library.MPI_Comm_split_type_
#define MPI_Error_string      mpi_library.MPI_Error_string_
#define MPI_Finalize          mpi_library.MPI_Finalize_
#define MPI_Group_free        mpi_library.MPI_Group_free_
#define MPI_Group_incl        mpi_library.MPI_Group_incl_
#define MPI_Iallgather        mpi_library.MPI_Iallgather_
#define MPI_Ialltoallv        mpi_library.MPI_Ialltoallv_
#define MPI_Ibcast            mpi_library.MPI_Ibcast_
#define MPI_Init_thread       mpi_library.MPI_Init_thread_
#define MPI_Initialized       mpi_library.MPI_Initialized_
#define MPI_Irecv             mpi_library.MPI_Irecv_
#define MPI_Isend             mpi_library.MPI_Isend_
#define MPI_Query_thread      mpi_library.MPI_Query_thread_
#define MPI_Test              mpi_library.MPI_Test_
#define MPI_Testall           mpi_library.MPI_Testall_
#ifdef OPEN_MPI
#define ompi_mpi_comm_world (*(char *)mpi_library.ompi_mpi_comm_world_)
#define ompi_mpi_comm_null  (*(char *)mpi_library.ompi_mpi_comm_null_)
#define ompi_mpi_group_null (*(char *)mpi_library.ompi_mpi_group_null_)
#define ompi_mpi_info_null  (*(char *)mpi_library.ompi_mpi_info_null_)
#define ompi_mpi_float      (*(char *)mpi_library.ompi_mpi_float_)
#endif

#endif
