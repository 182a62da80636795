//! The files of a package: a wheel or another zip, a `.deb`, a tar archive. What it is, its first bytes
//! say.

use std::io::{Cursor, Read};

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::{Error, Result};

use super::source::{PACKAGE_SIZE_MAX, Package, is_relevant};

/// Where a tar archive says that it is one.
const TAR_MAGIC_AT: usize = 257;

/// Reads what may belong to an extension.
pub(super) fn read(label: &str, bytes: Vec<u8>) -> Result<Package> {
    let sha256 = hex(&Sha256::digest(&bytes));
    let entries = entries(&bytes).map_err(|why| Error::package_unreadable(label, &why))?;
    Ok(Package {
        label: label.to_owned(),
        sha256,
        entries,
    })
}

type Entries = Vec<(String, Vec<u8>)>;

fn entries(bytes: &[u8]) -> Result<Entries, String> {
    if bytes.starts_with(b"PK\x03\x04") {
        return zip_entries(bytes);
    }
    match bytes.strip_prefix(b"!<arch>\n") {
        Some(members) => tar_entries(debian_data(members)?),
        None => tar_entries(bytes),
    }
}

fn zip_entries(bytes: &[u8]) -> Result<Entries, String> {
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut entries = Entries::new();
    let mut room = PACKAGE_SIZE_MAX;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = file.name().map_err(|error| error.to_string())?.into_owned();
        if is_relevant(&name) {
            entries.push((name, read_some(file, &mut room)?));
        }
    }
    Ok(entries)
}

/// The member of a Debian package that holds its files: see deb(5) and ar(5).
fn debian_data(mut members: &[u8]) -> Result<&[u8], String> {
    while let Some((header, rest)) = members.split_at_checked(60) {
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]);
        let size = text(48..58).trim().parse::<usize>();
        let size = size.map_err(|_| "a member of it has no size".to_owned())?;
        let Some((data, after)) = rest.split_at_checked(size) else {
            return Err("it is cut off".to_owned());
        };
        if text(0..16).starts_with("data.tar") {
            return Ok(data);
        }
        // Members begin at even places.
        members = after.get(size % 2..).unwrap_or_default();
    }
    Err("it has no `data.tar`".to_owned())
}

fn tar_entries(bytes: &[u8]) -> Result<Entries, String> {
    let reader: Box<dyn Read + '_> = match bytes {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(liblzma::read::XzDecoder::new(bytes)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::Decoder::new(bytes).map_err(|error| error.to_string())?)
        }
        [b'B', b'Z', b'h', ..] => {
            return Err("it is compressed with bzip2, which is not read".to_owned());
        }
        bytes
            if bytes
                .get(TAR_MAGIC_AT..)
                .is_some_and(|at| at.starts_with(b"ustar")) =>
        {
            Box::new(bytes)
        }
        _ => {
            return Err("it is not a .deb, a wheel, a zip or a tar archive".to_owned());
        }
    };
    let mut entries = Entries::new();
    let mut room = PACKAGE_SIZE_MAX;
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path().map_err(|error| error.to_string())?;
        let name = path.to_string_lossy().trim_start_matches("./").to_owned();
        if entry.header().entry_type().is_file() && is_relevant(&name) {
            entries.push((name, read_some(entry, &mut room)?));
        }
    }
    Ok(entries)
}

/// Reads a file, as long as all of them stay below the limit.
fn read_some(file: impl Read, room: &mut u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(*room + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    match room.checked_sub(bytes.len() as u64) {
        Some(rest) => *room = rest,
        None => return Err("its files are larger than 1 GiB".to_owned()),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const NAME: &str = "usr/share/postgresql/18/extension/x.control";
    const TEXT: &[u8] = b"default_version = '1.0'\n";

    /// A tar archive with one file of an extension and one that is none.
    fn tar() -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, bytes) in [(NAME, TEXT), ("usr/share/doc/x/copyright", b"all")] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            let name = format!("./{name}");
            archive.append_data(&mut header, name, bytes).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A Debian package: members in an ar archive, each begins at an even place.
    fn debian(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut package = b"!<arch>\n".to_vec();
        for (name, bytes) in members {
            let size = bytes.len();
            package.extend(format!("{name:<16}{:<32}{size:<10}`\n", "0").as_bytes());
            package.extend(*bytes);
            package.resize(package.len().next_multiple_of(2), b'\n');
        }
        package
    }

    #[test]
    fn archives_are_read_however_they_are_compressed() {
        let expected = [(NAME.to_owned(), TEXT.to_owned())];
        let forms = [
            ("data.tar", tar()),
            ("data.tar.gz", gzip(&tar())),
            ("data.tar.xz", xz(&tar())),
            ("data.tar.zst", zstd::encode_all(&*tar(), 1).unwrap()),
        ];
        for (name, archive) in forms {
            assert_eq!(
                read(name, archive.clone()).unwrap().entries,
                expected,
                "{name}"
            );
            // An odd size before it, so that the padding matters.
            let package = debian(&[
                ("debian-binary", b"2.0"),
                ("control.tar.xz", &xz(b"of no use")),
                (name, &archive),
            ]);
            let read = read("x.deb", package).unwrap();
            assert_eq!(read.entries, expected, "{name} in a package");
        }
    }

    #[test]
    fn what_is_no_package_is_refused_whatever_it_is() {
        for (bytes, expected) in [
            (&b""[..], "not a .deb"),
            (b"hello", "not a .deb"),
            (b"BZh9", "bzip2"),
            (b"PK\x03\x04 and no more", ""),
            (b"!<arch>\nshort", "data.tar"),
            (b"!<arch>\n", "data.tar"),
            (b"\x1f\x8b\x08", ""),
            (b"\xfd7zXZ\0", ""),
            (b"\x28\xb5\x2f\xfd", ""),
        ] {
            let error = read("file", bytes.to_vec())
                .map(drop)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("`file`") && error.contains(expected),
                "{error}"
            );
        }
        let mut cut = b"!<arch>\n".to_vec();
        cut.extend(format!("{:16}{:32}{:10}`\n", "data.tar", "", 99).as_bytes());
        assert!(entries(&cut).unwrap_err().contains("cut off"));
    }
}
