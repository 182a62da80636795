//! `object`, `array` and `collect`.

use lookaside_value::Text;

use super::{Parsed, Parser};
use crate::ast::{Collect, Expr, ExprKind, Member, Target, TypeWord};
use crate::diagnostic::Diagnostic;

impl Parser<'_> {
    /// `object { a, b : type = value ; … }`
    pub(super) fn object(&mut self) -> Parsed<ExprKind> {
        self.word("`object`")?;
        self.expect("{", "after `object`")?;
        let mut members = Vec::new();
        while !self.cursor.eat("}") {
            self.before_end("`}` or a member of the object")?;
            self.members(&mut members)?;
            self.cursor.eat(";");
        }
        Ok(ExprKind::Object(members))
    }

    /// One or several names and their value.
    fn members(&mut self, members: &mut Vec<Member>) -> Parsed<()> {
        let mut targets = vec![self.member_target()?];
        while self.cursor.eat(",") {
            targets.push(self.member_target()?);
        }
        self.expect("=", "after the member's name")?;
        // A type after the last name applies to all; one after an earlier name applies to that one.
        if let [target] = &targets[..] {
            let name = target.name.clone();
            let value = self.expression(Some(&name))?;
            let target = target.clone();
            members.push(Member { target, value });
            return Ok(());
        }
        self.shared_value(targets, members)
    }

    fn member_target(&mut self) -> Parsed<Target> {
        let target = self.target()?;
        if target.name.contains('*') {
            let message = "a member's name has no `*`";
            return Err(Diagnostic::error(target.span, message));
        }
        Ok(target)
    }

    /// `a, b = take()` is `a = take(a) ; b = take(b)`: the value is read once, under an empty key,
    /// and copied for each name.
    fn shared_value(&mut self, targets: Vec<Target>, members: &mut Vec<Member>) -> Parsed<()> {
        let count_before = self.expression_count;
        let value = self.expression(Some(""))?;
        if !is_simple(&value) {
            let message = "several members can share only an access, a literal or a constant";
            return Err(
                Diagnostic::error(value.span, message).help("give each member its own value")
            );
        }
        let size = self.expression_count - count_before;
        self.count_expressions(size.saturating_mul(targets.len()))?;
        let shared = targets.last().expect("there are several").type_word;
        for mut target in targets {
            if target.type_word == TypeWord::Auto {
                target.type_word = shared;
            }
            let mut value = value.clone();
            name_implied_keys(&mut value, &target.name);
            members.push(Member { target, value });
        }
        Ok(())
    }

    /// `array { item ; … }`
    pub(super) fn array(&mut self) -> Parsed<ExprKind> {
        self.word("`array`")?;
        self.expect("{", "after `array`")?;
        let mut items = Vec::new();
        while !self.cursor.eat("}") {
            self.before_end("`}` or an item of the array")?;
            items.push(self.expression(None)?);
            let _ = self.cursor.eat(";") || self.cursor.eat(",");
        }
        Ok(ExprKind::Array(items))
    }

    /// `collect read(keys:[…])`
    pub(super) fn collect(&mut self) -> Parsed<ExprKind> {
        self.word("`collect`")?;
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let help = "write `collect read(keys:[a, b*])`";
        if !matches!(self.cursor.peek_word(), "read" | "take") {
            return Err(self
                .unexpected("`read(keys:[…])` or `take(keys:[…])`")
                .help(help));
        }
        let (access, patterns) = self.gathering_access(None)?;
        if patterns.is_empty() {
            let message = "`collect` needs patterns of names";
            return Err(Diagnostic::error(self.cursor.span_from(start), message).help(help));
        }
        if !access.key.is_empty() || !access.options.is_empty() {
            let message = "`collect` supports only `keys:[…]`";
            self.warn(access.span, message, help);
        }
        Ok(ExprKind::Collect(Collect {
            mode: access.mode,
            patterns: patterns.into_iter().map(|(pattern, _)| pattern).collect(),
            default: access.default,
        }))
    }
}

fn is_simple(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Access(access) => access.default.as_deref().is_none_or(is_simple),
        ExprKind::Literal(_) | ExprKind::Now(_) | ExprKind::Static(_) => true,
        _ => false,
    }
}

fn name_implied_keys(value: &mut Expr, name: &Text) {
    if let ExprKind::Access(access) = &mut value.kind {
        if access.key.is_empty() {
            access.key = name.clone();
        }
        if let Some(default) = &mut access.default {
            name_implied_keys(default, name);
        }
    }
}
