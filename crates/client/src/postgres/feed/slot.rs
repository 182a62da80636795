//! The names of slots, which are unique on a server.

use crate::postgres::feed::SlotName;
use crate::{Error, Result};

/// A new name that begins with `prefix`.
pub(super) fn unique_slot_name(prefix: &str) -> Result<SlotName> {
    let random = getrandom::u64().map_err(Error::no_random_bytes)?;
    slot_name(prefix, std::process::id(), random)
}

/// Whether all names that begin with `prefix` are names of slots.
pub(super) fn check_prefix(prefix: &str) -> Result<()> {
    slot_name(prefix, u32::MAX, u64::MAX).map(drop)
}

fn slot_name(prefix: &str, process_id: u32, random: u64) -> Result<SlotName> {
    let name = SlotName::new(format!("{prefix}_{process_id}_{random:016x}"));
    name.map_err(|error| Error::bad_slot_prefix(prefix, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn names_are_unique_and_fit() {
        let longest = "x".repeat(35);
        for prefix in ["lookaside", "", &longest] {
            check_prefix(prefix).unwrap();
            let names = [(); 2].map(|()| unique_slot_name(prefix).unwrap());
            assert_ne!(names[0], names[1]);
            assert!(names[0].as_str().starts_with(prefix));
        }
        for prefix in ["x".repeat(36).as_str(), "Feed", "a-b", "a'", "a\0"] {
            let error = check_prefix(prefix).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{prefix:?}");
        }
    }
}
