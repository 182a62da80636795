//! A project folder for a benchmark: filled with generated or given data, removed on drop.

use std::fs;
use std::path::{Path, PathBuf};

use lookaside_knowledge::{Knowledge, Value};
use lookaside_load::workload::{self, Random};

use super::Result;

/// Caches that hold every key of a benchmark for as long as it runs. Each load reads the data.
const CONFIG: &str = "\
version = 2
[default]
compiled = false
[cache]
capacity = 1000000
ttl_ms = 3600000
[csv]
has_header = false
";

/// The address ranges of a benchmark.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RangeArguments {
    /// A CSV file of ranges without a header (first, last, number, name) instead of generated
    /// ranges.
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    /// The number of generated ranges.
    #[arg(long, default_value_t = 411_961, value_parser = clap::value_parser!(u64).range(1..1 << 30))]
    range_count: u64,
}

/// A folder with a `knowdb.toml` and tables, removed when dropped unless it was given.
pub(super) struct BenchProject {
    path: PathBuf,
    config: String,
    /// Removes the folder.
    _scratch: Option<tempfile::TempDir>,
}

impl BenchProject {
    pub(super) fn temporary() -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let path = scratch.path().to_owned();
        Ok(Self {
            path,
            config: CONFIG.into(),
            _scratch: Some(scratch),
        })
    }

    /// A folder that is kept.
    pub(super) fn at(path: &Path) -> Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self {
            path: path.to_owned(),
            config: CONFIG.into(),
            _scratch: None,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The table `kv(id, value)` with the rows 1 to `row_count`.
    pub(super) fn add_key_values(&mut self, row_count: u64) -> Result<()> {
        self.config
            .push_str("[[tables]]\nname = \"kv\"\ncolumns.by_index = [0, 1]\n");
        self.write_table(
            "kv",
            "create table if not exists {table} (id integer primary key, value text not null);\n",
            "insert into {table} (id, value) values (?1, ?2);\n",
            &workload::key_value_csv(row_count),
        )
    }

    /// The table `asn(first_ip, last_ip, asn, org)`, two function calls per row, from a CSV without
    /// a header or from generated ranges.
    pub(super) fn add_ranges(&mut self, ranges: &RangeArguments) -> Result<()> {
        let csv = match &ranges.ranges {
            Some(path) => {
                fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => workload::ranges_csv(ranges.range_count, &mut Random::new(1)),
        };
        self.config
            .push_str("[[tables]]\nname = \"asn\"\ncolumns.by_index = [0, 1, 2, 3]\n");
        self.write_table(
            "asn",
            "create table if not exists {table}\n  (first_ip integer, last_ip integer, asn integer, org text);\n",
            "insert into {table} values (ip4_int(?1), ip4_int(?2), ?3, ?4);\n",
            &csv,
        )
    }

    fn write_table(&self, name: &str, create: &str, insert: &str, csv: &str) -> Result<()> {
        let folder = self.path.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("create.sql"), create)?;
        fs::write(folder.join("insert.sql"), insert)?;
        fs::write(folder.join("data.csv"), csv)?;
        Ok(fs::write(self.path.join("knowdb.toml"), &self.config)?)
    }

    pub(super) fn open(&self) -> Result<Knowledge> {
        Ok(Knowledge::open(&self.path)?)
    }
}

/// Integers as parameters.
pub(super) fn int_params(keys: &[i64]) -> Vec<Value> {
    keys.iter().map(|&key| Value::Int(key)).collect()
}
