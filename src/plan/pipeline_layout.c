/* pipeline_layout.c - which part of a pipeline holds which layers, in Megatron's words.
 *
 *   "Et*3|(t*4|)*30,t*3L"
 *
 * E is what comes before the layers, t a layer, m one that predicts more tokens, L what comes after them; a bar ends a part,
 * x*n and (...)*n repeat, commas are ignored. Part p is piece p / stages of stage p % stages.
 *
 *   I1  A text stands for no more than MOST letters.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/room.h"

enum { MOST = 100000 };
static const char EXAMPLE[] = "an example: Et*3|(tt|)*29,L";

/* The number after a star; 1 if there is no star. */
static int64_t take_times(const char **at)
{
    if (**at != '*')
        return 1;
    char *end;
    long long count = strtoll(*at + 1, &end, 10);
    bool digits = end != *at + 1;
    *at = end;
    return digits ? count : -1;
}

bool letters_repeat(struct arena *scratch, struct letters *u, size_t first, const char **at)
{
    int64_t count = take_times(at);
    size_t len = u->len - first;
    if (count < 0 || count > MOST || (int64_t)(len + 1) * count > MOST)
        return false;
    if (count == 0)
        u->len = first;
    for (int64_t i = 1; i < count; i++)
        for (size_t k = 0; k < len; k++) {
            char copy = u->data[first + k];
            array_push(scratch, u, copy);
        }
    return true;
}

/* A group cannot contain another group. */
static bool unroll(struct arena *scratch, const char *text, struct letters *out)
{
    size_t group = 0;
    bool inside = false;
    for (const char *at = text; *at;) {
        size_t first = out->len;
        char c = *at++;
        if (c == ',' || isspace((unsigned char)c))
            continue;
        if (c == '(' ? inside : c == ')' ? !inside : !strchr("EtmL|", c))
            return false;
        if (c == '(') {
            inside = true;
            group = out->len;
            continue;
        }
        if (c == ')') {
            inside = false;
            first = group;
        } else {
            array_push(scratch, out, c);
        }
        if (!letters_repeat(scratch, out, first, &at))
            return false;
    }
    array_push(scratch, out, '\0');
    return !inside;
}

/* Takes out the layers that predict more tokens; how many there were. */
static int64_t drop_depths(struct letters *u)
{
    size_t kept = 0, all = strlen(u->data);
    for (size_t i = 0; i < all; i++)
        if (u->data[i] != 'm')
            u->data[kept++] = u->data[i];
    u->data[kept] = '\0';
    return (int64_t)(all - kept);
}

/* Whether those layers are in the part of the loss and after all others, as in Weft's models. */
static bool depths_end_it(const char *letters)
{
    const char *first = strchr(letters, 'm');
    return !first || strspn(first, "m") + 1 == strlen(first);
}

static void count_layers(struct arena *keep, const char *letters, struct pipeline_layout *out)
{
    int64_t part = 0;
    *out = (struct pipeline_layout){.parts = 1};
    for (const char *at = letters; *at; at++)
        out->parts += *at == '|';
    out->part_layers = ARENA_ARRAY(keep, int64_t, (size_t)out->parts);
    for (const char *at = letters; *at; at++) {
        part += *at == '|';
        out->part_layers[part] += *at == 't';
        out->layers += *at == 't';
    }
}

/* A part without layers, of which no plan can be made, takes one from the nearest part before it that has two. */
static void fill_parts(struct pipeline_layout *layout)
{
    int64_t *layers = layout->part_layers;
    for (int64_t p = 1; p + 1 < layout->parts; p++) {
        int64_t from = p;
        while (from > 0 && layers[from] < 2)
            from--;
        if (layers[p] || layers[from] < 2)
            continue;
        layers[from]--;
        layers[p]++;
    }
}

const char *pipeline_layout_read(struct arena *keep, const char *text, struct pipeline_layout *out)
{
    struct letters u = {0};
    *out = (struct pipeline_layout){.hint = EXAMPLE};
    if (!unroll(keep, text, &u))
        return "expected E, t, L and | with (...)*n and x*n";
    bool ends = depths_end_it(u.data);
    int64_t depths = drop_depths(&u);
    size_t len = strlen(u.data);
    if (len < 2 || u.data[0] != 'E' || u.data[len - 1] != 'L' || strchr(u.data + 1, 'E') ||
        strchr(u.data, 'L') != u.data + len - 1)
        return "expected one E in front and one L at the end";
    count_layers(keep, u.data, out);
    out->hint = EXAMPLE;
    if (ends)
        return NULL;
    fill_parts(out);
    out->hint = arena_printf(keep, "the nearest of the same model: %s",
                             pipeline_layout_text(keep, out->parts, out->part_layers, depths));
    return "layers that predict more tokens (m) are only supported directly in front of the L";
}

/* ---- as a text -------------------------------------------------------------------------------- */

static const char *text_of_part(struct arena *keep, int64_t layers, bool first, bool last,
                                int64_t depths)
{
    const char *body = layers == 0   ? ""
                       : layers == 1 ? "t"
                                     : arena_printf(keep, "t*%lld", (long long)layers);
    for (int64_t i = 0; last && i < depths; i++)
        body = arena_printf(keep, "%sm", body);
    return arena_printf(keep, "%s%s%s", first ? "E" : "", body, last ? "L" : "");
}

const char *pipeline_layout_text(struct arena *keep, int64_t parts, const int64_t *part_layers,
                                 int64_t depths)
{
    const char *text = "";
    for (int64_t p = 0, run; p < parts; p += run) {
        const char *body = text_of_part(keep, part_layers[p], p == 0, p == parts - 1, depths);
        run = 1;
        while (p > 0 && p + run < parts - 1 && part_layers[p + run] == part_layers[p])
            run++;
        if (p == parts - 1)
            text = arena_printf(keep, "%s%s", text, body);
        else if (run > 1)
            text = arena_printf(keep, "%s(%s|)*%d,", text, body, (int)run);
        else
            text = arena_printf(keep, "%s%s|", text, body);
    }
    return text;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* The first instance after n layers. */
static int64_t after(const struct plan *plan, int64_t n)
{
    int64_t i = 0;
    while (n == 0 && i < plan->instances &&
           (in_tower(plan, i) || !op_in_layer(plan->model, &plan->model->op[plan->instance[i].op])))
        i++;
    for (; n > 0 && i < plan->instances; i++)
        n -= plan->ends_layer[i] && !in_tower(plan, i);
    return i;
}

bool cuts_after_layers(struct arena *keep, const struct plan *plan, int64_t parts,
                       const int64_t *part_layers, int64_t **cut)
{
    int64_t layers = 0, before = 0;
    *cut = ARENA_ARRAY(keep, int64_t, (size_t)parts);
    for (int64_t p = 0; p + 1 < parts; p++) {
        layers += part_layers[p];
        (*cut)[p] = after(plan, layers);
        if ((*cut)[p] <= before || (*cut)[p] >= plan->instances)
            return false;
        before = (*cut)[p];
    }
    return true;
}
