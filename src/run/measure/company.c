/* company.c - other ranks at work beside a measurement (company.h). */
#include "run/measure/company.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { RUNS_AT_ONCE = 4 }; /* of a kernel, so that a device with streams never waits for its host */

struct company {
    const struct measure_options *options;
    const struct ask *ask;
    const struct asker *asker;
    enum policy policy;
    atomic_bool ends;
    atomic_int at_work;
    int32_t count;
    pthread_t thread[];
};

static void *work(void *context)
{
    struct company *c = context;
    const struct compute_device *device = c->options->kernels->device;
    struct rig rig;
    bool opened = rig_open(&rig, c->options->kernels, c->ask, c->asker, c->policy);
    if (opened)
        rig_run(&rig);
    atomic_fetch_add(&c->at_work, 1);
    while (opened && !atomic_load(&c->ends)) {
        for (int i = 0; i < RUNS_AT_ONCE; i++)
            rig_give(&rig);
        device_finish(device, device_record(device, rig.stream));
    }
    rig_close(&rig);
    return NULL;
}

struct company *company_begin(const struct measure_options *options, const struct ask *ask,
                              const struct asker *asker, enum policy policy)
{
    size_t threads = (size_t)options->beside * sizeof(pthread_t);
    if (options->beside <= 0)
        return NULL;
    struct company *c = calloc(1, sizeof *c + threads);
    if (!c)
        memory_ran_out(sizeof *c + threads);
    c->options = options;
    c->ask = ask;
    c->asker = asker;
    c->policy = policy;
    while (c->count < options->beside && pthread_create(&c->thread[c->count], NULL, work, c) == 0)
        c->count++;
    while (atomic_load(&c->at_work) < c->count)
        sched_yield();
    return c;
}

void company_end(struct company *c)
{
    if (!c)
        return;
    atomic_store(&c->ends, true);
    for (int32_t i = 0; i < c->count; i++)
        pthread_join(c->thread[i], NULL);
    free(c);
}
