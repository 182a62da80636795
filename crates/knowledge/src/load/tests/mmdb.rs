//! Tables of MaxMind databases.

mod writer;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use lookaside_testing::mutations_never_panic;

use self::writer::{Item, Target, Writer};
use super::super::document::Document;
use super::super::mmdb::Networks;
use super::*;
use crate::config::TableConfig;
use crate::functions::ip_key_of_ip;

const NAME: &str = "[[tables]]\nname = 't'\nmmdb = 'geo.mmdb'\n";

fn place(country: &'static str, city: &'static str) -> Item {
    Item::Map(vec![
        (
            "country",
            Item::Map(vec![("iso_code", Item::Text(country))]),
        ),
        ("city", Item::Map(vec![("en", Item::Text(city))])),
    ])
}

fn folder(columns: &str, database: &Writer) -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.write("knowdb.toml", format!("version = 2\n{NAME}{columns}"));
    folder.write("t/geo.mmdb", database.bytes());
    folder
}

/// The rows of a database: addresses instead of keys, then the columns.
fn select(folder: &Folder) -> Vec<String> {
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let table = &config.tables[0];
    let mut networks = Networks::open(table, &table.data_file).unwrap();
    let mut rows = Vec::new();
    while networks.next().unwrap() {
        let place = networks.place();
        let (_, range) = place.split_once("geo.mmdb: ").unwrap();
        let values = (2..networks.names().len()).map(|index| match networks.value(index) {
            rusqlite::types::ValueRef::Null => "NULL".to_owned(),
            rusqlite::types::ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => format!("{other:?}"),
        });
        let values: Vec<String> = values.collect();
        rows.push(format!("{range}: {}", values.join(" ")));
    }
    rows
}

fn city_database() -> Writer {
    let mut database = Writer::new(6, 28);
    database.network("1.0.0.0/25", &place("AU", "Sydney"));
    database.network("1.0.0.128/25", &place("AU", "Perth"));
    database.network("1.0.1.0/24", &place("AU", "Perth"));
    database.network("9.0.0.0/8", &place("US", "Armonk"));
    database.network("2001:db8::/33", &place("DE", "Köln"));
    database
}

#[test]
fn neighbours_with_equal_values_are_one_row() {
    let country = "columns.by_path = { country = 'country.iso_code' }";
    assert_eq!(
        select(&folder(country, &city_database())),
        [
            "1.0.0.0 to 1.0.1.255: AU",
            "9.0.0.0 to 9.255.255.255: US",
            "2001:db8:: to 2001:db8:7fff:ffff:ffff:ffff:ffff:ffff: DE",
        ]
    );
    let both = "columns.by_path = { city = 'city.en', country = ['country', 'iso_code'] }";
    assert_eq!(
        select(&folder(both, &city_database())),
        [
            "1.0.0.0 to 1.0.0.127: Sydney AU",
            "1.0.0.128 to 1.0.1.255: Perth AU",
            "9.0.0.0 to 9.255.255.255: Armonk US",
            "2001:db8:: to 2001:db8:7fff:ffff:ffff:ffff:ffff:ffff: Köln DE",
        ]
    );
    let network = "columns.by_path = { country = 'country.iso_code', net = '@network' }";
    assert_eq!(
        select(&folder(network, &city_database())),
        [
            "1.0.0.0 to 1.0.0.127: AU 1.0.0.0/25",
            "1.0.0.128 to 1.0.0.255: AU 1.0.0.128/25",
            "1.0.1.0 to 1.0.1.255: AU 1.0.1.0/24",
            "9.0.0.0 to 9.255.255.255: US 9.0.0.0/8",
            "2001:db8:: to 2001:db8:7fff:ffff:ffff:ffff:ffff:ffff: DE 2001:db8::/33",
        ]
    );
}

