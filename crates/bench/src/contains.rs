//! What does a lookup of a network, a name, a path or a pattern cost, beside other structures?

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lookaside_knowledge::{Knowledge, Session, Statement};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::report;
use lookaside_load::workload::Random;
use lookaside_value::Value;
use regex::RegexSet;

use super::Result;

/// Keys that are drawn in advance; then their order repeats.
const KEY_COUNT: usize = 1 << 16;
/// Lines that are drawn in advance.
const LINE_COUNT: usize = 1 << 11;
/// Lookups between two clock readings.
const BLOCK: usize = 64;
/// Networks that are nested in others, in addition to those of `--ranges`.
const NESTED_COUNT: u64 = 200_000;
/// The size of a line in bytes.
const LINE_SIZE: usize = 200;

/// Lookups of networks, names, paths and patterns, beside a hash for each label and `RegexSet`
#[derive(Debug, Args)]
pub(crate) struct ContainsArguments {
    /// The case to run; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// Ranges of addresses, as first,last,… lines without a header; several files of both families.
    /// By default, made-up networks.
    #[arg(long, value_name = "FILE")]
    ranges: Vec<PathBuf>,
    /// Names, or prefixes of paths.
    #[arg(long, default_value_t = 100_000, value_name = "COUNT")]
    names: u64,
    /// Patterns.
    #[arg(long, default_value_t = 1000, value_name = "COUNT")]
    patterns: u64,
    /// Networks of the case lists.
    #[arg(long, default_value_t = 1000, value_name = "COUNT")]
    networks: u64,
    /// A database of the same networks, as made of `--export`: for the reader of `maxminddb`, and as
    /// the rows of a table.
    #[arg(long, value_name = "FILE")]
    mmdb: Option<PathBuf>,
    /// Only write the values of the column and the keys to this folder, for another engine to read.
    #[arg(long, value_name = "DIR", requires = "case")]
    export: Option<PathBuf>,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// The smallest network of IPv4 addresses.
    Ip4,
    /// The smallest network of IPv6 addresses.
    Ip6,
    /// Whether a network of a list contains an address in text; half of the addresses are in one.
    Lists,
    /// The longest domain of names of three to six labels, half of which are under one.
    Hosts,
    /// The longest prefix of paths of two to five segments, half of which are under one.
    Paths,
    /// Patterns that contain a literal; every eighth line matches one.
    Literals,
    /// Patterns of classes and repetitions without a literal; every eighth line matches one.
    Classes,
    /// Patterns of large counted repetitions, whose automaton has too many states.
    States,
}

impl Case {
    fn sql(self) -> &'static str {
        match self {
            Self::Ip4 | Self::Ip6 => {
                "select row from t where cidr_contains(:key, k) order by cidr_len(k) desc limit 1"
            }
            Self::Lists => "select row from t where cidr_contains(:key, k) limit 1",
            Self::Hosts => {
                "select row from t where host_under(:key, k) order by length(k) desc limit 1"
            }
            Self::Paths => {
                "select row from t where path_under(:key, k) order by length(k) desc limit 1"
            }
            Self::Literals | Self::Classes | Self::States => {
                "select row from t where regexp_like(:key, k) order by rowid limit 1"
            }
        }
    }

    fn name(self) -> String {
        let value = self.to_possible_value().expect("no case is hidden");
        value.get_name().to_owned()
    }
}

/// The values of a column, and the keys to look up.
struct Data {
    values: Vec<String>,
    keys: Vec<Value>,
}

