/* yaml_shapes.c - shapes in a model file: read, checked, and shown in messages. */
#include "model/yaml_ops.h"

#include <stdio.h>
#include <string.h>

static struct text32 show_shape(const struct builder *b, int tensor)
{
    const struct tensor *t = build_tensor(b, tensor);
    struct text32 text = {"("};
    for (int i = 1; i <= t->axes; i++) {
        size_t used = strlen(text.s);
        if (i == t->axes)
            snprintf(text.s + used, sizeof text.s - used, ")");
        else
            snprintf(text.s + used, sizeof text.s - used, "%s%lld", i > 1 ? ", " : "",
                     (long long)t->size[i]);
    }
    return text;
}

weft_status yaml_wrong_shape(const struct yaml_reader *r, const struct yaml_spec *spec, int i,
                             const char *expected)
{
    return doc_error(spec->at, NULL, "'%.60s' reads the shape %s, expected %s", spec->name,
                     show_shape(r->b, spec->x[i]).s, expected);
}

weft_status yaml_differing(const struct yaml_reader *r, const struct yaml_spec *spec, int i, int k)
{
    return doc_error(spec->at, NULL, "'%.60s' reads the shapes %s and %s, which do not match",
                     spec->name, show_shape(r->b, spec->x[i]).s, show_shape(r->b, spec->x[k]).s);
}

/* Reads a number or a list of at most `most` numbers. */
static weft_status read_sizes(const struct doc *at, int64_t least, int64_t most, int64_t *out,
                              int room, int *count)
{
    const struct doc *d = at->kind == DOC_LIST ? at->first : at;
    if (at->kind == DOC_LIST && (at->count == 0 || at->count > (size_t)room))
        return doc_error(at, NULL, "'%s' is a list of %zu, expected 1 to %d numbers",
                         at->key ? at->key : "shape", at->count, room);
    for (*count = 0; d; d = at->kind == DOC_LIST ? d->next : NULL) {
        weft_status status = doc_scalar(d, FIELD_INT, &out[*count]);
        if (status)
            return status;
        if (out[*count] < least || out[*count] > most)
            return doc_error(d, NULL, "'%s' holds %lld, expected %lld to %lld",
                             at->key ? at->key : "shape", (long long)out[*count], (long long)least,
                             (long long)most);
        ++*count;
    }
    return WEFT_OK;
}

weft_status yaml_read_shape(const struct doc *at, int *axes, int64_t *size)
{
    size[0] = 1;
    weft_status status = read_sizes(at, 1, YAML_MOST_SIZE, size + 1, MAX_AXES - 1, axes);
    ++*axes;
    return status;
}

weft_status yaml_read_window(const struct yaml_spec *spec, struct window *w)
{
    weft_status status = WEFT_OK;
    int64_t kernel[2] = {1, 1}, pad[2] = {0, 0};
    int kernels = 1, pads = 1;
    if (spec->kernel)
        TRY(read_sizes(spec->kernel, 1, YAML_MOST_SMALL, kernel, 2, &kernels));
    if (spec->pad)
        TRY(read_sizes(spec->pad, 0, YAML_MOST_SMALL, pad, 2, &pads));
    *w = (struct window){kernel[0], kernel[kernels > 1], spec->stride, pad[0], pad[pads > 1]};
done:
    return status;
}

weft_status yaml_check_window(const struct yaml_reader *r, const struct yaml_spec *spec,
                              const struct window *w)
{
    bool fits = yaml_size(r, spec->x[0], 2) + 2 * w->pad_h >= w->kernel_h &&
                yaml_size(r, spec->x[0], 3) + 2 * w->pad_w >= w->kernel_w;
    if (fits)
        return WEFT_OK;
    return doc_error(spec->at, "use a smaller kernel or more padding",
                     "'%.60s' has a window of %lld x %lld over the shape %s, expected an image at "
                     "least as large",
                     spec->name, (long long)w->kernel_h, (long long)w->kernel_w,
                     show_shape(r->b, spec->x[0]).s);
}

bool yaml_same_shape(const struct yaml_reader *r, int x, int y)
{
    const struct tensor *a = build_tensor(r->b, x), *b = build_tensor(r->b, y);
    return a->axes == b->axes && memcmp(a->size, b->size, sizeof a->size[0] * a->axes) == 0;
}
