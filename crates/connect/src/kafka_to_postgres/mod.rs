//! Exactly once from Kafka to PostgreSQL: rows, and the positions up to which they were read, in one
//! transaction of the database.

mod positions;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::ResultMeta;
use rdkafka::consumer::Consumer as _;

use self::positions::Positions;
use self::transactions::TransactionalSink;
use crate::kafka::{self, SourceOptions};
use crate::postgres::{self, SinkOptions};
use crate::{ConnectUrl, Error, OpenedSink, OpenedSource, Result};

/// How long opening waits for the identifier of the cluster.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a source and a sink; with exactly-once delivery, transactions of the sink store the
/// positions of the source.
pub(crate) fn open_pair(
    source: &ConnectUrl,
    sink: &ConnectUrl,
) -> Result<(OpenedSource, OpenedSink)> {
    let sink_options = SinkOptions::new(sink)?;
    if !sink_options.is_exactly_once {
        // The sink first: a group is joined when everything else is ready.
        let sink = postgres::open_sink(sink)?;
        return Ok((kafka::open_source(source)?, sink));
    }
    if sink
        .options()
        .iter()
        .any(|(option, _)| option == "batch_ms")
    {
        let reason = "with delivery=exactly-once, `commit_interval_ms` of the source determines how \
                      long a transaction lasts";
        let hint = Some("omit `batch_ms`");
        return Err(Error::refused(&sink_options.name, reason, hint));
    }
    if sink_options.source.is_some() {
        let reason = "`source` names a followed file, and the input is a topic";
        return Err(Error::refused(&sink_options.name, reason, Some("omit it")));
    }
    let options = SourceOptions::new(source, kafka::Delivery::ExactlyOnce)?;
    let (mut client, table) = postgres::open_table(&sink_options)?;
    let consumer = Arc::new(kafka::create_consumer(&options)?);
    let Some(cluster) = consumer.client().fetch_cluster_id(CLUSTER_TIMEOUT) else {
        let hint = "the positions are stored by it; brokers have one from Kafka 0.10.1 on";
        let reason = "the cluster has no identifier";
        return Err(Error::unavailable(&options.name, reason, hint));
    };
    let source_name = format!("kafka/{cluster}/{}", options.group);
    let positions = Positions::open(&mut client, &sink_options.name, &table, &source_name)?;
    let sink = TransactionalSink::open(
        client,
        table,
        positions,
        &sink_options,
        Arc::clone(&consumer),
        options.commit_interval,
    )?;
    let (framing, on_null) = (options.framing, options.on_null);
    let lag = kafka::lag_of(&consumer);
    let source = OpenedSource {
        source: Box::new(kafka::join(options, consumer)?),
        framing,
        on_null,
        lag: Some(lag),
    };
    let sink = OpenedSink {
        sink: Box::new(sink),
        meta: ResultMeta::default(),
    };
    Ok((source, sink))
}
