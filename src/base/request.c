/* request.c - the memory of one request: its limit, and what happens when it runs out.
 *
 *   held(request) = sum of chunks of its arenas <= limit                                      (1)
 *   limit = WEFT_MAX_MEMORY, else 3/4 of the machine's memory or of its control group's       (2)
 *
 * Sixteen hundred places take memory from arenas without checking the result. So running out ends
 * the request as a whole: the thread jumps back to request_run (longjmp), all arenas that were made
 * since are freed, and request_run returns WEFT_FAILURE.
 *
 *   I1  An arena that is made while a request runs, on any of its threads, belongs to the request
 *       until it is freed. Arenas that are left when the request ends well belong to its caller.
 *   I2  Whatever lives across an allocation and is not in an arena is either owned by an arena
 *       (arena_own: a database) or held (hold_push: a file, a lock, a parser), and is released
 *       before the thread jumps back. The one exception: nodes of a JSON answer that is being
 *       built. Work that ends holds what it held when it began: else its request fails.
 *   I3  A thread jumps back to the frame it began with. A thread that starts others works in a
 *       frame of its own (request_part) until it has joined them, and then calls request_go_on
 *       (thread_pool.c does both), so that nothing is freed while a thread still uses it. When one
 *       thread has run out, every other thread ends at its next chunk.
 *   I4  Without a request, running out of memory ends the process, as it does in tests.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena_room.h"

struct request {
    pthread_mutex_t lock; /* protects `arenas` */
    struct arena *arenas;
    atomic_size_t held;
    size_t limit;
    atomic_bool out; /* out of memory */
};

/* A place that a thread can jump back to. */
struct frame {
    struct request *request;
    struct frame *outer;
    struct hold *holds; /* the holds that existed before the frame */
    bool left;          /* whether the frame was left by a jump */
    jmp_buf back;
};
static _Thread_local struct frame *frame;
static _Thread_local struct hold *holds;

/* ---- the limit (2) --------------------------------------------------------------------------- */

static const double MOST_SHARE = 0.75; /* the rest is for the system and for other programs */
static _Atomic int64_t own_limit;      /* 0: the usual limit */

void request_limit(int64_t bytes)
{
    atomic_store(&own_limit, bytes);
}

static const char GROUP_LIMIT[] = "/sys/fs/cgroup/memory.max",
                  GROUP_USE[] = "/sys/fs/cgroup/memory.current";

/* The number that a file consists of; without one ("max" is none), `usual`. */
static double number_in(const char *path, double usual)
{
    double number = 0;
    FILE *file = fopen(path, "r");
    int found = file ? fscanf(file, "%lf", &number) : 0;
    if (file)
        fclose(file);
    return found == 1 && number > 0 ? number : usual;
}

/* Bytes that this control group may use; without a limit, more than any machine has. */
static double group_bytes(void)
{
    return number_in(GROUP_LIMIT, (double)INT64_MAX);
}