pub(super) fn run(arguments: &ContainsArguments) -> Result<()> {
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    for case in cases {
        let data = data(arguments, case)?;
        let json = arguments.rounds.json;
        if let Some(folder) = &arguments.export {
            fs::create_dir_all(folder)?;
            let keys: Vec<String> = data
                .keys
                .iter()
                .map(|key| key.to_text().to_string())
                .collect();
            fs::write(folder.join("values.txt"), data.values.join("\n"))?;
            fs::write(folder.join("keys.txt"), keys.join("\n"))?;
            continue;
        }
        report::print(&lookaside(arguments, case, &data)?, json)?;
        match case {
            Case::Ip4 | Case::Ip6 => {
                if let Some(file) = &arguments.mmdb {
                    report::print(&lookaside_mmdb(arguments, case, &data, file)?, json)?;
                    report::print(&mmdb(arguments, case, &data, file)?, json)?;
                }
            }
            Case::Lists | Case::Paths => {}
            Case::Hosts => report::print(&hash_per_label(arguments, case, &data)?, json)?,
            Case::Literals | Case::Classes | Case::States => {
                report::print(&regex_set(arguments, case, &data)?, json)?;
            }
        }
    }
    Ok(())
}

fn data(arguments: &ContainsArguments, case: Case) -> Result<Data> {
    let mut random = Random::new(7);
    Ok(match case {
        Case::Ip4 | Case::Ip6 => {
            let values = networks(&arguments.ranges, &mut random)?;
            let keys = (0..KEY_COUNT).map(|_| address(case, &values, &mut random));
            let keys = keys.collect();
            Data { values, keys }
        }
        Case::Lists => {
            let networks: Vec<(u32, u8)> = (0..arguments.networks)
                .map(|_| (random.address().to_bits(), 12 + random.below(17) as u8))
                .collect();
            let value = |&(bits, len)| {
                let first = bits >> (32 - len) << (32 - len);
                format!("{}/{len}", Ipv4Addr::from(first))
            };
            let keys = (0..KEY_COUNT).map(|index| {
                let address = random.address();
                let (bits, len) = networks[random.below(arguments.networks) as usize];
                let inside = bits ^ address.to_bits() >> len;
                let address = if index % 2 == 0 {
                    inside.into()
                } else {
                    address
                };
                Value::from(address.to_string())
            });
            let keys = keys.collect();
            Data {
                values: networks.iter().map(value).collect(),
                keys,
            }
        }
        Case::Hosts => {
            let values: Vec<String> = (0..arguments.names)
                .map(|_| {
                    let depth = 2 + random.below(2);
                    dotted(depth, &mut random)
                })
                .collect();
            let keys = (0..KEY_COUNT).map(|index| match index % 2 {
                0 => {
                    let depth = 1 + random.below(3);
                    let above = pick(&values, &mut random);
                    Value::from(format!("{}.{above}", labels(depth, '.', &mut random)))
                }
                _ => {
                    let depth = 3 + random.below(4);
                    Value::from(dotted(depth, &mut random))
                }
            });
            let keys = keys.collect();
            Data { values, keys }
        }
        Case::Paths => {
            let path = |depth, random: &mut Random| format!("/{}", labels(depth, '/', random));
            let values: Vec<String> = (0..arguments.names)
                .map(|_| path(1 + random.below(3), &mut random))
                .collect();
            let keys = (0..KEY_COUNT).map(|index| match index % 2 {
                0 => {
                    let below = labels(1 + random.below(2), '/', &mut random);
                    Value::from(format!("{}/{below}", pick(&values, &mut random)))
                }
                _ => Value::from(path(2 + random.below(4), &mut random)),
            });
            let keys = keys.collect();
            Data { values, keys }
        }
        Case::Literals => {
            let values: Vec<String> = (0..arguments.patterns)
                .map(|number| match number % 3 {
                    0 => format!("{}-{number}", word(&mut random)),
                    1 => format!(r"{}[a-z]{{1,3}}/{}", word(&mut random), word(&mut random)),
                    _ => format!(r"(?i){}.*{number}\b", word(&mut random)),
                })
                .collect();
            // Every third pattern is a text without operators.
            let texts: Vec<String> = values.iter().step_by(3).cloned().collect();
            let keys = lines(&mut random, |index, random| match index % 8 {
                0 => pick(&texts, random).to_owned(),
                _ => word(random),
            });
            Data { values, keys }
        }
        Case::States => {
            let values: Vec<String> = (0..arguments.patterns)
                .map(|number| {
                    let first = char::from(b'a' + (number % 26) as u8);
                    format!(r"[{first}x][a-z ]{{{}}}\d[{first}-z]", 5 + number % 40)
                })
                .collect();
            let keys = lines(&mut random, |_, random| word(random));
            Data { values, keys }
        }
        Case::Classes => {
            let values: Vec<String> = (0..arguments.patterns)
                .map(|number| {
                    let size = 3 + number % 7;
                    let last = char::from(b'a' + (number % 26) as u8);
                    match number % 3 {
                        0 => format!(r"\d{{{size},}}[{last}x]\d"),
                        1 => format!(r"[A-Z]{{{size}}}[0-9]+[{last}]"),
                        _ => format!(r"[a-f]{{{size}}}:[{last}-z]+=\d"),
                    }
                })
                .collect();
            let keys = lines(&mut random, |index, random| match index % 8 {
                0 => format!("{:09}x{}", random.below(1_000_000_000), random.below(10)),
                _ => word(random),
            });
            Data { values, keys }
        }
    })
}

