# The same scripted requests to Apache Kafka and here. Short: to this server, against Kafka's recorded answers.
# Full: Kafka is started, and must still answer what was recorded.

DIFFERENTIAL=()
DIFFERENTIAL_SECONDS=300

suite_differential() {
    suite_python
    DIFFERENTIAL=(env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$HERE/differential/main.py")
    program "the recorded answers of Kafka" "${DIFFERENTIAL[@]}" replay "$KAFKA" "$HERE/fixtures"
    differential_with_users
    [ "$EXTENT" = full ] || return 0
    . "$HERE/suite/kafka_broker.sh"
    mkdir -p "$WORK/recorded/authorization"
    cp "$HERE/fixtures/differences.json" "$WORK/recorded/"
    cp "$HERE/fixtures/authorization/differences.json" "$WORK/recorded/authorization/"
    record_kafka "" "$WORK/recorded" || return 1
    kafka_with_users
    record_kafka admin:pencil@ "$WORK/recorded/authorization" || return 1
    KAFKA_SETTINGS=() KAFKA_FORMAT=()
    same "Kafka still answers what was recorded" "" diff -r "$HERE/fixtures" "$WORK/recorded"
}

# The server again, with an authorizer, for those requests whose answers depend on who asks.
differential_with_users() {
    if [ -z "$SERVER" ]; then
        verdict differential "users and rules" skipped "it needs a server of its own"
        return
    fi
    stop_server TERM
    STRANDLINE_AUTH=required STRANDLINE_ADMIN_PASSWORD=pencil start_server
    program "the recorded answers of Kafka to users" "${DIFFERENTIAL[@]}" replay "admin:pencil@$KAFKA" \
        "$HERE/fixtures/authorization"
    stop_server TERM
    start_server
}

# record_kafka USER DIRECTORY: the answers of a Kafka that is started for it.
record_kafka() {
    start_kafka || return 1
    timeout "$DIFFERENTIAL_SECONDS" "${DIFFERENTIAL[@]}" record "$1$APACHE_KAFKA" "$2" >"$WORK/differential.log"
    stop_kafka
}
