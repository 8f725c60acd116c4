/* export_flags.c - the arguments that Megatron-LM takes, by type, and its value for one that is left out.
 *
 * Source: megatron/training/arguments.py of NVIDIA/Megatron-LM at commit 000c4ac2: every
 * add_argument of the groups that training uses. Names are facts of its interface. The groups for
 * retrieval, vision, inference and reinforcement learning are left out, except where they share one
 * with training. Since commit 43af4b4f most arguments are made from the fields of configuration
 * classes; the older ones keep their names there, and the new ones stand last in each list. An
 * argument that was removed since is still read, for older scripts, but not written:
 * no-scatter-gather-tensors-in-pipeline.
 */
#include "exchange/room.h"

/* clang-format off */
static const char *const SWITCHES[] = {
    "group-query-attention", "use-rotary-position-embeddings", "rotary-interleaved",
    "use-rope-scaling", "no-position-embedding", "apply-layernorm-1p",
    "apply-residual-connection-post-layernorm", "openai-gelu", "squared-relu", "swiglu",
    "quick-geglu", "bert-no-binary-head", "untie-embeddings-and-output-weights",
    "multi-latent-attention", "qk-layernorm", "qk-l2-norm",
    /* logging */
    "log-params-norm", "log-num-zeros-in-grad", "log-throughput", "log-progress", "log-energy",
    "no-barrier-with-level-1-timing", "log-timers-to-tensorboard",
    "no-log-loss-scale-to-tensorboard", "log-validation-ppl-to-tensorboard",
    "log-memory-to-tensorboard", "log-world-size-to-tensorboard", "log-straggler",
    "disable-straggler-on-startup", "run-workload-inspector-server", "no-one-logger",
    "one-logger-async", "enable-ft-package", "calc-ft-timeouts", "inprocess-restart",
    "inprocess-empty-cuda-cache",
    /* optimizer */
    "muon-no-split-qkv", "muon-use-nesterov", "optimizer-cpu-offload",
    "use-torch-optimizer-for-cpu-offload", "overlap-cpu-optimizer-d2h-h2d", "no-pin-cpu-grads",
    "no-pin-cpu-params", "use-precision-aware-optimizer",
    /* training */
    "decrease-batch-size-if-needed", "recompute-activations",
    "no-check-for-nan-in-loss-and-grad", "check-for-spiky-loss", "check-for-large-grads",
    "distribute-saved-activations", "no-clone-scatter-output-in-embedding", "profile",
    "disable-gloo-process-groups", "use-pytorch-profiler", "record-memory-history",
    "tp-comm-overlap", "disable-tp-comm-overlap-ag", "disable-tp-comm-overlap-rs",
    "tp-comm-overlap-rs-dgrad", "disable-tp-comm-bulk-dgrad", "disable-tp-comm-bulk-wgrad",
    "disable-tp-comm-split-ag", "disable-tp-comm-split-rs", "use-cpu-initialization",
    "deterministic-mode", "calculate-per-token-loss", "checkpoint-activations",
    "exit-signal-handler", "no-masked-softmax-fusion", "no-bias-gelu-fusion",
    "no-bias-swiglu-fusion", "use-fused-weighted-squared-relu", "no-bias-dropout-fusion",
    "no-rope-fusion", "cross-entropy-loss-fusion", "use-flash-attn", "disable-bias-linear",
    "add-qkv-bias", "no-async-tensor-model-parallel-allreduce", "no-persist-layer-norm",
    "sequence-parallel", "no-gradient-accumulation-fusion", "use-mcore-models",
    "use-legacy-models", "manual-gc", "no-manual-gc-eval", "use-te-activation-func",
    "data-parallel-random-init", "init-method-xavier-uniform", "override-opt_param-scheduler",
    "override-opt-param-scheduler", "use-checkpoint-opt_param-scheduler",
    "use-checkpoint-opt-param-scheduler",
    /* checkpoints */
    "no-save-optim", "no-save-rng", "no-load-optim", "load-main-params-from-ckpt", "no-load-rng",
    "no-strict-fsdp-dtensor-load", "finetune", "no-initialization", "use-checkpoint-args",
    "use-mp-args-from-checkpoint-args", "no-use-tokenizer-model-from-checkpoint-args",
    "exit-on-missing-checkpoint", "use-dist-ckpt", "use-persistent-ckpt-worker",
    "auto-detect-ckpt-format", "ckpt-convert-update-legacy-dist-opt-format",
    "ckpt-fully-parallel-save", "no-ckpt-fully-parallel-save", "async-save",
    "ckpt-fully-parallel-load", "ckpt-assume-constant-structure", "dist-ckpt-save-pre-mcore-014",
    "dist-ckpt-optim-fully-reshardable", "distrib-optim-fully-reshardable-mem-efficient",
    /* precision */
    "fp16", "bf16", "grad-reduce-in-bf16", "fp32-residual-connection",
    "apply-query-key-layer-scaling", "attention-softmax-in-fp32",
    "accumulate-allreduce-grads-in-fp32", "fp16-lm-cross-entropy",
    "disable-bf16-reduced-precision-matmul", "reuse-grad-buf-for-mxfp8-param-ag", "no-fp8-wgrad",
    "fp8-param-gather", "first-last-layers-bf16", "fp4-param-gather", "te-rng-tracker",
    "enable-cuda-graph", "external-cuda-graph",
    /* distribution */
    "no-overlap-p2p-communication", "overlap-p2p-communication-warmup-flush",
    "overlap-grad-reduce", "defer-embedding-wgrad-compute", "no-align-grad-reduce",
    "ddp-pad-buckets-for-high-nccl-busbw", "ddp-reduce-scatter-with-fp32-accumulation",
    "ddp-average-in-collective", "overlap-param-gather",
    "overlap-param-gather-with-optimizer-step", "no-align-param-gather",
    "no-scatter-gather-tensors-in-pipeline", "use-ring-exchange-p2p",
    "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
    "use-distributed-optimizer", "use-nccl-ub", "disable-symmetric-registration", "use-sharp",
    "use-megatron-fsdp", "init-model-with-meta-device", "no-gradient-reduce-div-fusion",
    "fsdp-double-buffer", "keep-fp8-transpose-cache", "enable-full-sharding-in-hsdp",
    "use-torch-fsdp2", "torch-fsdp2-no-reshard-after-forward", "use-tp-pp-dp-mapping",
    "replication",
    /* data */
    "full-validation", "multiple-validation-sets", "test-mode", "skip-train", "legacy-tokenizer",
    "trust-remote-code", "no-mmap-bin-files", "mock-data", "reset-position-ids",
    "reset-attention-mask", "eod-mask-loss", "no-create-attention-mask-in-dataloader",
    "allow-ambiguous-pad-tokens", "adlr-autoresume", "disable-msc", "sft",
    /* experts */
    "moe-shared-expert-overlap", "moe-grouped-gemm", "moe-use-legacy-grouped-gemm",
    "moe-layer-recompute", "moe-extended-tp", "moe-use-upcycling", "moe-router-fusion",
    "moe-router-pre-softmax", "moe-router-enable-expert-bias", "moe-router-force-load-balancing",
    "moe-router-padding-for-fp8", "moe-per-layer-logging", "moe-enable-deepep",
    "moe-permute-fusion", "moe-pad-expert-input-to-capacity", "moe-apply-probs-on-input",
    "overlap-moe-expert-parallel-comm", "delay-wgrad-compute",
    "moe-pad-experts-for-cuda-graph-inference", "cache-mla-latents", "enable-experimental",
    "is-hybrid-model", "disable-mamba-mem-eff-path",
    /* since commit 43af4b4f */
    "apply-wd-to-qk-layernorm", "attention-output-gate", "create-all-gather-group",
    "dataloader-defer-npy-index-mmap", "dataloader-fast-cache-load", "disable-jit-fuser",
    "fake-process-group", "fim-data", "freeze-all-layers", "fsdp-manual-registration",
    "head-wise-attn-gate", "mla-down-proj-fusion", "mtp-detach-heads", "mtp-use-repeated-layer",
    "muon-nesterov", "no-use-layer-wise-param-layout", "no-yarn-correction-range-round-to-int",
    "nvtx-ranges", "optimizer-cuda-graph", "pytorch-profiler-collect-callstack",
    "pytorch-profiler-collect-chakra", "pytorch-profiler-collect-shapes", "qk-clip",
    "record-shapes", "yarn-correction-range-round-to-int",
};

