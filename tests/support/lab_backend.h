/* lab_backend.h - which device tests of the runtime compute on: WEFT_TEST_DEVICE=cuda, or the CPU. With WEFT_TEST_CHOICES the
 * algorithms of products are chosen by measuring (kernels.h). */
#ifndef WEFT_TESTS_LAB_BACKEND_H
#define WEFT_TESTS_LAB_BACKEND_H

#include <stdio.h>
#include <stdlib.h>

#include "run/backends/backends.h"

static const struct kernels *lab_backend(void)
{
    static const struct kernels *backend;
    const char *name = getenv("WEFT_TEST_DEVICE");
    if (!backend && backend_open(name ? name : "cpu", 0, &backend) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error()->message);
        exit(1);
    }
    if (backend->choices && getenv("WEFT_TEST_CHOICES"))
        backend->choices->seek(true);
    return backend;
}

/* Whether it has a kernel for every operator; the CPU must. */
static inline bool lab_runs(const struct model *model)
{
    const char *why;
    for (int32_t i = 0; lab_backend() != &CPU_KERNELS && i < model->ops; i++)
        if (!lab_backend()->has(&model->op[i], &why))
            return false;
    return true;
}

#endif
