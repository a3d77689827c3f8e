# librdkafka's own tests, from the source that the crate rdkafka-sys brings.

LIBRDKAFKA_SMOKE=(0001 0012 0017 0022 0030 0039 0049 0103)
# Tests of a server that creates no topic by itself.
LIBRDKAFKA_NO_CREATION=(0045 0107 0111)
# One test, 0113, takes ten minutes.
LIBRDKAFKA_SECONDS=900

build_librdkafka() {
    cp -r "$1/." .
    ./configure --disable-sasl --disable-ssl --disable-curl --disable-optimization
    make -j2 -s libs
    make -j2 -s -C tests build
}

suite_librdkafka() {
    local number numbers crate
    crate=$(crate_source rdkafka-sys)
    # Its version is the build metadata of the crate's.
    LIBRDKAFKA=$KEPT/librdkafka-${crate##*+}
    once "$LIBRDKAFKA" build_librdkafka "$crate/librdkafka" || return 1
    mkdir -p "$WORK/librdkafka"
    printf 'bootstrap.servers=%s\ntest.topic.random=true\n' "$KAFKA" >"$WORK/librdkafka/test.conf"
    if [ "$EXTENT" = short ]; then
        for number in "${LIBRDKAFKA_SMOKE[@]}"; do librdkafka_test "$number" default -Q; done
        return
    fi
    prepare_kafka_path
    mapfile -t numbers < <(librdkafka_numbers)
    for number in "${numbers[@]}"; do librdkafka_test "$number" default -p1; done
    [ -n "$SERVER" ] || return 0
    restart_with auto_create_topics=false
    for number in "${LIBRDKAFKA_NO_CREATION[@]}"; do librdkafka_test "$number" noautocreate -p1; done
    restart_with
}

# The numbers of the tests that need a broker.
librdkafka_numbers() {
    sed -n '/^struct test tests/,/{NULL}/p' "$LIBRDKAFKA/tests/test.c" | tr -d '\n' | sed 's/_TEST(/\n/g' |
        grep -v -E '^[^)]*TEST_F_(LOCAL|MANUAL)' | sed -n 's/^\([0-9]\{4\}\)_.*/\1/p' | sort -u
}

# Some tests call Kafka's own script for topics.
prepare_kafka_path() {
    command -v mvn >/dev/null && suite_jars || return 0
    mkdir -p "$WORK/kafka/bin"
    printf '#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 -cp "%s/*" org.apache.kafka.tools.TopicCommand "$@"\n' "$JARS" \
        >"$WORK/kafka/bin/kafka-topics.sh"
    chmod +x "$WORK/kafka/bin/kafka-topics.sh"
    export KAFKA_PATH=$WORK/kafka BROKERS=$KAFKA
}

# librdkafka_test NUMBER SCENARIO MODE: all tests of that number and scenario; each has a line in the table that the
# runner prints.
librdkafka_test() {
    local number=$1 log=$WORK/librdkafka/$1-$2.log status=0 results
    (cd "$WORK/librdkafka" && RDKAFKA_TEST_CONF=$WORK/librdkafka/test.conf TESTS=$number \
        LD_LIBRARY_PATH=$LIBRDKAFKA/src:$LIBRDKAFKA/src-cpp \
        timeout "$LIBRDKAFKA_SECONDS" "$LIBRDKAFKA/tests/test-runner" -p1 "$3" -s "$2" -L -V 4.1.0; exit $?) >"$log" 2>&1 || status=$?
    sed -i 's/\x1b\[[0-9;]*m//g' "$log"
    results=$(sed -n 's/^| \([0-9]\{4\}_[a-z0-9_]*\) *| *\([A-Z]*\) | *[0-9.]*s |* *\(.*\)$/\1 \2 \3/p' "$log" | grep -v 'negative test flags')
    if [ "$status" -ne 0 ]; then
        verdict librdkafka "$number" failed "exit code $status: $(grep -A1 '^### Test "[0-9]' "$log" | head -n 2 | tr '\n' ' ')"
        return
    fi
    local name outcome reason
    while read -r name outcome reason; do
        case $outcome in
        PASSED) verdict librdkafka "$name" passed ;;
        # Without a reason it is one of another scenario.
        SKIPPED) [ -z "$reason" ] || verdict librdkafka "$name" skipped "$reason" ;;
        esac
    done <<<"$results"
}