#[test]
fn the_table_is_looked_up_by_key() {
    let folder = folder(
        "columns.by_path = { country = 'country.iso_code' }",
        &city_database(),
    );
    let (store, report) = folder.load().unwrap();
    assert_eq!(
        (report.tables[0].rows, report.tables[0].warnings.len()),
        (3, 0)
    );
    for (address, expected) in [
        ("1.0.1.255", "\"AU\""),
        ("1.0.2.0", ""),
        ("2001:db8::1", "\"DE\""),
        ("2001:db8:8000::", ""),
    ] {
        let sql = format!("select country from t where ip_key('{address}') between first and last");
        assert_eq!(rows(&store, &sql), expected, "{address}");
    }
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let sql = table_sql(&config, &config.tables[0]).unwrap();
    assert_eq!(
        sql.create.text,
        "create table \"t\" (\n  \"first\" BLOB, -- a key: ip_key(:ip) between first and last\n  \
         \"last\" BLOB, -- a key: ip_key(:ip) between first and last\n  \"country\" TEXT\n);\n"
    );
    // With its own SQL, the bounds are ?1 and ?2.
    folder.write("t/create.sql", "create table {table} (a, b, c)");
    folder.write(
        "t/insert.sql",
        "insert into {table} values (hex(?1), ?3, ?2)",
    );
    assert_eq!(
        folder.select("select a, b from t limit 1"),
        "\"00000000000000000000FFFF01000000\",\"AU\""
    );
}

#[test]
fn values_keep_their_types() {
    let record = Item::Map(vec![
        ("text", Item::Text("é\"")),
        ("double", Item::Double(-1.5)),
        ("bytes", Item::Bytes(b"\x01\xff")),
        ("uint16", Item::Uint16(7)),
        ("uint32", Item::Uint32(u32::MAX)),
        ("int32", Item::Int32(-7)),
        ("uint64", Item::Uint64(u64::MAX)),
        ("small", Item::Uint64(5)),
        ("uint128", Item::Uint128(1 << 100)),
        ("bool", Item::Bool(true)),
        ("float", Item::Float(0.5)),
        (
            "list",
            Item::Array(vec![
                Item::Map(vec![("k", Item::Text("v\n"))]),
                Item::Bool(false),
                Item::Double(f64::NAN),
                Item::Uint128(1 << 70),
            ]),
        ),
        ("a.b", Item::Uint16(1)),
        ("0", Item::Uint16(2)),
    ]);
    let mut database = Writer::new(4, 24);
    database.network("10.0.0.0/8", &record);
    let folder = folder(
        "[tables.columns.by_path]\ntext = 'text'\ndouble = 'double'\nbytes = 'bytes'\n\
         uint16 = 'uint16'\nuint32 = 'uint32'\nint32 = 'int32'\nuint64 = 'uint64'\n\
         small = 'small'\nuint128 = 'uint128'\nbool = 'bool'\nfloat = 'float'\nlist = 'list'\n\
         item = 'list.0.k'\ndotted = ['a.b']\ndigit = '0'\n",
        &database,
    );
    assert_eq!(
        folder.select(
            "select text, double, bytes, uint16, uint32, int32, uint64, small, uint128, bool, \
             float, list, item, dotted, digit from t"
        ),
        "\"é\\\"\",-1.5,[1, 255],7,4294967295,-7,\"18446744073709551615\",5,\
         \"1267650600228229401496703205376\",1,0.5,\
         \"[{\\\"k\\\":\\\"v\\\\n\\\"},false,null,1180591620717411303424]\",\"v\\n\",1,2"
    );
}

#[test]
fn a_path_that_leads_elsewhere_is_null_and_types_may_change() {
    let mut database = Writer::new(4, 32);
    let value = |value| Item::Map(vec![("v", value)]);
    database.network("1.0.0.0/8", &value(Item::Uint32(1)));
    database.network("3.0.0.0/8", &value(Item::Text("x")));
    database.network(
        "5.0.0.0/8",
        &value(Item::Map(vec![("k", Item::Double(0.25))])),
    );
    database.network("7.0.0.0/8", &Item::Text("not a map"));
    let folder = folder(
        "columns.by_path = { v = 'v', k = 'v.k', none = 'v.x.y' }",
        &database,
    );
    let (store, report) = folder.load().unwrap();
    assert_eq!(
        rows(&store, "select v, k, none from t"),
        r#""1",NULL,NULL "x",NULL,NULL "{\"k\":0.25}",0.25,NULL NULL,NULL,NULL"#
    );
    let warnings = report.tables[0].warnings.join("\n");
    let path = folder.0.path().join("t/geo.mmdb");
    assert_eq!(
        warnings.replace(path.to_str().unwrap(), "FILE"),
        "column \"v\" is text, as its values have several types: FILE: 3.0.0.0 to 3.255.255.255 \
         has text, FILE: 1.0.0.0 to 1.255.255.255 has a number; its numbers become text\n\
         column \"none\" is NULL in each row: no record has a value at the path v.x.y; the first \
         record has: v"
    );
}

