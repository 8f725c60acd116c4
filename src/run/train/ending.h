/* ending.h - a process that has failed ends within a stated time, whatever its cleanup does.
 *
 * Libraries of GPUs may wait for ever for a rank that is gone: when their memory is freed, a stream ends or a communicator is
 * given up. Nothing that they would still do is needed: what a run has saved is saved.
 */
#ifndef WEFT_RUN_TRAIN_ENDING_H
#define WEFT_RUN_TRAIN_ENDING_H

/* Seconds. The guide states 10: the system itself takes up to two to end a process that has a GPU (0.4 s were seen), of the rank
 * that is killed before its connections are closed, and of the one that ends because of it. */
enum { ENDING_S = 8 };

/* From any thread; the first call counts. Without a further thread to be had it waits itself. `words` go to standard error if it
 * comes to that; NULL: all was said. */
void end_within(double seconds, int code, const char *words);

#endif
