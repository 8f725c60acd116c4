/* fuzz_sources.c - what is known of published measurements (sources.yaml, aceso.yaml, galvatron.yaml), from any text:
 * no crash, no leak, and rules that are accepted can be applied to a row of every dataset. */
#include <string.h>

#include "lab/galvatron_facts.h"
#include "lab/lab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A row of the common columns; other forms refuse the header. */
static const char RUN[] = "dataset,case,model,params_b,layers,hidden,ffn,heads,kv_heads,seq_len,"
                          "vocab,experts,topk,gpu,gpus,"
                          "gpus_per_node,intra_link,inter_link,tp,cp,ep,pp,vpp,dp,mbs,gbs,num_"
                          "microbatches,schedule,recompute,"
                          "seq_parallel,zero,precision,overlap,iter_time_s,tokens_per_s_per_gpu,"
                          "tflops_per_gpu,flops_convention,"
                          "mfu_pct,mem_alloc_gib,mem_reserved_gib,framework,source,notes\n"
                          "%s,c@p,gpt,,12,2048,,16,,2048,51200,8,2,A100-SXM4-80GB,16,8,,,2,1,1,2,,"
                          "4,,32,,1F1B,,1,1,bf16,,1,,,,,,,,"
                          ",\"{\"\"hybrid-layer-pattern\"\": \"\"M*|-\"\"}\"\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    const struct sources *sources;
    const struct contest_facts *contest;
    const struct galvatron_facts *galvatron;
    const struct dataset *all;
    size_t count = 0;
    if (contest_facts_parse(arena, "fuzz.yaml", (const char *)data, size, &contest) != WEFT_OK)
        error_clear();
    if (galvatron_facts_parse(arena, "fuzz.yaml", (const char *)data, size, &galvatron) != WEFT_OK)
        error_clear();
    if (sources_parse(arena, "fuzz.yaml", (const char *)data, size, &sources) == WEFT_OK)
        count = sources_datasets(sources, &all);
    for (size_t i = 0; i < count; i++) {
        struct published_rows rows = {0};
        char *text = arena_printf(arena, RUN, all[i].name);
        if (published_parse(arena, &all[i], "fuzz.csv", text, strlen(text), &rows) != WEFT_OK)
            error_clear();
    }
    arena_free(arena);
    return 0;
}
