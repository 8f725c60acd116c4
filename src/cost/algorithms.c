/* algorithms.c - what a profile database knows about measurements that were made here: when, on what and by what, and by which of
 * a library's algorithms products are computed quickest.
 *
 *   I1  A database of an older version has neither, and answers that it has none.
 *   I2  An algorithm is of one version of its library: who takes it compares the names.
 */
#include "cost/profile_room.h"

/* ---- circumstances --------------------------------------------------------------------------- */

weft_status profile_add_circumstances(struct profile *profile, const char *source,
                                      const struct circumstances *of)
{
    int64_t number;
    weft_status status;
    TRY(profile_source(profile, source, "", "", &number));
    struct profile_value values[] = {
        V_INT(number),      V_TEXT(of->device),  of->clock_hz > 0 ? V_REAL(of->clock_hz) : V_NULL,
        V_TEXT(of->driver), V_TEXT(of->library), V_TEXT(of->date)};
    TRY(profile_insert(profile, TABLE_CIRCUMSTANCES, values, COUNT_OF(values)));
done:
    return status;
}

struct found_circumstances {
    struct arena *keep;
    struct circumstances *out;
    bool *found;
};

static void take_circumstances(void *context, const struct profile_value *v)
{
    struct found_circumstances *f = context;
    *f->found = true;
    *f->out = (struct circumstances){
        .device = arena_copy_text(f->keep, v[0].text),
        .clock_hz = v[1].real, /* 0 for NULL */
        .driver = arena_copy_text(f->keep, v[2].text),
        .library = arena_copy_text(f->keep, v[3].text),
        .date = arena_copy_text(f->keep, v[4].text),
    };
}

weft_status profile_circumstances(struct profile *profile, const char *source, struct arena *keep,
                                  struct circumstances *out, bool *found)
{
    struct profile_value parameters[] = {V_TEXT(source)};
    *found = false;
    if (profile->version < 3) /* I1 */
        return WEFT_OK;
    return profile_query(profile,
                         "SELECT c.device, c.clock_hz, c.driver, c.library, c.date"
                         " FROM circumstances c JOIN source s ON s.id = c.source WHERE s.name = ?1",
                         parameters, COUNT_OF(parameters), take_circumstances,
                         &(struct found_circumstances){keep, out, found});
}

/* ---- algorithms ------------------------------------------------------------------------------ */

weft_status profile_add_algorithm(struct profile *profile, const struct algorithm_row *row)
{
    int64_t source;
    weft_status status;
    TRY(profile_source(profile, row->source, "", "", &source));
    struct profile_value values[] = {
        V_TEXT(row->device), V_TEXT(row->library), V_TEXT(row->product),  V_TEXT(row->algorithm),
        V_INT(row->place),   V_REAL(row->ns),      V_REAL(row->first_ns), V_INT(source)};
    TRY(profile_insert(profile, TABLE_ALGORITHM, values, COUNT_OF(values)));
done:
    return status;
}

struct algorithm_list {
    struct arena *keep;
    const char *device;
    ARRAY(struct algorithm_row) rows;
};

static void add_algorithm(void *context, const struct profile_value *v)
{
    struct algorithm_list *list = context;
    struct algorithm_row row = {.device = list->device,
                                .library = arena_copy_text(list->keep, v[0].text),
                                .product = arena_copy_text(list->keep, v[1].text),
                                .algorithm = arena_copy_text(list->keep, v[2].text),
                                .place = v[3].integer,
                                .ns = v[4].real,
                                .first_ns = v[5].real,
                                .source = arena_copy_text(list->keep, v[6].text)};
    array_push(list->keep, &list->rows, row);
}

/* SQLite takes the other columns of a group from the row that has the maximum. */
weft_status profile_algorithms(struct profile *profile, const char *device, struct arena *keep,
                               struct algorithm_row **out, size_t *count)
{
    struct algorithm_list list = {.keep = keep, .device = arena_copy_text(keep, device)};
    struct profile_value parameters[] = {V_TEXT(device)};
    weft_status status = WEFT_OK;
    if (profile->version >= 3) /* I1 */
        status = profile_query(
            profile,
            "SELECT a.library, a.product, a.algorithm, a.place, a.ns, a.first_ns, s.name,"
            " max(a.source) FROM algorithm a JOIN source s ON s.id = a.source WHERE a.device = ?1"
            " GROUP BY a.library, a.product ORDER BY a.library, a.product",
            parameters, COUNT_OF(parameters), add_algorithm, &list);
    *out = list.rows.data;
    *count = list.rows.len;
    return status;
}
