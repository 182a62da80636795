//! How results become rows.

use super::{count, database, open, query, reasons, url, write_all};

#[test]
fn values_arrive_with_the_types_of_their_columns() {
    let db = database();
    db.execute(
        "create type mood as enum ('good', 'bad');
         create domain tags as text[];
         create table t (
             id int primary key, \"Big Name\" bigint, n numeric, f float8, ok bool, s text,
             j jsonb, k json, at timestamptz, day date, u uuid, b bytea, m mood, a int[], w tags,
             js jsonb[], ip inet, made text default 'default', twice int generated always as (id * 2) stored)",
    )
    .unwrap();
    let mut sink = open(&url(&db, "table=t"));
    let long = "é😀".repeat(50_000);
    let long_row = format!("{{\"id\":3,\"s\":\"{long}\"}}");
    let refused = write_all(
        &mut *sink,
        [
            r#"{"id":1,"Big Name":9223372036854775807,"n":12345678901234567890.5,"f":1e-7,"ok":true,
                "s":"a\\b\tc\nd\re\u0001 \"é\" \\N \\.","j":{"a":[1,null,"x\ty\\"]},"k":"plain",
                "at":"2026-01-02T03:04:05.678901Z","day":"2026-01-02",
                "u":"6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b","b":"\\x00ff","m":"bad","a":[1,null,3],
                "w":["a b","c\"d","e\\f",null,"NULL",""],"js":[{"a":1},"x",null],"ip":"10.0.0.1",
                "made":null}"#,
            r#"{"id":2,"a":[[1,2],[3,4]],"s":{"nested":[1]},"j":"text","j":"last"}"#,
            &long_row,
        ],
    );
    assert_eq!(reasons(&refused), [""; 0]);
    let found = query(
        &db,
        "select id, \"Big Name\", n::text, f, ok, j->'a'->>2, k::text,
             at = '2026-01-02T03:04:05.678901Z', day::text, u::text, encode(b, 'hex'), m::text, a::text,
             w::text, js::text, host(ip), made, twice
         from t where id = 1",
    );
    let expected = "1|9223372036854775807|12345678901234567890.5|0.0000001|true|x\ty\\|\"plain\"|true|\
                    2026-01-02|6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b|00ff|bad|{1,NULL,3}|\
                    {\"a b\",\"c\\\"d\",\"e\\\\f\",NULL,\"NULL\",\"\"}|\
                    {\"{\\\"a\\\": 1}\",\"\\\"x\\\"\",NULL}|10.0.0.1|null|2";
    assert_eq!(found, [expected]);
    let text = query(&db, "select s from t where id = 1");
    assert_eq!(text, ["a\\b\tc\nd\re\u{1} \"é\" \\N \\."]);
    let second = query(
        &db,
        "select a::text, s, j::text, made, n from t where id = 2",
    );
    assert_eq!(
        second,
        [r#"{{1,2},{3,4}}|{"nested":[1]}|"last"|default|null"#]
    );
    assert_eq!(query(&db, "select s from t where id = 3"), [long]);
}

