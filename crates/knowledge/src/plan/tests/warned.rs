//! Statements that are answered and probably wrong, and how SQLite reads the tables of the others.

use lookaside_value::Value;

use super::Fixture;
use crate::plan::{Explanation, PlanKind, Probe, WarningKind, warnings};

const SCHEMA: &str = "
    create table geo(column_1 text, column_2 text, cc text);
    insert into geo values
        ('9.0.0.0', '9.255.255.255', 'US'), ('10.0.0.0', '10.255.255.255', 'LAN'),
        ('100.0.0.0', '100.255.255.255', 'FR'), ('n/a', '', null);
    create table geo6(lo text, hi text, cc text);
    insert into geo6 values ('10.0.0.0', '10.255.255.255', 'LAN'), ('2001:db8::', '2001:db8::ffff', 'DOC');
    create table untyped(lo, hi); insert into untyped values ('1.2.3.4', '1.2.3.9');
    create table words(lo text, hi text); insert into words values ('a', 'c'), ('1.2.3.4', 'z');
    create table nets(lo integer, hi integer, name text); insert into nets values (0, 9, 'all');
    create table keys(lo blob, hi blob);
    insert into keys values (ip_key('10.0.0.0'), ip_key('10.255.255.255'));
    create table svc(service text, owner text, id integer primary key);
    create index svc_owner on svc(owner);
    insert into svc values ('a', 'ann', 1), ('b', 'bob', 2);
    create view seen as select * from svc;
";

fn explain(sql: &str) -> Explanation {
    thread_local! {
        static FIXTURE: Fixture = Fixture::new("warned", SCHEMA);
    }
    FIXTURE.with(|fixture| {
        let mut explanation = fixture.plan(sql, &["x", "y", "ip"]).explain();
        explanation.look_at(sql, &fixture.tables);
        explanation
    })
}

/// Checks that SQLite answers a statement over addresses in text, with this advice.
#[track_caller]
fn check_address(sql: &str, help: &str) {
    let explanation = explain(sql);
    assert_eq!(explanation.kind, PlanKind::Sqlite, "{sql}");
    let warnings = &explanation.warnings;
    assert!(
        warnings.iter().any(|it| it.kind == WarningKind::AddressText
            && it.help.starts_with(&format!("write `{help}`"))),
        "{sql}: {warnings:?}"
    );
}

#[test]
fn ranges_of_addresses_in_text_are_refused_and_told() {
    let between = "ip4_between(:ip, column_1, column_2)";
    for condition in [
        "column_1 <= :ip and column_2 >= :ip",
        ":ip between column_1 and column_2",
        "column_2 >= (:ip) and :ip >= column_1",
        "column_1 <= ip4_int(:ip) and column_2 >= ip4_int(:ip)",
        "ip_key(:ip) between column_1 and column_2",
        "cc = :x and :ip between column_1 and column_2",
    ] {
        check_address(&format!("select cc from geo where {condition}"), between);
    }
    for (sql, help) in [
        (
            "select cc from geo where column_1 < :ip and column_2 >= :ip",
            "ip_key(column_1) < ip_key(:ip) and ip_key(column_2) >= ip_key(:ip)",
        ),
        (
            "select cc from geo where column_1 <= :ip order by column_1 desc limit 1",
            "ip_key(column_1) <= ip_key(:ip)",
        ),
        (
            "select cc from geo6 where lo <= :ip and hi >= :ip",
            "ip_key(lo) <= ip_key(:ip) and ip_key(hi) >= ip_key(:ip)",
        ),
        (
            "select cc from geo where column_1 <= '10.1.2.3' and column_2 >= '10.1.2.3'",
            "ip4_between('10.1.2.3', column_1, column_2)",
        ),
        (
            "select lo from untyped where :ip between lo and hi",
            "ip4_between(:ip, lo, hi)",
        ),
        (
            "select g.cc from svc s join geo g on s.service between g.column_1 and g.column_2",
            "ip4_between(s.service, g.column_1, g.column_2)",
        ),
        (
            "select (select cc from geo where :ip between column_1 and column_2)",
            between,
        ),
        (
            "with g as (select * from geo where :ip between column_1 and column_2) select * from g",
            between,
        ),
        (
            "select cc from geo where ip4_between(:ip, column_1, column_2) \
             order by column_1 desc limit 1",
            "order by ip4_int(column_1) desc",
        ),
    ] {
        check_address(sql, help);
    }
}