#[test]
fn bad_columns_and_files_are_refused() {
    let said = |columns: &str, bytes: &[u8]| {
        let folder = folder(columns, &city_database());
        folder.write("t/geo.mmdb", bytes);
        folder.select("select * from t")
    };
    let good = city_database().bytes();
    let by_path = "columns.by_path = { c = 'country.iso_code' }";
    for (columns, bytes, expected) in [
        (
            "",
            &good[..],
            "Config: t/geo.mmdb: table \"t\" has no columns; write for example columns.by_path = { \
             country = \"country.iso_code\" }; the first record has the paths: country.iso_code, \
             city.en",
        ),
        (
            by_path,
            b"a,b\n",
            "Data: t/geo.mmdb: is not a complete MaxMind database; download it again > invalid \
             database: could not find MaxMind DB metadata in file",
        ),
        (
            by_path,
            &good[..good.len() / 2],
            "Data: t/geo.mmdb: is not a complete MaxMind database; download it again > invalid \
             database: could not find MaxMind DB metadata in file",
        ),
    ] {
        assert_eq!(said(columns, bytes), expected, "{columns}");
    }
    for (columns, expected) in [
        (
            "columns.by_header = ['a']",
            "columns.by_header does not apply to a MaxMind database; use by_path",
        ),
        (
            "columns.by_path = { a = '' }",
            "by_path.a must be a path such as \"country.iso_code\", or a list of its parts",
        ),
        (
            "columns.by_path = { a = 'x..y' }",
            "by_path.a must be a path such as \"country.iso_code\", or a list of its parts",
        ),
        (
            "columns.by_path = { a = [] }",
            "by_path.a must be a path such as \"country.iso_code\", or a list of its parts",
        ),
        (
            "columns.by_path = { a = 1 }",
            "by_path.a must be a string, not 1",
        ),
        (
            "columns.by_path = { FIRST = 'x' }",
            "by_path.FIRST must be a name that no other column has",
        ),
        (
            "columns.by_path = { a = 'x', A = 'y' }",
            "by_path.A must be a name that no other column has",
        ),
        (
            "csv.delimiter = ';'",
            "tables.csv does not apply, as the rows are not CSV; remove it",
        ),
        (
            "data_file = 'x.csv'",
            "tables.mmdb is set together with data_file; keep one of them",
        ),
    ] {
        let said = said(columns, &good);
        assert!(said.starts_with("Config: knowdb.toml:"), "{said}");
        assert!(said.ends_with(expected), "{said}");
    }
    // A CSV file has no paths.
    let folder = Folder::new(
        "[[tables]]\nname = 't'\ncolumns.by_path = { a = 'a' }",
        "a,b\n",
    );
    assert_eq!(
        folder.select("select * from t"),
        "Config: knowdb.toml:4: columns.by_path does not apply to CSV; use by_header or by_index"
    );
}

#[test]
fn compressed_databases_are_decompressed() {
    let folder = folder(
        "columns.by_path = { c = 'country.iso_code' }",
        &city_database(),
    );
    folder.write(
        "knowdb.toml",
        format!(
            "version = 2\n{}columns.by_path = {{ c = 'country.iso_code' }}",
            NAME.replace("geo.mmdb", "geo.mmdb.zst")
        ),
    );
    let packed = zstd::encode_all(&city_database().bytes()[..], 1).unwrap();
    folder.write("t/geo.mmdb.zst", &packed);
    assert_eq!(folder.select("select c from t limit 1"), "\"AU\"");
    folder.write("t/geo.mmdb.zst", &packed[..packed.len() / 2]);
    let said = folder.select("select c from t limit 1");
    assert!(
        said.starts_with("Data: t/geo.mmdb.zst: cannot be read to its end > "),
        "{said}"
    );
}

