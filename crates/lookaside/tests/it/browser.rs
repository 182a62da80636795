//! A real browser for the tests of a page: headless Chromium, driven by W3C WebDriver.

use std::cell::Cell;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a page may take to reach the expected state; generous, since a machine that also
/// compiles is slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// The locations of the two programs on Debian and other systems.
const DRIVERS: [&str; 3] = [
    "/usr/bin/chromedriver",
    "/usr/lib/chromium-browser/chromedriver",
    "/usr/local/bin/chromedriver",
];
const BROWSERS: [&str; 4] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/usr/local/bin/chromium",
];

/// One window of one browser, closed with this value.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    click_count: Cell<usize>,
}

impl Browser {
    /// Starts a browser. Returns `None`, with a SKIP message, if none is installed; in CI that is a
    /// failure.
    pub(crate) fn start() -> Option<Self> {
        let first = |places: &[&'static str]| {
            let found = places.iter().find(|place| Path::new(place).exists());
            found.copied()
        };
        let (Some(driver), Some(browser)) = (first(&DRIVERS), first(&BROWSERS)) else {
            let missing = "no chromium with chromedriver (packages chromium, chromium-driver)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            let _ = writeln!(io::stderr(), "SKIP {missing}");
            return None;
        };
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let said = BufReader::new(driver.stdout.take().expect("it was piped"));
        let port = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, port) = line.split_once("started successfully on port ")?;
                port.trim_end_matches('.').parse().ok()
            })
            .expect("the driver says its port");
        let mut started = Self {
            driver,
            port,
            session: String::new(),
            click_count: Cell::new(0),
        };
        // The sandbox does not work as root, and containers have little shared memory.
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--window-size=1200,1400"
        ]);
        let options = json!({"binary": browser, "args": arguments});
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = started.ask("POST", "/session", &wanted);
        started.session = session["sessionId"].as_str().expect("an id").to_owned();
        Some(started)
    }

    pub(crate) fn open(&self, url: &str) {
        self.click_count.set(0);
        self.command("url", &json!({"url": url}));
    }

    /// What a script returns; `return` is part of it.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression of the page is true.
    pub(crate) fn wait_for(&self, expression: &str) {
        let begin = Instant::now();
        while self.run(&format!("return Boolean({expression})")) != json!(true) {
            if begin.elapsed() > PATIENCE {
                let text = self.run("return document.body.innerText");
                panic!("never came: {expression}\nthe page says: {text}");
            }
            // sleep: polls until a deadline; a failure shows the text of the page
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types into a field, as a user does.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// The number of clicks since a page was opened.
    pub(crate) fn click_count(&self) -> usize {
        self.click_count.get()
    }

    pub(crate) fn click(&self, selector: &str) {
        self.click_count.set(self.click_count.get() + 1);
        let element = self.element(selector);
        self.command(&format!("element/{element}/click"), &json!({}));
    }

    /// The picture of the page, as base64 of a PNG.
    pub(crate) fn screenshot(&self) -> String {
        let path = format!("/session/{}/screenshot", self.session);
        let picture = self.ask("GET", &path, &Value::Null);
        picture.as_str().expect("base64").to_owned()
    }

    /// The console errors of the page, including resources that failed to load.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({"type": "browser"}));
        let entries = log.as_array().expect("a list of entries").iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].to_string())
            .collect()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command(
            "element",
            &json!({"using": "css selector", "value": selector}),
        );
        let ids = found.as_object().expect("one element").values();
        ids.map(|id| id.as_str().expect("an id").to_owned())
            .next()
            .expect("an id")
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{name}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_ask(method, path, body)
            .unwrap_or_else(|problem| panic!("{method} {path}: {problem}"))
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        // The driver keeps its side open, so the response ends by its content length.
        let exchange = || -> io::Result<Vec<u8>> {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            (&stream).write_all(request.as_bytes())?;
            let mut reader = BufReader::new(stream);
            let (mut line, mut size) = (String::new(), 0);
            while reader.read_line(&mut line)? > 2 {
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    size = value.trim().parse().unwrap_or(0);
                }
                line.clear();
            }
            let mut body = vec![0; size];
            reader.read_exact(&mut body)?;
            Ok(body)
        };
        let body = exchange().map_err(|error| error.to_string())?;
        let mut answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        match answer["value"].take() {
            value if value["error"].is_null() => Ok(value),
            problem => Err(problem.to_string()),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session, also after a failed test; killing the driver alone
        // would leave it running.
        if !self.session.is_empty() {
            let _ = self.try_ask(
                "DELETE",
                &format!("/session/{}", self.session),
                &Value::Null,
            );
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
