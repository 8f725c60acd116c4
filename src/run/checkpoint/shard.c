/* shard.c - which elements two shards have in common, and shards as text (shard.h). */
#include "run/checkpoint/shard.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

static int64_t product(const int64_t *sizes, int64_t count)
{
    int64_t all = 1;
    for (int64_t i = 0; i < count; i++)
        all *= sizes[i];
    return all;
}

static int by_stride(const void *a, const void *b)
{
    int64_t x = ((const struct shard_digit *)a)->stride,
            y = ((const struct shard_digit *)b)->stride;
    return (x > y) - (x < y);
}

struct shard shard_whole(int64_t axes, const int64_t *shape)
{
    struct shard shard = {.axes = axes, .count = product(shape, axes)};
    memcpy(shard.shape, shape, (size_t)axes * sizeof *shape);
    memcpy(shard.padded, shape, (size_t)axes * sizeof *shape);
    return shard;
}

struct shard shard_of_layout(int64_t axes, const int64_t *shape, const int64_t *padded,
                             const struct layout *layout, int64_t device)
{
    struct shard shard = shard_whole(axes, shape);
    if (padded)
        memcpy(shard.padded, padded, (size_t)axes * sizeof *padded);
    for (int64_t i = layout->digits - 1; i >= 0; i--) { /* the device's digits, innermost first */
        const struct layout_digit *digit = &layout->digit[i];
        if (digit->hold > 0)
            shard.digit[shard.digits++] =
                (struct shard_digit){digit->hold, digit->degree, device % digit->degree};
        device /= digit->degree;
    }
    qsort(shard.digit, (size_t)shard.digits, sizeof *shard.digit, by_stride);
    shard.count = layout_local(layout);
    return shard;
}

/* An axis that is split is padded to a multiple of its degrees (layout.c, I2): only a vocabulary is,
 * an axis of one dim (plan.h, I4). */
static int64_t padded_size(const struct op *op, const struct operand *operand, int axis,
                           const struct split *split)
{
    int64_t degree = 1;
    for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[axis][k] >= 0; k++)
        degree *= split_degree(split, (int)OP_KINDS[op->kind].dims[operand->dims[axis][k]].dim);
    return ceil_div(operand->size[axis], degree) * degree;
}

struct shard shard_of_operand(const struct op *op, const struct operand *operand,
                              const struct split *split, int64_t device)
{
    _Static_assert(MAX_AXES <= (int)MAX_SHARD_AXES, "every operand has a shard");
    struct layout layout = layout_of(op, operand, split, 1, FLOW_FORWARD);
    int64_t padded[MAX_AXES];
    for (int i = 0; i < operand->axes; i++)
        padded[i] = padded_size(op, operand, i, split);
    return shard_of_layout(operand->axes, operand->size, padded, &layout, device);
}

static const char *shape_fault(const struct shard *shard, int64_t *elements)
{
    *elements = 1;
    if (shard->axes < 0 || shard->axes > MAX_SHARD_AXES)
        return "has too many axes";
    for (int64_t i = 0; i < shard->axes; i++) {
        if (shard->shape[i] < 0 || shard->padded[i] < shard->shape[i])
            return "is padded to less than its shape";
        if (!checked_mul(*elements, shard->padded[i], elements))
            return "is larger than any memory";
    }
    return NULL;
}

/* I1 */
static const char *digits_fault(const struct shard *shard, int64_t elements, int64_t *local)
{
    int64_t below = 1;
    *local = elements;
    if (shard->digits < 0 || shard->digits > MAX_LAYOUT_DIGITS)
        return "has too many digits";
    for (int64_t i = 0; i < shard->digits; i++) {
        const struct shard_digit *digit = &shard->digit[i];
        if (digit->degree < 2 || digit->stride < 1 || digit->value < 0 ||
            digit->value >= digit->degree)
            return "has a digit whose value is none of its degree's";
        if (digit->stride % below || !checked_mul(digit->stride, digit->degree, &below))
            return "has digits that depend on each other";
        *local /= digit->degree;
    }
    return elements % below ? "has a digit that does not divide its elements" : NULL;
}

