//! The console at `/` in a real browser.

use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use serde_json::json;

use super::running::configure;
use super::{project, serve};
use crate::browser::Browser;
use crate::program::{Project, run};

#[test]
fn the_console_shows_and_asks_lookups() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let project = project("");
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 5");
    assert_eq!(
        browser.run("return document.querySelector('#state').innerText"),
        json!("serving")
    );

    // The example of the configuration is filled in, so one click leads to an answer.
    browser.click("[data-lookup=net] button");
    browser.wait_for("document.querySelector('[data-lookup=net] + .answer td')");
    let answer = "return document.querySelector('[data-lookup=net] + .answer').innerText";
    let answer = browser.run(answer).to_string();
    for text in ["200 OK", "lab", "X-Cache: native", "ETag", "curl 'http://"] {
        assert!(answer.contains(text), "{text}: {answer}");
    }
    // Several rows, and a value that looks like a script.
    project.write(
        "hosts/data.csv",
        "name,rack\n<img src=x onerror=alert(1)>,7\nb,7\n",
    );
    browser.click("#reload");
    browser.wait_for("document.querySelector('#generation').innerText === '2'");
    browser.type_into("[data-lookup=rack] input", "7");
    browser.click("[data-lookup=rack] button");
    browser.wait_for("document.querySelectorAll('[data-lookup=rack] + .answer td').length === 2");
    assert_eq!(browser.run("return document.images.length"), json!(0));
    // An error is shown in the server's words.
    browser.type_into("[data-lookup=rack] input", "seven");
    browser.click("[data-lookup=rack] button");
    browser.wait_for(
        "document.querySelector('[data-lookup=rack] + .answer').innerText.includes('400')",
    );

    // A failed reload shows the reason, and the old state is still served.
    project.write("hosts/data.csv", "name,rack\n\"open,7\n");
    browser.click("#reload");
    browser.wait_for(
        "document.querySelector('#notice').innerText.includes('the previous state stays in use: ')",
    );
    // A successful reload shows its warnings.
    project.write("hosts/data.csv", "name,rack\nweb-1,7\nweb-2,8\nweb-3,x\n");
    browser.click("#reload");
    browser.wait_for("document.querySelector('#notice').innerText.includes('line 4 is not a')");
    project.write("hosts/data.csv", "name,rack\nweb-1,7\n");
    browser.click("#reload");
    browser.wait_for("document.querySelector('#notice').innerText.startsWith('Reloaded in ')");

    // The plots follow the load, which continues until even a slow browser has shown it.
    let (load, over) = mpsc::channel::<()>();
    let mut client = running.client();
    let asking = thread::spawn(move || {
        while over.try_recv() == Err(TryRecvError::Empty) {
            client.get("/v1/lookup/net?ip=10.0.1.7").is(200);
            // sleep: the pace of the load
            thread::sleep(Duration::from_millis(5));
        }
    });
    browser.wait_for("parseFloat(document.querySelector('#rate').innerText) > 10");
    drop(load);
    asking.join().unwrap();
    browser.wait_for("document.querySelector('#hits').innerText.includes('%')");
    browser.wait_for("document.querySelector('#latency').innerText.includes('µs')");
    browser.wait_for("document.querySelector('#memory').innerText.includes('MiB')");
    for plot in ["rate", "hits", "latency", "memory"] {
        browser.wait_for(&format!(
            "document.querySelector('#{plot}-plot path').getTotalLength() > 0"
        ));
    }

    let picture = base64::engine::general_purpose::STANDARD
        .decode(browser.screenshot())
        .unwrap();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000);
    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("console.png");
    std::fs::write(place, picture).unwrap();
    // Error responses are the only console errors; the policy causes none.
    let complaints = browser.complaints();
    let is_meant = |text: &String| text.contains("status of 400") || text.contains("status of 409");
    assert!(complaints.iter().all(is_meant), "{complaints:?}");

    // A server that has ended is shown as away.
    drop(running);
    browser.wait_for("document.querySelector('#state').innerText === 'away'");
}

