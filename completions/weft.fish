# fish completion for weft. The program itself says what there is: commands and options with --help,
# models, clusters, datasets, planners and targets with --names.

function __weft_commands
    weft --help 2>/dev/null | string replace -rf '^  ([a-z]+) .*  +(\S.*)$' '$1\t$2'
end

function __weft_options
    set -l words (commandline -opc)
    weft $words[2] --help 2>/dev/null | string replace -rf '^ +(?:-[a-z], +)?(--[a-z][a-z-]*)\S*\s*(.*)$' '$1\t$2'
end

function __weft_has_command
    test (count (commandline -opc)) -ge 2
end

function __weft_wants_option
    __weft_has_command; and string match -q -- '-*' (commandline -ct)
end

function __weft_after
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[-1] $argv
end

function __weft_takes_plan
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] plan show check simulate days compare train export
end

complete -c weft -n 'not __weft_has_command' -f -a '(__weft_commands)'
complete -c weft -n 'not __weft_has_command' -f -a '--help --version'
complete -c weft -n __weft_wants_option -f -a '(__weft_options)'
complete -c weft -n '__weft_after inspect --model' -a '(weft models --names)'
complete -c weft -n '__weft_after clusters --cluster --on' -a '(weft clusters --names)'
complete -c weft -n '__weft_after --dtype' -f -a 'fp32 tf32 fp16 bf16 fp8'
complete -c weft -n __weft_takes_plan -a '(weft models --names; weft clusters --names)'
complete -c weft -n '__weft_after --overlap' -f -a 'tensor pipeline gradients parameters keys products experts shared all none'
complete -c weft -n '__weft_after --cp-kind' -f -a 'ring gather a2a a2a+ring'
complete -c weft -n '__weft_after --bucket' -f -a '25MiB whole'
complete -c weft -n '__weft_after --optimizer' -f -a 'adamw adam momentum sgd adafactor muon'
complete -c weft -n '__weft_after --software' -f -a 'default megatron-core-0.15 megatron-core-0.16 megatron-core-0.19 megatron-local torchtitan-2025 fsdp-script dtensor-script torch-stages pytorch-eager deepspeed-0.19 weft'
complete -c weft -n '__weft_after --planner' -f -a '(weft plan --names)'
complete -c weft -n '__weft_after --space' -f -a 'dp tp pp sdp 3d dp+tp dp+pp galvatron base bi-obj bmw weft'
complete -c weft -n '__weft_after --to' -f -a '(weft export --names)'
complete -c weft -n '__weft_after --allow-change' -f -a 'data batch optimizer rate'
complete -c weft -n '__weft_after --from' -f -a '(weft import --names)'
complete -c weft -n '__weft_after --search' -f -a 'cd mh random exhaustive exact'
complete -c weft -n '__weft_after --place' -f -a 'apart packed spread'
complete -c weft -n '__weft_after --half' -f -a 'fit held-out both'
complete -c weft -n '__weft_after validate' -f -a '(weft validate --names)'
complete -c weft -n '__weft_after profile' -f -a 'import show measure'
complete -c weft -n '__weft_after checkpoint' -f -a 'verify consolidate'
