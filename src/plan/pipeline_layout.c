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

/* Takes out the layers that predict more tokens, which are in the part of the loss, as in Weft's models; the length
 * that is left. */
static size_t drop_depths(struct letters *u)
{
    size_t len = strlen(u->data);
    if (len < 1 || u->data[len - 1] != 'L')
        return len;
    while (len > 1 && u->data[len - 2] == 'm')
        len--;
    u->data[len - 1] = 'L';
    u->data[len] = '\0';
    return len;
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

const char *pipeline_layout_read(struct arena *keep, const char *text, struct pipeline_layout *out)
{
    struct letters u = {0};
    if (!unroll(keep, text, &u))
        return "expected E, t, L and | with (...)*n and x*n";
    size_t len = drop_depths(&u);
    if (strchr(u.data, 'm'))
        return "expected layers that predict more tokens (m) in front of the L";
    if (len < 2 || u.data[0] != 'E' || u.data[len - 1] != 'L' || strchr(u.data + 1, 'E') ||
        strchr(u.data, 'L') != u.data + len - 1)
        return "expected one E in front and one L at the end";
    count_layers(keep, u.data, out);
    return NULL;
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
