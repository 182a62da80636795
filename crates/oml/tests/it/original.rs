//! Models of the original implementation: its examples, and the correct results where it was wrong.

use crate::harness::check;

#[test]
fn f1_web_access() {
    check(
        include_str!("../corpus/access.oml"),
        "ip = ip(203.0.113.9) ; time = time(2026-03-01 10:15:02) ;
         http/request = chars(GET /shop/cart?id=7 HTTP/1.1) ; http/status = digit(404) ;
         length = digit(0) ; http/agent = chars(curl/8.1) ;",
        r#"{"client":"203.0.113.9","at":"2026-03-01 10:15:02","epoch":1772360102,"req":"GET /shop/cart?id=7 HTTP/1.1","code":404,"class":"client_error","ref":"direct","line":"203.0.113.9 404 GET /shop/cart?id=7 HTTP/1.1","http/agent":"curl/8.1"}"#,
    );
}

const FLOW: &str = "name : fw/flow
---
__s = pipe read(sip) | ip4_to_int ;
__d = pipe read(dip) | ip4_to_int ;
s_zone, s_owner = select zone, owner from zone where start_ip_int <= read(__s) and end_ip_int >= read(__s) ;
d_zone = select zone from zone where start_ip_int <= read(__d) and end_ip_int >= read(__d) ;
dir = match ( read(s_zone), read(d_zone) ) {
    ( chars(corp), chars(corp) ) => chars(internal) ;
    ( chars(corp) | chars(branch), chars(corp) | chars(branch) ) => chars(site2site) ;
    _ => chars(crossing) ;
} ;
* = take() ;
";

#[test]
fn f2_flow_with_zones() {
    check(
        FLOW,
        "sip = ip(10.18.190.27) ; dip = ip(8.8.8.8) ; dport = digit(53) ;",
        r#"{"s_zone":"corp","s_owner":"it","dir":"crossing","sip":"10.18.190.27","dip":"8.8.8.8","dport":53}"#,
    );
    check(
        FLOW,
        "sip = ip(10.18.190.27) ; dip = ip(192.168.3.4) ;",
        r#"{"s_zone":"corp","s_owner":"it","d_zone":"branch","dir":"site2site","sip":"10.18.190.27","dip":"192.168.3.4"}"#,
    );
}

#[test]
fn f3_a_function_of_the_database() {
    check(
        "z = select zone from zone where ip4_between(read(sip), start_ip_int, end_ip_int) = 1 ;",
        "sip = chars(10.18.190.27) ;",
        r#"{"z":"corp"}"#,
    );
}

#[test]
fn f4_columns_of_a_lookup() {
    check(
        "_, _ = select login, dept from users where uid = read(uid) ;
         u, d, extra = select login, dept from users where uid = read(uid) ;
         c, c2 = select login, note from users where uid = 1 ;
         none = select login from users where uid = 99 ;
         t : chars, n : digit = select uid, uid from users where uid = 2 ;",
        "uid = digit(2) ;",
        r#"{"login":"bo","dept":"eng","u":"bo","d":"eng","c":"amy","c2":null,"t":"2","n":2}"#,
    );
}

#[test]
fn f5_options_and_defaults() {
    check(
        "who  = read(user, option:[uname, account]) ;
         who2 = read(option:[user, uname, account]) ;
         who4 = take(missing, option:[zip]) { _ : chars(nobody) } ;
         gone = read(missing2) ;
         n : digit = read(uname) ;",
        r#"user = chars("") ; uname = chars(neo) ; account = chars(root) ;"#,
        r#"{"who":"","who2":"neo","who4":"nobody","n":"neo"}"#,
    );
}

#[test]
fn f6_objects_arrays_json() {
    check(
        "usage : obj = object { cpu, mem : auto = take() ; swap : digit = read(swap) ; host : chars = chars(node-7) ; } ;
         disks = collect take(keys : [disk_*]) ;
         text = pipe read(usage) | to_json ;
         raw : chars = read(usage) ;",
        "cpu = digit(93) ; mem = float(71.5) ; disk_root = chars(80) ; disk_data = chars(12) ;",
        r#"{"usage":{"cpu":93,"host":"node-7","mem":71.5},"disks":["80","12"],"text":"{\"cpu\":93,\"host\":\"node-7\",\"mem\":71.5}","raw":"{cpu=93, host=node-7, mem=71.5}"}"#,
    );
}

