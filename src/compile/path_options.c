/* path_options.c - which layouts may lie between two: what each digit of the mesh may hold. */
#include "compile/path_room.h"

#include <string.h>

static void add_option(struct moving_digit *move, int64_t hold)
{
    for (int32_t k = 0; k < move->options; k++)
        if (move->option[k] == hold)
            return;
    if (move->options < MAX_OPTIONS)
        move->option[move->options++] = hold;
}

static bool is_spare(const struct mesh *mesh, int64_t stride, int64_t degree)
{
    bool spare = mesh->elements % (stride * degree) == 0;
    for (int32_t i = 0; spare && i < mesh->digits; i++) {
        const struct step_digit *digit = &mesh->digit[i];
        spare = splits_independent(stride, degree, digit->before, digit->degree) &&
                splits_independent(stride, degree, digit->after, digit->degree);
    }
    return spare;
}

/* A stride by which a partial sum can be scattered without conflict; HOLD_COPY: none. */
static int64_t spare_stride(const struct mesh *mesh, int64_t degree)
{
    int64_t best = is_spare(mesh, 1, degree) ? 1 : HOLD_COPY;
    for (int32_t i = 0; i < mesh->digits; i++) {
        const struct step_digit *digit = &mesh->digit[i];
        int64_t stride[] = {digit->before * digit->degree, digit->after * digit->degree};
        for (size_t k = 0; k < COUNT_OF(stride); k++)
            if (stride[k] > best && is_spare(mesh, stride[k], degree))
                best = stride[k];
    }
    return best;
}

/* Adds whatever some digit of the same degree is split by; for a partial sum also a spare
 * stride. */
static void add_detours(const struct path_search *s, struct moving_digit *move)
{
    int64_t degree = move->digit->degree;
    if (move->digit->before == HOLD_PARTIAL)
        add_option(move, spare_stride(s->mesh, degree));
    for (int32_t i = 0; i < s->moving; i++)
        if (s->move[i].digit->degree == degree) {
            add_option(move, s->move[i].digit->before > 0 ? s->move[i].digit->before : HOLD_COPY);
            add_option(move, s->move[i].digit->after);
        }
}

static bool count_states(struct path_search *s)
{
    s->states = 1;
    for (int32_t i = 0; i < s->moving && s->states <= MAX_STATES; i++)
        s->states *= s->move[i].options;
    return s->states <= MAX_STATES;
}

static void set_options(struct path_search *s, bool detours)
{
    for (int32_t i = 0; i < s->moving; i++) {
        struct moving_digit *move = &s->move[i];
        move->options = 0;
        add_option(move, move->digit->before);
        add_option(move, move->digit->after);
        add_option(move, HOLD_COPY);
        if (detours)
            add_detours(s, move);
    }
}

bool path_begin(struct path_search *s, const struct mesh *mesh)
{
    s->mesh = mesh;
    s->elements = mesh->elements;
    s->moving = s->stay = 0;
    for (int32_t i = 0; i < mesh->digits; i++) {
        const struct step_digit *digit = &mesh->digit[i];
        if (digit->before != digit->after) {
            if (s->moving == MAX_STEP_DIGITS)
                return false;
            s->move[s->moving++].digit = digit;
        } else if (digit->before > 0) {
            s->staying[s->stay++] = digit;
            s->elements /= digit->degree;
        }
    }
    set_options(s, true);
    if (!count_states(s)) {
        set_options(s, false);
        count_states(s);
    }
    return true;
}
