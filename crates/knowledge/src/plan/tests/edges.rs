//! Every edge value against every kind of column, and a table of the size and shape of the real one.

use fastrand::Rng;
use lookaside_value::Value;

use super::{Fixture, row_of};
use crate::plan::{PlanKind, Probe};

/// The SQL of each stored value; as parameters, the values are SQLite's results of it.
const EDGES: [&str; 32] = [
    "null",
    "0",
    "-0.0",
    "1",
    "1.0",
    "-1",
    "1.5",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
    "-9007199254740993",
    "9223372036854775807",
    "9223372036854775807.0",
    "(-9223372036854775807 - 1)",
    "-9223372036854775808.0",
    "9e999",
    "-9e999",
    "1e300",
    "''",
    "' '",
    "'1'",
    "' 1'",
    "'1 '",
    "'01'",
    "'1.0'",
    "'1e0'",
    "'-0'",
    "'9007199254740993'",
    "'a'",
    "x''",
    "x'31'",
];

const TYPES: [&str; 7] = ["", "blob", "text", "integer", "numeric", "real", "any"];

#[test]
fn edge_values_meet_every_kind_of_column() {
    for (index, declared) in TYPES.iter().enumerate() {
        for key in ["", "unique", "primary key", ", x, unique (k, x)"] {
            let mut script = format!("create table t(k {declared} {key});");
            for edge in EDGES {
                script.push_str(&format!("insert or ignore into t(k) values ({edge});"));
            }
            let name = format!("edges-{index}-{}", key.len());
            let fixture = Fixture::new(&name, "");
            for sql in script.split(';') {
                // A row id must be an integer; other values are refused.
                _ = fixture.connection.execute_batch(sql);
            }
            for sql in [
                "select k, rowid from t where k = :x",
                "select k from t where k <= :x and k >= :x",
                "select k from t where rowid = :x",
                "select k from t where :x between rowid and rowid",
            ] {
                let plan = fixture.plan(sql, &["x"]);
                for edge in EDGES {
                    let select = format!("select {edge}");
                    let rows = fixture.sqlite(&select, &[], &[], 1).unwrap();
                    fixture
                        .compare(&plan, sql, &["x"], &rows[0])
                        .unwrap_or_else(|difference| panic!("{declared} {key}: {difference}"));
                }
            }
        }
    }
}

#[test]
fn a_table_like_the_real_one() {
    const ROW_COUNT: u32 = 411_961;
    let fixture = Fixture::new(
        "asn",
        "create table asn(lo integer primary key, hi integer, org)",
    );
    let mut random = Rng::with_seed(1);
    let mut lo = 1 << 24;
    {
        let sql = "insert into asn values (?1, ?2, ?3)";
        let transaction = fixture.connection.unchecked_transaction().unwrap();
        let mut insert = transaction.prepare(sql).unwrap();
        for row in 0..ROW_COUNT {
            let size = 256_u64 << random.u32(0..5);
            // Some ranges have a gap after them, and one pair overlaps.
            let hi = lo + size - 1 - u64::from(random.bool()) + 9 * u64::from(row == 1000);
            let org = format!("AS-{} An Organisation With A Name", row % 84_159);
            insert.execute((lo as i64, hi as i64, org)).unwrap();
            lo += size;
        }
        drop(insert);
        transaction.commit().unwrap();
    }
    let all = "select hi, org from asn where lo <= :x and hi >= :x";
    let last = "select org from asn where :x between lo and hi order by lo desc limit 1";
    for sql in [all, last] {
        let plan = fixture.plan(sql, &["x"]);
        let explanation = plan.explain();
        assert_eq!(explanation.kind, PlanKind::Interval);
        assert_eq!(explanation.row_count, ROW_COUNT as usize);
        assert!(explanation.index_size < 16 << 20, "{explanation}");
        let mut found = 0;
        for _ in 0..2000 {
            let x = Value::Int(random.u64(..lo + lo / 8) as i64);
            if let Probe::Row(row) = plan.first(std::slice::from_ref(&x)) {
                found += 1;
                let sql = "select hi, org from asn where lo <= :x order by lo desc limit 1";
                let expected = fixture
                    .sqlite(sql, &["x"], std::slice::from_ref(&x), 1)
                    .unwrap();
                assert!(expected[0].ends_with(&row_of(&plan, row)), "{x:?}");
            }
        }
        assert!((1500..2000).contains(&found), "{found}");
    }
}