#[test]
fn f7_constants() {
    check(
        "static { lo = digit(500) ; hi = digit(599) ; label = chars(critical) ;
                  tpl = object { team = chars(sre) ; level = digit(1) ; } ; }
         sev = match read(code) { in ( lo, hi ) => label ; _ => chars(normal) ; } ;
         base = tpl ;
         team = pipe read(base) | get(team) ;
         dflt = read(zz) { _ : label } ;",
        "code = digit(503) ;",
        r#"{"sev":"critical","base":{"level":1,"team":"sre"},"team":"sre","dflt":"critical"}"#,
    );
}

#[test]
fn f8_urls_and_paths() {
    for (pipe, expected) in [
        ("read(u) | url(domain)", "cdn.example.org"),
        ("read(u) | url(host)", "cdn.example.org:8443"),
        ("read(u) | url(uri)", "/a/b.js?v=2&x=%20#top"),
        ("read(u) | url(path)", "/a/b.js"),
        ("read(u) | url(params)", "v=2&x=%20"),
        ("read(bad) | url(host)", "not a url"),
        ("read(p) | path(name)", "x.log"),
        ("read(p) | path(path)", "C:/tmp/logs"),
    ] {
        check(
            &format!("x = pipe {pipe} ;"),
            r"u = chars(https://cdn.example.org:8443/a/b.js?v=2&x=%20#top) ;
              p = chars(C:\tmp\logs\x.log) ; bad = chars(not a url) ;",
            &format!(r#"{{"x":"{expected}"}}"#),
        );
    }
}

#[test]
fn f9_times() {
    for (statement, expected) in [
        // The original assumes UTC+8; here, a time without an offset is in UTC by default.
        ("x = pipe read(t) | Time::to_ts ;", "1767254400"),
        ("x = pipe read(t) | Time::to_ts_zone(8, s) ;", "1767225600"),
        (
            "x = pipe read(t) | Time::to_ts_zone(0, ms) ;",
            "1767254400000",
        ),
        (
            "x = pipe read(t) | Time::to_ts_zone(-5, us) ;",
            "1767272400000000",
        ),
        ("x : chars = read(t) ;", r#""2026-01-01 08:00:00""#),
        (
            "x : time = chars(2026-01-01 08:00:00) ;",
            r#""2026-01-01 08:00:00""#,
        ),
    ] {
        check(
            statement,
            "t = time(2026-01-01 08:00:00) ;",
            &format!(r#"{{"x":{expected}}}"#),
        );
    }
}

#[test]
fn f10_app_log() {
    check(
        r#"ts_ms = pipe read(ts) | Time::to_ts_zone(0, ms) ;
         sev = match read(lvl) { iequals('error') | iequals('fatal') => chars(high) ; _ => chars(low) ; } ;
         kind = match (read(ns), read(msg)) {
           ( chars(shop) | chars(pay), contains('timeout') ) => chars(biz_timeout) ;
           _ => chars(other) ;
         } ;
         id = fmt("{ns}/{pod}", read(ns), read(pod)) ;
         doc = object { pod, ns : chars = take() ; at : time = read(ts) ; } ;
         doc_json = pipe read(doc) | to_json ;"#,
        "pod = chars(web-7f9) ; ns = chars(shop) ; lvl = chars(WARN) ;
         msg = chars(cart timeout after 1500ms) ; ts = time(2026-05-04 03:02:01) ;",
        r#"{"ts_ms":1777863721000,"sev":"low","kind":"biz_timeout","id":"shop/web-7f9","doc":{"at":"2026-05-04 03:02:01","ns":"shop","pod":"web-7f9"},"doc_json":"{\"at\":\"2026-05-04 03:02:01\",\"ns\":\"shop\",\"pod\":\"web-7f9\"}"}"#,
    );
}

#[test]
fn f11_moves() {
    check(
        "src_ip = chars(masked) ;
         src_* = take() ;
         *_ip = read() ;
         * = take() ;",
        "src_ip = chars(1.1.1.1) ; src_port = digit(80) ; dst_ip = chars(2.2.2.2) ; name = chars(n) ;",
        r#"{"src_ip":"masked","src_port":80,"dst_ip":"2.2.2.2","name":"n"}"#,
    );
}

#[test]
fn f12_decoding_and_escaping() {
    check(
        r#"who : chars = read(option:[user, acct]) { _ : chars(anon) } ;
         mail = fmt("{who}@example.org", @who) ;
         first_port : digit = pipe read(ports) | nth(0) ;
         text = read(body) | base64_decode(Utf8) ;
         safe = read(page) | html_escape ;"#,
        "user = chars() ; acct = chars(lena) ; ports = array { chars(80) ; chars(443) } ;
         body = chars(SGVsbG8=) ; page = chars(<b>x</b>) ;",
        r#"{"who":"lena","mail":"lena@example.org","first_port":80,"text":"Hello","safe":"&lt;b&gt;x&lt;&#x2F;b&gt;"}"#,
    );
}

#[test]
fn f13_newer_forms() {
    check(
        "static { score = object { error = float(90.0) ; ok = float(5.0) ; } ; }
         rate : float = calc(read(err) * 100 / read(total)) ;
         shard : digit = calc(read(uid) % 16) ;
         risk : float = lookup_nocase(score, read(status), 40.0) ;
         dir = access_direct(read(sip), read(dip)) | on_fail('unknown') ;",
        r#"err = digit(5) ; total = digit(0) ; status = chars(" ERROR ") ; sip = ip(10.0.0.5) ;
           dip = ip(8.8.8.8) ; uid = digit(35) ;"#,
        r#"{"shard":3,"risk":90.0,"dir":"L2W"}"#,
    );
}

/// Where the original is wrong, the result is what the model states.
#[test]
fn f14_defects_of_the_original() {
    for (statement, input, expected) in [
        // Each occurrence has a separate parameter.
        (
            "x = select login from users where uid >= 1 and uid <= 3 ;",
            "",
            r#"{"x":"amy"}"#,
        ),
        (
            "x = select login from users where uid >= read(a) and uid < read(b) ;",
            "a = digit(2) ; b = digit(3) ;",
            r#"{"x":"bo"}"#,
        ),
        (
            "x = select count(*) from users where login = read(p1) or login = read(p2) ;",
            "p1 = chars(amy) ; p2 = chars(bo) ;",
            r#"{"x":2}"#,
        ),
        // Parentheses are kept.
        (
            "a = select login from users where dept = read(p1) and ( login = read(p2) or uid = 1 ) ;",
            "p1 = chars(eng) ; p2 = chars(bo) ;",
            r#"{"a":"bo"}"#,
        ),
        // A typed literal is a value.
        (
            "n = select note from users where uid = digit(2) ;",
            "",
            r#"{"n":"x"}"#,
        ),
        // A default may be an access.
        (
            "x = read(a) { _ : read(b) } ;",
            "b = digit(7) ;",
            r#"{"x":7}"#,
        ),
        ("x = read(a) { _ : read(b) } ;", "", "{}"),
        // Every type has a text.
        (
            "x = pipe read(n) | to_str ;",
            "n = digit(7) ;",
            r#"{"x":"7"}"#,
        ),
        // A path is followed completely or not at all.
        (
            "b = pipe read(o) | get(zz/b) ;",
            "o = object { a = object { b = digit(1) ; } ; b = digit(2) ; } ;",
            r#"{"b":{"a":{"b":1},"b":2}}"#,
        ),
        // No member is dropped.
        (
            "g = object { a = read(a) ; b = pipe read(a) | base64_encode ; c = chars(z) ; } ;",
            "a = chars(x) ;",
            r#"{"g":{"a":"x","b":"eA==","c":"z"}}"#,
        ),
        // More than five parameters.
        (
            "x = select login from users where uid in (@a, @b, @c, 7, 8, 9, read(d)) ;",
            "a = digit(4) ; b = digit(5) ; c = digit(6) ; d = digit(3) ;",
            r#"{"x":"cy"}"#,
        ),
        // Any SQL that the database accepts.
        (
            "x = SELECT upper(u.login) || ';' FROM users u JOIN zone z ON z.owner = 'it'
                 WHERE u.dept = \"eng\" ORDER BY u.uid DESC LIMIT 1 ;",
            "",
            r#"{"x":"CY;"}"#,
        ),
        // A missing value of a placeholder makes the text empty, which models rely on.
        (
            "x = fmt(\"{a}-{b}\", read(a), read(b)) ;",
            "a = digit(1) ;",
            r#"{"x":""}"#,
        ),
        // Another type is neither equal nor different, which models rely on.
        (
            "k = match read(n) { !digit(41) => chars(ne) ; _ => chars(-) ; } ;",
            "n = chars(42) ;",
            r#"{"k":"-"}"#,
        ),
        // An ignored value stays ignored if text is requested.
        (
            "x : chars = pipe read(zero) | skip_empty ;",
            "zero = digit(0) ;",
            "{}",
        ),
    ] {
        check(statement, input, expected);
    }
}

/// Details that models may rely on, each as in the original.
#[test]
fn habits_of_the_original() {
    for (statement, input, expected) in [
        // Text is parsed into five types only, and one type is not made into another.
        ("x : json = chars({}) ;", "", r#"{"x":"{}"}"#),
        ("x : bool = digit(1) ;", "", r#"{"x":1}"#),
        ("x : digit = float(2.0) ;", "", r#"{"x":2.0}"#),
        ("x : ip = chars(::1) ;", "", r#"{"x":"::1"}"#),
        (
            "x : array = read(a) ;",
            "a = array { chars(80) ; } ;",
            r#"{"x":["80"]}"#,
        ),
        ("x = chars(a;b (c)) ;", "", r#"{"x":"a;b (c)"}"#),
        // A path-like name is a name first, and a leading slash is part of it.
        ("x = read(/a/b) ;", "a/b = digit(1) ;", "{}"),
        ("x = read(a/b) ;", "a/b = digit(1) ;", r#"{"x":1}"#),
        // Several targets without a lookup: the first is filled.
        (
            "x, y = take() ;",
            "x = digit(1) ; y = digit(2) ;",
            r#"{"x":1}"#,
        ),
        // Arguments of a move have no meaning.
        ("* = read(z) ;", "a = digit(1) ;", r#"{"a":1}"#),
        // An explicit offset does not change the wall clock, which is shown, compared, and read in
        // a zone.
        (
            "x = match read(a) { time(2026-01-01 08:00:00) => @a | Time::to_ts_zone(0, s) ; } ;",
            "a = time(2026-01-01T08:00:00+09:00) ;",
            r#"{"x":1767254400}"#,
        ),
        // Without a default, a tuple with a missing source makes no field.
        (
            "x = match (read(a), read(z)) { (digit(1), digit(2)) => chars(y) ; } ;",
            "a = digit(1) ;",
            "{}",
        ),
        // Only text can be empty.
        (
            "x = match read(a) { is_empty() => chars(y) ; _ => chars(n) ; } ;",
            "a = object { } ;",
            r#"{"x":"n"}"#,
        ),
        // The ignored value passes unchanged through the steps that do not handle it.
        (
            "x = read(a) | skip_empty | map_to(5) ;",
            "a = digit(0) ;",
            "{}",
        ),
        // A default is for an ignored value too, as in the original's guide.
        (
            "raw = calc(@ok / @total) ; safe : float = read(raw) { _ : float(0.0) } ;
             who = select login from users where uid = read(raw) { _ : digit(2) } ;",
            "ok = digit(3) ; total = digit(0) ;",
            r#"{"safe":0.0,"who":"bo"}"#,
        ),
        // The database compares, so text finds a number in a numeric column.
        (
            "x = select login from users where uid = read(uid) ;",
            "uid = chars(2) ;",
            r#"{"x":"bo"}"#,
        ),
        // A NULL column is a field, and becomes text if text is requested.
        (
            "a, _, b : chars = select note, note, note from users where uid = 1 ;",
            "",
            r#"{"a":null,"note":null,"b":""}"#,
        ),
        // A `take` in a condition removes the field.
        (
            "x = select login from users where uid = take(uid) ; * = take() ;",
            "uid = digit(1) ; b = digit(2) ;",
            r#"{"x":"amy","b":2}"#,
        ),
        (
            "__t = chars(x) ; y = read(__t) ; * = take() ;",
            "__u = digit(1) ;",
            r#"{"y":"x"}"#,
        ),
    ] {
        check(statement, input, expected);
    }
}

/// What the original accepts silently, or misinterprets, is refused with an error.
#[test]
fn slips_that_the_original_lets_pass() {
    for (statement, expected) in [
        ("x = time(2026-13-01 00:00:00) ;", "is not a valid time"),
        (
            "x = match read() { digit(1) => chars(a) ; } ;",
            "names the field of this `read()`",
        ),
        ("x = collect take(a) ;", "`collect` needs patterns"),
        (
            "x = read(keys:[a]) ;",
            "a list of patterns does not select a single field",
        ),
        ("x = read(a zzz:[b]) ;", "unknown argument `zzz`"),
    ] {
        let errors = crate::harness::run(statement, "").unwrap_err();
        assert!(errors.contains(expected), "{statement}: {errors}");
    }
}
