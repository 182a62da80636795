//! The tokens of a statement, and texts that PostgreSQL would cut into other tokens.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::Reason;

/// Longer statements are not read, as in [`crate::plan`]: no lookup is that long.
const SQL_SIZE_MAX: usize = 64 * 1024;

/// Statements with more tokens are not read: `1+1+1…` becomes a tree as deep as it has operators,
/// and a tree is dropped recursively. The parser limits the depth of everything else itself.
const TOKEN_COUNT_MAX: usize = 4096;

/// The characters of PostgreSQL's operators; see "Operators" in its section about lexical
/// structure: <https://www.postgresql.org/docs/18/sql-syntax-lexical.html#SQL-SYNTAX-OPERATORS>.
const OPERATOR_CHARACTERS: &str = "+-*/<>=~!@#%^&|`?";

/// The tokens, without white space and comments.
pub(super) fn tokens_of(sql: &str) -> Result<Vec<TokenWithSpan>, Reason> {
    if sql.len() > SQL_SIZE_MAX {
        return Err("is very long".into());
    }
    // PostgreSQL takes these for letters, the parser for white space.
    if sql.contains(|c: char| c == '\0' || c == '\u{feff}' || !c.is_ascii() && c.is_whitespace()) {
        return Err("contains unusual white space".into());
    }
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| format!("cannot be read: {error}"))?;
    check_operators(&tokens)?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    if tokens.len() > TOKEN_COUNT_MAX {
        return Err("is very long".into());
    }
    Ok(tokens)
}

/// Refuses operators that follow each other without white space, unless PostgreSQL takes them apart
/// as the tokenizer does: `=-1` is two operators, but `=@` is one, which users may define.
fn check_operators(tokens: &[TokenWithSpan]) -> Result<(), Reason> {
    let texts = tokens.iter().map(|token| operator_of(&token.token));
    let mut run = String::new();
    for text in texts.chain([None]) {
        let Some(text) = text else {
            run.clear();
            continue;
        };
        let is_first = run.is_empty();
        run.push_str(&text);
        let is_special = || run.contains(|c| "~!@#%^&|`?".contains(c));
        if !is_first && (!matches!(&*text, "+" | "-") || is_special()) {
            return Err(format!("uses the operator {run}, which is not known").into());
        }
    }
    Ok(())
}

/// The text of an operator.
fn operator_of(token: &Token) -> Option<String> {
    let text = match token {
        Token::Whitespace(_) | Token::EOF => return None,
        // The tokenizer does not keep which of `<>` and `!=` it was; the latter has a special
        // character.
        Token::Neq => "!=".to_owned(),
        other => other.to_string(),
    };
    text.chars()
        .all(|c| OPERATOR_CHARACTERS.contains(c))
        .then_some(text)
}
