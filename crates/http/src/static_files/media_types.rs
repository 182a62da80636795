//! Media types by extension.

/// For unknown extensions: browsers save such a file.
const UNKNOWN: &str = "application/octet-stream";

/// The longest end of a name in the table.
const END_SIZE_MAX: usize = 11;

/// The type of a file of that name.
pub(super) fn media_type(name: &[u8]) -> &'static str {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let Some(dot) = memchr::memrchr(b'.', file) else {
        return UNKNOWN;
    };
    let end = &file[dot + 1..];
    let mut lower = [0; END_SIZE_MAX];
    let Some(lower) = lower.get_mut(..end.len()) else {
        return UNKNOWN;
    };
    lower.copy_from_slice(end);
    lower.make_ascii_lowercase();
    let lower = &*lower;
    match TYPES.binary_search_by(|(end, _)| end.as_bytes().cmp(lower)) {
        Ok(index) => TYPES[index].1,
        Err(_) => UNKNOWN,
    }
}

/// Sorted by extension. Text formats without an encoding declaration of their own are UTF-8.
const TYPES: [(&str, &str); 58] = [
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("br", "application/x-brotli"),
    ("css", "text/css"),
    ("csv", "text/csv; charset=utf-8"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain; charset=utf-8"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ndjson", "application/x-ndjson"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("rss", "application/rss+xml"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zip", "application/zip"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        assert!(TYPES.is_sorted_by_key(|(end, _)| *end));
        assert!(TYPES.iter().all(|(end, _)| end.len() <= END_SIZE_MAX));
        for (name, expected) in [
            ("reset.css", "text/css"),
            ("a/b.d/APP.JS", "text/javascript"),
            ("manifest.json", "application/json"),
            ("logo.svg", "image/svg+xml"),
            ("index.html", "text/html; charset=utf-8"),
            ("site.webmanifest", "application/manifest+json"),
            ("app.js.br", "application/x-brotli"),
            ("js", UNKNOWN),
            ("a.css/file", UNKNOWN),
            ("name.", UNKNOWN),
            ("name.extraordinary", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type(name.as_bytes()), expected, "{name}");
        }
    }
}
