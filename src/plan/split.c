/* split.c - how one operator is laid over devices: an ordered list of dim:degree, and its text.
 *
 *   devices = product of all degrees                                                           (1)
 *   local size of a dim = ceil(size / product of its degrees)                                  (2)
 *
 *   I1  A split made here is canonical: no degree is below 2, and no two neighbours have one dim.
 *       Two splits lay the same parts on the same devices exactly when their lists are equal.
 *   I2  The devices of a split fit in int32_t.
 */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

static const char WHOLE[] = "whole";
static const char COPY[] = "copy";

struct split split_none(void)
{
    return (struct split){0};
}

bool split_add(struct split *split, int dim, int64_t degree)
{
    if (degree == 1)
        return true;
    if (degree < 1 || degree > INT32_MAX / split_devices(split)) /* I2 */
        return false;
    struct split_part *last = split->parts ? &split->part[split->parts - 1] : NULL;
    if (last && last->dim == dim) {
        last->degree *= (int32_t)degree;
        return true;
    }
    if (split->parts == MAX_SPLIT_PARTS)
        return false;
    split->part[split->parts++] = (struct split_part){(int16_t)dim, 0, (int32_t)degree};
    return true;
}

int64_t split_devices(const struct split *split)
{
    int64_t devices = 1; /* (1) */
    for (int32_t i = 0; i < split->parts; i++)
        devices *= split->part[i].degree;
    return devices;
}

bool split_equal(const struct split *a, const struct split *b)
{
    bool equal = a->parts == b->parts;
    for (int32_t i = 0; equal && i < a->parts; i++)
        equal = a->part[i].dim == b->part[i].dim && a->part[i].degree == b->part[i].degree &&
                a->part[i].run == b->part[i].run;
    return equal;
}

/* What works on tokens of experts has those of the fullest device. An activation between their products is split by
 * positions where these are split by expert. */
static void fill_fullest(const struct op *op, const struct split *split, int64_t *local)
{
    int seq = op_find_dim(op->kind, DIM_SEQ);
    bool by_expert = op_find_dim(op->kind, DIM_EXPERT) >= 0;
    double fullest = op_fullest(op, split_degree(split, by_expert ? DIM_EXPERT : DIM_SEQ));
    local[seq] = (int64_t)ceil((double)local[seq] * fullest);
}

void split_local(const struct op *op, const struct split *split, int64_t batch, int64_t *local)
{
    int dims = split->parts ? op_dims(op->kind) : 0;
    op_full_size(op, batch, local);
    for (int i = 0; i < dims; i++) { /* (2) */
        int64_t degree = split_degree(split, OP_KINDS[op->kind].dims[i].dim);
        if (degree > 1)
            local[i] = ceil_div(local[i], degree);
    }
    if (op->skewed_experts)
        fill_fullest(op, split, local);
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *part_name(int dim)
{
    return dim == SPLIT_COPY ? COPY : dim_name((enum dim)dim);
}

/* "on 2-3 of 8 out:2" */
static const char *subset_text(struct arena *keep, const struct split *split)
{
    struct split inside = split_inside(split);
    return arena_printf(keep, "on %s of %lld %s", run_text(keep, split_run(split)),
                        (long long)split_devices(split), split_text(keep, &inside));
}

const char *split_text(struct arena *keep, const struct split *split)
{
    const char *text = split->parts ? "" : WHOLE;
    if (split_is_subset(split))
        return subset_text(keep, split);
    for (int32_t i = 0; i < split->parts; i++)
        text = arena_printf(keep, "%s%s%s:%d", text, i ? " " : "", part_name(split->part[i].dim),
                            (int)split->part[i].degree);
    return text;
}

static bool part_from_name(const char *name, int *out)
{
    enum dim dim;
    bool known = dim_from_name(name, &dim);
    *out = known ? (int)dim : SPLIT_COPY;
    return known || strcmp(name, COPY) == 0;
}

static weft_status unknown_dim(const struct doc *where, const char *name, const char *text)
{
    const char *names[DIM_COUNT + 1];
    for (int i = 0; i <= DIM_COUNT; i++)
        names[i] = part_name(i);
    weft_status status = doc_error(where, "the dims of an operator are listed by 'weft inspect'",
                                   "no dim is called '%s' in the split '%s'", name, text);
    hint_near(nearest_word(name, names, COUNT_OF(names)));
    return status;
}

/* One "dim:degree" of at most this many characters. */
enum { WORD_BYTES = 64 };

static weft_status parse_part(const struct doc *where, const char *text, char *word,
                              struct split *split)
{
    static const char FORM[] = "write dim:degree, outermost first: batch:2 out:4";
    char *colon = strchr(word, ':');
    int64_t degree;
    int dim;
    if (!colon || !parse_int(colon + 1, &degree))
        return doc_error(where, FORM, "'%s' in the split '%s' is not of the form dim:degree", word,
                         text);
    if (degree < 1 || degree > INT32_MAX)
        return doc_error(where, NULL, "'%s' in the split '%s', expected a degree of at least 1",
                         word, text);
    *colon = '\0';
    if (!part_from_name(word, &dim))
        return unknown_dim(where, word, text);
    if (!split_add(split, dim, degree))
        return doc_error(where, NULL,
                         "the split '%s' is too long, expected at most %d dims over fewer than "
                         "2^31 devices",
                         text, MAX_SPLIT_PARTS);
    return WEFT_OK;
}

weft_status split_parse(const struct doc *where, const char *text, struct split *out)
{
    static const char SPACES[] = " \t";
    weft_status status = WEFT_OK;
    struct split split = split_none();
    const char *at = text + strspn(text, SPACES);
    if (*at == '\0')
        return doc_error(where, "write 'whole' for one device", "the split is empty");
    if (strcmp(at, WHOLE) == 0)
        at += strlen(WHOLE);
    while (*at) {
        char word[WORD_BYTES];
        size_t len = strcspn(at, SPACES);
        if (len >= sizeof word)
            return doc_error(where, NULL, "the split '%.40s...' holds a word that is too long",
                             text);
        memcpy(word, at, len);
        word[len] = '\0';
        TRY(parse_part(where, text, word, &split));
        at += len;
        at += strspn(at, SPACES);
    }
    *out = split;
done:
    return status;
}

bool split_flip(const struct op *op, struct split *split)
{
    for (int32_t i = 0; i < split->parts; i++) {
        struct split_part *part = &split->part[i];
        if (part->dim != DIM_OUT && part->dim != DIM_IN)
            continue;
        enum dim dim = part->dim == DIM_OUT ? DIM_IN : DIM_OUT;
        int at = op_find_dim(op->kind, dim);
        if (at < 0 || op->size[at] % part->degree || op->groups > 1)
            return false;
        part->dim = (int16_t)dim;
        return true;
    }
    return false;
}