#[test]
fn issue_12_ranges_are_told_whatever_way_the_column_takes() {
    let range = ":ip between lo and hi";
    let between = "ip4_between(:ip, lo, hi)";
    let between_columns = "ip4_between(:ip, column_1, column_2)";
    let columns = "select column_1 as lo, column_2 as hi, cc from geo";
    for sql in [
        format!("with g as ({columns}) select cc from g where {range}"),
        format!("with f as ({columns}), g as (select * from f) select cc from g where {range}"),
        format!(
            "with g(lo, hi) as (select column_1, column_2 from geo) select 1 from g where {range}"
        ),
        format!("with g(lo, hi, cc) as (select * from geo) select cc from g where {range}"),
        format!("with g(a, lo, hi) as (select 1, x.* from geo x) select 1 from g where {range}"),
        format!(
            "with g as ({columns} union all select lo, hi, cc from geo6) select 1 from g where {range}"
        ),
        format!(
            "select cc from (select '0' lo, '0' hi, 'x' cc where 0 union all {columns}) where {range}"
        ),
        format!(
            "select cc from (select lo, hi, lo from words union select 1, 2, 3 union all select * from geo) where {range}"
        ),
        format!("select count(*) filter (where {range}) from ({columns})"),
        format!("select sum(1) over (order by {range}) from ({columns})"),
        format!("{columns} where {range}"),
        format!("select cc from ({columns}) where {range}"),
        format!("select cc from ({columns}) s where {range}"),
        format!("select s.cc from svc, (select g.* from ({columns}) g) s where {range}"),
        format!(
            "select cc from (select trim(column_1) lo, upper(column_2) hi, cc from geo) where {range}"
        ),
    ] {
        check_address(&sql, between);
    }
    for (condition, help) in [
        (
            ":ip between trim(column_1) and trim(column_2)",
            "ip4_between(:ip, trim(column_1), trim(column_2))",
        ),
        (
            "lower(column_1) <= :ip and coalesce(column_2, '') >= :ip",
            "ip4_between(:ip, lower(column_1), coalesce(column_2, ''))",
        ),
        (
            "cast(column_1 as text) <= :ip",
            "ip_key(cast(column_1 as text)) <= ip_key(:ip)",
        ),
        (
            "column_1 || '' <= :ip",
            "ip_key(column_1 || '') <= ip_key(:ip)",
        ),
        (
            "+column_1 <= :ip and +column_2 >= :ip",
            "ip4_between(:ip, +column_1, +column_2)",
        ),
        (
            "nullif(column_1, '') <= :ip and replace(column_2, ' ', '') >= :ip",
            "ip4_between(:ip, nullif(column_1, ''), replace(column_2, ' ', ''))",
        ),
        (
            "substr(column_1, 1) <= :ip",
            "ip_key(substr(column_1, 1)) <= ip_key(:ip)",
        ),
        (
            "printf('%s', column_1) <= :ip and concat('', column_2) >= :ip",
            "ip4_between(:ip, printf('%s', column_1), concat('', column_2))",
        ),
        (
            "iif(1, column_1, '') <= :ip and case when 1 then column_2 end >= :ip",
            "ip4_between(:ip, iif(1, column_1, ''), case when 1 then column_2 end)",
        ),
        (
            "(select column_1) <= :ip and max('', column_2) >= :ip",
            "ip4_between(:ip, (select column_1), max('', column_2))",
        ),
        (
            "ip4_text(ip4_int(column_1)) <= :ip",
            "ip_key(ip4_text(ip4_int(column_1))) <= ip_key(:ip)",
        ),
        (
            "1 = 1 group by cc having min(column_1) <= :ip and max(column_2) >= :ip",
            "ip4_between(:ip, min(column_1), max(column_2))",
        ),
        (
            "1 = 1 order by column_1 <= :ip and column_2 >= :ip desc limit 1",
            between_columns,
        ),
        (
            "cc isnull and :ip between column_1 and column_2",
            between_columns,
        ),
        (
            "cc is :x and :ip between column_1 and column_2",
            between_columns,
        ),
        (
            "length(cc) << 1 >= 0 and :ip between column_1 and column_2",
            between_columns,
        ),
        (
            "(column_1, :ip) <= (:ip, column_2)",
            "ip4_between(:ip, column_1, column_2)",
        ),
        (
            "(:ip, :x) between (column_1, column_2) and (column_2, column_1)",
            "ip4_between(:ip, column_1, column_2)",
        ),
    ] {
        let sql = format!("select cc from geo where {condition}");
        let explanation = explain(&sql);
        let found = explanation.warnings.iter().any(|it| {
            let start = format!("write `{help}");
            it.help.to_lowercase().starts_with(&start.to_lowercase())
        });
        assert!(found, "{sql}: {:?}", explanation.warnings);
    }
    for sql in [
        "with g as (select ip_key(column_1) lo, ip_key(column_2) hi from geo) \
         select 1 from g where ip_key(:ip) between lo and hi"
            .to_owned(),
        format!("with recursive g as (select * from g) select 1 from g where {range}"),
        "with geo as (select 'a' column_1, 'b' column_2) select 1 from geo where :ip between column_1 and column_2".to_owned(),
        format!("select 1 from (select length(column_1) lo, length(column_2) hi from geo) where {range}"),
        format!("select 1 from (select 'a' lo, 'b' hi union all select cc, cc from geo) where {range}"),
        "select cc from geo where substr(column_1, 1, 2) <= :x".to_owned(),
    ] {
        assert_eq!(explain(&sql).warnings, [], "{sql}");
    }
}