/* What the system says it could give to a new program, in bytes. */
static double available_bytes(void)
{
    char line[128];
    double kib = (double)INT64_MAX;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

double host_memory_left(void)
{
    double left = available_bytes(), group = group_bytes() - number_in(GROUP_USE, 0);
    left = group < left ? group : left;
    return left > 0 ? left : 0;
}

static size_t usual_limit(void)
{
    const char *text = getenv("WEFT_MAX_MEMORY");
    int64_t bytes;
    if (text && parse_bytes(text, &bytes) && bytes > 0)
        return (size_t)bytes;
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double group = group_bytes();
    return (size_t)(MOST_SHARE * (machine < group ? machine : group));
}

static size_t limit_within(const struct request *outer)
{
    int64_t own = atomic_load(&own_limit);
    size_t limit = own > 0 ? (size_t)own : usual_limit();
    if (!outer)
        return limit;
    size_t held = atomic_load(&outer->held), left = outer->limit > held ? outer->limit - held : 0;
    return left < limit ? left : limit;
}

/* ---- running out (I2, I3) -------------------------------------------------------------------- */

void hold_push(struct hold *hold, void (*drop)(void *what), void *what)
{
    *hold = (struct hold){drop, what, holds};
    holds = hold;
}

void hold_pop(struct hold *hold)
{
    holds = hold->older;
}

void hold_unlock(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

_Noreturn static void go_back(void)
{
    while (holds != frame->holds) {
        struct hold *hold = holds;
        holds = hold->older;
        hold->drop(hold->what);
    }
    frame->left = true;
    atomic_store(&frame->request->out, true);
    longjmp(frame->back, 1);
}

static void say_too_much(const struct request *request)
{
    failure("this needs more than %s of memory", show_bytes((double)request->limit).s);
    error_hint("ask for less (fewer devices, layers or micro-batches), or allow more: "
               "WEFT_MAX_MEMORY=%.0fMiB",
               2 * (double)request->limit / (1 << 20) + 1);
}

void memory_ran_out(size_t bytes)
{
    if (!frame) { /* I4 */
        fprintf(stderr, "weft: out of memory (asked for %zu bytes)\n", bytes);
        abort();
    }
    if (bytes > frame->request->limit) {
        say_too_much(frame->request);
    } else {
        failure("the machine has no memory left, asked for %s", show_bytes((double)bytes).s);
        error_hint("ask for less, or end other programs");
    }
    go_back();
}

void request_charge(struct arena *arena, size_t bytes)
{
    struct request *request = arena->request ? arena->request : frame ? frame->request : NULL;
    if (!request)
        return;
    size_t held = atomic_fetch_add(&request->held, bytes);
    if (frame &&
        (bytes > request->limit || held > request->limit - bytes || atomic_load(&request->out))) {
        atomic_fetch_sub(&request->held, bytes);
        say_too_much(request);
        go_back();
    }
}

weft_status request_reserve(int64_t bytes)
{
    struct request *request = request_current();
    if (!request || bytes <= 0)
        return WEFT_OK;
    size_t held = atomic_fetch_add(&request->held, (size_t)bytes);
    if ((size_t)bytes <= request->limit && held <= request->limit - (size_t)bytes)
        return WEFT_OK;
    atomic_fetch_sub(&request->held, (size_t)bytes);
    say_too_much(request);
    return WEFT_FAILURE;
}

/* ---- which request an arena belongs to (I1) -------------------------------------------------- */

void request_add(struct arena *arena)
{
    struct request *request = frame ? frame->request : NULL;
    if (!request)
        return;
    pthread_mutex_lock(&request->lock);
    arena->request = request;
    arena->next = request->arenas;
    if (arena->next)
        arena->next->last = arena;
    request->arenas = arena;
    pthread_mutex_unlock(&request->lock);
}

void request_remove(struct arena *arena)
{
    struct request *request = arena->request;
    if (!request)
        return;
    pthread_mutex_lock(&request->lock);
    if (arena->next)
        arena->next->last = arena->last;
    *(arena->last ? &arena->last->next : &request->arenas) = arena->next;
    pthread_mutex_unlock(&request->lock);
    atomic_fetch_sub(&request->held, arena->held);
}

/* Frees all arenas; owned things are dropped first, because they may refer to another arena. */
static void free_arenas(struct request *request)
{
    for (struct arena *arena = request->arenas; arena; arena = arena->next)
        arena_drop_owned(arena);
    for (struct arena *arena = request->arenas, *next; arena; arena = next) {
        next = arena->next;
        arena_release(arena);
    }
}

/* Moves the arenas that are left to the enclosing request, or to none. */
static void hand_over(struct request *request)
{
    for (struct arena *arena = request->arenas, *next; arena; arena = next) {
        next = arena->next;
        arena->request = NULL;
        arena->next = arena->last = NULL;
        request_add(arena);
        if (arena->request)
            atomic_fetch_add(&arena->request->held, arena->held);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

struct request *request_current(void)
{
    return frame ? frame->request : NULL;
}

/* A function of its own, so that the jump does not touch the caller's variables. */
static weft_status run_in(struct frame *own, request_work *work, void *context)
{
    if (setjmp(own->back) == 0)
        return work(context);
    return WEFT_FAILURE;
}

/* I2: a hold that is left lies where other work has its variables. */
static weft_status holds_as_before(const struct frame *own, weft_status status)
{
    if (holds == own->holds)
        return status;
    holds = own->holds;
    return failure("something is still held by work that has ended: this is an error in Weft");
}

static weft_status run_framed(struct frame *own, request_work *work, void *context)
{
    own->outer = frame;
    own->holds = holds;
    frame = own;
    weft_status status = run_in(own, work, context);
    frame = own->outer;
    return holds_as_before(own, status);
}

weft_status request_part(struct request *request, request_work *work, void *context)
{
    return request ? run_framed(&(struct frame){.request = request}, work, context) : work(context);
}

weft_status request_outside(request_work *work, void *context)
{
    struct frame *own = frame;
    frame = NULL;
    weft_status status = work(context);
    frame = own;
    return status;
}

void request_go_on(void)
{
    if (!frame || !atomic_load(&frame->request->out))
        return;
    say_too_much(frame->request);
    go_back();
}

weft_status request_run(request_work *work, void *context)
{
    struct request request = {.limit = limit_within(request_current())};
    pthread_mutex_init(&request.lock, NULL);
    struct frame own = {.request = &request};
    weft_status status = run_framed(&own, work, context);
    if (own.left)
        free_arenas(&request);
    else
        hand_over(&request);
    pthread_mutex_destroy(&request.lock);
    return status;
}
