/* test_import_scripts.c - shell scripts around Megatron-LM's arguments: what their variables, branches and sums come to
 * without anything being run, and what is refused because the script does not say it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "made_plan.h"
#include "same_plan.h"

#define SMALL                                                                                      \
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "                   \
    "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000 "
#define LAUNCH "torchrun pretrain_gpt.py " SMALL
#define TP     "--tensor-model-parallel-size "

static weft_status import_text(const char *text, struct opened_plan *out)
{
    struct texts notes = {0};
    struct import_input input = {
        .file = "run.sh", .text = text, .len = strlen(text), .cluster = "dgx-h100"};
    return megatron_import(arena, &input, out, &notes);
}

/* Scripts, and the width of tensor parallelism that they launch with. */
static const struct {
    const char *text;
    int tp;
} READ[] = {
    /* variables */
    {"ARGS=\"" TP "4\"\nARGS+=\" --bf16\"\n" LAUNCH "${ARGS}", 4},
    {"ARGS=(" TP "2)\nARGS+=(" TP "8)\n" LAUNCH "${ARGS[@]}", 8},
    {"ARGS=(" TP "2)\nOTHERS=(" TP "8)\n" LAUNCH "\"${ARGS[@]}\"", 2},
    {"ARGS=(\n" SMALL TP "4\n)", 4},
    {"A='" TP "4'\nB=$A\n" LAUNCH "$B", 4},
    {"export TP=4 PP=2\n" LAUNCH TP "$TP", 4},
    {"TP=2\n: ${TP:=8}\n" LAUNCH TP "$TP", 2},
    /* defaults */
    {LAUNCH TP "${TP:-4}", 4},
    {LAUNCH TP "${1:-4}", 4},
    {LAUNCH TP "${TP-4}", 4},
    {LAUNCH TP "${TP:=4}", 4},
    {"TP=\n" LAUNCH TP "${TP:-4}", 4},
    {"TP=2\n" LAUNCH TP "${TP:-4}", 2},
    {"TP=$1\n" LAUNCH TP "${TP:-4}", 4},
    {": \"${TP:=4}\"\n" LAUNCH TP "$TP", 4},
    {"TP=${TP:-${OTHER:-\"4\"}}\n" LAUNCH TP "$TP", 4},
    {"X=1\n" LAUNCH "${X:+" TP "8} ${Y:+--bf16}", 8},
    /* sums */
    {LAUNCH TP "$((8/4))", 2},
    {"A=8 B=2\n" LAUNCH TP "$(( (A - 2*$B) % 3 + ${C:-1} ))", 2},
    {"A=2\nA=$((A * 2))\n" LAUNCH TP "\"$A\"", 4},
    {LAUNCH TP "$((-2 * -(2)))", 4},
    /* branches that do not matter, or do not differ */
    {"if [ \"$X\" = 1 ]; then LOG=1; else LOG=2; fi\n" LAUNCH TP "4 --log-interval $LOG", 4},
    {"if [ $X ]; then TP=4\nelif [ $Y ]; then TP=4\nelse TP=4\nfi\n" LAUNCH TP "$TP", 4},
    {"TP=4\nif [ $X ]; then TP=4; fi\n" LAUNCH TP "$TP", 4},
    {"ARGS='" TP "4'\nif [ $X ]; then ARGS=\"$ARGS --load $X\"; fi\n" LAUNCH "$ARGS", 4},
    {"ARGS=(" TP "4)\n[ $X ] &&\n ARGS+=(--load $X)\n" LAUNCH "${ARGS[@]}", 4},
    {"if [ $X ]; then TP=8; fi\nTP=2\n" LAUNCH TP "$TP", 2},
    {"export A=1 && TP=4\n" LAUNCH TP "$TP", 4},
    {"if [ $X ]; then\n TP=4\n " LAUNCH TP "$TP\nfi", 4},
    /* a case over a word that is known */
    {"S=7b\ncase $S in\n 7b) TP=2;;\n 13b|30b) TP=4;;\n *) TP=8;;\nesac\n" LAUNCH TP "$TP", 2},
    {"S=30b\ncase \"$S\" in\n 7b) TP=2;;\n 13b|30b) TP=4;;\n *) TP=8;;\nesac\n" LAUNCH TP "$TP", 4},
    {"S=70b\ncase ${S} in\n 7b) TP=2;;\n (13b) TP=4;;\n *) TP=8\nesac\n" LAUNCH TP "$TP", 8},
    {"S=${1:-llama7}\ncase $S in # which?\n l*7) TP=2\n ;;\n *) TP=8;;\nesac\n" LAUNCH TP "$TP", 2},
    {"S=1\ncase $S in 1) " LAUNCH TP "2;; 2) " LAUNCH TP "4;; esac", 2},
    /* launches */
    {"if [ $X ]; then\n" LAUNCH TP "4\nelse\n" LAUNCH TP "4\nfi", 4},
    {"CMD=\"" LAUNCH TP "4\"\necho $CMD \n eval $CMD", 4},
    {"echo " TP "8\n" LAUNCH TP "4 2>&1 | tee log --append", 4},
    {"docker run --rm --gpus all image\n" LAUNCH TP "4", 4},
    {"torchrun pretrain_gpt.py \\\n  --bf16 \\ \n" SMALL "\n" TP "4", 4},
    {"((X = 4))\nif [[ $A == 1 && $B =~ ^(a|b)$ ]]; then A=(; fi\n" LAUNCH TP "4", 4},
};

