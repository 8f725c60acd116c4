# commands.awk - a manual page for every command, from what weft.1 says of it: weft-plan.1 and so on.
#
#   awk -v folder=FOLDER -f commands.awk main.c weft.1
#
# A command's line under NAME is the one that `weft --help` prints (main.c). Where weft.1 says .Nm it means weft.
function end_page() {
    if (!page)
        return
    print ".Sh SEE ALSO\n.Xr weft 1 ,\nwhich says what models, clusters and plans are and has the options that commands share." >page
    close(page)
    page = ""
}

FNR == NR { # a line of COMMANDS: {"plan", "MODEL CLUSTER", "the fastest plan that fits, and why", cmd_plan},
    if ($0 ~ /^    [{]"[a-z]+", "/ && split($0, part, "\"") > 6)
        summary[part[2]] = part[6]
    next
}

/^\.Dd / { date = $0 }

/^\.S[hs] / { end_page() }

/^\.Ss / && summary[$2] {
    page = folder "/weft-" $2 ".1"
    print date "\n.Dt WEFT-" toupper($2) " 1\n.Os\n.Sh NAME\n.Nm weft-" $2 "\n.Nd " summary[$2] >page
    print ".Sh SYNOPSIS\n.Nm weft\n.Cm" substr($0, 4) "\n.Sh DESCRIPTION" >page
    next
}

page {
    if ($0 ~ /^\.Nm($| [A-Z])/)
        sub(/^\.Nm/, ".Nm weft")
    print >page
}

END { end_page() }