static const char *const INTEGERS[] = {
    "num-layers", "encoder-num-layers", "decoder-num-layers", "hidden-size", "ffn-hidden-size",
    "num-attention-heads", "kv-channels", "num-query-groups", "max-position-embeddings",
    "relative-attention-num-buckets", "relative-attention-max-distance", "rotary-base",
    "rotary-seq-len-interpolation-factor", "make-vocab-size-divisible-by", "mtp-num-layers",
    "straggler-ctrlr-port", "straggler-minmax-count", "inprocess-max-iterations",
    "inprocess-active-world-size", "timing-log-level", "tensorboard-log-interval",
    "tensorboard-queue-size", "logging-level", "muon-num-ns-steps", "micro-batch-size",
    "batch-size", "global-batch-size", "recompute-num-layers", "cpu-offloading-num-layers",
    "profile-step-start", "profile-step-end", "empty-unused-memory-level",
    "check-weight-hash-across-dp-replicas-interval", "train-sync-interval", "train-iters",
    "train-samples", "log-interval", "exit-interval", "exit-duration-in-mins",
    "manual-gc-interval", "error-injection-rate", "seed", "lr-decay-iters", "lr-decay-samples",
    "lr-wsd-decay-samples", "lr-wsd-decay-iters", "lr-warmup-iters", "lr-warmup-samples",
    "warmup", "save-interval", "persistent-save-interval", "save-retain-interval",
    "non-persistent-save-interval", "ckpt-step", "hysteresis", "fp8-margin", "fp8-interval",
    "fp8-amax-history-len", "num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16",
    "cuda-graph-warmup-steps", "tensor-model-parallel-size", "pipeline-model-parallel-size",
    "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
    "model-parallel-size", "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank", "microbatch-group-size-per-virtual-pipeline-stage",
    "distributed-timeout-minutes", "distributed-timeout-seconds-after-init",
    "wgrad-deferral-limit", "ddp-num-buckets", "ddp-bucket-size", "local-rank",
    "suggested-communication-unit-size", "num-distributed-optimizer-instances",
    "context-parallel-size", "replication-jump", "replication-factor", "eval-iters",
    "eval-interval", "vocab-size", "padded-vocab-size", "vocab-extra-ids",
    "tiktoken-num-special-tokens", "seq-length", "encoder-seq-length", "decoder-seq-length",
    "retriever-seq-length", "num-workers", "num-dataset-builder-threads",
    "adlr-autoresume-interval", "num-classes", "img-h", "img-w", "num-channels", "patch-dim",
    "expert-model-parallel-size", "expert-tensor-parallel-size", "num-experts",
    "moe-ffn-hidden-size", "moe-shared-expert-intermediate-size", "moe-router-topk",
    "moe-router-num-groups", "moe-router-group-topk", "moe-deepep-num-sms",
    "moe-upcycling-granularity", "q-lora-rank", "kv-lora-rank", "qk-head-dim",
    "qk-pos-emb-head-dim", "v-head-dim", "mamba-state-dim", "mamba-head-dim", "mamba-num-groups",
    "mamba-num-heads",
    /* since commit 43af4b4f */
    "dist-ckpt-workers", "ft-num-warmup-iters", "override-ckpt-iteration",
    "yarn-original-max-position-embeddings",
};