/// A statement with more paths through its queries than can be searched.
#[test]
fn issue_12_queries_that_name_each_other_many_times_are_looked_at_in_time() {
    let mut sql = "with g0 as (select * from words)".to_owned();
    for index in 1..60 {
        let last = index - 1;
        sql += &format!(", g{index} as (select * from g{last} a, g{last} b)");
    }
    sql += " select 1 from g59 where missing <= :ip";
    let mut deep = "with g0 as (select * from words)".to_owned();
    for index in 1..1500 {
        deep += &format!(",g{index} as (select * from g{})", index - 1);
    }
    deep += " select 1 from g1499 where lo <= :ip";
    let fixture = Fixture::new("many_ways", SCHEMA);
    for sql in [sql, deep] {
        let warnings = fixture.tables.with(|tables| warnings::local(&sql, tables));
        assert_eq!(warnings, []);
    }
}

#[test]
fn issue_12_a_statement_that_cannot_be_analyzed_is_told() {
    let long = format!("select 1 /* {} */", "x".repeat(64 * 1024));
    let deep = format!("select {}1{}", "(".repeat(200), ")".repeat(200));
    for (sql, reason) in [
        (
            "select cc from geo not indexed where column_1 <= :ip",
            "Expected: end of statement, found: indexed at Line: 1, Column: 24",
        ),
        (
            "select x.cc from (geo) x where x.column_1 <= :ip",
            "Expected",
        ),
        (&long, "it is longer than 65536 bytes"),
        (&deep, "it is nested too deeply"),
    ] {
        let fixture = Fixture::new("not_analyzed", SCHEMA);
        let local = fixture.tables.with(|tables| warnings::local(sql, tables));
        let provider = warnings::of_provider(sql, crate::scan::Dialect::Sqlite);
        assert_eq!(provider, [], "a server's syntax is its own");
        let [warning] = local.as_slice() else {
            panic!("{sql}: {local:?}");
        };
        assert_eq!(warning.kind, WarningKind::NotAnalyzed);
        let message = format!(
            "this statement could not be analyzed, so mistakes in it are not found: {reason}"
        );
        assert!(warning.message.starts_with(&message), "{warning:?}");
    }
}

