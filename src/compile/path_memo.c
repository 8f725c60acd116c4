/* path_memo.c - remembers paths that were found for other sizes of the tensor.
 *
 * What path.c finds depends on how the digits' splits are nested, not on the size of the tensor.
 * Take all places where a split begins or ends as strides b_0 = 1 < b_1 < ... < b_n = N. If each
 * divides the next, the mesh with
 *
 *   b'_0 = 1,  b'_(k+1) = b'_k * r_k                                                           (1)
 *   r_k = b_(k+1) / b_k if a split covers that, else its gcd with the devices, if that is not 1
 *
 * has the same paths, with volumes N / N' times as large:
 *
 *   I1  Splits keep their degrees, and overlap as before.
 *   I2  A split of degree d has room in what nobody splits (path_options.c, spare_stride) exactly if d
 *       divides it; d divides the devices.
 *   I3  Digits that hold copies before and after do not matter.
 *
 * So a path is found once per mesh (1), and its strides are then restored.
 */
#include <stdlib.h>
#include <string.h>

#include "compile/path.h"

enum { MOST_BOUNDS = 4 * MAX_MESH_DIGITS + 2 };

struct known {
    struct mesh mesh; /* of (1); a digit's mesh_stride is its number in the mesh */
    struct step_list steps;
};
struct paths {
    struct arena *arena;
    ARRAY(struct known *) known;
    struct hash_map numbers; /* numbers of known paths, by their meshes */
};

struct paths *paths_new(struct arena *keep)
{
    struct paths *paths = ARENA_NEW(keep, struct paths);
    paths->arena = keep;
    return paths;
}

/* ---- (1) ------------------------------------------------------------------------------------- */

struct mesh_bounds {
    int64_t real[MOST_BOUNDS], small[MOST_BOUNDS];
    int32_t count;
};

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void add_bounds(struct mesh_bounds *b, int64_t hold, int64_t degree)
{
    if (hold <= 0)
        return;
    b->real[b->count++] = hold;
    b->real[b->count++] = hold * degree;
}

static bool covers(int64_t hold, int64_t degree, int64_t low, int64_t high)
{
    return hold > 0 && hold <= low && high <= hold * degree;
}

static bool is_covered(const struct mesh *mesh, int64_t low, int64_t high)
{
    for (int32_t i = 0; i < mesh->digits; i++) {
        const struct step_digit *d = &mesh->digit[i];
        if (covers(d->before, d->degree, low, high) || covers(d->after, d->degree, low, high))
            return true;
    }
    return false;
}

/* False: some bound does not divide the next. */
static bool find_bounds(const struct mesh *mesh, struct mesh_bounds *b)
{
    int64_t devices = 1;
    int32_t kept = 1;
    b->count = 0;
    b->real[b->count++] = 1;
    b->real[b->count++] = mesh->elements;
    for (int32_t i = 0; i < mesh->digits; i++) {
        const struct step_digit *d = &mesh->digit[i];
        devices *= d->degree;
        add_bounds(b, d->before, d->degree);
        add_bounds(b, d->after, d->degree);
    }
    qsort(b->real, (size_t)b->count, sizeof *b->real, compare);
    b->small[0] = 1;
    for (int32_t i = 1; i < b->count; i++) {
        int64_t low = b->real[kept - 1], high = b->real[i];
        if (high == low)
            continue;
        if (high % low)
            return false;
        int64_t ratio = high / low, common = common_divisor(ratio, devices);
        bool stays = is_covered(mesh, low, high) || common == 1;
        b->small[kept] = b->small[kept - 1] * (stays ? ratio : common);
        b->real[kept++] = high;
    }
    b->count = kept;
    return true;
}

static int64_t translate(const int64_t *from, const int64_t *to, int32_t count, int64_t hold)
{
    int32_t i = 0;
    if (hold <= 0)
        return hold;
    while (i < count - 1 && from[i] != hold)
        i++;
    return to[i];
}

/* `number` maps each digit of the smaller mesh to its digit of `mesh`. */
static struct mesh make_small(const struct mesh *mesh, const struct mesh_bounds *b, int32_t *number)
{
    struct mesh small;
    memset(&small, 0, sizeof small);
    small.elements = b->small[b->count - 1];
    for (int32_t i = 0; i < mesh->digits; i++) {
        const struct step_digit *d = &mesh->digit[i];
        if (d->before == HOLD_COPY && d->after == HOLD_COPY)
            continue; /* I3 */
        number[small.digits] = i;
        small.digit[small.digits] = (struct step_digit){
            small.digits, d->degree, translate(b->real, b->small, b->count, d->before),
            translate(b->real, b->small, b->count, d->after)};
        small.digits++;
    }
    return small;
}

/* ---- paths found so far ---------------------------------------------------------------------- */

static bool same_mesh(const void *known, int64_t number, const void *wanted)
{
    struct known *const *all = known;
    const struct mesh *a = &all[number]->mesh, *b = wanted;
    return a->elements == b->elements && a->digits == b->digits &&
           memcmp(a->digit, b->digit, sizeof *a->digit * (size_t)a->digits) == 0;
}

static const struct known *know(struct paths *paths, const struct mesh *mesh)
{
    uint64_t hash = hash_bytes(mesh->digit, sizeof *mesh->digit * (size_t)mesh->digits,
                               (uint64_t)mesh->elements);
    int64_t *number =
        hash_at_same(&paths->numbers, paths->arena, hash, same_mesh, paths->known.data, mesh);
    if (*number < 0) {
        struct known *known = ARENA_NEW(paths->arena, struct known);
        known->mesh = *mesh;
        find_path(paths->arena, mesh, &known->steps);
        *number = (int64_t)paths->known.len;
        array_push(paths->arena, &paths->known, known);
    }
    return paths->known.data[*number];
}

void paths_find(struct paths *paths, struct arena *keep, const struct mesh *mesh,
                struct step_list *out)
{
    struct mesh_bounds b;
    int32_t number[MAX_MESH_DIGITS];
    if (!find_bounds(mesh, &b)) {
        find_path(keep, mesh, out);
        return;
    }
    struct mesh small = make_small(mesh, &b, number);
    const struct known *known = know(paths, &small);
    for (size_t i = 0; i < known->steps.len; i++) {
        struct reshard_step step = known->steps.data[i];
        step.elements *= mesh->elements / small.elements;
        for (int32_t k = 0; k < step.digits; k++) {
            struct step_digit *d = &step.digit[k];
            d->mesh_stride = mesh->digit[number[d->mesh_stride]].mesh_stride;
            d->before = translate(b.small, b.real, b.count, d->before);
            d->after = translate(b.small, b.real, b.count, d->after);
        }
        array_push(keep, out, step);
    }
}
