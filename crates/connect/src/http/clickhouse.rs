//! Tables of ClickHouse, by its HTTP interface: <https://clickhouse.com/docs/interfaces/http>.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::client::{Client, Response};
use super::message::Outgoing;
use super::options::{Query, SinkOptions};
use super::target::{
    BatchOutcome, LOG_IN, PERMIT, Target, append_lines, classify_status, describe, refuse_topic,
    unexpected,
};
use crate::{Error, Result};

/// The setting by which a table recognises a batch that is written again.
const TOKEN: &str = "insert_deduplication_token";

/// The codes of exceptions about the rows of an insert, of which a single one may be the cause:
/// <https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp>.
const ROW_EXCEPTIONS: [u32; 22] = [
    6,   // CANNOT_PARSE_TEXT
    25,  // CANNOT_PARSE_ESCAPE_SEQUENCE
    26,  // CANNOT_PARSE_QUOTED_STRING
    27,  // CANNOT_PARSE_INPUT_ASSERTION_FAILED
    32,  // ATTEMPT_TO_READ_AFTER_EOF
    33,  // CANNOT_READ_ALL_DATA
    38,  // CANNOT_PARSE_DATE
    41,  // CANNOT_PARSE_DATETIME
    53,  // TYPE_MISMATCH
    69,  // ARGUMENT_OUT_OF_BOUND
    70,  // CANNOT_CONVERT_TYPE
    72,  // CANNOT_PARSE_NUMBER
    117, // INCORRECT_DATA
    130, // CANNOT_READ_ARRAY_FROM_TEXT
    131, // TOO_LARGE_STRING_SIZE
    321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
    349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    376, // CANNOT_PARSE_UUID
    469, // VIOLATED_CONSTRAINT
    675, // CANNOT_PARSE_IPV4
    676, // CANNOT_PARSE_IPV6
    691, // UNKNOWN_ELEMENT_OF_ENUM
];

/// How servers without UNKNOWN_ELEMENT_OF_ENUM report it, with the code of BAD_ARGUMENTS or of
/// LOGICAL_ERROR, which have other meanings too.
const UNKNOWN_ELEMENT: ([u32; 2], &str) = ([36, 49], "Unknown element");

/// The codes of exceptions that no insert of this sink escapes, and what to do about them.
const TABLE_EXCEPTIONS: [(&[u32], &str); 4] = [
    // NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_TABLE, UNKNOWN_DATABASE
    (&[16, 60, 81], "create the table, or correct the URL"),
    // UNKNOWN_SETTING
    (
        &[115],
        "remove the `setting.NAME` that the server does not know",
    ),
    // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED
    (&[192, 193, 194, 516], LOG_IN),
    // READONLY, IP_ADDRESS_NOT_ALLOWED, DATABASE_ACCESS_DENIED, ACCESS_DENIED
    (&[164, 195, 291, 497], PERMIT),
];

/// A table.
pub(super) struct ClickHouse {
    name: String,
    query: Query,
    /// The name of the table in messages.
    path: String,
    /// The quoted name of the table.
    table: String,
    /// Whether the server knows the setting [`TOKEN`].
    has_tokens: bool,
}

impl ClickHouse {
    pub(super) fn new(options: &SinkOptions) -> Result<Self> {
        let parts = options.path.split_once('.');
        let Some((database, table)) = parts.filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
            let example = "clickhouse://localhost:8123/default.clicks";
            return Err(Error::no_path(
                &options.name,
                "table with its database",
                example,
            ));
        };
        Ok(Self {
            name: options.name.clone(),
            query: options.query.clone(),
            path: options.path.clone(),
            table: format!("{}.{}", quoted(database), quoted(table)),
            has_tokens: true,
        })
    }

    /// The response to a query, a line of text.
    fn query_value(&self, client: &Client, query: &str) -> Result<String> {
        let response = client.request("POST", &self.query.after("", &[("query", query)]))?;
        if let Some((reason, hint)) = table_exception(&response) {
            return Err(Error::unavailable(&self.name, &reason, hint));
        }
        match response.status {
            200 => Ok(String::from_utf8_lossy(&response.body).trim().to_owned()),
            _ => Err(unexpected(&self.name, &response)),
        }
    }
}

impl Target for ClickHouse {
    fn check(&mut self, client: &Client) -> Result<String> {
        let exists = self.query_value(client, &format!("EXISTS TABLE {}", self.table))?;
        if exists != "1" {
            let reason = format!("the table {} does not exist", self.path);
            let hint = "create the table, or correct the URL";
            return Err(Error::unavailable(&self.name, &reason, hint));
        }
        let known = format!("SELECT count() FROM system.settings WHERE name = '{TOKEN}'");
        self.has_tokens = self.query_value(client, &known)? != "0";
        let version = self.query_value(client, "SELECT version()")?;
        let warning = match self.has_tokens {
            true => "",
            false => ", which cannot recognise batches that are written twice",
        };
        Ok(format!(
            "table {} of ClickHouse {version}{warning}",
            self.path
        ))
    }

