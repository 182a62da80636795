package rival;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.annotation.JSONField;
import com.alibaba.fastjson2.annotation.JSONType;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** An event, parsed by generated code, and the columns of the row that was found for it. */
@JSONType(orders = {"id", "time", "user", "ip", "method", "path", "status", "bytes", "agent"})
public final class Event {
    public long id;
    public String time;
    public String user;
    public String ip;
    public String method;
    public String path;
    public int status;
    public long bytes;
    public String agent;

    /** A JSON object with at least one member, or null: its members follow those of the event, without being parsed. */
    @JSONField(serialize = false, deserialize = false)
    public byte[] columns;

    static final Serde<Event> SERDE = Serdes.serdeFrom(
        (topic, event) -> event.toJson(),
        (topic, json) -> JSON.parseObject(json, Event.class));

    private byte[] toJson() {
        byte[] event = JSON.toJSONBytes(this);
        if (columns == null) {
            return event;
        }
        byte[] result = new byte[event.length + columns.length - 1];
        System.arraycopy(event, 0, result, 0, event.length);
        System.arraycopy(columns, 0, result, event.length - 1, columns.length);
        result[event.length - 1] = ',';
        return result;
    }
}
