import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with Kafka Streams, stops, starts again from the changelog alone and goes on counting:
 * BOOTSTRAP at_least_once|exactly_once_v2. Prints nothing and ends with 0 if the counts are right.
 */
public final class WordCount {
    private static final long BOUND_NANOS = Duration.ofSeconds(60).toNanos();

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String guarantee = arguments[1];
        String name = "words-" + UUID.randomUUID();
        String lines = name + "-lines";
        String counts = name + "-counts";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(lines, 2, (short) 1), new NewTopic(counts, 1, (short) 1))).all().get();
        }
        run(bootstrap, guarantee, name, List.of("all streams lead", "to the sea"), Map.of("all", 1L, "streams", 1L, "lead", 1L, "to", 1L, "the", 1L, "sea", 1L));
        run(bootstrap, guarantee, name, List.of("the streams", "the sea"), Map.of("all", 1L, "streams", 2L, "lead", 1L, "to", 1L, "the", 3L, "sea", 2L));
        System.exit(0);
    }

    /** One life of the application, with a state directory of its own. */
    private static void run(String bootstrap, String guarantee, String name, List<String> texts, Map<String, Long> wanted) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", name);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("processing.guarantee", guarantee);
        settings.put("commit.interval.ms", "100");
        settings.put("state.dir", System.getProperty("java.io.tmpdir") + "/" + UUID.randomUUID());
        settings.put("default.key.serde", Serdes.String().getClass().getName());
        settings.put("default.value.serde", Serdes.String().getClass().getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(name + "-lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counted"))
            .toStream()
            .to(name + "-counts", Produced.with(Serdes.String(), Serdes.Long()));
        produce(bootstrap, name + "-lines", texts);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            await(bootstrap, name + "-counts", wanted);
        }
    }

    private static void produce(String bootstrap, String topic, List<String> texts) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String text : texts) {
                producer.send(new ProducerRecord<>(topic, text)).get();
            }
        }
    }

    /** Reads from the beginning until the newest count of each word is the wanted one. */
    private static void await(String bootstrap, String topic, Map<String, Long> wanted) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", topic + UUID.randomUUID(),
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest");
        Map<String, Long> newest = new TreeMap<>();
        long end = System.nanoTime() + BOUND_NANOS;
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!newest.equals(wanted)) {
                if (System.nanoTime() > end) {
                    System.err.println("wanted " + new TreeMap<>(wanted) + ", found " + newest);
                    System.exit(1);
                }
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(100))) {
                    newest.put(record.key(), record.value());
                }
            }
        }
    }
}
