# The tests of the crate rdkafka, from its own source, which holds them.

RDKAFKA_SECONDS=300

build_rdkafka() {
    cp -r "$1/." .
    # With the versions that the crate was published with, which are not those of the workspace.
    cargo test --quiet --locked --no-run --target-dir target --message-format json >artifacts
    mkdir tests.built
    sed -n 's/.*"name":"\(test_[a-z_]*\)".*"executable":"\([^"]*\)".*/\1 \2/p' artifacts | while read -r name path; do
        cp "$path" "tests.built/$name"
    done
    rm -rf target artifacts
}

suite_rdkafka() {
    local source built test
    source=$(crate_source rdkafka) || return 1
    built=$KEPT/$(basename "$source")
    once "$built" build_rdkafka "$source" || return 1
    # They count on three partitions of topics that they create by naming them.
    [ -z "$SERVER" ] || PARTITIONS=3 restart_with
    for test in "$built"/tests.built/*; do rdkafka_tests "$test"; done
    [ -z "$SERVER" ] || restart_with
}

# rdkafka_tests PROGRAM: one of its test programs.
rdkafka_tests() {
    local name log status=0 test outcome
    name=$(basename "$1")
    log=$WORK/rdkafka-$name.log
    KAFKA_HOST=$KAFKA KAFKA_VERSION=4.1.0 timeout "$RDKAFKA_SECONDS" "$1" --test-threads 1 >"$log" 2>"$log.err" || status=$?
    while read -r test outcome; do
        case $outcome in
        ok) verdict rdkafka "$name $test" passed ;;
        FAILED) verdict rdkafka "$name $test" failed "$(grep -A 1 "^thread '$test'.* panicked" "$log" | tail -n 1)" ;;
        ignored*) verdict rdkafka "$name $test" skipped "it says so" ;;
        esac
    done < <(sed -n 's/^test \([a-z_:]*\) \.\.\. .*\(ok\|FAILED\|ignored\)$/\1 \2/p' "$log")
    case $status in
    0 | 101) grep -q '^test result: ' "$log" || verdict rdkafka "$name, all" failed "no result: $(tail -n 3 "$log" "$log.err" | tr '\n' ' ')" ;;
    *) verdict rdkafka "$name, all" failed "exit code $status: $(tail -n 3 "$log" "$log.err" | tr '\n' ' ')" ;;
    esac
}
