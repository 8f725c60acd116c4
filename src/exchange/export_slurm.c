/* export_slurm.c - a batch script that starts torchrun once per node with Megatron-LM's arguments. */
#include "exchange/room.h"

/* A process of each device, and those that load its data. */
enum { CORES_PER_DEVICE = 4 };

/* What is trained on, if the user says nothing. */
static const char *training(struct export_job *job)
{
    const char *trial = megatron_trial(job);
    if (!trial)
        return "TRAINING_ARGS=(\"$@\")\n"
               "if [ $# -eq 0 ]; then\n"
               "    echo 'name data, a tokenizer and --train-iters after the script' >&2\n"
               "    exit 2\n"
               "fi\n";
    return arena_printf(job->keep,
                        "TRAINING_ARGS=(\"$@\")\n"
                        "if [ $# -eq 0 ]; then\n"
                        "    TRAINING_ARGS=(%s)\n"
                        "fi\n",
                        trial);
}

weft_status write_slurm(struct export_job *job)
{
    const char *lines;
    weft_status status = megatron_lines(job, &lines);
    if (status)
        return status;
    const struct cluster *cluster = job->plan->cluster;
    long long nodes = (long long)cluster_hosts(cluster);
    long long devices = (long long)cluster_host_devices(cluster);
    job->out->text = arena_printf(
        job->keep,
        "#!/bin/bash\n"
        "# %s, written by weft.\n"
        "# Predicted by: %s\n"
        "#SBATCH --job-name=weft\n"
        "#SBATCH --nodes=%lld\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --gpus-per-node=%lld\n"
        "#SBATCH --cpus-per-task=%lld\n"
        "#SBATCH --mem=0\n"
        "#SBATCH --time=04:00:00\n"
        "#SBATCH --output=%%x-%%j.log\n"
        "#SBATCH --exclusive\n"
        "set -euo pipefail\n"
        "\n"
        "# Where Megatron-LM is; arguments of this script are what it trains on, and how.\n"
        ": \"${MEGATRON_DIR:?set MEGATRON_DIR to a checkout of Megatron-LM}\"\n"
        "%s"
        "# With CONTAINER_IMAGE set, it runs in there (pyxis).\n"
        "CONTAINER=()\n"
        "if [ -n \"${CONTAINER_IMAGE:-}\" ]; then\n"
        "    CONTAINER=(--container-image \"$CONTAINER_IMAGE\" --container-mounts "
        "\"$MEGATRON_DIR\")\n"
        "fi\n"
        "%s"
        "\n"
        "MEGATRON_ARGS=(\n%s)\n"
        "\n"
        "MASTER=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
        "srun --cpus-per-task \"$SLURM_CPUS_PER_TASK\" ${CONTAINER[@]+\"${CONTAINER[@]}\"} \\\n"
        "    torchrun --nnodes %lld --nproc-per-node %lld --rdzv-backend c10d \\\n"
        "    --rdzv-id \"$SLURM_JOB_ID\" --rdzv-endpoint \"$MASTER:29500\" \\\n"
        "    \"$MEGATRON_DIR/%s\" \"${MEGATRON_ARGS[@]}\" \"${TRAINING_ARGS[@]}\"\n",
        plan_title(job->keep, job->plan), job_line(job, ""), nodes, devices,
        devices * CORES_PER_DEVICE, training(job),
        megatron_environment(job, "\"$MEGATRON_DIR:${PYTHONPATH:-}\"", "export ", "export ", "\n"),
        lines, nodes, devices, megatron_script(job));
    return WEFT_OK;
}