/// SQLite syntax that statements use in practice.
#[test]
fn issue_12_usual_statements_are_analyzed() {
    for sql in [
        "select owner from svc where id is :x and owner is not :y and service notnull",
        "select owner from svc where id is null or owner is not null or id is true",
        "select owner from svc where id is not distinct from :x and (id isnull) = 0",
        "select owner from svc where id = ?1 or id = $x or id = @x or id = ?",
        "select [owner], `id`, \"service\" from main.svc limit 1, 2",
        "select id & 255, ~id, id >> 8, id << 1, id % 2, -id from svc where id == :x and id <> 2",
        "select j.value ->> '$.a', '[1]' -> 0 from svc, json_each(:x) as j where id in ()",
        "select owner from svc where service glob 'a*' and owner like 'a%' escape '!'",
        "values (1, 2), (3, 4)",
        "select cast(id as text) || x'00' from svc natural join nets left join geo using (cc)",
        "select id, row_number() over (partition by owner order by id desc nulls last) from svc",
        "with recursive n(x) as (values (1) union all select x + 1 from n where x < 5) select x from n",
        "select distinct owner, count(*) from svc group by 1 having count(*) > 1 order by 2 desc",
        "select substr(owner, 1, instr(owner, '@') - 1), trim(owner, 'x') from svc;",
        "select owner from svc where service = :x collate nocase intersect select 'a' except select 'b'",
        "select group_concat(owner, ',') from (select owner from svc order by id) where exists (select 1)",
        "select case id when 1 then 'a' else 'b' end, datetime('now'), 1e3, 0x1f from svc -- end",
    ] {
        let fixture = Fixture::new("usual", SCHEMA);
        let found = fixture.tables.with(|tables| warnings::local(sql, tables));
        assert_eq!(found, [], "{sql}");
    }
}

#[test]
fn other_ranges_are_not_warned_of() {
    for sql in [
        "select cc from geo where ip4_between(:ip, column_1, column_2)",
        "select cc from geo where ip_key(column_1) <= ip_key(:ip) and ip_key(column_2) >= ip_key(:ip)",
        "select cc from geo where column_1 = :ip",
        "select cc from geo where column_1 >= '10.' and column_1 < '10/'",
        "select cc from geo where cc between :x and :y",
        "select lo from words where lo <= :x and hi >= :x",
        "select name from nets where :x between lo and hi",
        "select lo from keys where ip_key(:ip) between lo and hi",
        "select cc from geo order by column_1",
    ] {
        assert_eq!(explain(sql).warnings, [], "{sql}");
    }
}

/// Why such ranges are wrong: `10.9.0.1` as text is above `10.255.255.255`.
#[test]
fn text_does_not_sort_as_addresses_do() {
    let fixture = Fixture::new("sorted", SCHEMA);
    let sql = "select cc from geo where column_1 <= :ip and column_2 >= :ip";
    let plan = fixture.plan(sql, &["ip"]);
    let ip = [Value::from("10.9.0.1")];
    assert_eq!(plan.first(&ip), Probe::Fallback);
    assert!(fixture.sqlite(sql, &["ip"], &ip, 1).unwrap().is_empty());
    let right = "select cc from geo where ip4_between(:ip, column_1, column_2)";
    assert_eq!(
        fixture.sqlite(right, &["ip"], &ip, 1).unwrap()[0][0],
        "LAN".into()
    );
}