#[test]
fn damaged_trees_end_with_an_error() {
    let check = |database: &Writer, expected: &str| {
        let said = folder("columns.by_path = { a = 'a' }", database).select("select * from t");
        assert_eq!(
            said,
            format!("Data: t/geo.mmdb: the database is damaged: {expected}; download it again")
        );
    };
    let mut circle = Writer::new(4, 24);
    circle.nodes = vec![[Target::Node(1), Target::Nothing], [Target::Node(0); 2]];
    check(&circle, "its search tree is deeper than an address is long");
    circle.ip_version = 6;
    check(&circle, "its search tree has a circle");
    // Each node has its successor twice, so that there are 2^100 networks.
    for ip_version in [4, 6] {
        let mut shared = Writer::new(ip_version, 24);
        let end = if ip_version == 4 { 31 } else { 127 };
        let data = shared.record(&Item::Text("x"));
        shared.nodes = (1..=end).map(|next| [Target::Node(next); 2]).collect();
        shared.nodes.push([data; 2]);
        if ip_version == 6 {
            // Not on the path to IPv4, whose copies are aliases.
            shared.nodes[0][0] = Target::Nothing;
        }
        check(&shared, "its search tree reaches the same nodes too often");
    }
    // The record of a network is beyond the end of the data.
    let mut beyond = Writer::new(4, 24);
    beyond.insert(10 << 24, 8, Target::Data(1000));
    let said = folder("columns.by_path = { a = 'a' }", &beyond).select("select * from t");
    assert!(
        said.starts_with(
            "Data: t/geo.mmdb: the record of 10.0.0.0/8 is damaged; download the database again > "
        ),
        "{said}"
    );
}

/// A database of random networks, with records that differ in a number, and its aliases.
fn random_database(random: &mut Rng) -> (Writer, Vec<(u128, u32)>) {
    let ip_version = *random.choice(&[4, 6, 6, 6]).unwrap();
    let mut database = Writer::new(ip_version, *random.choice(&[24, 28, 32]).unwrap());
    for _ in 0..random.usize(0..30) {
        let record = Item::Map(vec![("n", Item::Uint16(random.u16(0..6)))]);
        let target = match random.u8(0..8) {
            0 => Target::Nothing,
            _ => database.record(&record),
        };
        let (bits, bit_count) = match ip_version {
            4 => (u128::from(random.u32(..)), 32),
            _ => (random.u128(..), 128),
        };
        let (address, length) = match (ip_version, random.u8(0..10)) {
            (4, _) => (bits, random.u32(1..33)),
            // IPv4 addresses, and the networks around them and around their keys.
            (_, 0..4) => (bits & 0xffff_ffff, random.u32(97..129)),
            (_, 4) => (bits & 0xffff_ffff, random.u32(70..97)),
            (_, 5) => (bits & 0xffff_ffff | 0xffff_0000_0000, random.u32(70..129)),
            (_, 6) => (bits & 0xffff_ffff_ffff, random.u32(80..129)),
            _ => (bits, random.u32(1..129)),
        };
        let address = address & (u128::MAX << (bit_count - length));
        database.insert(address, length, target);
    }
    let mut aliases = Vec::new();
    if ip_version == 6 && random.bool() {
        aliases = vec![
            (0xffff_u128 << 32, 96),
            (0x2002 << 112, 16),
            (0x2001 << 112, 32),
        ];
        aliases.retain(|(address, length)| database.alias(*address, *length));
    }
    (database, aliases)
}

