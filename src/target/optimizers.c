/* optimizers.c - the frameworks' words for what updates weights: a list for each framework, which its rows name. Where a
 * list has no word, the framework does not run that optimizer. */
#include <strings.h>

#include "target/room.h"

/* megatron/training/arguments.py, --optimizer; momentum is --sgd-momentum. */
const char *const MEGATRON_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "adam", [UPDATE_ADAM] = "adam", [UPDATE_MOMENTUM] = "sgd",
    [UPDATE_SGD] = "sgd",    [UPDATE_MUON] = "muon",
};
/* The same of the arguments that Galvatron 2.4 and 3.0 and Aceso's runtime are started with. */
const char *const OLD_MEGATRON_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "adam",
    [UPDATE_ADAM] = "adam",
    [UPDATE_MOMENTUM] = "sgd",
    [UPDATE_SGD] = "sgd",
};
/* deepspeed/runtime/engine.py (0.19.8), _configure_basic_optimizer: what has no type of its own is one of torch.optim, whose
 * Adafactor has no state that ZeRO divides. */
const char *const DEEPSPEED_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "AdamW", [UPDATE_ADAM] = "Adam", [UPDATE_MOMENTUM] = "SGD",
    [UPDATE_SGD] = "SGD",     [UPDATE_MUON] = "Muon",
};
/* torch.optim (2.10) on weights that FSDP2 divides: Adafactor stops in its step (aten.pow_ of a partial DTensor), and Muon
 * takes matrices alone. */
const char *const TORCH_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "AdamW",
    [UPDATE_ADAM] = "Adam",
    [UPDATE_MOMENTUM] = "SGD",
    [UPDATE_SGD] = "SGD",
};
/* torchtitan/components/optimizer.py of 0.2.2, build_optimizers. */
const char *const TITAN_0_2_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "AdamW",
    [UPDATE_ADAM] = "Adam",
};
/* components/optimizer/optimizer.py of the main branch: the functions whose configurations are taken have default_adamw. */
const char *const TITAN_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "AdamW",
};
/* cli/train_options.c: its sgd has momentum. */
const char *const RUNTIME_OPTIMIZERS[UPDATE_COUNT] = {
    [UPDATE_ADAMW] = "adamw",
    [UPDATE_ADAM] = "adam",
    [UPDATE_MOMENTUM] = "sgd",
    [UPDATE_MUON] = "muon",
};

bool target_optimizer(const struct target *target, const char *word, enum update_rule *out)
{
    for (int rule = 0; rule < UPDATE_COUNT; rule++)
        if (target->optimizers[rule] && strcasecmp(target->optimizers[rule], word) == 0) {
            *out = (enum update_rule)rule;
            return true;
        }
    return false;
}