fn pick<'a>(values: &'a [String], random: &mut Random) -> &'a str {
    &values[random.below(values.len() as u64) as usize]
}

fn word(random: &mut Random) -> String {
    let letters = (0..4 + random.below(8)).map(|_| char::from(b'a' + random.below(26) as u8));
    letters.collect()
}

fn labels(count: u64, separator: char, random: &mut Random) -> String {
    let words: Vec<String> = (0..count).map(|_| word(random)).collect();
    words.join(&separator.to_string())
}

/// A name under one of a hundred top-level domains.
fn dotted(depth: u64, random: &mut Random) -> String {
    format!("{}.t{}", labels(depth - 1, '.', random), random.below(100))
}

/// Lines of words and numbers, with a special word in the middle.
fn lines(random: &mut Random, special: impl Fn(usize, &mut Random) -> String) -> Vec<Value> {
    let line = |index| {
        let mut line = String::new();
        let mut is_special = true;
        while line.len() < LINE_SIZE {
            if line.len() > LINE_SIZE / 2 && std::mem::take(&mut is_special) {
                line.push_str(&special(index, random));
            } else if random.below(4) == 0 {
                _ = write!(line, "{}", random.below(100_000));
            } else {
                line.push_str(&word(random));
            }
            line.push(if random.below(6) == 0 { '/' } else { ' ' });
        }
        line.truncate(LINE_SIZE);
        Value::from(line)
    };
    (0..LINE_COUNT).map(line).collect()
}

/// The networks of ranges, and others nested in them.
fn networks(files: &[PathBuf], random: &mut Random) -> Result<Vec<String>> {
    let mut networks = Vec::new();
    for file in files {
        let text = fs::read_to_string(file)?;
        for line in text.lines() {
            let mut fields = line.split(',');
            let bounds = (fields.next(), fields.next());
            let (Some(first), Some(last)) = bounds else {
                return Err(format!("{}: not first,last: {line}", file.display()).into());
            };
            push_networks(first.parse()?, last.parse()?, &mut networks);
        }
    }
    if files.is_empty() {
        for number in 0..400_000_u32 {
            networks.push((IpAddr::V4((number << 12 | 0x100_0000).into()), 20));
            let bits = (0x2001 << 112) + (u128::from(number) << 84);
            networks.push((IpAddr::V6(bits.into()), 44));
        }
    }
    let count = networks.len() as u64;
    for _ in 0..NESTED_COUNT {
        let (address, len) = networks[random.below(count) as usize];
        let bits = if address.is_ipv4() { 32 } else { 64 };
        let deeper = len + 1 + random.below(4) as u8;
        if deeper <= bits {
            networks.push((address, deeper));
        }
    }
    let text = |(address, len)| format!("{address}/{len}");
    Ok(networks.into_iter().map(text).collect())
}

