/* table_rows.c - fills in rows of operators: the kernels that ran, those whose time it is, and why a time
 * belongs to no kernel (table.h).
 */
#include "cost/profile.h"
#include "cost/table.h"

static const char SEVERAL[] = "several kernels in one time";
static const char COLLECTIVE[] = "a collective inside one of the times";
static const char OUT_OF_MEMORY[] = "out of memory (a time of 1e6 us and more)";
const char SOMETHING_ELSE[] = "a backward time that holds something else";

struct work work_of_shape(enum kernel kernel, enum phase phase, enum dtype dtype,
                          const int64_t *shape)
{
    struct work work = {.kernel = kernel, .phase = phase, .dtype = dtype};
    work_set_shape(&work, shape);
    return work;
}

struct work bytes_work(enum kernel kernel, enum phase phase, int64_t elements, double read,
                       double write)
{
    return (struct work){.kernel = kernel,
                         .phase = phase,
                         .shape = {elements},
                         .read_bytes = read,
                         .write_bytes = write};
}

void row_stands_for(struct table_row *row, struct work work)
{
    struct timing *time = &row->time[phase_direction(work.phase)];
    bool second = time->kernel.phase != PHASE_FORWARD; /* not set yet: all zero */
    time->kernel = work;
    if (second) {
        time->kernel = row->time[FORWARD].kernel;
        time->kernel.phase = PHASE_BACKWARD_INPUT;
        time->whole_backward = true;
    }
}

void row_ran(struct table_row *row, struct work work)
{
    struct timing *time = &row->time[phase_direction(work.phase)];
    time->work[time->works++] = work;
}

void row_is(struct table_row *row, struct work work)
{
    row_stands_for(row, work);
    row_ran(row, work);
}

void row_is_linear(struct table_row *row, int64_t m, int64_t n, int64_t k)
{
    enum dtype dtype = row->operator->matrix_dtype;
    row_is(row, WORK(KERNEL_MATMUL, PHASE_FORWARD, dtype, 1, m, n, k));
    row_is(row, WORK(KERNEL_MATMUL, PHASE_BACKWARD_INPUT, dtype, 1, m, k, n));
    if (!row->operator->input_gradient_only)
        row_is(row, WORK(KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT, dtype, 1, n, k, m));
}

void row_several(struct table_row *row)
{
    row->time[FORWARD].left_out = row->time[BACKWARD].left_out = SEVERAL;
}

void timing_leave_out(struct timing *time)
{
    bool ended = time->ns >= 1e3 * OUT_OF_MEMORY_US;
    if (ended)
        time->works = 0;
    if (time->left_out == SEVERAL)
        return;
    if (ended)
        time->left_out = OUT_OF_MEMORY;
    else if (*time->collective)
        time->left_out = COLLECTIVE;
}