    fn problem_of(&self, message: &Outgoing) -> Option<&'static str> {
        refuse_topic(message)
    }

    fn request(&self, messages: &[Outgoing], body: &mut Vec<u8>) -> String {
        append_lines(messages, body);
        let query = format!("INSERT INTO {} FORMAT JSONEachRow", self.table);
        let token = self.has_tokens.then(|| token(messages));
        let token = token.as_deref().map(|token| (TOKEN, token));
        let query: Vec<_> = [("query", &*query)].into_iter().chain(token).collect();
        self.query.after("", &query)
    }

    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn classify(&self, response: &Response, _: &[Outgoing]) -> BatchOutcome {
        if let Some((reason, hint)) = table_exception(response) {
            return BatchOutcome::Failed(format!("{reason}; {hint}"));
        }
        match exception_code(response) {
            Some(code) if is_row_exception(code, &response.body) => {
                BatchOutcome::Refused(describe(response))
            }
            // A server that had sent the status already.
            Some(_) if response.status == 200 => BatchOutcome::Retry(describe(response), None),
            // Older servers response with 404 for a setting or a table, and with 500 for the rest.
            _ => classify_status(response),
        }
    }
}

/// The identifier in back quotes:
/// <https://clickhouse.com/docs/sql-reference/syntax#identifiers>.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// A text that is the same whenever the same messages are sent. It has their identities, so that
/// batches of equal events are different.
fn token(messages: &[Outgoing]) -> String {
    let mut hash = Sha256::new();
    for message in messages {
        for part in [message.id.as_bytes(), &message.payload] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    let mut token = String::from("lookaside-");
    for byte in &hash.finalize()[..16] {
        let _ = write!(token, "{byte:02x}");
    }
    token
}

/// The code of the exception that a response reports, by a header or, in older servers and after the
/// status was sent, by its text.
fn exception_code(response: &Response) -> Option<u32> {
    response.exception_code.or_else(|| {
        let text = String::from_utf8_lossy(&response.body);
        let (_, rest) = text.split_once("Code: ")?;
        if !rest.contains("DB::Exception") {
            return None;
        }
        let end = rest.find(|char: char| !char.is_ascii_digit())?;
        rest[..end].parse().ok()
    })
}

fn is_row_exception(code: u32, text: &[u8]) -> bool {
    let (codes, message) = UNKNOWN_ELEMENT;
    let is_element = || String::from_utf8_lossy(text).contains(message);
    ROW_EXCEPTIONS.contains(&code) || (codes.contains(&code) && is_element())
}

fn table_exception(response: &Response) -> Option<(String, &'static str)> {
    let code = exception_code(response)?;
    let (_, hint) = TABLE_EXCEPTIONS
        .iter()
        .find(|(codes, _)| codes.contains(&code))?;
    Some((describe(response), hint))
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::response;
    use super::*;

    fn table() -> ClickHouse {
        let url = "clickhouse://a/d.t%60x".parse().unwrap();
        ClickHouse::new(&SinkOptions::new(&url).unwrap()).unwrap()
    }

    #[test]
    fn exceptions_decide_what_becomes_of_a_batch() {
        let table = table();
        for (status, text, expected) in [
            (200, "", "Delivered"),
            (200, "Code: 241. DB::Exception: Memory limit", "Retry"),
            (
                500,
                "Code: 27, e.displayText() = DB::Exception: Cannot parse",
                "Refused",
            ),
            (400, "Code: 117. DB::Exception: Unknown field", "Refused"),
            (
                500,
                "Code: 49. DB::Exception: Unknown element 'x' for type",
                "Refused",
            ),
            (500, "Code: 49. DB::Exception: Pipeline stuck", "Retry"),
            (500, "Code: 252. DB::Exception: Too many parts", "Retry"),
            (404, "Code: 60. DB::Exception: no table", "Failed"),
            (
                500,
                "Code: 497. DB::Exception: Not enough privileges",
                "Failed",
            ),
            (401, "", "Failed"),
            (503, "", "Retry"),
        ] {
            let outcome = format!("{:?}", table.classify(&response(status, text), &[]));
            assert!(outcome.starts_with(expected), "{text}: {outcome}");
        }
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(table().table, r"`d`.`t\`x`");
        for url in ["clickhouse://a/t", "clickhouse://a/d.", "clickhouse://a"] {
            let options = SinkOptions::new(&url.parse().unwrap()).unwrap();
            let error = ClickHouse::new(&options)
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(error.contains("names no table"), "{error}");
        }
    }
}
