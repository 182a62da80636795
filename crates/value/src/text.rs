//! Text that is cheap to clone: up to 23 bytes inline, longer text shared.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use smol_str::SmolStr;

/// Immutable UTF-8 text, 24 bytes in size.
///
/// Up to 23 bytes are stored inline, so short text is copied without touching a shared counter;
/// longer text is one allocation shared by all its clones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(SmolStr);

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self::from_static("");

    /// Wraps text that lives as long as the program, without copying it.
    pub const fn from_static(text: &'static str) -> Self {
        Self(SmolStr::new_static(text))
    }

    /// The text itself.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Bytes on the heap that this text keeps alive, with their counters; clones share them.
    pub fn heap_size(&self) -> usize {
        if self.0.is_heap_allocated() {
            shared_size(self.0.len())
        } else {
            0
        }
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.0.as_str()
    }
}

impl From<&str> for Text {
    #[inline]
    fn from(text: &str) -> Self {
        Self(SmolStr::new(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(SmolStr::from(text))
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The heap size of an `Arc` of `size` bytes: its two counters precede them, and allocators round
/// up to multiples of 16.
pub(crate) fn shared_size(size: usize) -> usize {
    (2 * size_of::<usize>() + size).next_multiple_of(16)
}
