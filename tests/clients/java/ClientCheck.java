import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * The Java client against a running server. Prints "ok NAME" or "FAILED NAME: reason" for each check.
 */
public final class ClientCheck {
    private static final long T = 1_700_000_000_000L;
    private static final Duration POLL = Duration.ofMillis(500);
    private static final int POLLS_MAX = 60;

    private final String bootstrap;
    private boolean failed;

    private ClientCheck(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    private interface Check {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        ClientCheck checks = new ClientCheck(args[0]);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            checks.check("java produces and consumes with " + codec, () -> checks.roundTrip(codec));
        }
        checks.check("java seeks by time inside a batch", checks::seekByTime);
        checks.check("java asks for a time after all records", checks::timeAfterAll);
        for (String protocol : List.of("classic", "consumer")) {
            checks.check("java " + protocol + " group commits and goes on", () -> checks.groupGoesOn(protocol));
            checks.check("java " + protocol + " group of two shares partitions", () -> checks.sharing(protocol));
        }
        checks.check("java admin creates, describes and deletes", checks::admin);
        checks.check("java goes on in a topic that was created again", checks::topicCreatedAgain);
        checks.check("java transactions are all or nothing", checks::transactions);
        System.exit(checks.failed ? 1 : 0);
    }

    private void check(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("FAILED " + name + ": " + error);
        }
    }

    private static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private KafkaProducer<String, String> producer(String codec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "50");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }

    private KafkaConsumer<String, String> consumer(String group) {
        return consumer(group, Map.of());
    }

    private KafkaConsumer<String, String> consumer(String group, Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.putAll(more);
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "10");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(settings);
    }

    private void produce(String topic, String codec, int count, String filler) throws Exception {
        try (KafkaProducer<String, String> producer = producer(codec)) {
            for (int number = 0; number < count; number++) {
                ProducerRecord<String, String> record =
                    new ProducerRecord<>(topic, 0, T + number, "k" + number, filler + number);
                record.headers().add(new RecordHeader("h", "x".getBytes(StandardCharsets.UTF_8)));
                record.headers().add(new RecordHeader("n", null));
                producer.send(record);
            }
            producer.flush();
        }
    }

    private static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        for (int polls = 0; records.size() < count && polls < POLLS_MAX; polls++) {
            consumer.poll(POLL).forEach(records::add);
        }
        if (records.size() < count) {
            throw new AssertionError(records.size() + " of " + count + " records came");
        }
        return records;
    }

    private void roundTrip(String codec) throws Exception {
        String topic = "java_" + codec;
        String filler = "v".repeat(codec.equals("snappy") ? 20_000 : 10);
        produce(topic, codec, 50, filler);
        try (KafkaConsumer<String, String> consumer = consumer("java")) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Set.of(partition));
            consumer.seekToBeginning(Set.of(partition));
            List<ConsumerRecord<String, String>> records = take(consumer, 50);
            for (int number = 0; number < 50; number++) {
                ConsumerRecord<String, String> record = records.get(number);
                same((long) number, record.offset());
                same(T + number, record.timestamp());
                same("k" + number, record.key());
                same(filler + number, record.value());
                same("x", new String(record.headers().lastHeader("h").value(), StandardCharsets.UTF_8));
                same(true, record.headers().lastHeader("n").value() == null);
            }
        }
    }

    private void seekByTime() throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer("java")) {
            TopicPartition partition = new TopicPartition("java_snappy", 0);
            for (long step : List.of(0L, 7L, 49L)) {
                Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(Map.of(partition, T + step));
                same(step, found.get(partition).offset());
                same(T + step, found.get(partition).timestamp());
            }
        }
    }

    private void timeAfterAll() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("java_late", 3, (short) 1))).all().get(30, TimeUnit.SECONDS);
        }
        produce("java_late", "none", 1, "v");
        try (KafkaConsumer<String, String> consumer = consumer("java")) {
            Map<TopicPartition, Long> asked = new HashMap<>();
            for (int partition = 0; partition < 3; partition++) {
                asked.put(new TopicPartition("java_late", partition), partition == 0 ? T : T + 86_400_000L);
            }
            Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(asked);
            same(0L, found.get(new TopicPartition("java_late", 0)).offset());
            same(true, found.get(new TopicPartition("java_late", 1)) == null);
            same(true, found.get(new TopicPartition("java_late", 2)) == null);
        }
    }

    private void groupGoesOn(String protocol) throws Exception {
        for (int round = 0; round < 2; round++) {
            try (KafkaConsumer<String, String> consumer = consumer("java_group_" + protocol, Map.of("group.protocol", protocol))) {
                consumer.subscribe(List.of("java_zstd"));
                List<ConsumerRecord<String, String>> records = take(consumer, 10);
                same((long) round * 10, records.get(0).offset());
                consumer.commitSync();
            }
        }
    }

    private KafkaProducer<String, String> transactional() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", "java_tx");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        return producer;
    }

    private static void send(KafkaProducer<String, String> producer, String value) {
        for (int partition = 0; partition < 2; partition++) {
            producer.send(new ProducerRecord<>("java_tx", partition, null, value));
        }
        producer.flush();
    }

    private void transactions() throws Exception {
        TopicPartition source = new TopicPartition("java_none", 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
             KafkaProducer<String, String> zombie = transactional();
             KafkaConsumer<String, String> group = consumer("java_tx")) {
            admin.createTopics(List.of(new NewTopic("java_tx", 2, (short) 1))).all().get(30, TimeUnit.SECONDS);
            zombie.beginTransaction();
            send(zombie, "zombie");
            try (KafkaProducer<String, String> producer = transactional()) {
                producer.beginTransaction();
                send(producer, "dropped");
                producer.abortTransaction();
                producer.beginTransaction();
                send(producer, "kept");
                producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(7)), group.groupMetadata());
                same(true, admin.describeTransactions(List.of("java_tx")).description("java_tx")
                    .get(30, TimeUnit.SECONDS).topicPartitions().contains(new TopicPartition("java_tx", 1)));
                producer.commitTransaction();
            }
            try {
                zombie.commitTransaction();
                throw new AssertionError("the zombie committed");
            } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
                zombie.close(Duration.ZERO);
            }
            same(7L, group.committed(Set.of(source)).get(source).offset());
        }
        same(List.of("kept", "kept"), committedValues());
    }

    private List<String> committedValues() {
        List<TopicPartition> partitions = List.of(new TopicPartition("java_tx", 0), new TopicPartition("java_tx", 1));
        try (KafkaConsumer<String, String> consumer = consumer("java_tx_reader", Map.of("isolation.level", "read_committed"))) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<String> values = new ArrayList<>();
            for (int polls = 0; polls < POLLS_MAX; polls++) {
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
                if (partitions.stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition))) {
                    return values;
                }
            }
            throw new AssertionError("the ends were not reached, after " + values);
        }
    }

    private void sharing(String protocol) throws Exception {
        String topic = "java_sharing_" + protocol;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaConsumer<String, String> first = consumer(topic, Map.of("group.protocol", protocol));
                KafkaConsumer<String, String> second = consumer(topic, Map.of("group.protocol", protocol))) {
            admin.createTopics(List.of(new NewTopic(topic, 4, (short) 1))).all().get(30, TimeUnit.SECONDS);
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            pollUntil(first, second, 2, 2);
            second.unsubscribe();
            pollUntil(first, second, 4, 0);
            same(1, admin.describeConsumerGroups(List.of(topic)).all().get(30, TimeUnit.SECONDS)
                .get(topic).members().size());
        }
    }

    private static void pollUntil(
            KafkaConsumer<String, String> first, KafkaConsumer<String, String> second, int ofFirst, int ofSecond) {
        for (int poll = 0; poll < POLLS_MAX; poll++) {
            first.poll(POLL);
            if (ofSecond > 0) {
                second.poll(POLL);
            }
            if (first.assignment().size() == ofFirst && second.assignment().size() == ofSecond) {
                return;
            }
        }
        throw new AssertionError("found " + first.assignment() + " and " + second.assignment());
    }

    private void admin() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic topic = new NewTopic("java_admin", 2, (short) 3).configs(Map.of("max.message.bytes", "2000"));
            admin.createTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
            same(true, admin.listTopics().names().get(30, TimeUnit.SECONDS).contains("java_admin"));
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, "java_admin");
            String value = admin.describeConfigs(List.of(resource)).all().get(30, TimeUnit.SECONDS)
                .get(resource).get("max.message.bytes").value();
            same("2000", value);
            TopicPartition partition = new TopicPartition("java_snappy", 0);
            long greatest = admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).all()
                .get(30, TimeUnit.SECONDS).get(partition).offset();
            same(49L, greatest);
            admin.deleteTopics(List.of("java_admin")).all().get(30, TimeUnit.SECONDS);
            same(false, admin.listTopics().names().get(30, TimeUnit.SECONDS).contains("java_admin"));
        }
    }

    /** The fetch session of the consumer names the old topic by its id. */
    private void topicCreatedAgain() throws Exception {
        NewTopic topic = new NewTopic("java_again", 1, (short) 1).configs(Map.of("compression.type", "zstd"));
        TopicPartition partition = new TopicPartition("java_again", 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
             KafkaConsumer<String, String> consumer = consumer("java")) {
            consumer.assign(Set.of(partition));
            for (int count : List.of(10, 5)) {
                admin.createTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
                produce("java_again", "gzip", count, "of " + count + ": ");
                List<ConsumerRecord<String, String>> records = take(consumer, count);
                same(count, records.size());
                same("of " + count + ": 0", records.get(0).value());
                admin.deleteTopics(List.of("java_again")).all().get(30, TimeUnit.SECONDS);
            }
        }
    }
}