static void scripts_come_to_what_a_shell_makes_of_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(READ); i++) {
        struct opened_plan opened;
        weft_status status = import_text(READ[i].text, &opened);
        if (status)
            fail_msg("%s: %s", READ[i].text, weft_last_error()->message);
        int tp = 8 / (int)opened.plan->global_batch; /* a sample for each replica */
        if (tp != READ[i].tp)
            fail_msg("%s: tp %d, expected %d", READ[i].text, tp, READ[i].tp);
        plan_close(&opened);
    }
}

#define LEAVE   "leave one value of TP in the script: Weft does not run it"
#define WRITE   "write the number: Weft does not run the script"
#define DEPENDS "--tensor-model-parallel-size depends on "

static const struct {
    const char *text, *message, *hint;
} REFUSED[] = {
    /* branches */
    {"TP=8\nif [ \"$X\" = 1 ]; then\nTP=2\nfi\n" LAUNCH TP "$TP",
     "run.sh:3: " DEPENDS "TP, which is set here under a condition", LEAVE},
    {"if [ $X ]; then\nTP=2\nelse\nTP=4\nfi\n" LAUNCH TP "$TP",
     "run.sh:2: " DEPENDS "TP, which is set here under a condition", LEAVE},
    {"case $1 in\n7b) TP=2;;\n*) TP=4;;\nesac\n" LAUNCH TP "$TP",
     "run.sh:2: " DEPENDS "TP, which is set here under a condition", LEAVE},
    {"S=x\ncase $S in\n[a-z]) TP=2;;\n*) TP=4;;\nesac\n" LAUNCH TP "$TP",
     "run.sh:3: " DEPENDS "TP, which is set here under a condition", LEAVE},
    {"[ -z \"$TP\" ] && TP=4\n" LAUNCH TP "$TP",
     "run.sh:1: " DEPENDS "TP, which is set here under a condition", LEAVE},
    {"for TP in 1 2 4; do\n" LAUNCH TP "$TP\ndone",
     "run.sh:1: " DEPENDS "TP, which has several values in a loop here", LEAVE},
    {"while [ $# -gt 0 ]; do\nTP=4; shift\ndone\n" LAUNCH TP "$TP",
     "run.sh:2: " DEPENDS "TP, which has several values in a loop here", LEAVE},
    {"if [ $X ]; then\nWIDE='" TP "4'\nfi\n" LAUNCH "$WIDE",
     "run.sh:2: " DEPENDS "WIDE, which is set here under a condition",
     "leave one value of WIDE in the script: Weft does not run it"},
    {"if [ $X ]; then ARGS=(--bf16); else ARGS=(--fp16); fi\n" LAUNCH "${ARGS[@]}",
     "run.sh:1: --bf16 depends on ARGS, which is set here under a condition",
     "leave one value of ARGS in the script: Weft does not run it"},
    /* launches */
    {LAUNCH TP "4\n\n" LAUNCH TP "2", "run.sh:3: it launches with other arguments than line 1 does",
     "leave one of the two in the script"},
    /* what is not known */
    {LAUNCH TP "$TP",
     "run.sh:1: --tensor-model-parallel-size is '$TP', a variable that is not set here", WRITE},
    {LAUNCH TP "$1",
     "run.sh:1: --tensor-model-parallel-size is '$1', an argument of the script, which is not "
     "given here",
     WRITE},
    {LAUNCH TP "$(nproc --all)",
     "run.sh:1: --tensor-model-parallel-size is '$(nproc --all)', the output of a command", WRITE},
    {"TP=`nproc`\n" LAUNCH TP "$TP",
     "run.sh:2: --tensor-model-parallel-size is '`nproc`', the output of a command", WRITE},
    {"TP=44\n" LAUNCH TP "${TP%4}",
     "run.sh:2: --tensor-model-parallel-size is '${TP%4}', an expansion that Weft does not read",
     WRITE},
    {LAUNCH TP "$((8 / 0))",
     "run.sh:1: --tensor-model-parallel-size is '$((8 / 0))', a computation that Weft does not "
     "read",
     WRITE},
    {LAUNCH TP "$((8 / N))",
     "run.sh:1: --tensor-model-parallel-size is '$((8 / N))', a variable that is not set here",
     WRITE},
    {LAUNCH "--recompute-granularity $AC",
     "run.sh:1: --recompute-granularity is '$AC', a variable that is not set here",
     "write the value: Weft does not run the script"},
    /* lines, after quotes that go on */
    {"ARGS=\" \\\n  --bf16 \\\n  --swiglu \\\n\"\n" LAUNCH "$ARGS \\\n" TP "many",
     "run.sh:6: --tensor-model-parallel-size is 'many', expected a whole number", NULL},
    {"ARGS=\" \\\n  --bf16 \\\n" TP "many \\\n\"\n" LAUNCH "$ARGS",
     "run.sh:3: --tensor-model-parallel-size is 'many', expected a whole number", NULL},
};