#[test]
fn the_console_shows_all_digits_of_a_number() {
    let Some(browser) = Browser::start() else {
        return;
    };
    // The first is 2^53 + 1, which JavaScript's numbers do not have.
    let project = project(
        "[lookups.numbers]\nsql = 'select 9007199254740993 as a, -9223372036854775807 - 1 as b, \
         7 as c, 0.5 as d, cast(9007199254740993 as text) as e'\n",
    );
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 6");
    browser.click("[data-lookup=numbers] button");
    browser.wait_for("document.querySelector('[data-lookup=numbers] + .answer td')");
    let cells = "return [...document.querySelectorAll('[data-lookup=numbers] + .answer td')]\
                 .map(cell => cell.className + '=' + cell.innerText)";
    assert_eq!(
        browser.run(cells),
        json!([
            "number mono=9007199254740993",
            "number mono=-9223372036854775808",
            "number mono=7",
            "number mono=0.5",
            "mono=9007199254740993"
        ])
    );
    // JSON that is not a row is shown with all digits, too.
    let shown = browser.run("return body('[1, [9007199254740993, \"a\"]]').innerText");
    assert!(shown.to_string().contains("9007199254740993"), "{shown}");
    assert!(browser.complaints().is_empty());
}

#[test]
fn the_console_asks_for_a_key() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let said = run(["key", "new", "--admin"]).ended(0);
    let key = said.err.lines().next().unwrap().to_owned();
    let project = project("");
    configure(&project, &said.out);
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("!document.querySelector('#key').hidden");
    assert_eq!(
        browser.run("return document.querySelectorAll('[data-lookup]').length"),
        json!(0)
    );
    browser.type_into("#key-value", &key);
    browser.click("#key button");
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 5");
    browser.wait_for("document.querySelector('#key').hidden");
    browser.click("#reload");
    browser.wait_for("document.querySelector('#generation').innerText === '2'");
}

#[test]
fn issue_13_the_console_says_what_a_reload_kept_and_that_nothing_answers() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let config = "version = 2\n[[tables]]\nname = 'hosts'\n[server]\nquery_rows_max = 5\n\
         [lookups.host]\nsql = 'select name, rack from hosts where name = :name'\n";
    let project = Project::with_endless_view(config);
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/#sql", running.address));
    browser.wait_for("document.querySelector('#sql-text')");
    // Typed text is kept over a reload.
    browser.type_into("#sql-text", " -- mine");
    browser.click("#reload");
    browser.wait_for("document.querySelector('#generation').innerText === '2'");
    browser.wait_for("document.querySelector('#sql-text')?.value.endsWith('limit 20 -- mine')");
    // New tables, and unchanged lookups.
    let broken = "[lookups.broken]\nsql = 'select nothing from hosts where name = :name'\n";
    project.write("knowdb.toml", &format!("{config}{broken}"));
    browser.click("#reload");
    browser.wait_for("document.querySelector('#notice').innerText.startsWith('the new tables are in use, with the previous lookups: ')");
    browser.wait_for("document.querySelector('#sql-explain')");
    drop(running);
    for selector in ["#sql-explain", "#sql-explain ~ button"] {
        browser.run("notice('')");
        browser.click(selector);
        browser.wait_for(
            "document.querySelector('#notice').innerText === 'The server did not answer.'",
        );
    }
}

/// Saves a screenshot of the page for manual inspection.
fn keep_picture(browser: &Browser, name: &str) {
    let picture = base64::engine::general_purpose::STANDARD
        .decode(browser.screenshot())
        .unwrap();
    let place =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("console-{name}.png"));
    std::fs::write(place, picture).unwrap();
}

