use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::time::SystemTime;

use super::*;

/// A folder with a secret file next to it.
struct Site {
    parent: tempfile::TempDir,
    start: Instant,
}

impl Site {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir_all(parent.path().join("public/docs")).unwrap();
        fs::create_dir(parent.path().join("public/.git")).unwrap();
        fs::write(parent.path().join("secret"), "secret").unwrap();
        let site = Self {
            parent,
            start: Instant::now(),
        };
        site.write("app.js", "original");
        site.write("docs/index.html", "<p>");
        site.write(".git/config", "hidden");
        site.write(".well-known/security.txt", "Contact:");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join("public").join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    /// As a deployment does it: written aside, then renamed.
    fn replace(&self, name: &str, content: &str) {
        self.write("new", content);
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    fn age(&self, name: &str, seconds: u64) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .unwrap();
    }

    fn files(&self, options: StaticOptions) -> StaticFiles {
        StaticFiles::open(self.parent.path().join("public"), options).unwrap()
    }

    fn find(
        &self,
        files: &mut StaticFiles,
        path: &str,
        ms: u64,
    ) -> Option<Vec<(Encoding, String)>> {
        let (entry, _) = files.find(path, self.start + Duration::from_millis(ms))?;
        let offers = entry.offers().map(|(encoding, file)| {
            let mut content = vec![0; file.size() as usize];
            file.file.read_exact_at(&mut content, 0).unwrap();
            (encoding, String::from_utf8(content).unwrap())
        });
        Some(offers.collect())
    }

    fn text(&self, files: &mut StaticFiles, path: &str, ms: u64) -> Option<String> {
        Some(self.find(files, path, ms)?.pop()?.1)
    }
}

#[test]
fn files_are_found() {
    let site = Site::new();
    let mut files = site.files(StaticOptions::default());
    for (path, expected) in [
        ("app.js", Some("original")),
        ("%61pp.js", Some("original")),
        ("docs/index.html", Some("<p>")),
        ("docs/", Some("<p>")),
        (".well-known/security.txt", Some("Contact:")),
        ("docs", None),
        ("", None),
        ("app.js/", None),
        ("absent", None),
    ] {
        let found = site.text(&mut files, path, 0);
        assert_eq!(found.as_deref(), expected, "{path}");
    }
    assert_eq!(files.entries.len(), 4, "one by each name");
}

