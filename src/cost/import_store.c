/* import_store.c - where the rows of all importers go.
 *
 *   I1  Measurements of one file with equal keys become one row with their median; `samples` says
 *       how many there were. The order of lines in the file does not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "cost/profile.h"

void import_skip(struct import *import, const char *reason)
{
    struct import_summary *summary = import->summary;
    for (size_t i = 0; i < summary->skipped.len; i++) {
        if (strcmp(summary->skipped.data[i].reason, reason) == 0) {
            summary->skipped.data[i].rows++;
            return;
        }
    }
    struct skipped first = {arena_copy_text(import->keep, reason), 1};
    array_push(import->keep, &summary->skipped, first);
}

void import_measure(struct import *import, const struct measurement *measurement)
{
    struct measurement copy = *measurement;
    copy.device = arena_copy_text(import->arena, measurement->device);
    array_push(import->arena, &import->measurements, copy);
}

weft_status import_row(struct import *import, enum profile_table table,
                       const struct profile_value *values, size_t count)
{
    import->summary->stored++;
    return profile_insert(import->profile, table, values, count);
}

static const char ATTRIBUTION[] = "published measurements; attribution to their authors";

weft_status import_source(struct import *import, const char *name, const char *origin)
{
    import->source_name = arena_copy_text(import->arena, name);
    return profile_source(import->profile, name, origin, origin[0] ? ATTRIBUTION : "",
                          &import->source);
}

bool import_wants(const struct import *import, const char *device)
{
    return !import->options->device || strcmp(import->options->device, device) == 0;
}

/* ---- merging by median ----------------------------------------------------------------------- */

struct keyed {
    struct profile_key key;
    const struct measurement *measurement;
};

static int keyed_order(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    int order = strcmp(x->measurement->device, y->measurement->device);
    if (order == 0)
        order = memcmp(&x->key, &y->key, sizeof x->key);
    if (order == 0)
        order =
            (x->measurement->ns > y->measurement->ns) - (x->measurement->ns < y->measurement->ns);
    return order;
}

static bool same_shape(const struct keyed *a, const struct keyed *b)
{
    return memcmp(&a->key, &b->key, sizeof a->key) == 0 &&
           strcmp(a->measurement->device, b->measurement->device) == 0;
}

/* The times must be in ascending order. */
static double median(const struct keyed *sorted, size_t count)
{
    double upper = sorted[count / 2].measurement->ns;
    return count % 2 ? upper : (sorted[count / 2 - 1].measurement->ns + upper) / 2;
}

static size_t sort_measurements(struct import *import, struct keyed *out)
{
    size_t count = 0;
    for (size_t i = 0; i < import->measurements.len; i++) {
        const struct measurement *measurement = &import->measurements.data[i];
        out[count].measurement = measurement;
        if (key_of_work(&measurement->work, measurement->whole_backward, 0, &out[count].key))
            count++;
        else
            import_skip(import, "a shape number below 1");
    }
    qsort(out, count, sizeof *out, keyed_order);
    return count;
}

weft_status import_merge(struct import *import)
{
    struct keyed *sorted = ARENA_ARRAY(import->arena, struct keyed, import->measurements.len + 1);
    size_t count = sort_measurements(import, sorted);
    for (size_t first = 0, next; first < count; first = next) {
        struct measurement merged = *sorted[first].measurement;
        merged.samples = 0;
        for (next = first; next < count && same_shape(&sorted[first], &sorted[next]); next++)
            merged.samples += sorted[next].measurement->samples;
        merged.ns = median(sorted + first, next - first); /* I1 */
        weft_status status = profile_add_from(import->profile, &merged, import->source);
        if (status != WEFT_OK)
            return status;
        import->summary->stored++;
        import->summary->merged += (int64_t)(next - first) - 1;
    }
    return WEFT_OK;
}