#[test]
fn results_that_are_not_rows_are_refused_with_the_reason() {
    let db = database();
    db.execute(
        "create table t (id int primary key, s varchar(3), j jsonb, n int not null default 0,
             g int generated always as identity);
         create function picky() returns trigger language plpgsql as
             $$ begin if new.n = 13 then raise exception 'not 13'; end if; return new; end $$;
         create trigger picky before insert on t for each row execute function picky()",
    )
    .unwrap();
    let mut sink = open(&url(&db, "table=t"));
    let cases = [
        ("[1]", "the result is not a JSON object"),
        ("{}", "the result has no column of public.t"),
        (
            r#"{"id":1,"x":1,"y":2}"#,
            "public.t has no column `x`, `y`; see the option `extra`",
        ),
        (r#"{"id":1,"g":1}"#, "the server generates the column `g`"),
        (
            r#"{"id":"one"}"#,
            "invalid input syntax for type integer: \"one\" (column id) [22P02]",
        ),
        (r#"{"id":3000000000}"#, "out of range"),
        (
            r#"{"id":2,"s":"long"}"#,
            "value too long for type character varying(3)",
        ),
        (r#"{"id":3,"s":"\u0000"}"#, "0x00"),
        (r#"{"id":4,"j":"\u0000"}"#, "[22P05]"),
        (
            r#"{"id":5,"n":null}"#,
            "violates not-null constraint: Failing row contains (5,",
        ),
        (r#"{"id":6,"n":13}"#, "not 13 [P0001]"),
        (
            r#"{"id":7}"#,
            "duplicate key value violates unique constraint \"t_pkey\": Key (id)=(7)",
        ),
    ];
    let mut payloads = vec![r#"{"id":7,"s":"ok"}"#];
    payloads.extend(cases.iter().map(|(payload, _)| *payload));
    let mut refused = write_all(&mut *sink, payloads);
    refused.sort_by_key(|refused| {
        let is_it =
            |(payload, _): &(&str, &str)| Some(payload.as_bytes()) == refused.payload.as_deref();
        cases.iter().position(is_it)
    });
    assert_eq!(refused.len(), cases.len(), "{:?}", reasons(&refused));
    for ((payload, expected), refused) in cases.iter().zip(&refused) {
        assert_eq!(refused.payload.as_deref(), Some(payload.as_bytes()));
        assert!(
            refused.reason.contains(expected),
            "{payload}: {}",
            refused.reason
        );
        assert!(!refused.reason.contains('\n'));
    }
    assert_eq!(query(&db, "select id from t"), ["7"]);

    let mut sink = open(&url(&db, "table=t&extra=ignore"));
    let refused = write_all(&mut *sink, [r#"{"id":8,"x":{"y":1}}"#]);
    assert_eq!(reasons(&refused), [""; 0]);
    assert_eq!(query(&db, "select id from t order by 1"), ["7", "8"]);
}

#[test]
fn one_bad_row_among_a_thousand_is_found() {
    let db = database();
    for (table, options) in [("t", "table=t"), ("u", "table=u&conflict=update")] {
        db.execute(&format!(
            "create table {table} (id int primary key, s text)"
        ))
        .unwrap();
        let mut sink = open(&url(&db, options));
        let payloads: Vec<_> = (0..1000)
            .map(|id| match id {
                617 => r#"{"id":617.5}"#.to_owned(),
                // Rows of two lists of columns.
                id if id % 3 == 0 => format!("{{\"id\":{id},\"s\":\"s{id}\"}}"),
                id => format!("{{\"id\":{id}}}"),
            })
            .collect();
        let refused = write_all(&mut *sink, payloads.iter().map(|payload| &**payload));
        let payloads: Vec<_> = refused
            .iter()
            .map(|it| it.payload.as_deref().unwrap())
            .collect();
        assert_eq!(payloads, [&br#"{"id":617.5}"#[..]]);
        assert_eq!(count(&db, table), 999);
        let text = query(&db, &format!("select count(s) from {table}"));
        assert_eq!(text, ["334"]);
    }
}

#[test]
fn the_last_row_of_a_key_counts_and_updates_only_what_it_names() {
    let db = database();
    db.execute(
        "create table t (a int, b text collate \"C\", v text, w int default 5, primary key (a, b));
         insert into t values (9, 'x', 'old', 1)",
    )
    .unwrap();
    let mut sink = open(&url(&db, "table=t&conflict=update"));
    let refused = write_all(
        &mut *sink,
        [
            r#"{"a":1,"b":"x","v":"first"}"#,
            r#"{"a":1,"b":"x","v":"second"}"#,
            r#"{"a":1,"b":"y","v":"other"}"#,
            r#"{"a":1,"b":"x","w":7}"#,
            r#"{"b":"x","a":1,"v":"last"}"#,
            r#"{"a":9,"b":"x","v":"older"}"#,
            r#"{"a":9,"b":"x","v":"new"}"#,
            r#"{"a":9,"b":"x"}"#,
            r#"{"a":2}"#,
            r#"{"a":2,"b":null}"#,
        ],
    );
    let expected = ["the key column `b` is missing or null"; 2];
    assert_eq!(reasons(&refused), expected);
    let found = query(&db, "select a, b, v, w from t order by 1, 2");
    assert_eq!(found, ["1|x|last|7", "1|y|other|5", "9|x|new|1"]);
}

#[test]
fn rows_of_known_keys_can_be_left_out() {
    let db = database();
    db.execute(
        "create table t (id bigint generated always as identity primary key, k text unique, v int);
         insert into t (k, v) values ('old', 0)",
    )
    .unwrap();
    let mut sink = open(&url(&db, "table=t&conflict=ignore&conflict_columns=k"));
    let payloads = [
        r#"{"k":"old","v":1}"#,
        r#"{"k":"new","v":2}"#,
        r#"{"k":"new","v":3}"#,
        r#"{"v":4}"#,
    ];
    assert_eq!(reasons(&write_all(&mut *sink, payloads)), [""; 0]);
    let found = query(&db, "select k, v from t order by v");
    assert_eq!(found, ["old|0", "new|2", "null|4"]);
}

#[test]
fn batches_have_as_many_rows_as_the_url_says() {
    let db = database();
    db.execute("create table t (id int, x xid8 default pg_current_xact_id())")
        .unwrap();
    let mut sink = open(&url(&db, "table=t&batch_rows=100&batch_ms=1000"));
    let payloads: Vec<_> = (0..1000).map(|id| format!("{{\"id\":{id}}}")).collect();
    write_all(&mut *sink, payloads.iter().map(|payload| &**payload));
    let found = query(
        &db,
        "select count(distinct x::text), max(c) from (select x, count(*) over (partition by x::text) c from t) as s",
    );
    assert_eq!(found, ["10|100"]);
}