#[test]
fn issue_13_the_console_says_that_a_key_is_wrong_and_its_links_bring_it() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let admin = run(["key", "new", "--name", "admin", "--admin"]).ended(0);
    let reader = run(["key", "new", "--name", "reader"]).ended(0);
    let key = |said: &crate::program::Said| said.err.lines().next().unwrap().to_owned();
    let project = project("");
    configure(&project, &format!("{}{}", admin.out, reader.out));
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("!document.querySelector('#key').hidden");
    assert_eq!(
        browser.run("return document.querySelector('#key-problem').hidden"),
        json!(true)
    );
    // The placeholder that the page shows instead of a key cannot be sent.
    browser.type_into("#key-value", "lk_wrong…");
    browser.click("#key button");
    browser.wait_for("document.querySelector('#key-problem').innerText.includes('copy it whole')");
    browser.run("document.querySelector('#key-value').value = ''");
    browser.type_into("#key-value", "lk_wrong");
    browser.click("#key button");
    browser.wait_for("document.querySelector('#key-problem').innerText.includes('unknown key')");
    keep_picture(&browser, "wrong-key");
    // With a key without admin rights, the page says so where it matters.
    browser.run("document.querySelector('#key-value').value = ''");
    browser.type_into("#key-value", &key(&reader));
    browser.click("#key button");
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 5");
    browser.click("a[href='#tables']");
    browser.wait_for("document.querySelector('#view-tables').innerText.includes('admin = true')");
    browser.click("#other-key");
    browser.wait_for("!document.querySelector('#key').hidden");
    browser.type_into("#key-value", &key(&admin));
    browser.click("#key button");
    browser.wait_for("document.querySelector('[data-table=hosts]')");
    browser.click("a[href='#openapi.json']");
    browser
        .wait_for("document.querySelector('#view-document').innerText.includes('/v1/lookup/net')");
    browser.click("a[href='#metrics']");
    browser.wait_for(
        "document.querySelector('#view-document').innerText.includes('lookaside_uptime_seconds')",
    );
    let complaints = browser.complaints();
    let is_meant = |text: &String| text.contains("status of 401") || text.contains("status of 403");
    assert!(complaints.iter().all(is_meant), "{complaints:?}");
}

#[test]
fn issue_13_the_console_shows_rows_whole_or_says_that_they_are_cut() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let more = "[lookups.state]\nsql = \"select 'ok' as status, 7 as n\"\n\
                [lookups.many]\nmany = true\nsql = 'with recursive n(i) as (select 1 union all select i + 1 from n limit 450) \
                select i from n'\n";
    let project = project(more);
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 7");
    browser.click("[data-lookup=state] button");
    browser.wait_for("document.querySelectorAll('[data-lookup=state] + .answer td').length === 2");
    browser.click("[data-lookup=many] button");
    browser.wait_for("document.querySelectorAll('[data-lookup=many] + .answer td').length === 200");
    let answer =
        browser.run("return document.querySelector('[data-lookup=many] + .answer').innerText");
    assert!(
        answer
            .to_string()
            .contains("the first 200 of 450 rows are shown"),
        "{answer}"
    );
    // The saved file has all rows.
    browser.run("window.saved = []; const make = URL.createObjectURL; \
                 URL.createObjectURL = blob => { blob.text().then(text => window.saved.push(text)); return make(blob); }");
    browser.click("[data-lookup=many] button:nth-of-type(2)");
    browser.wait_for(
        "window.saved.length === 1 && window.saved[0].trim().split('\\n').length === 451",
    );
    browser.wait_for("document.querySelector('#notice').innerText.includes('Saved many.csv')");

    // A new lookup appears with the reload that added it; typed text is kept.
    browser.type_into("[data-lookup=rack] input", "8");
    configure(
        &project,
        &format!("{more}[lookups.fresh]\nsql = 'select 1 as one'\n"),
    );
    browser.click("#reload");
    browser.wait_for("document.querySelector('[data-lookup=fresh]')");
    browser.wait_for("document.querySelector('#notice').innerText.includes('new: fresh')");
    let typed = browser.run("return document.querySelector('[data-lookup=rack] input').value");
    assert_eq!(typed, json!("8"));
    assert!(browser.complaints().is_empty());
}

#[test]
fn issue_13_plots_have_axes_and_tell_values() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let running = serve(&project(""), &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("document.querySelector('#memory-top').innerText.includes('iB')");
    // Round numbers at the axes.
    let top = browser
        .run("return document.querySelector('#memory-top').innerText")
        .to_string();
    let digits = top.trim_matches('"').split('.').next().unwrap();
    let digits = digits.trim_end_matches('0');
    assert!(["1", "2", "5"].contains(&digits), "{top}");
    let times = browser
        .run("return document.querySelector('.times').innerText")
        .to_string();
    assert!(
        times.contains("2 min ago") && times.contains("now"),
        "{times}"
    );
    browser.run(
        "const box = document.querySelector('#memory-plot').parentElement; \
         const { right, top } = document.querySelector('#memory-plot').getBoundingClientRect(); \
         box.dispatchEvent(new PointerEvent('pointermove', { clientX: right, clientY: top, bubbles: true }))",
    );
    browser.wait_for(
        "/^0 s ago: resident .*iB/.test(document.querySelector('#memory-reading').innerText)",
    );
    assert_eq!(
        browser.run("return document.querySelectorAll('.cursor').length"),
        json!(1)
    );
}

