/* thread_pool.h - runs one piece of work in several threads, which live as long as the call.
 *
 *   I1  The calling thread is worker 0 and takes part in the work.
 *   I2  No worker begins before all threads that could be started exist, and each is told how many
 *       there are: work that needs as many as were asked for can refuse before it has begun.
 *   I3  The status is that of the failed worker with the lowest number; its message and hint are
 *       put into the calling thread's error record.
 *   I4  A worker is part of the caller's request (request.c): when memory runs out each worker ends
 *       early, and the request ends after all of them. Ranks wait for each other, so none of them
 *       may leave: they are not part of the request, except for what they run through request_part.
 */
#ifndef WEFT_BASE_THREAD_POOL_H
#define WEFT_BASE_THREAD_POOL_H

#include <stdint.h>

#include "weft.h"

typedef weft_status (*pool_work)(void *context, int32_t worker, int32_t workers);
weft_status pool_run(int32_t workers, pool_work work, void *context);
weft_status pool_run_ranks(int32_t ranks, pool_work work, void *context);

/* The number of workers for so many tasks, at least one; `asked` 0: as many as there are
 * processors. */
int32_t pool_size(int64_t asked, int64_t tasks);

#endif
