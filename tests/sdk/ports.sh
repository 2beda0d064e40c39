# Functions for scripts that start servers on free ports.

free_port() {
    local port
    for _ in $(seq 100); do
        port=$((20000 + RANDOM % 12000))
        if ! (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
    done
    echo "no free port" >&2
    return 1
}

# await_port PORT PID LOG: waits until something listens on the port, as long as the process lives, up to 30 s.
await_port() {
    local port=$1 pid=$2 log=$3 deadline=$((SECONDS + 30))
    until (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        kill -0 "$pid" 2>/dev/null || { cat "$log"; return 1; }
        [ $SECONDS -lt $deadline ] || { cat "$log"; return 1; }
        sleep 0.05
    done
}
