//! The outputs that the text of a model names, for `lookaside check`.

use lookaside_oml::ast::{Expr, ExprKind, Program, StatementKind};
use lookaside_oml::{Diagnostic, Diagnostics, Model, Severity};
use lookaside_value::Value;

use super::routes::OUTPUT;

/// Names that every run knows: the default output, and none at all.
const ALWAYS: [&str; 2] = ["default", "none"];

/// Warnings about literal names that are not among `names`, which the project sets. Events with such
/// a name are rejected, unless a flag adds the output.
pub(crate) fn unknown_outputs(model: &Model, names: &[&str]) -> Diagnostics {
    let program = model.program();
    let mut warnings = Vec::new();
    for statement in &program.statements {
        if let StatementKind::Assign { target, value } = &statement.kind
            && target.name == OUTPUT
        {
            visit(value, program, &mut |name, expr| {
                if !names.contains(&name) && !ALWAYS.contains(&name) {
                    warnings.push(warning(name, expr, names));
                }
            });
        }
    }
    model.diagnostics(warnings)
}

fn warning(name: &str, expr: &Expr, names: &[&str]) -> Diagnostic {
    let known = [&ALWAYS[..1], names].concat().join(", ");
    Diagnostic {
        severity: Severity::Warning,
        message: format!("no output is named `{name}`; the outputs are {known}"),
        label: "events with this name are rejected".to_owned(),
        span: expr.span,
        help: Some("add it as an [[enrich.output]], or by --named-output".to_owned()),
    }
}

/// Calls a function with each literal text that may be the value of an expression, or is in a list
/// that may be.
fn visit<'a>(expr: &'a Expr, program: &'a Program, found: &mut dyn FnMut(&str, &'a Expr)) {
    match &expr.kind {
        ExprKind::Literal(Value::Text(text)) => found(text, expr),
        ExprKind::Literal(Value::Symbol(text)) => found(text, expr),
        ExprKind::Static(id) => visit(&program.statics[id.0 as usize].value, program, found),
        ExprKind::Array(items) => items.iter().for_each(|item| visit(item, program, found)),
        ExprKind::Match(cases) => {
            let results = cases.cases.iter().map(|case| &case.result);
            let results = results.chain(cases.default.as_deref());
            results.for_each(|result| visit(result, program, found));
        }
        _ => {}
    }
}
