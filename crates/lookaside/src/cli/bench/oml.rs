//! What does a model cost per record, without formats, threads and files?

use std::convert::Infallible;

use clap::{Args, ValueEnum};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::report;
use lookaside_load::workload::KeyArguments;
use lookaside_oml::{Model, Options, Program, RunReport};
use lookaside_value::{Batch, NameTable, Value};

use super::Result;
use super::project::BenchProject;

const KEY_COUNT: usize = 1 << 20;

/// A model over batches of records, one core
#[derive(Debug, Args)]
pub(crate) struct OmlArguments {
    /// The model to run; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    #[command(flatten)]
    keys: KeyArguments,
    /// Records in a batch.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Records are created and cleared, without a model.
    Harness,
    /// `V = read(id) ;`
    Read,
    /// `V = select value from kv where id = read(id) ;`, which always finds a row.
    Lookup,
}

impl Case {
    fn model(self) -> &'static str {
        match self {
            Self::Harness | Self::Read => "name : bench\n---\nV = read(id) ;\n",
            Self::Lookup => "name : bench\n---\nV = select value from kv where id = read(id) ;\n",
        }
    }
}

pub(super) fn run(arguments: &OmlArguments) -> Result<()> {
    let mut project = BenchProject::temporary()?;
    project.add_key_values(arguments.keys.rows)?;
    let knowledge = project.open()?;
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    for case in cases {
        let name = case
            .to_possible_value()
            .expect("no case is hidden")
            .get_name()
            .to_owned();
        let model = Model::parse("bench.oml", case.model())?;
        let mut session = knowledge.session();
        let mut names = NameTable::new();
        let id = names.intern("id");
        let program = Program::bind(&model, &mut names, &mut session, &Options::default())?;
        let target = names.name("V").ok_or("the model makes a field V")?;
        let keys = arguments.keys.draw(KEY_COUNT);

        let mut evaluator = program.evaluator();
        let mut batch = Batch::new(names.into());
        let mut lookup_failures = 0;
        let mut next = 0;
        let mut one_batch = |hash: Option<&mut AnswerHash>| {
            batch.clear();
            for _ in 0..arguments.batch {
                batch.add().push(id, keys[next]);
                next = (next + 1) % KEY_COUNT;
            }
            if case != Case::Harness {
                let mut report = RunReport::new();
                evaluator.run(&mut batch, &mut session, &mut report);
                lookup_failures += report.lookup_failed_count;
            }
            if let Some(hash) = hash {
                for record in batch.records() {
                    let answer = record.value(target).unwrap_or(&Value::Null);
                    hash.add(answer.to_text().as_bytes());
                }
            }
            u64::from(arguments.batch)
        };
        let mut hash = AnswerHash::new();
        one_batch(Some(&mut hash));
        let (ops, cpu, wall) = measure(arguments.rounds, || Ok::<_, Infallible>(one_batch(None)))?;
        if lookup_failures > 0 {
            return Err(format!("{lookup_failures} lookups failed").into());
        }
        let measured = Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "oml",
            case: name,
            ops,
            cpu_ns_per_op: cpu,
            wall_ns_per_op: wall,
            hash: hash.text(),
            notes: vec![("records in a batch", arguments.batch.to_string())],
        };
        report::print(&measured, arguments.rounds.json)?;
    }
    Ok(())
}