#[test]
fn a_column_that_is_compared_with_itself_is_told() {
    for (sql, column) in [
        ("select owner from svc where service = service", "service"),
        ("select owner from svc where Service = (SERVICE)", "Service"),
        (
            "select owner from svc where svc.service = service",
            "svc.service",
        ),
        (
            "select owner from svc s where s.id >= s.id and owner = :x",
            "s.id",
        ),
        (
            "select owner from svc where owner = :x or service like service",
            "service",
        ),
        (
            "select owner from svc where service between service and :x",
            "service",
        ),
        (
            "select 1 where exists (select 1 from svc where id in (1, id))",
            "id",
        ),
        ("select a.id from svc a join svc b on a.id = a.id", "a.id"),
        (
            "select 1 from svc where owner is owner and id = :x",
            "owner",
        ),
        ("select 1 from svc where owner is not owner", "owner"),
        (
            "select 1 from svc where +owner = owner and id = :x",
            "+owner",
        ),
        (
            "select 1 from svc where trim(owner) = trim(OWNER) and id = :x",
            "trim(owner)",
        ),
        (
            "select 1 from svc where lower(owner || 'a') = lower(svc.owner || 'a')",
            "lower(owner || 'a')",
        ),
        (
            "select count(*) filter (where id = id) from svc where id = :x",
            "id",
        ),
        ("select 1 from svc order by id = id", "id"),
        ("select 1 from svc group by owner > owner", "owner"),
    ] {
        let warnings = explain(sql).warnings;
        let message = format!("`{column}` is compared with itself").to_lowercase();
        assert!(
            warnings
                .iter()
                .any(|it| it.kind == WarningKind::SelfComparison
                    && it.message.to_lowercase().starts_with(&message)),
            "{sql}: {warnings:?}"
        );
    }
    for sql in [
        "select a.id from svc a join svc b on a.id = b.id",
        "select id from svc where service = owner and 1 = 1",
        "select id from svc where service = :service",
        "select id from svc where service = 'service'",
        "select id from svc where lower(service) = service",
        "select a.id from svc a, svc b where a.id = id",
        "select id from svc where trim(service) = trim(owner)",
        "select id from svc where replace(service, 'A', '') = replace(service, 'a', '')",
        "select id from svc where trim(service, :x) = trim(service, :y)",
        "select id from svc where random() = random()",
    ] {
        assert_eq!(explain(sql).warnings, [], "{sql}");
    }
}

#[test]
fn reads_of_sqlite_are_told() {
    for (sql, expected) in [
        (
            "select id from svc where lower(service) = :x",
            "sqlite, full scan of svc, 2 rows",
        ),
        (
            "select count(*) from svc where owner = :x",
            "sqlite, index of svc (owner=?)",
        ),
        (
            "select count(*) from svc where id > :x",
            "sqlite, range of an index of svc (rowid>?)",
        ),
        (
            "select count(*) from seen where service = :x",
            "sqlite, full scan of svc, 2 rows",
        ),
        ("select :x + 1", "sqlite"),
        (
            "select owner from svc where service = :x",
            "hash index of svc(service)",
        ),
        (
            "select g.cc from svc s join nets n on n.lo = s.id, geo g where s.owner = :x",
            "sqlite, index of svc (owner=?), full scan of nets, 1 row, full scan of geo, 4 rows",
        ),
    ] {
        let explanation = explain(sql);
        let mut seen: Vec<String> = explanation
            .summary()
            .split(", ")
            .map(str::to_owned)
            .collect();
        let mut expected: Vec<String> = expected.split(", ").map(str::to_owned).collect();
        // SQLite chooses the order of joins.
        seen.sort();
        expected.sort();
        assert_eq!(seen, expected, "{sql}: {explanation}");
    }
    let scan = explain("select id from svc where lower(service) = :x");
    assert_eq!(scan.largest_scan().unwrap().row_count, 2);
    assert!(
        scan.to_string().ends_with("\n  full scan of svc, 2 rows"),
        "{scan}"
    );
}
