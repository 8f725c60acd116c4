
    config.training.num_tokens_per_microbatch_per_dp_rank = 32
    config.training.max_context_length = 16
    config.parallelism.tensor_parallel_degree = 2
    config.activation_checkpoint = None
