/* export_slurm.c - a batch script that starts torchrun once per node with Megatron-LM's arguments. */
#include "exchange/room.h"

weft_status write_slurm(struct export_job *job)
{
    const char *lines;
    weft_status status = megatron_lines(job, &lines);
    if (status)
        return status;
    const struct cluster *cluster = job->plan->cluster;
    const struct degrees *d = &job->found.degrees;
    long long nodes = (long long)cluster->nodes;
    long long devices = (long long)(cluster_devices(cluster) / cluster->nodes);
    job->out->text = arena_printf(
        job->keep,
        "#!/bin/bash\n"
        "# %s, written by weft.\n"
        "#SBATCH --job-name=weft\n"
        "#SBATCH --nodes=%lld\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --gpus-per-node=%lld\n"
        "#SBATCH --exclusive\n"
        "set -euo pipefail\n"
        "\n"
        "# Where Megatron-LM is, and what it trains on: data, tokenizer, learning rate.\n"
        ": \"${MEGATRON_DIR:?set MEGATRON_DIR to a checkout of Megatron-LM}\"\n"
        "TRAINING_ARGS=(\"$@\")\n"
        "if [ $# -eq 0 ]; then\n"
        "    TRAINING_ARGS=(--mock-data --tokenizer-type NullTokenizer --train-iters 20 --lr "
        "1e-4)\n"
        "fi\n"
        "%s"
        "\n"
        "MEGATRON_ARGS=(\n%s)\n"
        "\n"
        "MASTER=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
        "srun torchrun --nnodes %lld --nproc-per-node %lld --rdzv-backend c10d \\\n"
        "    --rdzv-id \"$SLURM_JOB_ID\" --rdzv-endpoint \"$MASTER:29500\" \\\n"
        "    \"$MEGATRON_DIR/%s\" \"${MEGATRON_ARGS[@]}\" \"${TRAINING_ARGS[@]}\"\n",
        plan_title(job->keep, job->plan), nodes, devices,
        !uses_fsdp(d) && d->tp * d->cp > 1 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "", lines,
        nodes, devices, megatron_script(job->plan));
    return WEFT_OK;
}
