# What the scripts beside this file share: results, and one server over a directory of its own. To be sourced with
# HERE (the directory of this file) and BINARY (or nothing for the debug build) set.

ROOT=$(cd "$HERE/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/strandline
TARGET=${CARGO_TARGET_DIR:-${STRANDLINE_TARGET_DIR:-$CACHE/target}}
BINARY=${BINARY:-$TARGET/debug/strandline}
READY_SECONDS=120

# The server's settings must be those given here.
for name in $(compgen -v STRANDLINE_); do unset "$name"; done

WORK=$(mktemp -d)
RESULTS=$WORK/results
SERVER=
# Where the server's data is: a path or a URL.
DATA=$WORK/data
# Flags for the server beside its addresses and its data.
SERVER_FLAGS=()
# A command that the server is run by; it must become the server's process.
LAUNCHER=()
touch "$RESULTS"

end() {
    stop_server KILL
    rm -rf "$WORK"
}
trap end EXIT

# One line per check, on the terminal and in the results.
record() { tee -a "$RESULTS"; }

# check NAME COMMAND... : the command decides.
check() {
    local name=$1
    shift
    if "$@" >"$WORK/output" 2>&1; then
        echo "ok $name" | record
    else
        echo "FAILED $name: $(tail -n 3 "$WORK/output" | tr '\n' ' ')" | record
    fi
}

# same NAME EXPECTED COMMAND... : what the command prints decides.
same() {
    local name=$1 expected=$2 found
    shift 2
    found=$("$@" 2>&1) || found="$found (exit code $?)"
    if [ "$found" = "$expected" ]; then
        echo "ok $name" | record
    else
        echo "FAILED $name: expected '$expected', found '$found'" | record
    fi
}

# program NAME COMMAND... : a program that prints its own results; ending without any is a failure.
program() {
    local name=$1 status=0
    shift
    timeout 600 "$@" 2>"$WORK/errors" | record || status=$?
    if [ "$status" -ne 0 ] && ! tail -n 200 "$RESULTS" | grep -q '^FAILED '; then
        echo "FAILED $name: exit code $status: $(tail -n 3 "$WORK/errors" | tr '\n' ' ')" | record
    fi
}

start_server() {
    : >"$WORK/server.out"
    "${LAUNCHER[@]}" "$BINARY" serve --data "$DATA" --kafka-listen "${KAFKA:-127.0.0.1:0}" --pg-listen "${PG:-127.0.0.1:0}" \
        --http-listen 127.0.0.1:0 "${SERVER_FLAGS[@]}" >"$WORK/server.out" 2>"$WORK/server.err" &
    SERVER=$!
    for _ in $(seq $((READY_SECONDS * 10))); do
        if grep -q '^strandline is ready' "$WORK/server.out"; then
            KAFKA=$(sed -n 's/.*Kafka on \([^,]*\),.*/\1/p' "$WORK/server.out")
            PG=$(sed -n 's/.*Postgres on \([^,]*\),.*/\1/p' "$WORK/server.out")
            export KAFKA PG
            return
        fi
        kill -0 "$SERVER" 2>/dev/null || break
        sleep 0.1
    done
    echo "FAILED the server starts: $(grep -a -v ' settings: ' "$WORK/server.err" | tail -n 3)" | record
    exit 1
}

# stop_process PID SIGNAL: its exit code. One that has ended before has one too.
stop_process() {
    local status=0
    if kill -0 "$1" 2>/dev/null; then kill "-$2" "$1"; fi
    wait "$1" 2>/dev/null || status=$?
    return "$status"
}

# stop_living NAME PID SIGNAL: it must have lived until now, when the signal ends it.
stop_living() {
    local status=0
    stop_process "$2" "$3" || status=$?
    if [ "$status" -ne $((128 + $(kill -l "$3"))) ]; then
        echo "FAILED $1 works to the end: exit code $status" | record
    fi
}

# stop_server SIGNAL: after TERM the server must end in order.
stop_server() {
    local status=0
    if [ -n "$SERVER" ]; then
        stop_process "$SERVER" "$1" || status=$?
        SERVER=
        if [ "$1" = TERM ] && [ "$status" -ne 0 ]; then
            echo "FAILED the server ends in order: exit code $status: $(tail -n 3 "$WORK/server.err")" | record
        fi
    fi
}

restart_after_kill() {
    stop_server KILL
    start_server
}

# need TOOL... : ends the run if one is missing, or the binary.
need() {
    local missing=0 tool
    for tool in "$@"; do
        if ! command -v "$tool" >/dev/null; then
            echo "FAILED $tool is installed: not found" | record
            missing=1
        fi
    done
    [ -x "$BINARY" ] || { echo "FAILED the binary is built: no $BINARY" | record; missing=1; }
    [ "$missing" -eq 0 ] || exit 1
}

# totals: the last line of a run, and its exit code.
totals() {
    local passed failed
    passed=$(awk '/^ok /{n++} END{print n+0}' "$RESULTS")
    failed=$(awk '/^FAILED /{n++} END{print n+0}' "$RESULTS")
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