static const char *const REALS[] = {
    "rotary-percent", "rope-scaling-factor", "norm-epsilon", "activation-func-clamp-value",
    "glu-linear-offset", "mtp-loss-scaling-factor", "inprocess-monitor-thread-interval",
    "inprocess-monitor-process-interval", "inprocess-progress-watchdog-interval",
    "inprocess-heartbeat-interval", "inprocess-soft-timeout", "inprocess-hard-timeout",
    "inprocess-heartbeat-timeout", "inprocess-barrier-timeout", "inprocess-completion-timeout",
    "inprocess-last-call-wait", "inprocess-termination-grace-time", "attention-dropout",
    "hidden-dropout", "weight-decay", "start-weight-decay", "end-weight-decay", "clip-grad",
    "adam-beta1", "adam-beta2", "adam-eps", "sgd-momentum", "muon-momentum",
    "muon-extra-scale-factor", "optimizer-offload-fraction", "init-method-std",
    "embedding-init-method-std", "lr", "lr-warmup-fraction", "lr-warmup-init", "min-lr",
    "decoupled-lr", "decoupled-min-lr", "loss-scale", "initial-loss-scale", "min-loss-scale",
    "loss-scale-window", "sample-rate", "mask-prob", "short-seq-prob",
    "mid-level-dataset-surplus", "moe-router-topk-scaling-factor", "moe-router-bias-update-rate",
    "moe-z-loss-coeff", "moe-input-jitter-eps", "moe-expert-capacity-factor",
    "rotary-scaling-factor", "mscale", "mscale-all-dim", "hybrid-attention-ratio",
    "hybrid-mlp-ratio",
    /* since commit 43af4b4f */
    "fim-fragment-rate", "fim-rate", "fim-spm-rate", "lion-beta1", "lion-beta2", "qk-clip-alpha",
    "qk-clip-threshold", "yarn-beta-fast", "yarn-beta-slow",
};

