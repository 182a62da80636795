//! `lookaside bench`: what an operation costs on this machine, as programs with parameters.

#[path = "../../../../bench/src/cache.rs"]
mod cache;
mod enrich;
#[path = "../../../../bench/src/http/mod.rs"]
mod http;
mod load;
mod lookup;
#[path = "../../../../load/src/measure.rs"]
pub(super) mod measure;
#[path = "../../../../bench/src/metadata.rs"]
mod metadata;
mod oml;
#[path = "../../../../bench/src/oml_provider.rs"]
mod oml_provider;
#[path = "../../../../bench/src/pipeline/mod.rs"]
mod pipeline;
mod project;
#[path = "../../../../bench/src/provider.rs"]
mod provider;
#[path = "../../../../load/src/relay.rs"]
mod relay;
#[path = "../../../../load/src/report.rs"]
mod report;
#[path = "../../../../bench/src/target.rs"]
mod target;
#[path = "../../../../load/src/workload.rs"]
pub(super) mod workload;

use std::error::Error;

use clap::{Args, Subcommand};

use crate::failure::{Exit, Failure, Outcome};

/// Measure lookups, models, whole runs, loading and servers on this machine
///
/// Each benchmark makes its own data from a seed, works on it in rounds after one that warms up, and
/// prints CPU and wall time for one operation: the smallest, the median and the largest round. CPU
/// time is that of all threads. The hash is over the answers: equal hashes, equal answers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside bench lookup                          all kinds of lookups
  lookaside bench lookup --case interval --ranges asn.csv
  lookaside bench enrich --events 1000000 --rounds 5
  lookaside bench load --range-count 411961 --json
  lookaside bench provider                        an embedded PostgreSQL, by every way
  lookaside bench cache --shape warm --url postgres://localhost/test
  lookaside bench pipeline --case one-stage --wait spin
  lookaside bench http http://127.0.0.1:8300/healthz")]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Lookup(lookup::LookupArguments),
    Oml(oml::OmlArguments),
    Enrich(enrich::EnrichArguments),
    Load(load::LoadArguments),
    Provider(provider::ProviderArguments),
    Cache(cache::CacheArguments),
    OmlProvider(oml_provider::OmlProviderArguments),
    Metadata(metadata::MetadataArguments),
    Http(Box<http::HttpArguments>),
    Pipeline(pipeline::PipelineArguments),
}

pub(crate) fn run(arguments: &BenchArguments) -> Outcome {
    let done = match &arguments.bench {
        Bench::Lookup(arguments) => lookup::run(arguments),
        Bench::Oml(arguments) => oml::run(arguments),
        Bench::Enrich(arguments) => enrich::run(arguments),
        Bench::Load(arguments) => load::run(arguments),
        Bench::Provider(arguments) => provider::run(arguments),
        Bench::Cache(arguments) => cache::run(arguments),
        Bench::OmlProvider(arguments) => oml_provider::run(arguments),
        Bench::Metadata(arguments) => metadata::run(arguments),
        Bench::Pipeline(arguments) => pipeline::run(arguments),
        Bench::Http(arguments) => return http::run(arguments),
    };
    done.map(|()| Exit::Done)
        .map_err(|error| Failure::new("the benchmark failed").because(error.as_ref()))
}

/// A benchmark prepares data and runs foreign and own code; all of it can fail, none of it is
/// handled other than by telling.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
