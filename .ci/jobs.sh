# Functions of .ci/run and the matrices to run jobs beside each other, one more at once than there are cores: tests that
# start programs wait for a quarter of their time. Bash.

jobs_folder=$(mktemp -d) # NAME.log has what a job printed, NAME.status its exit status and its seconds
jobs_at_once=$(($(nproc 2>/dev/null || echo 1) + 1))
jobs_started=()

# Starts job $1 as soon as there is room for it. The rest: its command, which may be a function.
start_job() {
    while [ "$(jobs -rp | wc -l)" -ge "$jobs_at_once" ]; do
        wait -n || true
    done
    jobs_started+=("$1")
    run_job "$@" &
}

run_job() {
    local name=$1 start=$SECONDS status=0
    shift
    # In a shell of its own: `set -e` is off in what stands before `||`.
    (set -e; "$@") >"$jobs_folder/$name.log" 2>&1 &
    wait $! || status=$?
    echo "$status $((SECONDS - start))" >"$jobs_folder/$name.part"
    mv "$jobs_folder/$name.part" "$jobs_folder/$name.status"
    echo "$name: exit status $status after $((SECONDS - start))s"
}

# Waits until job $1 has ended; whether it passed.
wait_for_job() {
    while [ ! -e "$jobs_folder/$1.status" ]; do
        wait -n || true
    done
    grep -q '^0 ' "$jobs_folder/$1.status"
}

# Waits for all jobs and prints what each printed, and then how long each took. Fails if one failed.
finish_jobs() {
    local name status seconds timings=() failed=()
    wait
    for name in ${jobs_started[@]+"${jobs_started[@]}"}; do
        read -r status seconds <"$jobs_folder/$name.status"
        printf '\n--- %s\n' "$name"
        cat "$jobs_folder/$name.log"
        if [ "$status" -eq 0 ]; then
            timings+=("$(printf '%5ds  %s' "$seconds" "$name")")
        else
            timings+=("$(printf '%5ds  %s: FAILED' "$seconds" "$name")")
            failed+=("$name")
        fi
    done
    printf '\n'
    printf '%s\n' ${timings[@]+"${timings[@]}"}
    rm -rf "$jobs_folder"
    [ ${#failed[@]} -eq 0 ] || fail "Failed: ${failed[*]}"
}
