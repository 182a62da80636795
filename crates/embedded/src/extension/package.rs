//! The files of a package: a wheel or another zip, a `.deb`, a tar archive. The format is detected
//! by the first bytes.
//!
//! A package may be made to exhaust the memory of its reader. So only files of the extension are
//! kept, up to [`EXTENSION_SIZE_MAX`]; other files of a tar archive are unpacked and discarded, up
//! to [`UNPACKED_SIZE_MAX`].

use std::io::{self, Read, Seek, SeekFrom};

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;
use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::{Error, Result};

use super::entries::{Entries, Package, Wanted};
use super::select::gather;

/// The size limit of the files of an extension and of those that it requires: all of them are in
/// memory until they are written. Those of PostGIS are half of it.
const EXTENSION_SIZE_MAX: u64 = 64 << 20;

/// The size limit of an unpacked tar archive, which takes seconds to unpack: PostGIS with all its
/// data is a fifth of it.
const UNPACKED_SIZE_MAX: u64 = 512 << 20;

/// The size limit of the metadata of a file in a tar archive, such as a long name.
const TAR_HEADER_SIZE_MAX: u64 = 1 << 20;

/// The memory that unpacking may take: `xz -9` needs 65 MiB, and zstd is given a window of 64 MiB.
const XZ_MEMORY_MAX: u64 = 68 << 20;
const ZSTD_WINDOW_LOG_MAX: u32 = 26;

/// The position of the magic bytes of a tar archive, and how much of a package is read to detect
/// its format.
const TAR_MAGIC_AT: usize = 257;
const MAGIC_SIZE: u64 = 512;

/// The magic bytes of Debian packages, see deb(5).
const AR_MAGIC: &[u8] = b"!<arch>\n";

/// Reads the files of an extension and of those that it requires.
pub(super) fn read(label: &str, mut reader: impl Read + Seek, name: &str) -> Result<Package> {
    let unreadable = |why: String| Error::package_unreadable(label, &why);
    let sha256 = sha256(&mut reader).map_err(|error| unreadable(error.to_string()))?;
    let mut free_size = EXTENSION_SIZE_MAX;
    let entries = gather(name, &mut |wanted| {
        entries(&mut reader, wanted, &mut free_size).map_err(unreadable)
    })?;
    Ok(Package {
        label: label.to_owned(),
        sha256,
        entries,
    })
}

fn sha256(reader: &mut impl Read) -> io::Result<String> {
    let (mut hasher, mut buffer) = (Sha256::new(), [0; 16 << 10]);
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(size) => hasher.update(&buffer[..size]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn entries<R: Read + Seek>(
    reader: &mut R,
    wanted: &Wanted<'_>,
    free_size: &mut u64,
) -> Result<Entries, String> {
    let magic = magic(reader, 0)?;
    if magic.starts_with(b"PK\x03\x04") {
        return zip_entries(reader, wanted, free_size);
    }
    let (begin, size) = match magic.starts_with(AR_MAGIC) {
        true => debian_data(reader)?,
        false => (0, u64::MAX),
    };
    check_tar(tar(reader, begin, size)?)?;
    tar_entries(tar(reader, begin, size)?, wanted, free_size)
}

/// The first bytes from `begin` on.
fn magic(reader: &mut (impl Read + Seek), begin: u64) -> Result<Vec<u8>, String> {
    let mut magic = Vec::new();
    reader
        .seek(SeekFrom::Start(begin))
        .and_then(|_| reader.take(MAGIC_SIZE).read_to_end(&mut magic))
        .map_err(|error| error.to_string())?;
    Ok(magic)
}

fn zip_entries(
    reader: impl Read + Seek,
    wanted: &Wanted<'_>,
    free_size: &mut u64,
) -> Result<Entries, String> {
    let mut archive = zip::ZipArchive::new(reader).map_err(|error| error.to_string())?;
    let mut entries = Entries::new();
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = file.name().map_err(|error| error.to_string())?.into_owned();
        if wanted(&name) {
            let size = file.size();
            entries.push((name, read_file(file, size, free_size)?));
        }
    }
    Ok(entries)
}

/// The start and the size of the member of a Debian package that contains its files: see deb(5) and
/// ar(5).
fn debian_data(reader: &mut (impl Read + Seek)) -> Result<(u64, u64), String> {
    let failed = |error: io::Error| error.to_string();
    let end = reader.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut at = AR_MAGIC.len() as u64;
    let mut header = [0; 60];
    while at + header.len() as u64 <= end {
        reader.seek(SeekFrom::Start(at)).map_err(failed)?;
        reader.read_exact(&mut header).map_err(failed)?;
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]);
        let size = text(48..58).trim().parse::<u64>();
        let size = size.map_err(|_| "a member of it has no size".to_owned())?;
        let begin = at + header.len() as u64;
        if end - begin < size {
            return Err("it is truncated".to_owned());
        }
        if text(0..16).starts_with("data.tar") {
            return Ok((begin, size));
        }
        // Members begin at even offsets.
        at = begin + size.next_multiple_of(2);
    }
    Err("it has no `data.tar`".to_owned())
}

