# MirrorMaker 2 copies a topic and where a group is from Apache Kafka to here, and from here to Apache Kafka.

. "$HERE/suite/kafka_broker.sh"

MIRROR_SECONDS=180

suite_mirror() {
    start_kafka || return 1
    mirror inward "$APACHE_KAFKA" "$KAFKA"
    mirror outward "$KAFKA" "$APACHE_KAFKA"
    stop_kafka
}

mirror_settings() {
    cat <<PROPERTIES
clusters=source,target
source.bootstrap.servers=$2
target.bootstrap.servers=$3
source->target.enabled=true
source->target.topics=moved-$1
target->source.enabled=false
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
emit.checkpoints.interval.seconds=1
refresh.groups.interval.seconds=1
refresh.topics.interval.seconds=5
offset.lag.max=0
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
PROPERTIES
}

# mirrored COUNT OFFSET: waits until that many records are there, and the group is at that offset.
mirrored() {
    local end=$((SECONDS + MIRROR_SECONDS))
    while [ "$SECONDS" -lt "$end" ] && kill -0 "$pid" 2>/dev/null; do
        copied=$(timeout 10 kcat -q -b "$to" -C -t "$topic" -p 0 -o beginning -e 2>/dev/null | wc -l)
        synced=$(java_class org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server "$to" --describe \
            --group "readers-$name" 2>/dev/null | awk -v topic="$topic" '$2 == topic && $3 == 0 { print $4 }')
        if [ "$copied" = "$1" ] && [ "$synced" = "$2" ]; then return; fi
        sleep 1
    done
}

# mirror NAME FROM TO: a group reads 60 records there, and the 40 that come then here.
mirror() {
    local name=$1 from=$2 to=$3 topic=moved-$1 pid copied= synced= rest
    seq 1 60 | timeout 60 kcat -q -b "$from" -P -t "$topic" -p 0
    timeout 60 kcat -q -b "$from" -X auto.offset.reset=earliest -G "readers-$name" -c 60 "$topic" >"$WORK/$name.read" 2>/dev/null
    mirror_settings "$name" "$from" "$to" >"$WORK/$name.properties"
    java -XX:TieredStopAtLevel=1 -Xmx512m -cp "$JARS/*" org.apache.kafka.connect.mirror.MirrorMaker "$WORK/$name.properties" \
        >"$WORK/$name.log" 2>&1 &
    pid=$!
    mirrored 60 60
    seq 61 100 | timeout 60 kcat -q -b "$from" -P -t "$topic" -p 0
    mirrored 100 60
    stop_living "mirror $name: MirrorMaker" "$pid" KILL
    if [ "$copied" = 100 ]; then
        verdict mirror "$name: a topic is copied" passed
    else
        verdict mirror "$name: a topic is copied" failed "$copied of 100 records: $(grep -m 1 -E 'ERROR|Exception' "$WORK/$name.log" || echo "its log has no error")"
    fi
    rest=$(timeout 60 kcat -q -b "$to" -X auto.offset.reset=earliest -G "readers-$name" -c 40 "$topic" 2>/dev/null | sort -n | tr '\n' ' ')
    if [ "$rest" = "$(seq 61 100 | tr '\n' ' ')" ]; then
        verdict mirror "$name: the group goes on at the next unread record" passed
    else
        verdict mirror "$name: the group goes on at the next unread record" failed "it is at $synced, and reads ${rest:0:60}"
    fi
}
