//! The console at `/` in a real browser.

use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use serde_json::json;

use super::running::configure;
use super::{project, serve};
use crate::browser::Browser;
use crate::program::run;

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

    // The example of the configuration is filled in; one step to an answer.
    browser.click("[data-lookup=net] button");
    browser.wait_for("document.querySelector('[data-lookup=net] + .answer td')");
    let answer = "return document.querySelector('[data-lookup=net] + .answer').innerText";
    let answer = browser.run(answer).to_string();
    for text in ["200 OK", "lab", "X-Cache: native", "ETag", "curl 'http://"] {
        assert!(answer.contains(text), "{text}: {answer}");
    }
    // Several rows, and a value that would be a script if it were one.
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
    // A mistake is told in the server's words.
    browser.type_into("[data-lookup=rack] input", "seven");
    browser.click("[data-lookup=rack] button");
    browser.wait_for(
        "document.querySelector('[data-lookup=rack] + .answer').innerText.includes('400')",
    );

    // A reload that fails says why, and what served goes on.
    project.write("hosts/data.csv", "name,rack\n\"open,7\n");
    browser.click("#reload");
    browser.wait_for(
        "document.querySelector('#notice').innerText.includes('what served still serves')",
    );
    // One that succeeds says what someone should look at.
    project.write("hosts/data.csv", "name,rack\nweb-1,7\nweb-2,8\nweb-3,x\n");
    browser.click("#reload");
    browser.wait_for("document.querySelector('#notice').innerText.includes('line 4 is not a')");
    project.write("hosts/data.csv", "name,rack\nweb-1,7\n");
    browser.click("#reload");
    browser.wait_for("document.querySelector('#notice').hidden");

    // The plots follow the load, which goes on until a browser that is short of time has seen it.
    let (load, over) = mpsc::channel::<()>();
    let mut client = running.client();
    let asking = thread::spawn(move || {
        while over.try_recv() == Err(TryRecvError::Empty) {
            client.get("/v1/lookup/net?ip=10.0.1.7").is(200);
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
    // Answers that say no are the only complaints of a page that its policy lets be.
    let complaints = browser.complaints();
    let is_meant = |text: &String| text.contains("status of 400") || text.contains("status of 409");
    assert!(complaints.iter().all(is_meant), "{complaints:?}");

    // Who is gone is shown as gone.
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
    // A text that is no row is shown with its digits, too.
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