/// The largest networks that a range consists of.
fn push_networks(first: IpAddr, last: IpAddr, networks: &mut Vec<(IpAddr, u8)>) {
    let (bits, first, last) = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            (32, u128::from(first.to_bits()), u128::from(last.to_bits()))
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => (128, first.to_bits(), last.to_bits()),
        _ => return,
    };
    let mut at = first;
    loop {
        let mut host_bits = at.trailing_zeros().min(bits);
        while host_bits > 0 && (at | !(u128::MAX << (host_bits - 1) << 1)) > last {
            host_bits -= 1;
        }
        let address = match bits {
            32 => IpAddr::V4((at as u32).into()),
            _ => IpAddr::V6(at.into()),
        };
        networks.push((address, (bits - host_bits) as u8));
        match (at | !(u128::MAX << host_bits)).checked_add(1) {
            Some(next) if next <= last && host_bits < 128 => at = next,
            _ => return,
        }
    }
}

/// A random address: of IPv6, one within a network, as nearly all others are in none.
fn address(case: Case, networks: &[String], random: &mut Random) -> Value {
    if case == Case::Ip4 {
        return Value::Ip(random.address().into());
    }
    loop {
        let network = pick(networks, random);
        let (address, _) = network.split_once('/').expect("written by this program");
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            let address = address.to_bits() | u128::from(random.below(u64::MAX));
            return Value::Ip(Ipv6Addr::from(address).into());
        }
    }
}

fn lookaside(arguments: &ContainsArguments, case: Case, data: &Data) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    write_table(folder.path(), &data.values)?;
    lookups(arguments, case, data, folder.path(), case.sql())
}

/// The same networks as ranges, which are the rows of a table of a MaxMind database.
fn lookaside_mmdb(
    arguments: &ContainsArguments,
    case: Case,
    data: &Data,
    file: &Path,
) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let config = format!(
        "version = 2\n[cache]\nenabled = false\n[[tables]]\nname = \"t\"\nmmdb = {:?}\n\
         columns.by_path = {{ row = \"row\" }}\n",
        fs::canonicalize(file)?
    );
    fs::write(folder.path().join("knowdb.toml"), config)?;
    let sql = "select row from t where ip_key(:key) between first and last";
    let mut measured = lookups(arguments, case, data, folder.path(), sql)?;
    measured.engine.push_str(", table of an MMDB");
    Ok(measured)
}

fn lookups(
    arguments: &ContainsArguments,
    case: Case,
    data: &Data,
    folder: &Path,
    sql: &str,
) -> Result<Measured> {
    let knowledge = Knowledge::open(folder)?;
    let statement = knowledge.prepare(sql)?;
    let explanation = knowledge.explain(sql)?;
    let mut session = knowledge.session();
    let mut measured = measured(arguments, case, data, |key| {
        let row = find(&mut session, &statement, key)?;
        // The others only tell whether there is one.
        Ok(row.map(|row| if case == Case::Lists { 1 } else { row }))
    })?;
    measured.engine = format!("lookaside {}", env!("CARGO_PKG_VERSION"));
    measured
        .notes
        .push(("plan", explanation.kind.name().to_owned()));
    let size = explanation.index_size as f64 / 1_048_576.0;
    measured.notes.push(("index MiB", format!("{size:.1}")));
    Ok(measured)
}

fn find(session: &mut Session, statement: &Statement, key: &Value) -> Result<Option<i64>> {
    let row = session.first(statement, std::slice::from_ref(key))?;
    Ok(row.and_then(|row| row[0].as_int()))
}