#[test]
fn every_address_has_the_answer_of_maxminddb() {
    let seed = std::env::var("LOOKASIDE_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_SEED is a number"),
    );
    let mut random = Rng::with_seed(seed);
    let (mut with_data, mut without) = (0, 0);
    for round in 0..400 {
        let (database, aliases) = random_database(&mut random);
        let network = if random.bool() {
            ", net = '@network'"
        } else {
            ""
        };
        let config = format!("version = 2\n{NAME}columns.by_path = {{ n = 'n'{network} }}");
        let (config, bytes) = (config_of(&config), database.bytes());
        let table = &config.tables[0];
        let mut networks = Networks::read(table, &table.data_file, bytes.clone()).unwrap();
        let mut found: Vec<([u8; 16], [u8; 16], i64)> = Vec::new();
        while networks.next().unwrap() {
            let bound = |index| networks.value(index).as_blob().unwrap().try_into().unwrap();
            found.push((bound(0), bound(1), networks.value(2).as_i64().unwrap()));
        }
        let reader = maxminddb::Reader::from_source(bytes).unwrap();
        let mut addresses: Vec<IpAddr> = Vec::new();
        for (first, last, _) in &found {
            for key in [first, last].map(|key| u128::from_be_bytes(*key)) {
                let keys = [key.wrapping_sub(1), key, key.wrapping_add(1)];
                addresses.extend(keys.map(|key| Ipv6Addr::from_bits(key).to_canonical()));
            }
        }
        addresses.extend((0..20).map(|_| IpAddr::from(Ipv4Addr::from_bits(random.u32(..)))));
        addresses.extend((0..20).map(|_| IpAddr::from(Ipv6Addr::from_bits(random.u128(..)))));
        for address in addresses {
            let key = ip_key_of_ip(address);
            let ours: Vec<i64> = found
                .iter()
                .filter(|(first, last, _)| *first <= key && key <= *last)
                .map(|(.., value)| *value)
                .collect();
            let theirs = match address {
                IpAddr::V6(_) if database.ip_version == 4 => None,
                // Where an IPv6 tree has IPv4 networks, and their aliases.
                IpAddr::V6(ip) if ip.to_bits() >> 32 == 0 => continue,
                IpAddr::V6(ip)
                    if aliases
                        .iter()
                        .any(|(alias, length)| (ip.to_bits() ^ alias) >> (128 - length) == 0) =>
                {
                    None
                }
                address => {
                    let answer = reader.lookup(address).unwrap();
                    let record = answer.decode::<Document<'_>>().unwrap();
                    record.map(
                        |record| match record.at(&["n".to_owned()]).unwrap().to_sql() {
                            rusqlite::types::Value::Integer(int) => int,
                            other => panic!("{other:?}"),
                        },
                    )
                }
            };
            let expected: Vec<i64> = theirs.into_iter().collect();
            assert_eq!(ours, expected, "seed {seed}, round {round}, {address}");
            match expected.is_empty() {
                true => without += 1,
                false => with_data += 1,
            }
        }
    }
    assert!(with_data > 1000 && without > 1000, "{with_data}, {without}");
}

fn config_of(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("knowdb.toml"), text).unwrap();
    Config::open(folder.path(), &[]).unwrap()
}

#[test]
fn mutations_of_databases_hold() {
    let mut corpus = vec![city_database().bytes()];
    let mut random = Rng::with_seed(7);
    corpus.extend((0..10).map(|_| random_database(&mut random).0.bytes()));
    let words = [
        &b"\xab\xcd\xefMaxMind.com"[..],
        b"\xff\xff\xff\xff",
        b"\x20\x00",
        b"\xe1",
    ];
    mutations_never_panic(30_000, &corpus, &words, 1, mmdb_fuzz);
}

#[test]
fn damaged_databases_never_panic() {
    let config = config_of(&format!(
        "version = 2\n{NAME}columns.by_path = {{ a = 'country', b = 'city.en', n = '@network' }}"
    ));
    let table: &TableConfig = &config.tables[0];
    // Each truncation, and each byte with each bit changed.
    let whole = city_database().bytes();
    let read = |bytes: Vec<u8>| {
        let mut networks = Networks::read(table, &table.data_file, bytes)?;
        while networks.next()? {}
        Ok::<(), Error>(())
    };
    read(whole.clone()).unwrap();
    for size in 0..whole.len() {
        let _ = read(whole[..size].to_vec());
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[size] ^= 1 << bit;
            let _ = read(bytes);
        }
    }
}

#[test]
fn records_have_limits() {
    let nested = |depth| (1..depth).fold(Item::Array(vec![]), |item, _| Item::Array(vec![item]));
    let select = |value| {
        let mut database = Writer::new(4, 24);
        database.network("10.0.0.0/8", &Item::Map(vec![("a", value)]));
        folder("columns.by_path = { a = 'a' }", &database).select("select length(a) from t")
    };
    // The map is the first of the 64 levels.
    assert_eq!(select(nested(63)), "126");
    let damaged =
        "Data: t/geo.mmdb: the record of 10.0.0.0/8 is damaged; download the database again > ";
    for (value, expected) in [
        (nested(64), "maps and arrays are nested more than 64 deep"),
        (
            Item::Array(vec![Item::Bool(true); 65_536]),
            "exceeded maximum number of data structure values",
        ),
    ] {
        let said = select(value);
        assert!(
            said.starts_with(damaged) && said.contains(expected),
            "{said}"
        );
    }
}