static const char *const SINGLE_WORDS[] = {
    "attention-backend", "softmax-type", "window-size", "window-attn-skip-freq",
    "position-embedding-type", "no-rope-freq", "normalization", "onnx-safe",
    "inprocess-granularity", "one-logger-project", "one-logger-run-name", "app-tag-run-name",
    "app-tag-run-version", "config-logger-dir", "timing-log-option", "wandb-project",
    "wandb-entity", "wandb-exp-name", "wandb-save-dir", "weight-decay-incr-style",
    "muon-scale-mode", "muon-fp32-matmul-prec", "muon-tp-mode", "recompute-granularity",
    "recompute-method", "result-rejected-tracker-filename", "memory-snapshot-path",
    "tp-comm-overlap-cfg", "tp-comm-bootstrap-backend", "tensorboard-dir", "rope-type",
    "cross-entropy-fusion-impl", "optimizer", "dump-param-to-param-group-map",
    "dataloader-type", "pipeline-model-parallel-comm-backend", "error-injection-type",
    "rerun-mode", "lr-decay-style", "lr-wsd-decay-style", "save", "load",
    "non-persistent-ckpt-type", "non-persistent-global-ckpt-dir",
    "non-persistent-local-ckpt-dir", "non-persistent-local-ckpt-algo", "pretrained-checkpoint",
    "dist-ckpt-format", "ckpt-format", "ckpt-convert-format", "ckpt-convert-save",
    "dist-ckpt-strictness", "main-grads-dtype", "main-params-dtype", "exp-avg-dtype",
    "exp-avg-sq-dtype", "fp8-format", "fp8-recipe", "fp8-quantizer-factory",
    "fp8-amax-compute-algo", "transformer-impl", "fp4-format", "fp4-recipe",
    "fp4-quantizer-factory", "cuda-graph-impl", "cuda-graph-scope",
    "pipeline-model-parallel-layout", "distributed-backend", "lazy-mpu-init",
    "sharp-enabled-group", "data-parallel-sharding-strategy", "nccl-communicator-config-path",
    "vocab-file", "merge-file", "tokenizer-type", "tokenizer-model", "tokenizer-metadata",
    "tiktoken-pattern", "split", "data-args-path", "per-split-data-args-path",
    "data-cache-path", "object-storage-cache-path", "moe-layer-freq", "moe-router-dtype",
    "moe-router-score-function", "moe-token-dispatcher-type", "moe-token-drop-policy",
    "heterogeneous-layers-config-path", "heterogeneous-layers-config-encoded-json",
    "hybrid-override-pattern", "yaml-cfg", "sft-tokenizer-prompt-format",
    /* since commit 43af4b4f */
    "experimental-attention-variant", "hybrid-layer-pattern", "linear-attention-freq",
    "mamba-training-ssm-states-dtype", "muon-coefficient-type", "muon-scalar-optimizer",
    "no-weight-decay-cond-type", "outer-dp-sharding-strategy", "per-dataset-sequences-path",
    "phase-transition-iterations", "te-precision-config-file",
};

