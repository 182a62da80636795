//! Downloads a file of a project from a Python package index (PEP 503).

use std::env;

use url::Url;

use super::fetch::Client;

/// The default index of pip.
const INDEX: &str = "https://pypi.org/simple";

/// The variable that sets another index for pip, such as a mirror.
const INDEX_VARIABLE: &str = "PIP_INDEX_URL";

/// Downloads a file. The caller verifies its hash: the index is not trusted. `report` is called
/// with the bytes received, and the total if known.
pub(crate) fn fetch_wheel(
    project: &str,
    file: &str,
    report: impl Fn(u64, Option<u64>),
) -> Result<Vec<u8>, String> {
    let index = env::var(INDEX_VARIABLE)
        .ok()
        .filter(|index| !index.is_empty());
    let index = index.unwrap_or_else(|| INDEX.to_owned());
    let page = format!("{}/{project}/", index.trim_end_matches('/'));
    let page = Url::parse(&page).map_err(|error| format!("{INDEX_VARIABLE}: {error}"))?;
    let client = Client::new();
    let (text, base) = client
        .text(&page)
        .map_err(|why| format!("the package index cannot be read: {why}"))?;
    let link = link_of(&text, file).ok_or("the package index does not have it")?;
    let url = base.join(&link).map_err(|error| error.to_string())?;
    client.bytes(&with_credentials(url, &page), report)
}

/// The address with the name and password of the index, if it is on the same host.
fn with_credentials(mut url: Url, index: &Url) -> Url {
    if url.origin() == index.origin() && url.username().is_empty() {
        // Both succeed for an address with a host.
        let _ = (
            url.set_username(index.username()),
            url.set_password(index.password()),
        );
    }
    url
}

/// The link to a file on a page of an index, without the hash after it.
fn link_of(page: &str, file: &str) -> Option<String> {
    let links = page.split("href=\"").skip(1);
    let mut links = links.filter_map(|rest| rest.split(['"', '#']).next());
    let link = links.find(|link| {
        let path = link.split('?').next().unwrap_or(link);
        path.rsplit('/').next() == Some(file)
    })?;
    Some(link.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_found_by_the_name_of_its_file() {
        let page = r#"<a href="../a/x-1.whl#sha256=0">x-1.whl</a><a data-x="" href="https://h/b/x-2.whl?a=1&amp;b=2">"#;
        assert_eq!(link_of(page, "x-1.whl").as_deref(), Some("../a/x-1.whl"));
        assert_eq!(
            link_of(page, "x-2.whl").as_deref(),
            Some("https://h/b/x-2.whl?a=1&b=2")
        );
        assert_eq!(link_of(page, "1.whl"), None);
    }

    #[test]
    fn credentials_go_to_the_host_of_the_index_alone() {
        let index = Url::parse("https://name:word@mirror.test/simple/x/").unwrap();
        let same = with_credentials(index.join("../../a/x-1.whl").unwrap(), &index);
        assert_eq!(same.as_str(), "https://name:word@mirror.test/a/x-1.whl");
        let bare = Url::parse("https://mirror.test/a/x-1.whl").unwrap();
        assert_eq!(with_credentials(bare, &index), same);
        let other = Url::parse("https://files.test/x-1.whl").unwrap();
        assert_eq!(with_credentials(other.clone(), &index), other);
    }
}
