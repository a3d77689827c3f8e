import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What kafbat UI and AKHQ ask for to show a cluster, and to change it: BOOTSTRAP. Prints one line per check and ends
 * with 1 if one failed.
 */
public final class AdminCalls {
    private static final long SECONDS = 30;
    private static final int RECORDS = 10;
    private static boolean failed;

    private final Admin admin;
    private final String topic = "ui-" + UUID.randomUUID();
    private final TopicPartition partition = new TopicPartition(topic, 0);
    private final ConfigResource topicResource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    private final ConfigResource brokerResource = new ConfigResource(ConfigResource.Type.BROKER, "0");

    private AdminCalls(Admin admin) {
        this.admin = admin;
    }

    private interface Check {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(settings)) {
            AdminCalls calls = new AdminCalls(admin);
            calls.fill(args[0]);
            check("the cluster and its features", calls::cluster);
            check("topics and their configs", calls::topics);
            check("first and last offsets", calls::offsets);
            check("sizes", calls::sizes);
            check("groups and their offsets", calls::groups);
            check("producers and quotas", calls::producersAndQuotas);
            check("what there is none of, by the errors that they know", calls::absent);
            check("changes of a topic", calls::changes);
        }
        System.exit(failed ? 1 : 0);
    }

    private static void check(String name, Check check) {
        try {
            check.run();
            System.out.println("passed\tUIs: " + name);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("failed\tUIs: " + name + "\t" + error.toString().replace('\n', ' '));
        }
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(SECONDS, TimeUnit.SECONDS);
    }

    private static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    private static void refused(KafkaFuture<?> future, Class<? extends Exception> expected) throws Exception {
        try {
            throw new AssertionError("answered: " + get(future));
        } catch (ExecutionException error) {
            same(expected, error.getCause().getClass());
        }
    }

    /** A topic with records, and a group that has read it. */
    private void fill(String bootstrap) throws Exception {
        get(admin.createTopics(List.of(new NewTopic(topic, Optional.of(1), Optional.empty()))).all());
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int step = 0; step < RECORDS; step++) {
                producer.send(new ProducerRecord<>(topic, "v" + step)).get(SECONDS, TimeUnit.SECONDS);
            }
        }
        Map<String, Object> reading = Map.of("bootstrap.servers", bootstrap, "group.id", topic, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int read = 0;
            for (long polls = 0; read < RECORDS && polls < SECONDS; polls++) {
                read += consumer.poll(Duration.ofSeconds(1)).count();
            }
            same(RECORDS, read);
            consumer.commitSync(Duration.ofSeconds(SECONDS));
        }
    }

    private void cluster() throws Exception {
        var cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        same(1, get(cluster.nodes()).size());
        same(0, get(cluster.controller()).id());
        same(true, get(admin.describeFeatures().featureMetadata()).finalizedFeatures().containsKey("metadata.version"));
        Set<String> names = Set.of("delete.topic.enable", "num.partitions", "auto.create.topics.enable");
        var entries = get(admin.describeConfigs(List.of(brokerResource)).all()).get(brokerResource).entries();
        same(3L, entries.stream().filter(entry -> names.contains(entry.name())).count());
    }

    private void topics() throws Exception {
        same(true, get(admin.listTopics(new ListTopicsOptions().listInternal(true)).names()).contains(topic));
        var described = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        same(1, described.partitions().size());
        same(0, described.partitions().get(0).leader().id());
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        var entry = get(admin.describeConfigs(List.of(topicResource), options).all()).get(topicResource).get("retention.ms");
        same("-1", entry.value());
        same(false, entry.synonyms().isEmpty() || entry.documentation().isEmpty());
        same(Map.of(), get(admin.listPartitionReassignments().reassignments()));
    }

    private void offsets() throws Exception {
        for (var each : Map.of(OffsetSpec.earliest(), 0L, OffsetSpec.latest(), (long) RECORDS).entrySet()) {
            var found = get(admin.listOffsets(Map.of(partition, each.getKey())).all());
            same(each.getValue(), found.get(partition).offset());
        }
    }

    private void sizes() throws Exception {
        var directories = get(admin.describeLogDirs(List.of(0)).allDescriptions()).get(0).values();
        same(1, directories.size());
        var replica = directories.iterator().next().replicaInfos().get(partition);
        same(true, replica != null && replica.size() > 0);
    }

    // These tools list groups as before Kafka 4.1.
    @SuppressWarnings({"deprecation", "removal"})
    private void groups() throws Exception {
        same(true, get(admin.listConsumerGroups().all()).stream().anyMatch(group -> group.groupId().equals(topic)));
        same(0, get(admin.describeConsumerGroups(List.of(topic)).all()).get(topic).members().size());
        var asked = Map.of(topic, new ListConsumerGroupOffsetsSpec());
        same((long) RECORDS, get(admin.listConsumerGroupOffsets(asked).all()).get(topic).get(partition).offset());
        get(admin.alterConsumerGroupOffsets(topic, Map.of(partition, new OffsetAndMetadata(3))).all());
        same(3L, get(admin.listConsumerGroupOffsets(asked).all()).get(topic).get(partition).offset());
        get(admin.deleteConsumerGroupOffsets(topic, Set.of(partition)).all());
        get(admin.deleteConsumerGroups(List.of(topic)).all());
        same(false, get(admin.listConsumerGroups().all()).stream().anyMatch(group -> group.groupId().equals(topic)));
    }

    private void producersAndQuotas() throws Exception {
        same(1, get(admin.describeProducers(List.of(partition)).all()).get(partition).activeProducers().size());
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, topic));
        for (Double rate : new Double[] {1e9, null}) {
            var operation = new ClientQuotaAlteration.Op("consumer_byte_rate", rate);
            get(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(operation)))).all());
            var found = get(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).get(entity);
            same(rate == null, found == null);
        }
    }

    private void absent() throws Exception {
        refused(admin.describeAcls(AclBindingFilter.ANY).values(), SecurityDisabledException.class);
        refused(admin.describeMetadataQuorum().quorumInfo(), UnsupportedVersionException.class);
        var set = new AlterConfigOp(new ConfigEntry("log.retention.ms", "1"), AlterConfigOp.OpType.SET);
        refused(admin.incrementalAlterConfigs(Map.of(brokerResource, List.of(set))).all(), InvalidRequestException.class);
    }

    private void changes() throws Exception {
        var set = new AlterConfigOp(new ConfigEntry("retention.ms", "1000000"), AlterConfigOp.OpType.SET);
        get(admin.incrementalAlterConfigs(Map.of(topicResource, List.of(set))).all());
        same("1000000", get(admin.describeConfigs(List.of(topicResource)).all()).get(topicResource).get("retention.ms").value());
        var there = Optional.of(new NewPartitionReassignment(List.of(0)));
        get(admin.alterPartitionReassignments(Map.of(partition, there)).all());
        same(4L, get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(partition)).lowWatermark());
        get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
        same(3, get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size());
        get(admin.deleteTopics(List.of(topic)).all());
        same(false, get(admin.listTopics().names()).contains(topic));
    }
}
