import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedSaslMechanismException;

/**
 * The Java client with right, wrong and no credentials: PLAIN_PORT TLS_PORT CERTIFICATE_PORT DIRECTORY. Prints one line
 * per check and ends with 1 if one failed.
 */
public final class SecurityCheck {
    private static final String TEXT = "org.apache.kafka.common.serialization.StringSerializer";
    private static final String READ_TEXT = "org.apache.kafka.common.serialization.StringDeserializer";
    private static final int POLLS_MAX = 120;
    private static boolean failed;

    private final String directory;

    private SecurityCheck(String directory) {
        this.directory = directory;
    }

    private interface Check {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        SecurityCheck checks = new SecurityCheck(args[3]);
        String plain = args[0];
        String tls = args[1];
        String certificate = args[2];
        for (String mechanism : List.of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")) {
            check(mechanism, () -> roundTrip(checks.sasl(plain, "SASL_PLAINTEXT", mechanism, "pencil")));
            check(mechanism + " over TLS", () -> roundTrip(checks.sasl(tls, "SASL_SSL", mechanism, "pencil")));
            check(mechanism + " with a wrong password", () -> refused(
                checks.sasl(plain, "SASL_PLAINTEXT", mechanism, "pen"), SaslAuthenticationException.class));
        }
        check("a mechanism that is not offered", () -> refused(
            checks.bearer(plain), UnsupportedSaslMechanismException.class));
        check("certificate", () -> roundTrip(checks.certified(certificate, true)));
        check("no certificate", () -> refused(checks.certified(certificate, false), SslAuthenticationException.class));
        check("no credentials", () -> refused(new HashMap<>(Map.of("bootstrap.servers", plain)), TimeoutException.class));
        System.exit(failed ? 1 : 0);
    }

    private static void check(String name, Check check) {
        try {
            check.run();
            System.out.println("passed\tjava " + name);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("failed\tjava " + name + "\t" + String.valueOf(error).replace('\n', ' '));
        }
    }

    private Map<String, Object> sasl(String bootstrap, String protocol, String mechanism, String password) {
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("security.protocol", protocol);
        settings.put("sasl.mechanism", mechanism);
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security." + module
            + " required username=\"admin\" password=\"" + password + "\";");
        if (protocol.equals("SASL_SSL")) {
            trust(settings);
        }
        return settings;
    }

    private Map<String, Object> bearer(String bootstrap) {
        Map<String, Object> settings = sasl(bootstrap, "SASL_PLAINTEXT", "OAUTHBEARER", "");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            + " unsecuredLoginStringClaim_sub=\"admin\";");
        return settings;
    }

    private Map<String, Object> certified(String bootstrap, boolean withCertificate) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("security.protocol", "SSL");
        trust(settings);
        if (withCertificate) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", directory + "/client-both.pem");
        }
        return settings;
    }

    private void trust(Map<String, Object> settings) {
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", directory + "/ca.pem");
    }

    private static void roundTrip(Map<String, Object> settings) throws Exception {
        String topic = "java-" + UUID.randomUUID();
        settings.put("key.serializer", TEXT);
        settings.put("value.serializer", TEXT);
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int step = 0; step < 10; step++) {
                expected.add("v" + step);
                producer.send(new ProducerRecord<>(topic, "v" + step)).get();
            }
        }
        settings.put("key.deserializer", READ_TEXT);
        settings.put("value.deserializer", READ_TEXT);
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            for (int polls = 0; polls < POLLS_MAX && found.size() < 10; polls++) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    found.add(record.value());
                }
            }
        }
        if (!found.equals(expected)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static void refused(Map<String, Object> settings, Class<? extends Exception> expected) throws Exception {
        settings.put("default.api.timeout.ms", 5000);
        settings.put("request.timeout.ms", 4000);
        try (Admin admin = Admin.create(settings)) {
            admin.listTopics().names().get();
        } catch (ExecutionException error) {
            if (expected.isInstance(error.getCause())) {
                return;
            }
            throw error;
        }
        throw new AssertionError("it was let in");
    }
}
