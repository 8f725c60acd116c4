/* thread_pool.c - threads that begin together, and the status they return (thread_pool.h). */
#include "base/base.h"

#include <pthread.h>
#include <unistd.h>

struct thread_pool {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    int32_t workers; /* 0 until all are started */
    pool_work work;
    void *context;
    struct request *request; /* NULL: workers wait for each other, so none may leave early (I4) */
};
struct pool_worker {
    struct thread_pool *pool;
    int32_t number;
    pthread_t thread;
    struct error_copy error;
};

/* I2 */
static int32_t wait_for_all(struct thread_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->workers == 0)
        pthread_cond_wait(&pool->ready, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return pool->workers;
}

static void let_begin(struct thread_pool *pool, int32_t workers)
{
    pthread_mutex_lock(&pool->lock);
    pool->workers = workers;
    pthread_cond_broadcast(&pool->ready);
    pthread_mutex_unlock(&pool->lock);
}

static weft_status begin(void *argument)
{
    struct pool_worker *worker = argument;
    struct thread_pool *pool = worker->pool;
    return pool->work(pool->context, worker->number, wait_for_all(pool));
}

/* I4 */
static weft_status work_as(struct pool_worker *worker)
{
    struct request *request = worker->pool->request;
    return request ? request_part(request, begin, worker) : request_outside(begin, worker);
}

static void *run_worker(void *argument)
{
    struct pool_worker *worker = argument;
    if (work_as(worker))
        error_save(&worker->error);
    return NULL;
}

static weft_status run(struct thread_pool *pool, struct pool_worker *worker, int32_t workers)
{
    int32_t started = 1;
    worker[0].pool = pool;
    for (; started < workers; started++) {
        worker[started].pool = pool;
        worker[started].number = started;
        if (pthread_create(&worker[started].thread, NULL, run_worker, &worker[started]) != 0)
            break;
    }
    let_begin(pool, started);
    weft_status status = work_as(&worker[0]);
    for (int32_t i = 1; i < started; i++) {
        pthread_join(worker[i].thread, NULL);
        status = status ? status : error_restore(&worker[i].error); /* I3 */
    }
    return status;
}

static weft_status run_for(struct request *request, int32_t workers, pool_work work, void *context)
{
    struct thread_pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .ready = PTHREAD_COND_INITIALIZER,
                               .work = work,
                               .context = context,
                               .request = request};
    struct arena *scratch = arena_new();
    struct pool_worker *worker = ARENA_ARRAY(scratch, struct pool_worker, (size_t)workers);
    weft_status status = run(&pool, worker, workers);
    pthread_cond_destroy(&pool.ready);
    pthread_mutex_destroy(&pool.lock);
    arena_free(scratch);
    request_go_on();
    return status;
}

weft_status pool_run(int32_t workers, pool_work work, void *context)
{
    return run_for(request_current(), workers, work, context);
}

weft_status pool_run_ranks(int32_t ranks, pool_work work, void *context)
{
    return run_for(NULL, ranks, work, context);
}

int32_t pool_size(int64_t asked, int64_t tasks)
{
    int64_t workers = asked > 0 ? asked : sysconf(_SC_NPROCESSORS_ONLN);
    workers = workers < tasks ? workers : tasks;
    return (int32_t)(workers > 1 ? workers : 1);
}