#[test]
fn issue_13_rows_plans_and_failures_are_three_clicks_away() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let project = Project::with_endless_view(
        "version = 2\n[local]\nquery_timeout_ms = 200\n[[tables]]\nname = 'hosts'\n[server]\nquery_rows_max = 5\n\
         [lookups.host]\nsql = 'select name, rack from hosts where name = :name'\n\
         example.name = 'web-1'\n",
    );
    project.write(
        "models/events.test.jsonl",
        "{\"input\":{\"host\":\"web-9\"},\"output\":{\"host\":\"web-9\"}}\n",
    );
    let running = serve(&project, &[]);
    let page = format!("http://{}/", running.address);
    browser.open(&page);
    browser.wait_for("document.querySelector('[data-lookup=host]')");
    // A row: one click. Its plan: another.
    browser.click("[data-lookup=host] button");
    browser.wait_for("document.querySelectorAll('[data-lookup=host] + .answer td').length === 2");
    browser.click("[data-lookup=host] .show-plan");
    browser.wait_for("document.querySelector('.plan').innerText.includes('hash: hosts(name)')");
    assert!(browser.click_count() <= 3, "{}", browser.click_count());
    keep_picture(&browser, "lookups");

    // The columns, types and rows of a table.
    browser.click("a[href='#tables']");
    browser.wait_for("document.querySelector('[data-table=hosts]')");
    let card = browser
        .run("return document.querySelector('[data-table=hosts]').innerText")
        .to_string();
    for text in [
        "1 row",
        "rack",
        "INTEGER",
        "host: hash index of hosts(name)",
    ] {
        assert!(card.contains(text), "{text}: {card}");
    }
    browser.click("[data-table=hosts] button");
    browser.wait_for("document.querySelectorAll('[data-table=hosts] .answer td').length === 2");
    assert_eq!(browser.click_count(), 4);
    keep_picture(&browser, "tables");

    // A statement, its plan, and the error of a wrong one.
    browser.click("a[href='#sql']");
    browser.wait_for("document.querySelector('#sql-run')");
    browser.click("#sql-run");
    browser.wait_for("document.querySelector('#view-sql .answer td')");
    browser.click("#sql-explain");
    browser.wait_for("document.querySelector('#view-sql .answer').innerText.includes('sqlite')");
    browser
        .run("document.querySelector('#sql-text').value = 'select i from anyone, (select 1 as i)'");
    browser.click("#sql-run");
    browser.wait_for("document.querySelector('#view-sql .answer').innerText.includes('cut: there are more than these 5 rows')");
    keep_picture(&browser, "sql");
    browser.run("document.querySelector('#sql-text').value = 'select nothing'");
    browser.click("#sql-run");
    browser.wait_for("document.querySelector('#view-sql .failed')");

    // Why a model fails, shown with an event of its own tests.
    browser.open(&page);
    browser.wait_for("document.querySelector(\"a[href='#models']\")");
    browser.click("a[href='#models']");
    browser.wait_for("document.querySelector('[data-model=events]')");
    browser.click("[data-model=events] button");
    browser.wait_for("document.querySelector('[data-model=events] .answer').innerText.includes('failed lookups: 1, the first: line 1: ')");
    // The full cause, although other responses contain less without `error_detail`.
    browser.wait_for("document.querySelector('[data-model=events]').innerText.includes('1 lookups failed. The last reason: line 1: ./models/events.oml:5:1: ')");
    assert!(browser.click_count() <= 3, "{}", browser.click_count());
    // A page that is opened later shows it at once.
    browser.open(&format!("{page}#models"));
    browser.run("location.reload()");
    browser.wait_for("document.querySelector('[data-model=events]')?.innerText.includes('1 lookups failed. The last reason: line 1')");
    let shown = browser
        .run("return document.querySelector('[data-model=events]').innerText")
        .to_string();
    assert!(shown.contains("query_timeout_ms"), "{shown}");
    keep_picture(&browser, "models");
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|text| text.contains("status of 422")),
        "{complaints:?}"
    );
}