static void what_a_script_does_not_say_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        struct opened_plan opened;
        if (import_text(REFUSED[i].text, &opened) == WEFT_OK)
            fail_msg("%s: is read", REFUSED[i].text);
        assert_string_equal(weft_last_error()->message, REFUSED[i].message);
        if (REFUSED[i].hint)
            assert_string_equal(weft_last_error()->hint, REFUSED[i].hint);
    }
}

/* Neither crashes nor takes long, whatever it comes to. */
static void hostile_scripts_come_to_an_end(void **state)
{
    (void)state;
    static const char *const PARTS[] = {"${X:-",
                                        "$((",
                                        "$((-(",
                                        "case x in ",
                                        "if a; then X=\"$X$X\"; fi\n",
                                        "X+=$X ",
                                        "case $X in *) ",
                                        "`",
                                        "A=(",
                                        "fi;",
                                        "esac;",
                                        "done;",
                                        "X=a;&& ",
                                        "for X in a ",
                                        "${",
                                        "$",
                                        "\"",
                                        "then X=1;else "};
    for (size_t i = 0; i < COUNT_OF(PARTS); i++) {
        struct opened_plan opened;
        const char *first = "X=a\n";
        size_t len = strlen(PARTS[i]), times = 20000;
        char *text = arena_alloc(arena, strlen(first) + len * times + 1, 1);
        memcpy(text, first, strlen(first));
        for (size_t k = 0; k < times; k++)
            memcpy(text + strlen(first) + k * len, PARTS[i], len);
        assert_int_equal(import_text(text, &opened), WEFT_BAD_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_come_to_what_a_shell_makes_of_them),
        cmocka_unit_test(what_a_script_does_not_say_is_refused),
        cmocka_unit_test(hostile_scripts_come_to_an_end),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
