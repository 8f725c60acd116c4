/* progress.h - private to the room, a part of room.h: what jobs do, and who runs them when. */
#ifndef WEFT_RUN_RANK_PROGRESS_H
#define WEFT_RUN_RANK_PROGRESS_H

#include "run/transport/transport.h"

struct errand;
struct job;
struct rank;
struct store;

/* ---- host_copies.c --------------------------------------------------------------------------- */

/* Copies checkpoints to the host or back; false: there are none. The errand is `copying` until they are complete. */
bool checkpoints_begin(struct rank *r, struct errand *work);
void checkpoints_end(struct rank *r, struct errand *work);
void copies_free(struct rank *r, struct errand *work); /* after a failure, too */
bool copies_go_on(const struct rank *r);               /* of any active errand */

/* ---- jobs.c ---------------------------------------------------------------------------------- */

/* Runs a job of computation to its end, unless the run fails meanwhile. */
void compute_job(struct rank *r, struct job *job);
/* Starts a job that is no computation: it is active then, or over. */
void start_job(struct rank *r, int32_t number);
/* Whether its transfer, or its copies, are over. */
bool errand_is_over(struct rank *r, struct errand *work);
/* After that: whether another transfer of the job is on its way; else the job is over, and this gone. */
bool goes_further(struct rank *r, struct errand *work);
void fail_by_status(struct rank *r);
bool measures_norm(const struct rank *r); /* of all gradients, before the optimizer's step */

/* ---- order.c, in_order.c --------------------------------------------------------------------- */

bool runs_in_order(const struct rank *r);
weft_status find_order(struct rank *r);
void run_in_order(struct rank *r);
void follow_all(struct rank *r); /* what is active */
/* Before whole gradients of this bucket are made. */
void room_for_gradients(struct rank *r, const struct store *store, int32_t micro_batch);
void ask_in_order(struct rank *r, const struct transfer *transfer);
/* To the host, when the device has come so far; nothing if the run fails before. */
void download(struct rank *r, void *to, const void *from, int64_t bytes);

/* ---- progress_thread.c ----------------------------------------------------------------------- */

void communicate(struct rank *r); /* until the iteration is over */
void call_communicator(struct rank *r);
/* The executor, until a job may run; until what it asked for is there; before it makes whole
 * gradients of a sharded bucket, and after a task that may have completed some (bucket_transfers.c, I2). */
void await_job(struct rank *r, const struct job *job);
void await_asked(struct rank *r);
void await_room(struct rank *r, int32_t weight, int32_t micro_batch);
void await_begun(struct rank *r);
/* Until what became ready on other streams has begun, on a device that works behind its host. */
void await_started(struct rank *r);

#endif
