//! The dialect of SQLite, with operators that the parser's dialect lacks.

use std::any::{Any, TypeId};

use sqlparser::ast::{Expr, Statement};
use sqlparser::dialect::{Dialect, Precedence, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// `a is b`, `a is not b`, `a isnull`, `a << b` and `a >> b`; all else is [`SQLiteDialect`]'s.
///
/// It is used only for warnings. Native plans do not need these operators.
#[derive(Debug)]
pub(super) struct SqliteForms;

const PARSER: SQLiteDialect = SQLiteDialect {};

impl Dialect for SqliteForms {
    fn dialect(&self) -> TypeId {
        PARSER.type_id()
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if is_isnull(&parser.peek_token_ref().token) {
            parser.next_token();
            return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
        }
        if !parser.parse_keyword(Keyword::IS) {
            return PARSER.parse_infix(parser, left, precedence);
        }
        let is_negated = parser.parse_keyword(Keyword::NOT);
        let is_distinct = parser.parse_keywords(&[Keyword::DISTINCT, Keyword::FROM]);
        let left = Box::new(left.clone());
        let right = parser.parse_subexpr(precedence).map(Box::new);
        Some(right.map(|right| match is_negated == is_distinct {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        is_isnull(&parser.peek_token_ref().token).then(|| Ok(self.prec_value(Precedence::Is)))
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        PARSER.is_delimited_identifier_start(c)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PARSER.identifier_quote_style(identifier)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        PARSER.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        PARSER.is_identifier_part(c)
    }

    fn parse_statement(&self, parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
        PARSER.parse_statement(parser)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        PARSER.supports_filter_during_aggregation()
    }

    fn supports_in_empty_list(&self) -> bool {
        PARSER.supports_in_empty_list()
    }

    fn supports_limit_comma(&self) -> bool {
        PARSER.supports_limit_comma()
    }

    fn supports_dollar_placeholder(&self) -> bool {
        PARSER.supports_dollar_placeholder()
    }

    fn supports_notnull_operator(&self) -> bool {
        PARSER.supports_notnull_operator()
    }

    fn supports_comma_separated_trim(&self) -> bool {
        PARSER.supports_comma_separated_trim()
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        PARSER.supports_numeric_literal_underscores()
    }
}

fn is_isnull(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull")
        }
        _ => false,
    }
}