/// Reads a tar archive at an offset of a file, with any compression.
fn tar<'a, R: Read + Seek>(
    reader: &'a mut R,
    begin: u64,
    size: u64,
) -> Result<tar::Archive<Limited<Box<dyn Read + 'a>>>, String> {
    let magic = magic(reader, begin)?;
    let failed = |error: io::Error| error.to_string();
    reader.seek(SeekFrom::Start(begin)).map_err(failed)?;
    let reader = reader.take(size);
    let reader: Box<dyn Read + 'a> = match &*magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(reader)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY_MAX, 0);
            let stream = stream.map_err(|error| error.to_string())?;
            Box::new(XzDecoder::new_stream(reader, stream))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::Decoder::new(reader).map_err(failed)?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(failed)?;
            Box::new(decoder)
        }
        [b'B', b'Z', b'h', ..] => {
            return Err("it is compressed with bzip2, which is not read".to_owned());
        }
        bytes
            if bytes
                .get(TAR_MAGIC_AT..)
                .is_some_and(|at| at.starts_with(b"ustar")) =>
        {
            Box::new(reader)
        }
        _ => {
            return Err("it is not a .deb, a wheel, a zip or a tar archive".to_owned());
        }
    };
    Ok(tar::Archive::new(Limited {
        reader,
        rest: UNPACKED_SIZE_MAX,
    }))
}

/// A reader with a limit of bytes.
struct Limited<R> {
    reader: R,
    rest: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.reader.read(buffer)?;
        match self.rest.checked_sub(size as u64) {
            Some(rest) => self.rest = rest,
            None => return Err(io::Error::other(unpacked_too_large())),
        }
        Ok(size)
    }
}

fn unpacked_too_large() -> String {
    format!(
        "its contents are larger than {} MiB; unpack it, and name the folder",
        UNPACKED_SIZE_MAX >> 20
    )
}

/// Returns an error for an archive whose declared sizes are too large, before it is unpacked, and
/// for one with too large headers, which would be held in memory.
fn check_tar(mut archive: tar::Archive<impl Read>) -> Result<(), String> {
    let mut total: u64 = 0;
    let entries = archive.entries().map_err(|error| error.to_string())?;
    for entry in entries.raw(true) {
        let entry = entry.map_err(|error| error.to_string())?;
        let (kind, size) = (entry.header().entry_type(), entry.size());
        total = total.saturating_add(size);
        if total > UNPACKED_SIZE_MAX {
            return Err(unpacked_too_large());
        }
        let is_header = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if is_header && size > TAR_HEADER_SIZE_MAX {
            return Err("a header of it is larger than 1 MiB".to_owned());
        }
    }
    Ok(())
}

fn tar_entries(
    mut archive: tar::Archive<impl Read>,
    wanted: &Wanted<'_>,
    free_size: &mut u64,
) -> Result<Entries, String> {
    let mut entries = Entries::new();
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path().map_err(|error| error.to_string())?;
        let name = path.to_string_lossy().trim_start_matches("./").to_owned();
        if entry.header().entry_type().is_file() && wanted(&name) {
            let size = entry.size();
            entries.push((name, read_file(entry, size, free_size)?));
        }
    }
    Ok(entries)
}

/// Reads a file of a declared size, as long as all files stay below the limit.
fn read_file(file: impl Read, size: u64, free_size: &mut u64) -> Result<Vec<u8>, String> {
    *free_size = free_size.checked_sub(size).ok_or_else(|| {
        format!(
            "the extension's files are larger than {} MiB; if this is intended, unpack the \
             package, and name the folder",
            EXTENSION_SIZE_MAX >> 20
        )
    })?;
    // Reads one byte more than declared, so that the end is reached, where checksums are verified.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(size + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    match bytes.len() as u64 == size {
        true => Ok(bytes),
        false => Err("a file in it does not have the stated size".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

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

    fn read_bytes(label: &str, bytes: Vec<u8>) -> Result<Package> {
        read(label, Cursor::new(bytes), "x")
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
                read_bytes(name, archive.clone()).unwrap().entries,
                expected,
                "{name}"
            );
            // An odd size before it, so that the padding matters.
            let package = debian(&[
                ("debian-binary", b"2.0"),
                ("control.tar.xz", &xz(b"of no use")),
                (name, &archive),
            ]);
            let read = read_bytes("x.deb", package).unwrap();
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
            let error = read_bytes("file", bytes.to_vec())
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
        let error = read_bytes("file", cut).map(drop).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{error}");
    }
}
