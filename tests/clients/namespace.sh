# A client in another network namespace, as in a container: it reaches this machine by one address only, and has to come
# back there. To be sourced after lib.sh.

NETWORK=strandline-$$
# The address on this end of the wire.
NEAR=

# checks_another_network: checks with clients on both sides of a wire between two namespaces.
checks_another_network() {
    local also
    if ! NEAR=$(make_network 2>&1); then
        echo "skipped another network namespace: $(head -n 1 <<<"$NEAR")" | record
        return
    fi
    trap 'drop_network; end' EXIT
    stop_server TERM
    network_settings >"$WORK/network.toml"
    local flags=("${SERVER_FLAGS[@]}") kafka=$KAFKA pg=$PG
    SERVER_FLAGS+=(--config "$WORK/network.toml")
    PG=$NEAR:0
    start_server
    also=$(sed -n "s/^Kafka also on \($NEAR:[0-9]*\).*/\1/p" "$WORK/server.out" | head -n 1)
    network_clients "$also"
    network_warnings
    stop_server TERM
    drop_network
    SERVER_FLAGS=("${flags[@]}") KAFKA=$kafka PG=$pg
    start_server
}

# make_network: a namespace with a wire to this one; prints the address on this end, or why there is none.
make_network() {
    command -v ip >/dev/null || { echo "there is no command ip (Debian: iproute2)" && return 1; }
    local net
    net=$(free_net) || return 1
    ip netns add "$NETWORK" || return 1
    if ip link add "slnear$$" type veth peer name "slfar$$" netns "$NETWORK" &&
        ip address add "$net.1/30" dev "slnear$$" && ip link set "slnear$$" up &&
        ip -n "$NETWORK" address add "$net.2/30" dev "slfar$$" && ip -n "$NETWORK" link set "slfar$$" up; then
        echo "$net.1"
    else
        drop_network
        return 1
    fi
}

# free_net: the first three numbers of a private network that this machine has no address in.
free_net() {
    local third
    for third in $(seq 0 255); do
        if ! ip -o address | grep -q "10\.213\.$third\."; then
            echo "10.213.$third"
            return
        fi
    done
    echo "all networks of 10.213.0.0/16 are taken"
    return 1
}

# The wire goes with the namespace.
drop_network() {
    if ip netns list | grep -q "^$NETWORK\b"; then ip netns delete "$NETWORK"; fi
}

# Two more Kafka ports: one that clients there come back to, and one that tells an address that nobody has (RFC 5737).
network_settings() {
    cat <<TOML
auth = "none"

[[kafka.listeners]]
listen = "$NEAR:0"

[[kafka.listeners]]
listen = "$NEAR:0"
advertise = "192.0.2.1:9092"
TOML
}

# there COMMAND...: runs it in the other namespace.
there() { timeout "$CLIENT_SECONDS" ip netns exec "$NETWORK" "$@"; }

network_clients() {
    local outside=$1 here=$KAFKA
    check "the other namespace has no way to the port of this one" \
        bash -c "! timeout 5 ip netns exec '$NETWORK' bash -c 'exec 3<>/dev/tcp/${here%:*}/${here##*:}' 2>/dev/null"
    printf 'here\n' >"$WORK/from-here"
    printf 'there\n' >"$WORK/from-there"
    check "a client here produces" kcat -q -b "$here" -P -t wired -p 0 -l "$WORK/from-here"
    check "a client in another namespace produces" there "$KCAT" -q -b "$outside" -P -t wired -p 0 -l "$WORK/from-there"
    same "a client here consumes what both sent" $'here\nthere' kcat -q -b "$here" -C -t wired -p 0 -o beginning -e
    same "a client in another namespace consumes what both sent" $'here\nthere' \
        there "$KCAT" -q -b "$outside" -C -t wired -p 0 -o beginning -e
    same "each is told the address that it came to" "$here $outside" network_told "$here" "$outside"
    same "psql in another namespace selects from the same records" $'here\nthere' \
        there psql -X -A -t -h "$NEAR" -p "${PG##*:}" -U test -d strandline -c "SELECT _value FROM wired ORDER BY _offset"
}

# network_told HERE THERE: the addresses that clients of both are told to come back to.
network_told() {
    local address='s/^ *broker [0-9]* at \([^ ]*\).*/\1/p'
    echo "$(kcat -b "$1" -L | sed -n "$address") $(there "$KCAT" -b "$2" -L | sed -n "$address")"
}

# An address that is no one's is named, with the setting that has it. Names are looked up beside the start.
network_warnings() {
    local _ warning='told to connect to 192\.0\.2\.1:9092, .* no address of this machine.*kafka\.listeners\[1\]\.advertise sets it'
    for _ in $(seq 100); do
        grep -q "$warning" "$WORK/server.err" "$WORK/server.out" && break
        sleep 0.1
    done
    check "a wrong advertised address is in the log, with what sets it" grep -q "$warning" "$WORK/server.err" "$WORK/server.out"
}
