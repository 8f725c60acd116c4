/* bench_author_plans.c - plans that the search program of Aceso's authors found in minutes for Table 3's models
 * (data/validation/aceso_plans.csv), beside Weft's after half a second of a core and at the end. All are
 * simulated alike, with the authors' profiles on their machine, within 28,000 MB by their own count.
 *
 * `bench_author_plans MODEL` takes one of them. */
#include <string.h>

#include "lab/aceso_contest.h"
#include "within.h"

static double slower(const struct answer *answer, const struct contest *contest)
{
    return 100 * (answer->s / contest->authors_least_s - 1);
}

static void hold_against(const char *model, int64_t devices)
{
    static const char *const SPACES[] = {"artifact", "paper"};
    static const double BUDGET_S = 0.35; /* what it is about then comes to an end within 0.5 s */
    struct arena *keep = arena_new();
    struct contest contest = {.family = "GPT-3", .model = model, .devices = devices};
    struct contest_setup setup;
    stop_on(contest_set_up(keep, contest.family, model, devices, &setup));
    stop_on(contest_predict_authors(keep, &setup.request, &contest));
    printf("%-10s on %2lld: theirs %7.2f s, by their own model %7.2f s; their fastest %7.2f s\n",
           model, (long long)devices, contest.authors_s, contest.author_plan->predicted_s,
           contest.authors_least_s);
    setup.study.every_stages = false; /* as `weft plan` asks */
    for (size_t i = 0; i < COUNT_OF(SPACES); i++) {
        setup.request.options.space = SPACES[i];
        struct answer first = best_within(setup.request, BUDGET_S),
                      last = best_within(setup.request, 0);
        printf(
            "  %-8s %7.2f s (%+.1f %%) after %4.2f s of a core, %7.2f s (%+.1f %%) after %5.2f s\n",
            SPACES[i], first.s, slower(&first, &contest), first.cpu_s, last.s,
            slower(&last, &contest), last.cpu_s);
    }
    contest_take_down(&setup);
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