#[test]
fn issue_13_tables_and_plans_are_told_to_those_who_may_see_them() {
    let reader = run(["key", "new", "--name", "reader"]).ended(0);
    let admin = run(["key", "new", "--name", "admin", "--admin"]).ended(0);
    let key = |said: &crate::program::Said| said.err.lines().next().unwrap().to_owned();
    let project = project(&format!("{}{}", reader.out, admin.out));
    let running = serve(&project, &[]);
    let mut client = running.client();
    let (reader, admin) = (key(&reader), key(&admin));
    let (reader, admin) = ([("X-API-Key", &*reader)], [("X-API-Key", &*admin)]);
    for path in ["/v1/project", "/v1/tables/hosts"] {
        client.get(path).is(401);
        client.get_with(path, &reader).is(403);
        client.get_with(path, &admin).is(200);
    }
    client
        .ask("POST", "/v1/explain", &reader, b"{\"sql\":\"select 1\"}")
        .is(403);
    let off = client.ask("POST", "/v1/explain", &admin, b"{\"sql\":\"select 1\"}");
    assert!(off.is(403).text().contains("query_rows_max"));
    client.get_with("/v1/tables/none", &admin).is(404);
    client.get_with("/v1/tables/hosts%22", &admin).is(404);
    let csv = [admin[0], ("Accept", "text/csv")];
    let rows = client.get_with("/v1/tables/hosts", &csv).is(200);
    assert!(
        rows.text().starts_with("name,rack\r\nweb-1,7\r\n"),
        "{}",
        rows.text()
    );
    let told = client.get_with("/v1/project", &admin).is(200).json();
    assert_eq!(told["query_rows_max"], json!(null));
    let hosts = &told["tables"][0];
    assert_eq!(
        (&hosts["name"], &hosts["rows"]),
        (&json!("hosts"), &json!(5))
    );
    assert_eq!(
        hosts["columns"][1],
        json!({"name": "rack", "type": "INTEGER"})
    );
    let late = told["lookups"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "late")
        .unwrap();
    assert!(
        late["plan"]
            .as_str()
            .unwrap()
            .contains("full scan of hosts"),
        "{late}"
    );
}

#[test]
fn issue_13_a_key_that_may_ask_once_a_second_sees_the_lookups() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let said = run(["key", "new", "--name", "slow", "--admin"]).ended(0);
    let key = said.err.lines().next().unwrap().to_owned();
    let project = project("");
    configure(&project, &format!("{}per_second = 1\n", said.out));
    let running = serve(&project, &[]);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("!document.querySelector('#key').hidden");
    browser.type_into("#key-value", &key);
    browser.click("#key button");
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 5");
}

#[test]
fn issue_13_tables_name_the_lookups_that_read_them_and_no_others() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let project = project(
        "[lookups.hash]\nsql = 'select owner from nets where first = :name'\n\
         [lookups.both]\nsql = 'select n.owner, h.rack from nets n, hosts h where h.name = :name order by 1, 2'\n\
         [[tables]]\nname = 'first'\n",
    );
    project.write("first/data.csv", "a\n1\n");
    let running = serve(&project, &[]);
    let told = running.client().get("/v1/project").is(200).json();
    let tables = |name: &str| {
        let lookups = told["lookups"].as_array().unwrap();
        let lookup = lookups.iter().find(|it| it["name"] == name).unwrap();
        lookup["tables"].clone()
    };
    assert_eq!(tables("hash"), json!(["nets"]));
    assert_eq!(tables("both"), json!(["hosts", "nets"]));
    browser.open(&format!("http://{}/#tables", running.address));
    browser.wait_for("document.querySelector('[data-table=first]')");
    // Its name is a word of the other's plan, `hash index of nets(first)`.
    let heading = browser
        .run("return document.querySelector('[data-table=first] h2').innerText")
        .to_string();
    assert!(!heading.contains("hash"), "{heading}");
}

#[test]
fn issue_13_the_status_is_shown_also_while_lookups_cannot_be_loaded() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let project = project("");
    let running = serve(&project, &[]);
    let mut client = running.client();
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("document.querySelectorAll('[data-lookup]').length === 5");
    browser.run(
        "const real = fetch; window.fetch = (path, options) => path === '/v1/lookups' ? \
         Promise.resolve(new Response('{}', { status: 500 })) : real(path, options)",
    );
    for generation in [2, 3] {
        client.ask("POST", "/v1/reload", &[], b"").is(200);
        browser.wait_for(&format!(
            "document.querySelector('#generation').innerText === '{generation}'"
        ));
    }
}
