//! `regex`: the named groups of a regular expression are the fields of a line.

use lookaside_value::{Name, NameTable, Names, Record};
use regex::{CaptureLocations, Regex};

use super::lines::{ParseLine, Reason};

/// Matches each line once; groups that did not participate are left out.
pub(crate) struct RegexLine {
    pattern: Regex,
    /// The named groups, by their index.
    groups: Vec<(usize, Name)>,
    locations: CaptureLocations,
}

impl RegexLine {
    pub(crate) fn new(pattern: &Regex, mut name: impl FnMut(&str) -> Name) -> Self {
        let groups = pattern.capture_names().enumerate();
        Self {
            groups: groups
                .filter_map(|(index, group)| group.map(|group| (index, name(group))))
                .collect(),
            locations: pattern.capture_locations(),
            // A clone has its own scratch memory, so workers do not contend.
            pattern: pattern.clone(),
        }
    }
}

pub(crate) fn intern(pattern: &Regex, names: &mut NameTable) {
    for group in pattern.capture_names().flatten() {
        names.intern(group);
    }
}

impl ParseLine for RegexLine {
    fn parse(&mut self, line: &str, _: &mut Names, record: &mut Record) -> Result<(), Reason> {
        if self
            .pattern
            .captures_read(&mut self.locations, line)
            .is_none()
        {
            return Err("does not match the pattern".into());
        }
        for &(group, name) in &self.groups {
            if let Some((start, end)) = self.locations.get(group) {
                record.push(name, &line[start..end]);
            }
        }
        Ok(())
    }
}
