# The same scripted requests to Apache Kafka and here. Short: to this server, against Kafka's recorded answers.
# Full: Kafka is started, and must still answer what was recorded.

suite_differential() {
    suite_python
    local differential=(env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$HERE/differential/main.py")
    program "the recorded answers of Kafka" "${differential[@]}" replay "$KAFKA" "$HERE/fixtures"
    [ "$EXTENT" = full ] || return 0
    . "$HERE/suite/kafka_broker.sh"
    start_kafka || return 1
    mkdir "$WORK/recorded"
    timeout 300 "${differential[@]}" record "$APACHE_KAFKA" "$WORK/recorded" >"$WORK/differential.log"
    cp "$HERE/fixtures/differences.json" "$WORK/recorded/"
    same "Kafka still answers what was recorded" "" diff -r "$HERE/fixtures" "$WORK/recorded"
    stop_kafka
}
