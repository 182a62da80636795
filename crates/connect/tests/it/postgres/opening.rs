//! What is wrong with a table is known before anything is read, and `check` says what there is.

use super::{database, try_sink, url};

fn check(url: &str) -> lookaside_connect::Result<String> {
    lookaside_connect::check_sink(&url.parse().unwrap())
}

#[test]
fn what_was_found_is_one_line() {
    let db = database();
    db.execute(
        "create schema s; create table s.\"T t\" (id int, \"N\" numeric(9, 2), primary key (id))",
    )
    .unwrap();
    let found = check(&url(&db, "table=s.%22T%20t%22&conflict=update")).unwrap();
    let expected =
        "is available: table s.T t with 2 columns (id integer, N numeric(9,2)), conflicts by id";
    assert!(found.ends_with(expected), "{found}");
}

#[test]
fn what_is_missing_is_named_with_the_way_out() {
    let db = database();
    db.execute(
        "create table t (a int, b int, c int);
         create unique index on t (a, b) where c > 0;
         create view v as select * from t;
         create role reader login; grant select on t to reader;
         create role writer login; grant insert on t to writer;
         create unique index on t (c)",
    )
    .unwrap();
    let user = format!("postgres://{}@", db.user());
    for (options, user_name, reason, hint) in [
        (
            "table=nothing",
            None,
            "the table `nothing` does not exist",
            "create the table",
        ),
        (
            "table=nowhere.t",
            None,
            "the table `nowhere.t` does not exist",
            "create the table",
        ),
        ("table=a.b.c.d", None, "`a.b.c.d`: ", "`table=SCHEMA.TABLE`"),
        ("table=v", None, "`public.v` is not a table", "name a table"),
        (
            "table=t&conflict=update",
            None,
            "public.t has no primary key",
            "conflict_columns=a,b",
        ),
        (
            "table=t&conflict=update&conflict_columns=b,a",
            None,
            "no unique index of public.t has the columns \"b\", \"a\"",
            "create unique index on \"public\".\"t\" (\"b\", \"a\")",
        ),
        (
            "table=t",
            Some("reader"),
            "the user may not insert rows of \"public\".\"t\"",
            "grant insert on \"public\".\"t\" to the user",
        ),
        (
            "table=t&conflict=ignore&conflict_columns=c",
            Some("writer"),
            "the user may not select rows of \"public\".\"t\"",
            "grant select",
        ),
        ("table=t", Some("nobody"), "nobody", "correct the user"),
    ] {
        let mut url = url(&db, options);
        if let Some(name) = user_name {
            url = url.replace(&user, &format!("postgres://{name}:secret@"));
        }
        for error in [
            check(&url).unwrap_err(),
            try_sink(&url).map(|_| ()).unwrap_err(),
        ] {
            assert!(error.to_string().contains(reason), "{options}: {error}");
            assert!(error.hint().unwrap().contains(hint), "{options}: {error:?}");
            assert!(!format!("{error:?}").contains("secret"));
        }
    }
    // One that conflicts need no right for.
    check(&url(&db, "table=t").replace(&user, "postgres://writer@")).unwrap();
}

#[test]
fn a_server_that_does_not_answer_and_a_source_are_refused() {
    let error = check("postgres://u:secret@127.0.0.1:1/d?table=t").unwrap_err();
    assert!(error.to_string().contains("no server answers"), "{error}");
    assert!(!format!("{error:?}").contains("secret"));
    let source = "postgresql://u@127.0.0.1:1/d?table=t".parse().unwrap();
    let error = lookaside_connect::open_source(&source)
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.to_string().contains("events are only written to it"),
        "{error}"
    );
}
