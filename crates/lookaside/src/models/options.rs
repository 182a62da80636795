//! The environment of models: internal networks and time zone.

use jiff::tz::TimeZone;
use lookaside_knowledge::{IntranetMode, Knowledge};
use lookaside_oml::Intranet;
use lookaside_value::parse_zone;

use crate::failure::Failure;

/// The internal networks of the configuration.
pub(crate) fn intranet(knowledge: &Knowledge) -> Intranet {
    let Some(section) = knowledge.intranet_nets() else {
        return Intranet::default();
    };
    match section.mode {
        IntranetMode::Add => Intranet::add(section.nets),
        IntranetMode::Replace => Intranet::replace(section.nets),
    }
}

/// A time zone by name, or by an offset such as `+08:00`.
pub(crate) fn timezone(name: Option<&String>) -> Result<TimeZone, Failure> {
    let Some(name) = name else {
        return Ok(TimeZone::UTC);
    };
    parse_zone(name).ok_or_else(|| {
        Failure::usage(format!("unknown time zone {name}"))
            .with_help("write a name such as UTC or Europe/Berlin, or an offset such as +08:00")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_or_offsets() {
        for (name, seconds) in [
            ("UTC", 0),
            ("Asia/Tokyo", 9 * 3600),
            ("+08:00", 8 * 3600),
            ("-03:30", -12_600),
        ] {
            let zone = timezone(Some(&name.to_owned())).unwrap();
            let offset = zone.to_offset(jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(offset.seconds(), seconds, "{name}");
        }
        assert!(timezone(Some(&"Mars/Olympus".to_owned())).is_err());
    }
}
