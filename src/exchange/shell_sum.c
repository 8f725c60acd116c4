/* shell_sum.c - computes $((...)) of a script: whole numbers with + - * / % and parentheses.
 *
 *   sum     = product {(+ | -) product}
 *   product = factor {(* | / | %) factor}
 *   factor  = number | (+ | -) factor | ( sum )
 */
#include <ctype.h>
#include <stdlib.h>

#include "exchange/shell_room.h"

enum { DEEPEST = 64 };
struct sum {
    const char *at;
    int depth;
    bool bad;
};

static int64_t sum_of(struct sum *s);

static char next_of(struct sum *s)
{
    while (isspace((unsigned char)*s->at))
        s->at++;
    return *s->at;
}

static int64_t number_of(struct sum *s)
{
    int64_t value = 0;
    s->bad |= !isdigit((unsigned char)*s->at);
    for (; isdigit((unsigned char)*s->at) && !s->bad; s->at++)
        s->bad = __builtin_mul_overflow(value, 10, &value) ||
                 __builtin_add_overflow(value, *s->at - '0', &value);
    return value;
}

static int64_t factor_of(struct sum *s)
{
    char c = next_of(s);
    int64_t value = 0;
    if (c != '(' && c != '-' && c != '+')
        return number_of(s);
    s->at++;
    s->bad |= ++s->depth > DEEPEST;
    if (s->bad)
        return 0;
    if (c == '(') {
        value = sum_of(s);
        s->bad |= next_of(s) != ')';
        s->at += !s->bad;
    } else {
        value = factor_of(s);
        s->bad |= c == '-' && __builtin_sub_overflow(0, value, &value);
    }
    s->depth--;
    return value;
}

static int64_t product_of(struct sum *s)
{
    int64_t value = factor_of(s);
    for (char c; !s->bad && ((c = next_of(s)) == '*' || c == '/' || c == '%');) {
        s->at++;
        int64_t by = factor_of(s);
        s->bad |= c != '*' && (by == 0 || (by == -1 && value == INT64_MIN));
        if (s->bad)
            return 0;
        s->bad = c == '*' && __builtin_mul_overflow(value, by, &value);
        value = c == '/' ? value / by : c == '%' ? value % by : value;
    }
    return value;
}

static int64_t sum_of(struct sum *s)
{
    int64_t value = product_of(s);
    for (char c; !s->bad && ((c = next_of(s)) == '+' || c == '-');) {
        s->at++;
        int64_t other = product_of(s);
        s->bad |= c == '+' ? __builtin_add_overflow(value, other, &value)
                           : __builtin_sub_overflow(value, other, &value);
    }
    return value;
}

bool sum_value(const char *text, int64_t *out)
{
    struct sum s = {.at = text};
    *out = sum_of(&s);
    return !s.bad && next_of(&s) == '\0';
}