static const char *const LISTS[] = {
    "mrope-section", "rampup-batch-size", "recompute-modules", "iterations-to-skip",
    "profile-ranks", "high-priority-stream-groups", "cp-comm-type",
    "hierarchical-context-parallel-sizes", "tiktoken-special-tokens", "data-path",
    "train-data-path", "valid-data-path", "test-data-path", "moe-router-load-balancing-type",
    "moe-aux-loss-coeff", "spec",
    /* since commit 43af4b4f */
    "ddp-param-name-patterns-for-fp32-local-accumulation",
};

/* Arguments of torchrun (documentation of torch.distributed.run) and srun. */
static const char *const LAUNCHER[] = {
    "nnodes", "nproc-per-node", "nproc_per_node", "node-rank", "node_rank", "master-addr",
    "master_addr", "master-port", "master_port", "rdzv-backend", "rdzv_backend", "rdzv-endpoint",
    "rdzv_endpoint", "rdzv-id", "rdzv_id", "rdzv-conf", "rdzv_conf", "max-restarts",
    "max_restarts", "standalone", "log-dir", "tee", "redirects", "nodes", "ntasks",
    "ntasks-per-node", "gpus-per-node", "container-image", "container-mounts", "kill-on-bad-exit",
    "no-container-mount-home", "gres", "cpus-per-task", "partition", "account", "job-name", "time",
    "exclusive", "output", "error", "mem",
};
/* clang-format on */

static const struct {
    const char *const *names;
    size_t count;
} BY_TYPE[] = {
    [FLAG_SWITCH] = {SWITCHES, COUNT_OF(SWITCHES)},
    [FLAG_INT] = {INTEGERS, COUNT_OF(INTEGERS)},
    [FLAG_REAL] = {REALS, COUNT_OF(REALS)},
    [FLAG_WORD] = {SINGLE_WORDS, COUNT_OF(SINGLE_WORDS)},
    [FLAG_WORDS] = {LISTS, COUNT_OF(LISTS)},
};
_Static_assert(COUNT_OF(BY_TYPE) == FLAG_UNKNOWN, "a type without its flags");

static bool among(const char *name, const char *const *names, size_t count)
{
    return name_index(name, names, sizeof *names, count) >= 0;
}

enum flag_type megatron_flag(const char *name)
{
    for (size_t type = 0; type < COUNT_OF(BY_TYPE); type++)
        if (among(name, BY_TYPE[type].names, BY_TYPE[type].count))
            return (enum flag_type)type;
    return FLAG_UNKNOWN;
}

const char *megatron_flag_near(const char *name)
{
    enum { MOST = 1024 };
    const char *all[MOST];
    size_t count = 0;
    for (size_t type = 0; type < COUNT_OF(BY_TYPE); type++)
        for (size_t i = 0; i < BY_TYPE[type].count && count < MOST; i++)
            all[count++] = BY_TYPE[type].names[i];
    return nearest_word(name, all, count);
}

bool launcher_flag(const char *name)
{
    return among(name, LAUNCHER, COUNT_OF(LAUNCHER));
}
