/* presets.c - all models known by name: the transformers, those with towers, and the convolutional networks. */
#include "model/families.h"

#include <pthread.h>
#include <string.h>

enum { MOST_PRESETS = 512 };
static struct preset all[MOST_PRESETS];
static size_t count;

static void append(const struct preset *table, size_t rows)
{
    memcpy(all + count, table, rows * sizeof *table);
    count += rows;
}

static void gather(void)
{
    if (TRANSFORMER_PRESET_COUNT + VISION_PRESET_COUNT + CNN_PRESET_COUNT > MOST_PRESETS)
        return;
    append(TRANSFORMER_PRESETS, TRANSFORMER_PRESET_COUNT);
    append(VISION_PRESETS, VISION_PRESET_COUNT);
    append(CNN_PRESETS, CNN_PRESET_COUNT);
}

size_t model_presets(const struct preset **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, gather);
    *out = all;
    return count;
}