const char *shard_fault(const struct shard *shard)
{
    int64_t elements, local;
    const char *fault = shape_fault(shard, &elements);
    fault = fault ? fault : digits_fault(shard, elements, &local);
    if (fault)
        return fault;
    if (shard->first < 0 || shard->count < 0 || shard->first > local ||
        shard->count > local - shard->first)
        return "has a range after the end of what its digits hold";
    return NULL;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* (2), (3) */
static int64_t element_at(const struct shard *shard, int64_t local)
{
    int64_t f = shard->first + local;
    for (int64_t i = 0; i < shard->digits; i++) {
        const struct shard_digit *digit = &shard->digit[i];
        f = f % digit->stride + digit->stride * (digit->value + f / digit->stride * digit->degree);
    }
    return f;
}

/* Elements of the whole tensor before padded element f; whether f is padding itself. */
static int64_t place_of(const struct shard *shard, int64_t f, bool *padding)
{
    int64_t span = product(shard->padded, shard->axes), inside = product(shard->shape, shard->axes);
    int64_t place = 0;
    *padding = false;
    for (int64_t i = 0; i < shard->axes && inside > 0; i++) {
        span /= shard->padded[i];
        inside /= shard->shape[i];
        int64_t index = f / span;
        f %= span;
        if (index >= shard->shape[i]) {
            *padding = true;
            return place + shard->shape[i] * inside;
        }
        place += index * inside;
    }
    *padding = inside == 0;
    return place;
}

/* How far from f on neither a value of a digit nor padding begins or ends. */
static int64_t run_length(const struct shard *shard, int64_t f)
{
    int64_t elements = product(shard->padded, shard->axes), length = elements - f;
    if (shard->digits) {
        int64_t stride = shard->digit[0].stride; /* its next value is not held */
        length = stride - f % stride;
    }
    int64_t axis = shard->axes - 1, inside = 1;
    while (axis >= 0 && shard->padded[axis] == shard->shape[axis])
        inside *= shard->padded[axis--];
    if (axis < 0)
        return length;
    int64_t in_row = f % (inside * shard->padded[axis]);
    int64_t end = inside * shard->shape[axis];
    end = in_row < end ? end : inside * shard->padded[axis];
    return end - in_row < length ? end - in_row : length;
}

struct shard_run shard_run_at(const struct shard *shard, int64_t local)
{
    bool padding;
    int64_t f = element_at(shard, local), place = place_of(shard, f, &padding);
    int64_t length = run_length(shard, f), rest = shard->count - local;
    return (struct shard_run){padding ? -1 : place, length < rest ? length : rest};
}

int64_t shard_seek(const struct shard *shard, int64_t place)
{
    int64_t low = 0, high = shard->count;
    while (low < high) { /* I2 */
        bool padding;
        int64_t middle = low + (high - low) / 2;
        if (place_of(shard, element_at(shard, middle), &padding) < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *list_text(struct arena *keep, const int64_t *sizes, int64_t count)
{
    const char *text = "";
    for (int64_t i = 0; i < count; i++)
        text = arena_printf(keep, "%s%s%lld", text, i ? ", " : "", (long long)sizes[i]);
    return text;
}

const char *shard_text(struct arena *keep, const struct shard *shard)
{
    const char *digits = "";
    for (int64_t i = 0; i < shard->digits; i++) {
        const struct shard_digit *digit = &shard->digit[i];
        digits = arena_printf(keep, "%s%s[%lld, %lld, %lld]", digits, i ? ", " : "",
                              (long long)digit->stride, (long long)digit->degree,
                              (long long)digit->value);
    }
    return arena_printf(keep,
                        "{\"shape\": [%s], \"padded\": [%s], \"digits\": [%s], \"first\": %lld, "
                        "\"count\": %lld}",
                        list_text(keep, shard->shape, shard->axes),
                        list_text(keep, shard->padded, shard->axes), digits,
                        (long long)shard->first, (long long)shard->count);
}

static bool read_list(const struct doc *list, int64_t most, int64_t *out, int64_t *count)
{
    if (list->kind != DOC_LIST || list->count > (size_t)most)
        return false;
    *count = 0;
    for (const struct doc *item = list->first; item; item = item->next)
        if (item->kind != DOC_NUMBER || !parse_int(item->text, &out[(*count)++]))
            return false;
    return true;
}

static bool read_digits(const struct doc *list, struct shard *out)
{
    if (list->kind != DOC_LIST || list->count > MAX_LAYOUT_DIGITS)
        return false;
    for (const struct doc *item = list->first; item; item = item->next) {
        int64_t numbers[3], count;
        if (!read_list(item, 3, numbers, &count) || count != 3)
            return false;
        out->digit[out->digits++] = (struct shard_digit){numbers[0], numbers[1], numbers[2]};
    }
    return true;
}

struct shard_fields {
    const struct doc *shape, *padded, *digits;
    int64_t first, count;
};

static weft_status read_fields(struct arena *scratch, const char *file, const char *text,
                               struct shard_fields *out)
{
    static const struct field FIELDS[] = {
        {"shape", FIELD_DOC, offsetof(struct shard_fields, shape), .required = true},
        {"padded", FIELD_DOC, offsetof(struct shard_fields, padded), .required = true},
        {"digits", FIELD_DOC, offsetof(struct shard_fields, digits), .required = true},
        {"first", FIELD_INT, offsetof(struct shard_fields, first), .required = true},
        {"count", FIELD_INT, offsetof(struct shard_fields, count), .required = true},
    };
    weft_status status;
    struct doc *doc;
    TRY(doc_parse(scratch, file, text, strlen(text), DOC_JSON, &doc));
    TRY(doc_read(doc, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, out));
done:
    return status;
}

weft_status shard_parse(const char *file, const char *name, const char *text, struct shard *out)
{
    weft_status status;
    struct arena *scratch = arena_new();
    struct shard_fields fields = {0};
    int64_t padded_axes;
    TRY(read_fields(scratch, arena_printf(scratch, "%s: shard of '%s'", file, name), text,
                    &fields));
    *out = (struct shard){.first = fields.first, .count = fields.count};
    const char *fault = "is not described by lists of numbers";
    if (read_list(fields.shape, MAX_SHARD_AXES, out->shape, &out->axes) &&
        read_list(fields.padded, MAX_SHARD_AXES, out->padded, &padded_axes) &&
        padded_axes == out->axes && read_digits(fields.digits, out))
        fault = shard_fault(out);
    if (fault)
        status = bad_input(file, 0, "the file is damaged: use another checkpoint",
                           "the shard of '%s' %s", name, fault);
done:
    arena_free(scratch);
    return status;
}
