# For scripts that measure programs which start others: how busy the machine is, and an end to everything that was started.
# A script adds the ids of what it starts to the array `started`.

started=()

# The share of the cores that were busy for two seconds, in percent.
busy() {
    (grep '^cpu ' /proc/stat && sleep 2 && grep '^cpu ' /proc/stat) | awk '
        { total = 0; for (i = 2; i <= 9; i++) total += $i; idle = $5 + $6 }
        NR == 1 { first_total = total; first_idle = idle }
        END { printf "%.0f", 100 * (1 - (idle - first_idle) / (total - first_total)) }'
}

# The ids of processes and of everything below them. Flower's programs start others, some in sessions of their own.
trees() {
    ps -eo pid=,ppid= | awk -v roots="$*" '
        { parent[$1] = $2 }
        END {
            count = split(roots, root, " ")
            for (i = 1; i <= count; i++) known[root[i]] = 1
            do {
                grown = 0
                for (pid in parent) if (!(pid in known) && (parent[pid] in known)) { known[pid] = 1; grown = 1 }
            } while (grown)
            for (pid in known) print pid
        }'
}

alive() { kill -0 "$1" 2> /dev/null && [[ $(ps -o stat= -p "$1") != Z* ]]; }

# Ends what was started, by id: asks first, and insists after 10 seconds.
stop_started() {
    local pid tenth left=() all=()
    if [ ${#started[@]} -eq 0 ]; then return 0; fi
    mapfile -t all < <(trees "${started[@]}")
    started=()
    for pid in "${all[@]}"; do
        kill "$pid" 2> /dev/null || true
    done
    for ((tenth = 0; tenth < 100; tenth++)); do
        left=()
        for pid in "${all[@]}"; do
            if alive "$pid"; then left+=("$pid"); fi
        done
        if [ ${#left[@]} -eq 0 ]; then return 0; fi
        sleep 0.1
        # Those that are left may have started others meanwhile.
        mapfile -t all < <(trees "${left[@]}")
    done
    for pid in "${all[@]}"; do
        if alive "$pid"; then kill -KILL "$pid" 2> /dev/null || true; fi
    done
}

# Ends everything when the script ends, and shows the end of the logs in a folder if it failed; the folder is removed.
clean_up_at_the_end() {
    logs=$1
    finish() {
        local status=$?
        trap - EXIT
        stop_started
        # From 128 on it was a signal, which needs no explanation.
        if [ "$status" -ne 0 ] && [ "$status" -lt 128 ]; then
            echo "failed; the end of the logs:" >&2
            tail -n 20 "$logs"/*.log >&2 || true
        fi
        rm -rf "$logs"
        exit "$status"
    }
    trap finish EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}
