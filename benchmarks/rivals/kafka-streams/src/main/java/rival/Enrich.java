package rival;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Adds the columns of a row to each event of a topic, until it is terminated.
 *
 * <pre>
 *   equality FROM TO TOPIC PROPERTY=VALUE…   the row whose key is the event's user, from a topic
 *   ranges   FROM TO CSV   PROPERTY=VALUE…   the range with the event's ip, from a file
 * </pre>
 */
public final class Enrich {
    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        for (int i = 4; i < arguments.length; i++) {
            String[] property = arguments[i].split("=", 2);
            properties.put(property[0], property[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], Event> events = builder.stream(arguments[1], Consumed.with(Serdes.ByteArray(), Event.SERDE));
        KStream<byte[], Event> results = switch (arguments[0]) {
            case "equality" -> equality(builder, events, arguments[3]);
            case "ranges" -> ranges(events, new Ranges(Path.of(arguments[3])));
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        results.to(arguments[2], Produced.with(Serdes.ByteArray(), Event.SERDE));
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static KStream<byte[], Event> equality(StreamsBuilder builder, KStream<byte[], Event> events, String topic) {
        // A hash map, which is cheaper here than the tree of inMemoryKeyValueStore; it has room for all keys and never evicts one.
        GlobalKTable<String, byte[]> rows = builder.globalTable(topic,
            Materialized.<String, byte[]>as(Stores.lruMap("rows", 200_000))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray())
                .withCachingDisabled().withLoggingDisabled());
        return events.leftJoin(rows, (key, event) -> event.user, (event, columns) -> {
            event.columns = columns;
            return event;
        });
    }

    private static KStream<byte[], Event> ranges(KStream<byte[], Event> events, Ranges ranges) {
        return events.processValues(() -> ranges.new Lookup());
    }
}
