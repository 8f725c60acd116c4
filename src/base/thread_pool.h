/* thread_pool.h - one piece of work in several threads, which live as long as the call.
 *
 *   I1  The calling thread is worker 0 and works, too.
 *   I2  No worker begins before all that could be started are there, and each is told how many there
 *       are: work that needs as many as were asked for can refuse before any of it is done.
 *   I3  The answer is that of the first worker, by number, that failed; what it said of its failure
 *       (message, hint) is in the calling thread's error record.
 *   I4  A worker is a part of the caller's request (request.c): where memory runs out each ends early,
 *       and when all have ended the request does. Ranks wait for each other, so none of them may leave:
 *       they are no part of it, but for what they run by request_part themselves.
 */
#ifndef WEFT_BASE_THREAD_POOL_H
#define WEFT_BASE_THREAD_POOL_H

#include <stdint.h>

#include "weft.h"

typedef weft_status (*pool_work)(void *context, int32_t worker, int32_t workers);
weft_status pool_run(int32_t workers, pool_work work, void *context);
weft_status pool_run_ranks(int32_t ranks, pool_work work, void *context);

/* How many workers for so many tasks, one at the least; `asked` 0: as many as there are processors. */
int32_t pool_size(int64_t asked, int64_t tasks);

#endif
