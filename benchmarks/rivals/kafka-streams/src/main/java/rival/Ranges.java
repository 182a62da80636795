package rival;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;

/** Ranges of addresses that do not overlap, in the order of their first addresses, and the columns of each as JSON. */
final class Ranges {
    private final int[] first;
    private final int[] last;
    private final byte[][] columns;

    /** Reads lines with the first address, the last address, a number and a name without commas and quotes. */
    Ranges(Path csv) throws IOException {
        List<String> lines = Files.readAllLines(csv);
        first = new int[lines.size()];
        last = new int[lines.size()];
        columns = new byte[lines.size()][];
        for (int i = 0; i < columns.length; i++) {
            String[] fields = lines.get(i).split(",");
            first[i] = ordered(fields[0]);
            last[i] = ordered(fields[1]);
            columns[i] = ("{\"asn\":" + fields[2] + ",\"org\":\"" + fields[3] + "\"}").getBytes(StandardCharsets.UTF_8);
        }
    }

    byte[] find(String address) {
        int number = ordered(address);
        int found = Arrays.binarySearch(first, number);
        int range = found >= 0 ? found : -found - 2;
        return range >= 0 && number <= last[range] ? columns[range] : null;
    }

    /** The number of an IPv4 address with its highest bit inverted, so that signed integers have the order of addresses. */
    private static int ordered(String address) {
        int number = 0;
        int part = 0;
        for (int i = 0; i < address.length(); i++) {
            char digit = address.charAt(i);
            if (digit == '.') {
                number = number << 8 | part;
                part = 0;
            } else {
                part = part * 10 + digit - '0';
            }
        }
        return (number << 8 | part) ^ Integer.MIN_VALUE;
    }

    final class Lookup implements FixedKeyProcessor<byte[], Event, Event> {
        private FixedKeyProcessorContext<byte[], Event> context;

        @Override
        public void init(FixedKeyProcessorContext<byte[], Event> context) {
            this.context = context;
        }

        @Override
        public void process(FixedKeyRecord<byte[], Event> message) {
            message.value().columns = find(message.value().ip);
            context.forward(message);
        }
    }
}
