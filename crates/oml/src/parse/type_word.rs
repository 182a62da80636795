//! Type words.

use super::{Parsed, Parser};
use crate::ast::TypeWord;
use crate::diagnostic::Diagnostic;

/// All words and their types; words for types that values do not have are treated as text.
const WORDS: [(&str, TypeWord); 35] = [
    ("auto", TypeWord::Auto),
    ("_", TypeWord::Ignore),
    ("bool", TypeWord::Bool),
    ("chars", TypeWord::Chars),
    ("symbol", TypeWord::Symbol),
    ("peek_symbol", TypeWord::Symbol),
    ("digit", TypeWord::Digit),
    ("bigint", TypeWord::Bigint),
    ("float", TypeWord::Float),
    ("time", TypeWord::Time),
    ("time_iso", TypeWord::Time),
    ("time_3339", TypeWord::Time),
    ("time_2822", TypeWord::Time),
    ("time_timestamp", TypeWord::Time),
    ("ip", TypeWord::Ip),
    ("ip_net", TypeWord::IpNet),
    ("obj", TypeWord::Obj),
    ("array", TypeWord::Array),
    ("json", TypeWord::Json),
    ("exact_json", TypeWord::Json),
    ("domain", TypeWord::Other("domain")),
    ("email", TypeWord::Other("email")),
    ("port", TypeWord::Other("port")),
    ("sn", TypeWord::Other("sn")),
    ("hex", TypeWord::Other("hex")),
    ("base64", TypeWord::Other("base64")),
    ("kv", TypeWord::Other("kv")),
    ("kvarr", TypeWord::Other("kvarr")),
    ("url", TypeWord::Other("url")),
    ("id_card", TypeWord::Other("id_card")),
    ("mobile_phone", TypeWord::Other("mobile_phone")),
    ("proto_text", TypeWord::Other("proto_text")),
    ("http/request", TypeWord::Other("http")),
    ("http/status", TypeWord::Other("http")),
    ("http/agent", TypeWord::Other("http")),
];

/// Type words of other languages, for hints.
const FOREIGN: [(&str, &str); 10] = [
    ("int", "digit"),
    ("integer", "digit"),
    ("number", "digit"),
    ("string", "chars"),
    ("str", "chars"),
    ("text", "chars"),
    ("double", "float"),
    ("boolean", "bool"),
    ("object", "obj"),
    ("datetime", "time"),
];

/// The type of a word.
pub(super) fn type_word(word: &str) -> Option<TypeWord> {
    if let Some((_, type_word)) = WORDS.iter().find(|(known, _)| *known == word) {
        return Some(*type_word);
    }
    match word.split_once('/')? {
        ("array", element) => type_word(element).map(|_| TypeWord::Array),
        ("time", format) => is_format(format).then_some(TypeWord::Time),
        ("http", part) => is_format(part).then_some(TypeWord::Other("http")),
        _ => None,
    }
}

fn is_format(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The words, for hints.
pub(super) fn type_words() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|(word, _)| *word)
}

impl Parser<'_> {
    /// `: type`, if there is one.
    pub(super) fn optional_type(&mut self) -> Parsed<TypeWord> {
        if !self.cursor.eat(":") {
            return Ok(TypeWord::Auto);
        }
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let word = self
            .cursor
            .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '/'));
        if word.is_empty() {
            return Err(self.unexpected("a type such as `digit` or `chars`"));
        }
        type_word(word).ok_or_else(|| {
            let span = self.cursor.span_from(start);
            let fault = Diagnostic::error(span, format!("unknown type `{word}`"));
            let lower = word.to_lowercase();
            match FOREIGN.iter().find(|(foreign, _)| *foreign == lower) {
                Some((_, ours)) => fault.help(format!("it is called `{ours}` here")),
                None => fault.nearest(word, type_words()),
            }
        })
    }
}