/// None of these serves or opens a file outside of the folder.
#[test]
fn no_path_leads_out() {
    let site = Site::new();
    symlink("../secret", site.path("link")).unwrap();
    symlink(site.parent.path().join("secret"), site.path("absolute")).unwrap();
    symlink("..", site.path("up")).unwrap();
    symlink("/proc/self/root", site.path("root")).unwrap();
    symlink("app.js", site.path("inside.js")).unwrap();
    symlink("docs", site.path("manual")).unwrap();
    symlink("loop", site.path("loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let mut files = site.files(StaticOptions::default());
    let inner = site.parent.path().file_name().unwrap().to_str().unwrap();
    for path in [
        "../secret",
        "docs/../../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "..%5csecret",
        "%c0%ae%c0%ae/secret",
        "docs/%2e%2e/%2e%2e/secret",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc/passwd",
        "link",
        "absolute",
        "up/secret",
        "root/etc/passwd",
        "loop",
        "pipe",
        "app.js%00",
        "app.js%00.css",
        ".git/config",
        "docs/.git/config",
        &format!("../{inner}/secret"),
    ] {
        assert_eq!(site.find(&mut files, path, 0), None, "{path}");
    }
    assert!(files.entries.is_empty());
    // Links that stay inside are followed.
    let found = site.text(&mut files, "inside.js", 0);
    assert_eq!(found.as_deref(), Some("original"));
    assert!(site.text(&mut files, "manual/", 0).is_some());
    // A link that is changed later does not lead out either.
    fs::remove_file(site.path("inside.js")).unwrap();
    symlink("../secret", site.path("inside.js")).unwrap();
    assert_eq!(site.text(&mut files, "inside.js", 200), None);
}

#[test]
fn replaced_files_are_noticed() {
    let site = Site::new();
    let mut files = site.files(StaticOptions::default());
    let text = |files: &mut StaticFiles, ms| site.text(files, "app.js", ms);
    assert_eq!(text(&mut files, 0).as_deref(), Some("original"));
    site.replace("app.js", "replaced");
    assert_eq!(
        text(&mut files, 99).as_deref(),
        Some("original"),
        "not yet looked at"
    );
    assert_eq!(text(&mut files, 100).as_deref(), Some("replaced"));
    site.write("app.js", "written in place");
    assert_eq!(text(&mut files, 200).as_deref(), Some("written in place"));
    fs::remove_file(site.path("app.js")).unwrap();
    assert_eq!(text(&mut files, 300), None);
    assert!(files.entries.is_empty(), "its descriptor is closed");
    site.write("app.js", "back");
    assert_eq!(text(&mut files, 301).as_deref(), Some("back"));

    // The same size and the same time of writing, as builds that can be repeated have.
    let modified = fs::metadata(site.path("app.js"))
        .unwrap()
        .modified()
        .unwrap();
    let tag = |files: &mut StaticFiles, ms| {
        let entry = files.find("app.js", site.start + Duration::from_millis(ms));
        entry.unwrap().0.original.tag.clone()
    };
    let before = tag(&mut files, 500);
    assert_eq!(tag(&mut files, 600), before);
    site.replace("app.js", "kcab");
    let file = File::options()
        .write(true)
        .open(site.path("app.js"))
        .unwrap();
    file.set_modified(modified).unwrap();
    assert_ne!(tag(&mut files, 700), before);
    assert_eq!(text(&mut files, 700).as_deref(), Some("kcab"));
}

#[test]
fn compressed_files_stand_beside_theirs() {
    use Encoding::{Brotli, Gzip, Identity};
    let site = Site::new();
    let mut files = site.files(StaticOptions::default());
    let encodings = |files: &mut StaticFiles, ms| -> Vec<_> {
        let found = site.find(files, "app.js", ms).unwrap();
        found.into_iter().map(|(encoding, _)| encoding).collect()
    };
    assert_eq!(encodings(&mut files, 0), [Identity]);
    site.write("app.js.gz", "gz");
    assert_eq!(encodings(&mut files, 100), [Gzip, Identity]);
    site.write("app.js.br", "br");
    assert_eq!(encodings(&mut files, 200), [Brotli, Gzip, Identity]);
    // Variants of an older original are ignored.
    site.age("app.js.gz", 60);
    assert_eq!(encodings(&mut files, 300), [Brotli, Identity]);
    site.age("app.js", 61);
    assert_eq!(encodings(&mut files, 400), [Brotli, Gzip, Identity]);
    site.replace("app.js", "newest");
    site.age("app.js.br", 1);
    assert_eq!(encodings(&mut files, 500), [Identity]);
    // Without its original, the variant is still served as a file.
    fs::remove_file(site.path("app.js")).unwrap();
    assert_eq!(site.find(&mut files, "app.js", 600), None);
    assert_eq!(
        site.text(&mut files, "app.js.br", 600).as_deref(),
        Some("br")
    );
}

#[test]
fn open_files_are_bounded() {
    let site = Site::new();
    for index in 0..40 {
        site.write(&format!("file{index}"), "content");
        site.write(&format!("file{index}.gz"), "content");
    }
    let mut files = site.files(StaticOptions {
        open_count_max: 20,
        ..StaticOptions::default()
    });
    for index in 0..40 {
        let path = format!("file{index}");
        assert!(site.find(&mut files, &path, index).is_some());
        // The most recently requested file stays open.
        assert!(files.entries.contains_key(path.as_bytes()));
        let count: usize = files.entries.values().map(Entry::open_count).sum();
        assert!(count <= 22, "{count}");
    }
}

#[test]
fn folders_that_cannot_be_served() {
    let site = Site::new();
    for name in ["absent", "app.js"] {
        let error = StaticFiles::open(site.path(name), StaticOptions::default()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}
