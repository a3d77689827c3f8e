# A single Apache Kafka of its own, from its published artifacts, for comparison: broker and controller in one process.

KAFKA_SECONDS=60
APACHE_KAFKA_PID=
# How its machine is run: by default small and quickly started, not fast.
KAFKA_MACHINE=(-XX:TieredStopAtLevel=1 -Xmx512m)
# Lines beside its usual settings, and arguments for the tool that formats its directory.
KAFKA_SETTINGS=()
KAFKA_FORMAT=()

# free_ports COUNT: that many ports that nobody listens on.
free_ports() {
    python3 -c 'import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*[each.getsockname()[1] for each in sockets])' "$1"
}

kafka_settings() {
    cat <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$2
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2
advertised.listeners=PLAINTEXT://127.0.0.1:$1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$WORK/apache-kafka
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
PROPERTIES
    printf '%s\n' "${KAFKA_SETTINGS[@]}"
}

# kafka_with_users: what is started next asks its clients who they are, and what they may do is what its rules allow. The
# user admin, with the password pencil, may do everything.
kafka_with_users() {
    local module=org.apache.kafka.common.security name=listener.name.plaintext
    KAFKA_FORMAT=(--add-scram 'SCRAM-SHA-256=[name=admin,password=pencil]')
    KAFKA_SETTINGS=(
        'listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT'
        inter.broker.listener.name=PLAINTEXT
        'sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512'
        sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
        "$name.plain.sasl.jaas.config=$module.plain.PlainLoginModule required user_admin=\"pencil\";"
        "$name.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required username=\"admin\" password=\"pencil\";"
        "$name.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;"
        authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
        allow.everyone.if.no.acl.found=false
        # Its controller's port, which nobody else knows, asks for nothing.
        'super.users=User:admin;User:ANONYMOUS'
    )
}

# java_class CLASS ARGUMENT...: a main class of the jars, with a small and quickly started machine.
java_class() { timeout "${JAVA_SECONDS:-120}" java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m -cp "$JARS/*:$WORK/classes" "$@"; }

start_kafka() {
    local ports cluster
    suite_jars || return 1
    read -r -a ports < <(free_ports 2)
    APACHE_KAFKA=127.0.0.1:${ports[0]}
    kafka_settings "${ports[@]}" >"$WORK/kafka.properties"
    cluster=$(python3 -c 'import base64, uuid; print(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))')
    rm -rf "$WORK/apache-kafka"
    java_class kafka.tools.StorageTool format -t "$cluster" -c "$WORK/kafka.properties" --standalone "${KAFKA_FORMAT[@]}" \
        >"$WORK/kafka.log" 2>&1
    java "${KAFKA_MACHINE[@]}" -cp "$JARS/*" kafka.Kafka "$WORK/kafka.properties" >>"$WORK/kafka.log" 2>&1 &
    APACHE_KAFKA_PID=$!
    trap 'stop_kafka; end' EXIT
    local _
    for _ in $(seq $((KAFKA_SECONDS * 5))); do
        if (exec 3<>"/dev/tcp/127.0.0.1/${ports[0]}") 2>/dev/null; then return 0; fi
        kill -0 "$APACHE_KAFKA_PID" || break
        sleep 0.2
    done
    echo "FAILED Apache Kafka starts: $(tail -n 3 "$WORK/kafka.log" | tr '\n' ' ')" | record
    return 1
}

stop_kafka() {
    if [ -n "$APACHE_KAFKA_PID" ]; then stop_living "Apache Kafka" "$APACHE_KAFKA_PID" KILL; fi
    APACHE_KAFKA_PID=
}
