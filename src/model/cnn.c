/* cnn.c - windows, pools and lists of counts, which the convolutional families share. */
#include "model/cnn.h"

struct window square(int64_t kernel, int64_t stride, int64_t pad)
{
    return (struct window){kernel, kernel, stride, pad, pad};
}

int build_max_pool(struct builder *b, const char *name, int x, const struct window *w)
{
    int y = build_pool(b, name, x, w);
    const struct tensor *map = build_tensor(b, y);
    if (y >= 0) /* PyTorch stores a position as an 8-byte integer: two fp32 words */
        build_last(b)->kept_fp32 = 2 * map->size[1] * map->size[2] * map->size[3];
    return y;
}

/* PyTorch's adaptive pooling lets windows differ by one; equal windows of
 *   stride = floor(h / target), kernel = h - (target - 1) stride
 * give the same output size from the same input, which is all that its cost depends on. */
int build_pool_onto(struct builder *b, const char *name, int x, int64_t target)
{
    int64_t height = build_tensor(b, x)->size[2];
    int64_t stride = height / target;
    struct window w = square(height - (target - 1) * stride, stride, 0);
    return build_pool(b, name, x, &w);
}

weft_status read_counts(const struct doc *list, const struct counts_rule *rule, int64_t *out,
                        size_t *count)
{
    if (list->kind != DOC_LIST)
        return doc_error(list, "write it as [3, 4, 6, 3]", "'%s' is %s, expected a list", list->key,
                         doc_kind_name(list->kind));
    if (list->count < rule->least || list->count > rule->most)
        return doc_error(list, NULL, "'%s' has %zu entries, expected %zu to %zu", list->key,
                         list->count, rule->least, rule->most);
    *count = 0;
    for (const struct doc *entry = list->first; entry; entry = entry->next) {
        weft_status status = doc_scalar(entry, FIELD_COUNT, &out[*count]);
        if (status)
            return status;
        if (out[*count] > rule->max)
            return doc_error(entry, NULL, "an entry of '%s' is %s, expected at most %lld",
                             list->key, entry->text, (long long)rule->max);
        ++*count;
    }
    return WEFT_OK;
}