fn write_table(folder: &Path, values: &[String]) -> Result<()> {
    fs::create_dir(folder.join("t"))?;
    fs::write(
        folder.join("knowdb.toml"),
        "version = 2\n[cache]\nenabled = false\n[[tables]]\nname = \"t\"\n",
    )?;
    fs::write(
        folder.join("t/create.sql"),
        "create table {table} (k text, row integer);",
    )?;
    fs::write(
        folder.join("t/insert.sql"),
        "insert into {table} values (?1, ?2);",
    )?;
    let mut text = String::from("k,row\n");
    for (row, value) in values.iter().enumerate() {
        _ = writeln!(text, "\"{value}\",{row}");
    }
    fs::write(folder.join("t/data.csv"), text)?;
    Ok(())
}

/// A hash map that is probed with each suffix of a name, the longest first.
fn hash_per_label(arguments: &ContainsArguments, case: Case, data: &Data) -> Result<Measured> {
    // The first of equal names is the one that the lookup returns.
    let mut rows: HashMap<&str, i64> = HashMap::new();
    for (row, value) in data.values.iter().enumerate() {
        rows.entry(value).or_insert(row as i64);
    }
    let find = |key: &Value| {
        let mut rest = key.as_str()?;
        loop {
            if let Some(row) = rows.get(rest) {
                return Some(*row);
            }
            rest = rest.split_once('.')?.1;
        }
    };
    rival(arguments, case, data, "HashMap for each label", find)
}

fn mmdb(arguments: &ContainsArguments, case: Case, data: &Data, file: &Path) -> Result<Measured> {
    let reader = maxminddb::Reader::open_readfile(file)?;
    let find = |key: &Value| {
        let Value::Ip(ip) = key else { return None };
        let path = [maxminddb::PathElement::Key("row")];
        let row: Option<u32> = reader.lookup(*ip).ok()?.decode_path(&path).ok()?;
        row.map(i64::from)
    };
    rival(arguments, case, data, "maxminddb 0.32", find)
}

fn regex_set(arguments: &ContainsArguments, case: Case, data: &Data) -> Result<Measured> {
    let set = regex::RegexSetBuilder::new(&data.values)
        .size_limit(1 << 30)
        .dfa_size_limit(256 << 20)
        .build()?;
    let find = |key: &Value| first_match(&set, key.as_str()?);
    rival(
        arguments,
        case,
        data,
        "RegexSet of regex 1.13, DFA of up to 256 MiB",
        find,
    )
}

fn first_match(set: &RegexSet, line: &str) -> Option<i64> {
    set.matches(line).iter().next().map(|row| row as i64)
}

fn rival(
    arguments: &ContainsArguments,
    case: Case,
    data: &Data,
    engine: &str,
    find: impl Fn(&Value) -> Option<i64>,
) -> Result<Measured> {
    let mut measured = measured(arguments, case, data, |key| Ok(find(key)))?;
    engine.clone_into(&mut measured.engine);
    Ok(measured)
}

/// Looks up all keys once for the hash, and then in turn.
fn measured(
    arguments: &ContainsArguments,
    case: Case,
    data: &Data,
    mut find: impl FnMut(&Value) -> Result<Option<i64>>,
) -> Result<Measured> {
    let mut hash = AnswerHash::new();
    for key in &data.keys {
        let row = find(key)?;
        hash.add(row.map_or(String::new(), |row| row.to_string()).as_bytes());
    }
    let mut next = 0;
    let (ops, cpu, wall) = measure(arguments.rounds, || -> Result<u64> {
        for _ in 0..BLOCK {
            black_box(find(&data.keys[next])?);
            next = (next + 1) % data.keys.len();
        }
        Ok(BLOCK as u64)
    })?;
    Ok(Measured {
        engine: String::new(),
        bench: "contains",
        case: case.name(),
        ops,
        cpu_ns_per_op: cpu,
        wall_ns_per_op: wall,
        hash: hash.text(),
        notes: vec![("rows", data.values.len().to_string())],
    })
}
