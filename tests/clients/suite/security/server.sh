# A server with users, TLS and client certificates. To be sourced after lib.sh.

# The ports: SASL without TLS, SASL with TLS, certificates; then the directory of the certificates.
SECURITY=()

# certificates DIRECTORY: an authority, the server's certificate, and that of the client `CN=app,O=example`.
certificates() {
    local directory=$1 name
    mkdir -p "$directory"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
        -addext 'basicConstraints=critical,CA:TRUE' -keyout "$directory/ca.key" -out "$directory/ca.pem"
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n' >"$directory/extensions"
    for name in server client; do
        local subject=/CN=server
        [ "$name" = server ] || subject=/O=example/CN=app
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$subject" \
            -keyout "$directory/$name.key" -out "$directory/$name.csr"
        openssl x509 -req -in "$directory/$name.csr" -days 2 -CA "$directory/ca.pem" -CAkey "$directory/ca.key" \
            -CAcreateserial -extfile "$directory/extensions" -out "$directory/$name.pem"
    done
    cat "$directory/client.key" "$directory/client.pem" >"$directory/client-both.pem"
}

security_server() {
    local directory=$WORK/security also
    certificates "$directory" >"$WORK/certificates" 2>&1 || {
        echo "FAILED the certificates are made: $(tail -n 3 "$WORK/certificates" | tr '\n' ' ')" | record
        return 1
    }
    cat >"$directory/strandline.toml" <<TOML
log = "warn"
auth = "required"
auth_super_users = ["admin", "CN=app,O=example"]

[tls]
certificate = "$directory/server.pem"
key = "$directory/server.key"
client_ca = "$directory/ca.pem"

[kafka]
group_initial_rebalance_delay = "0"

[[kafka.listeners]]
listen = "127.0.0.1:0"
tls = "required"

[[kafka.listeners]]
listen = "127.0.0.1:0"
tls = "required"
client_certificate = "required"
TOML
    SERVER_FLAGS=(--config "$directory/strandline.toml")
    export STRANDLINE_ADMIN_PASSWORD=pencil
    unset KAFKA
    start_server
    mapfile -t also < <(sed -n 's/^Kafka also on \([^ ]*\).*/\1/p' "$WORK/server.out")
    SECURITY=("$KAFKA" "${also[@]}" "$directory")
}
