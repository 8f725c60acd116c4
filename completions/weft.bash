# bash completion for weft. The program itself says what there is: commands and options with --help,
# models, clusters, datasets, planners and targets with --names.

_weft_commands() {
    weft --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'
}

_weft_options() {
    weft "$1" --help 2>/dev/null | sed -nE 's/^ +(-[a-z], +)?(--[a-z][a-z-]*).*/\2/p'
}

_weft() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} choices=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        choices="$(_weft_commands) --help --version"
    elif [[ $word == -* ]]; then
        choices=$(_weft_options "$command")
    else
        case $before:$command in
        --model:*) choices=$(weft models --names 2>/dev/null) ;;
        --cluster:* | --on:*) choices=$(weft clusters --names 2>/dev/null) ;;
        --dtype:*) choices='fp32 tf32 fp16 bf16 fp8' ;;
        --overlap:*) choices='tensor pipeline gradients parameters keys products experts shared all none' ;;
        --cp-kind:*) choices='ring gather a2a a2a+ring' ;;
        --place:*) choices='apart packed spread' ;;
        --half:*) choices='fit held-out both' ;;
        --bucket:*) choices='25MiB whole' ;;
        --optimizer:*) choices='adamw adam momentum sgd adafactor muon' ;;
        --software:*) choices='default megatron-core-0.15 megatron-core-0.16 megatron-core-0.19 megatron-local torchtitan-2025 fsdp-script dtensor-script torch-stages pytorch-eager deepspeed-0.19 weft' ;;
        --planner:*) choices=$(weft plan --names 2>/dev/null) ;;
        --space:*) choices='dp tp pp sdp 3d dp+tp dp+pp galvatron base bi-obj bmw weft' ;;
        --to:*) choices=$(weft export --names 2>/dev/null) ;;
        --allow-change:*) choices='data batch optimizer rate' ;;
        --from:*) choices=$(weft import --names 2>/dev/null) ;;
        --search:*) choices='cd mh random exhaustive exact' ;;
        -*) ;;
        *:inspect) choices=$(weft models --names 2>/dev/null) ;;
        *:clusters) choices=$(weft clusters --names 2>/dev/null) ;;
        *:plan | *:show | *:check | *:simulate | *:days | *:compare | *:train | *:export)
            choices="$(weft models --names 2>/dev/null) $(weft clusters --names 2>/dev/null)"
            ;;
        *:validate) choices=$(weft validate --names 2>/dev/null) ;;
        profile:profile) choices='import show measure' ;;
        checkpoint:checkpoint) choices='verify consolidate' ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}

complete -o bashdefault -o default -F _weft weft
