# Apache Kafka's own command-line tools, what UIs ask, Streams and Connect.

. "$HERE/suite/kafka_broker.sh"

# tool NAME PATTERN CLASS ARGUMENT...: a tool must end well, and print what matches the pattern.
tool() {
    local name=$1 pattern=$2 output
    shift 2
    if output=$(java_class "$@" 2>&1) && grep -q -E -e "$pattern" <<<"$output"; then
        verdict java "$name" passed
    else
        verdict java "$name" failed "$(grep -v SLF4J <<<"$output" | grep -m 1 -E 'Exception|Error|rror' || tail -n 2 <<<"$output" | tr '\n' ' ')"
    fi
}

# refused NAME PATTERN CLASS ARGUMENT...: a tool must end with an error that matches the pattern.
refused() {
    local name=$1 pattern=$2 output
    shift 2
    if ! output=$(java_class "$@" 2>&1) && grep -q -E -e "$pattern" <<<"$output"; then
        verdict java "$name" passed
    else
        verdict java "$name" failed "$(tail -n 2 <<<"$output" | tr '\n' ' ')"
    fi
}

suite_java() {
    suite_jars || return 1
    mkdir -p "$WORK/classes"
    javac -cp "$JARS/*" -d "$WORK/classes" "$HERE"/suite/java/*.java
    local tools=org.apache.kafka.tools at=(--bootstrap-server "$KAFKA")
    topics
    data
    groups
    tool "kafka-delete-records" 'low_watermark: 10$' $tools.DeleteRecordsCommand "${at[@]}" --offset-json-file "$WORK/delete.json"
    tool "kafka-get-offsets --time earliest" '^java:0:10$' $tools.GetOffsetShell "${at[@]}" --topic java --time earliest
    tool "kafka-log-dirs" '"partition":"java-0"' $tools.LogDirsCommand "${at[@]}" --describe --topic-list java
    tool "kafka-transactions list" 'TransactionalId' $tools.TransactionsCommand "${at[@]}" list
    tool "kafka-transactions describe-producers" 'ProducerId' $tools.TransactionsCommand "${at[@]}" describe-producers --topic java --partition 0
    refused "kafka-acls without an authorizer" 'SecurityDisabledException' org.apache.kafka.tools.AclCommand "${at[@]}" --list
    tool "kafka-broker-api-versions" 'Produce\(0\): 0 to' $tools.BrokerApiVersionsCommand "${at[@]}"
    tool "kafka-client-metrics" '' $tools.ClientMetricsCommand "${at[@]}" --list
    tool "kafka-topics --delete" '' $tools.TopicCommand "${at[@]}" --delete --topic java
    clients_program java java -cp "$WORK/classes:$JARS/*" AdminCalls "$KAFKA"
    quotas
    JAVA_SECONDS=200
    tool "Streams word count" '' WordCount "$KAFKA" at_least_once
    tool "Streams word count, exactly once" '' WordCount "$KAFKA" exactly_once_v2
    connect
    acls
}

topics() {
    tool "kafka-topics --create" 'Created topic java' $tools.TopicCommand "${at[@]}" --create --topic java --partitions 1 --config retention.ms=100000000000
    tool "kafka-topics --describe" 'PartitionCount: 1' $tools.TopicCommand "${at[@]}" --describe --topic java
    tool "kafka-topics --list" '^java$' $tools.TopicCommand "${at[@]}" --list
    tool "kafka-topics --alter" '' $tools.TopicCommand "${at[@]}" --alter --topic java --partitions 2
    tool "kafka-topics --describe after --alter" 'PartitionCount: 2' $tools.TopicCommand "${at[@]}" --describe --topic java
    tool "kafka-configs --alter" 'Completed updating config' kafka.admin.ConfigCommand "${at[@]}" --alter --entity-type topics --entity-name java --add-config max.message.bytes=200000
    tool "kafka-configs --describe" 'max.message.bytes=200000' kafka.admin.ConfigCommand "${at[@]}" --describe --entity-type topics --entity-name java
    tool "kafka-configs of the broker" 'num.partitions' kafka.admin.ConfigCommand "${at[@]}" --describe --entity-type brokers --entity-name 0 --all
}

data() {
    tool "kafka-verifiable-producer" '"acked":1000' $tools.VerifiableProducer "${at[@]}" --topic verified --max-messages 1000 --acks -1
    tool "kafka-verifiable-consumer" 'offsets_committed.*"success":true' $tools.VerifiableConsumer "${at[@]}" --topic verified --group-id verified --max-messages 1000
    tool "kafka-verifiable-consumer, newer protocol" 'offsets_committed.*"success":true' $tools.VerifiableConsumer "${at[@]}" --topic verified --group-id verified-newer --group-protocol consumer --max-messages 1000
    tool "kafka-producer-perf-test" '^50000 records sent' $tools.ProducerPerformance --topic java --num-records 50000 --record-size 100 --throughput -1 --producer-props "bootstrap.servers=$KAFKA" acks=all
    tool "kafka-producer-perf-test, transactional" '^5000 records sent' $tools.ProducerPerformance --topic transactional --num-records 5000 --record-size 100 --throughput -1 --transaction-duration-ms 100 --producer-props "bootstrap.servers=$KAFKA"
    tool "kafka-consumer-perf-test" ', 5[0-9]{4}, ' $tools.ConsumerPerformance "${at[@]}" --topic java --messages 50000 --timeout 30000
    tool "kafka-e2e-latency" 'Avg latency' $tools.EndToEndLatency "$KAFKA" java 100 all 100
    tool "kafka-get-offsets" '^java:0:[0-9]+$' $tools.GetOffsetShell "${at[@]}" --topic java
    printf '{"partitions":[{"topic":"java","partition":0,"offset":10}],"version":1}' >"$WORK/delete.json"
}

groups() {
    local command=$tools.consumer.group.ConsumerGroupCommand
    tool "kafka-consumer-groups --list" '^verified$' $command "${at[@]}" --list
    tool "kafka-consumer-groups --describe" 'verified +verified +[0-3] +[0-9]+ +[0-9]+ +0 ' $command "${at[@]}" --describe --group verified
    tool "kafka-consumer-groups --describe --state" 'Empty' $command "${at[@]}" --describe --group verified --state
    tool "kafka-consumer-groups --reset-offsets" 'verified +verified +0 +0' $command "${at[@]}" --reset-offsets --group verified --topic verified --to-earliest --execute
    tool "kafka-consumer-groups --delete-offsets" 'Successful' $command "${at[@]}" --delete-offsets --group verified --topic verified
    tool "kafka-consumer-groups --delete" 'was successful' $command "${at[@]}" --delete --group verified
}

# Users and quotas by Kafka's tools, and what a quota of 1 MiB a second lets through: 10 MiB at once, and
# the rest in its time.
quotas() {
    local configs=(kafka.admin.ConfigCommand "${at[@]}") carol=(--entity-type users --entity-name carol) client=(--entity-type clients --entity-name limited)
    tool "kafka-configs, SCRAM credentials" 'Completed updating config for user carol' "${configs[@]}" --alter "${carol[@]}" --add-config 'SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]'
    tool "kafka-configs, a user's credentials" 'SCRAM-SHA-256=iterations=8192' "${configs[@]}" --describe "${carol[@]}"
    tool "kafka-configs, SCRAM credential deleted" 'Completed updating config for user carol' "${configs[@]}" --alter "${carol[@]}" --delete-config SCRAM-SHA-512
    tool "kafka-configs, quota of a user" 'Completed updating config for user carol' "${configs[@]}" --alter "${carol[@]}" --add-config 'producer_byte_rate=5000000,request_percentage=50'
    tool "kafka-configs, quota of a user described" 'producer_byte_rate=5000000' "${configs[@]}" --describe "${carol[@]}"
    tool "kafka-configs, quota of all other clients of a user" 'Completed updating config' "${configs[@]}" --alter "${carol[@]}" --entity-type clients --entity-default --add-config consumer_byte_rate=5000000
    tool "kafka-configs, quotas of all users" 'producer_byte_rate=5000000' "${configs[@]}" --describe --entity-type users
    tool "kafka-configs, quota of a client" 'Completed updating config for client limited' "${configs[@]}" --alter "${client[@]}" --add-config producer_byte_rate=1048576,consumer_byte_rate=1048576
    local producing=($tools.ProducerPerformance --topic limited --record-size 1024 --throughput -1 --producer-props "bootstrap.servers=$KAFKA" client.id=limited acks=all)
    tool "a producer with a quota of 1 MiB/s" '^60000 records sent, .*\((0\.9|1\.[012])[0-9]* MB/sec' "${producing[@]}" --num-records 60000
    printf 'client.id=limited\n' >"$WORK/limited.properties"
    tool "a consumer with a quota of 1 MiB/s" '^[^,]*, [^,]*, [^,]*, (0\.9|1\.[012])[0-9]*, ' $tools.ConsumerPerformance "${at[@]}" --topic limited --messages 60000 --timeout 60000 --hide-header --consumer.config "$WORK/limited.properties"
    tool "kafka-configs, quota of a client deleted" 'Completed updating config for client limited' "${configs[@]}" --alter "${client[@]}" --delete-config producer_byte_rate,consumer_byte_rate
}

# properties_of USER PASSWORD: the path of a file by which tools log in.
properties_of() {
    local module=org.apache.kafka.common.security.scram.ScramLoginModule
    printf '%s\n' security.protocol=SASL_PLAINTEXT sasl.mechanism=SCRAM-SHA-256 \
        "sasl.jaas.config=$module required username=\"$1\" password=\"$2\";" >"$WORK/$1.properties"
    echo "$WORK/$1.properties"
}

# Rules by Kafka's tool, on a server whose users log in. The user carol is there from quotas.
acls() {
    if [ -z "$SERVER" ]; then
        verdict java "kafka-acls" skipped "it needs a server of its own"
        return
    fi
    local flags=("${SERVER_FLAGS[@]}") acl=$tools.AclCommand topics=$tools.TopicCommand admin carol
    tool "kafka-configs, an administrator" 'Completed updating config for user admin' kafka.admin.ConfigCommand "${at[@]}" --alter --entity-type users --entity-name admin --add-config 'SCRAM-SHA-256=[password=pencil]'
    stop_server TERM
    SERVER_FLAGS+=(--auth required)
    start_server
    admin=(--bootstrap-server "$KAFKA" --command-config "$(properties_of admin pencil)")
    carol=(--bootstrap-server "$KAFKA" --command-config "$(properties_of carol secret)")
    refused "kafka-topics --create without a right" 'not authorized' $topics "${carol[@]}" --create --topic app-1
    tool "kafka-acls --add" 'principal=User:carol, host=\*, operation=WRITE, permissionType=ALLOW' $acl "${admin[@]}" --add --allow-principal User:carol --producer --topic app- --resource-pattern-type prefixed
    tool "kafka-acls --add, deny" 'permissionType=DENY' $acl "${admin[@]}" --add --deny-principal User:carol --operation All --topic app-secret
    tool "kafka-acls --add, group and cluster" 'resourceType=CLUSTER, name=kafka-cluster' $acl "${admin[@]}" --add --allow-principal User:carol --operation Describe --cluster --group '*'
    tool "kafka-topics --create with the right" 'Created topic app-1' $topics "${carol[@]}" --create --topic app-1
    refused "kafka-topics --create where it is denied" 'not authorized' $topics "${carol[@]}" --create --topic app-secret
    tool "kafka-topics --list shows what may be described" '^app-1$' $topics "${carol[@]}" --list
    tool "kafka-acls --list" 'patternType=PREFIXED' $acl "${admin[@]}" --list --topic app-1 --resource-pattern-type match
    refused "kafka-acls --add without the right" 'ClusterAuthorizationException' $acl "${carol[@]}" --add --allow-principal User:carol --operation All --topic '*'
    tool "kafka-acls --remove" '' $acl "${admin[@]}" --remove --force --allow-principal User:carol --producer --topic app- --resource-pattern-type prefixed
    refused "kafka-topics --create after --remove" 'not authorized' $topics "${carol[@]}" --create --topic app-2
    stop_server TERM
    SERVER_FLAGS=("${flags[@]}")
    start_server
}

# Connect standalone copies a file into a topic, and the topic into another file.
connect() {
    local directory=$WORK/connect port pid _
    port=$(free_ports 1)
    mkdir -p "$directory"
    seq 1 100 >"$directory/in"
    cat >"$directory/worker.properties" <<PROPERTIES
bootstrap.servers=$KAFKA
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename=$directory/offsets
offset.flush.interval.ms=1000
listeners=HTTP://127.0.0.1:$port
PROPERTIES
    printf 'name=source\nconnector.class=FileStreamSource\ntasks.max=1\nfile=%s\ntopic=connected\n' "$directory/in" >"$directory/source.properties"
    printf 'name=sink\nconnector.class=FileStreamSink\ntasks.max=1\nfile=%s\ntopics=connected\n' "$directory/out" >"$directory/sink.properties"
    java -XX:TieredStopAtLevel=1 -Xmx512m -cp "$JARS/*" org.apache.kafka.connect.cli.ConnectStandalone \
        "$directory/worker.properties" "$directory/source.properties" "$directory/sink.properties" >"$directory/log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        if cmp -s "$directory/in" "$directory/out" || ! kill -0 "$pid"; then break; fi
        sleep 0.2
    done
    if cmp -s "$directory/in" "$directory/out"; then
        verdict java "Connect standalone, file to file" passed
    else
        verdict java "Connect standalone, file to file" failed "$(grep -m 1 -E 'Exception|ERROR' "$directory/log" || tail -n 2 "$directory/log" | tr '\n' ' ')"
    fi
    stop_living "java Connect" "$pid" KILL
}
