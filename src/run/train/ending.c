/* ending.c - a process that has failed ends within a stated time (ending.h). */
#include "run/train/ending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
    struct timespec left;
    int code;
    char words[1024];
} ending;

static void *end_late(void *context)
{
    (void)context;
    while (nanosleep(&ending.left, &ending.left)) /* a signal */
        ;
    fputs(ending.words, stderr); /* which has no buffer */
    _exit(ending.code);
}

void end_within(double seconds, int code, const char *words)
{
    static atomic_flag called = ATOMIC_FLAG_INIT;
    pthread_t thread;
    if (atomic_flag_test_and_set(&called))
        return;
    ending.left.tv_sec = (time_t)seconds;
    ending.left.tv_nsec = (long)((seconds - (double)ending.left.tv_sec) * 1e9);
    ending.code = code;
    snprintf(ending.words, sizeof ending.words, "%s", words ? words : "");
    if (pthread_create(&thread, NULL, end_late, NULL))
        end_late(NULL);
    pthread_detach(thread);
}
