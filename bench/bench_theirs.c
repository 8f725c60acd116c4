/* bench_theirs.c - plans that the search program of Aceso's authors found in minutes for Table 3's models
 * (data/validation/aceso_plans.csv), beside Weft's after half a second of a core and at the end. All are
 * simulated alike, with the authors' profiles on their machine, within 28,000 MB by their own count.
 *
 * `bench_theirs MODEL` takes one of them. */
#include <string.h>

#include "lab/duel.h"
#include "within.h"

static double slower(const struct answer *answer, const struct duel *duel)
{
    return 100 * (answer->s / duel->theirs_least_s - 1);
}

static void hold_against(const char *model, int64_t devices)
{
    static const char *const SPACES[] = {"artifact", "paper"};
    static const double BUDGET_S = 0.35; /* what it is about then comes to an end within 0.5 s */
    struct arena *keep = arena_new();
    struct duel duel = {.family = "GPT-3", .model = model, .devices = devices};
    struct duel_stand stand;
    stop_on(duel_stand_up(keep, duel.family, model, devices, &stand));
    stop_on(duel_predict_theirs(keep, &stand.request, &duel));
    printf("%-10s on %2lld: theirs %7.2f s, by their own model %7.2f s; their fastest %7.2f s\n",
           model, (long long)devices, duel.theirs_s, duel.theirs->predicted_s, duel.theirs_least_s);
    stand.study.every_stages = false; /* as `weft plan` asks */
    for (size_t i = 0; i < COUNT_OF(SPACES); i++) {
        stand.request.options.space = SPACES[i];
        struct answer first = best_within(stand.request, BUDGET_S),
                      last = best_within(stand.request, 0);
        printf(
            "  %-8s %7.2f s (%+.1f %%) after %4.2f s of a core, %7.2f s (%+.1f %%) after %5.2f s\n",
            SPACES[i], first.s, slower(&first, &duel), first.cpu_s, last.s, slower(&last, &duel),
            last.cpu_s);
    }
    duel_take_down(&stand);
    arena_free(keep);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *model;
        int64_t devices;
    } CASES[] = {{"gpt3-1.3b", 4}, {"gpt3-2.6b", 8}, {"gpt3-6.7b", 16}, {"gpt3-13b", 32}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        if (argc < 2 || strcmp(argv[1], CASES[i].model) == 0)
            hold_against(CASES[i].model, CASES[i].devices);
    return 0;
}
