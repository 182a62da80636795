//! The operand that a column is compared with: a parameter, a literal, or an engine function of
//! those.

use std::cell::Cell;
use std::net::IpAddr;

use lookaside_value::{Text, Value};

use super::bool_words::BoolWords;
use crate::bind::SqlValue;
use crate::functions::{self, Function, SqlOut};

/// An expression without columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// The parameter at this position.
    Param(usize),
    /// The parameter at this position, compared with booleans in this notation.
    Bool(usize, BoolWords),
    Literal(Value),
    Call(Function, Vec<Self>),
}

impl Operand {
    /// The value for these parameters, if it needs no buffer: by far the most common case.
    #[inline]
    pub(super) fn plain_value<'a>(&'a self, params: &'a [Value]) -> Option<SqlValue<'a>> {
        match self {
            Self::Param(position) => plain(params.get(*position)?),
            Self::Bool(position, words) => match params.get(*position)? {
                Value::Bool(bool) => Some(SqlValue::Text(words.word(*bool))),
                value => plain(value),
            },
            Self::Literal(value) => plain(value),
            Self::Call(Function::Ip4Int, args) => {
                let [Self::Param(position)] = args.as_slice() else {
                    return None;
                };
                match params.get(*position)? {
                    Value::Text(text) => Some(SqlValue::Int(functions::ip4_int_of(text))),
                    // Avoids formatting the address as text and parsing it again.
                    Value::Ip(IpAddr::V4(ip)) => Some(SqlValue::Int(i64::from(u32::from(*ip)))),
                    _ => None,
                }
            }
            Self::Call(..) => None,
        }
    }

    /// The operand in SQL, with the names of the parameters.
    pub(super) fn sql(&self, params: &[Text]) -> String {
        match self {
            Self::Param(position) | Self::Bool(position, _) => format!(":{}", params[*position]),
            Self::Literal(Value::Int(int)) => int.to_string(),
            Self::Literal(value) => format!("'{}'", value.to_text().replace('\'', "''")),
            Self::Call(function, operands) => {
                let operands: Vec<String> = operands.iter().map(|it| it.sql(params)).collect();
                format!("{}({})", function.name(), operands.join(", "))
            }
        }
    }

    /// The value for these parameters, as SQLite would compute it; `None` if it would refuse.
    ///
    /// The value borrows from the operand, the parameters or the scratch.
    pub(super) fn value<'a>(
        &'a self,
        params: &'a [Value],
        scratch: &'a mut Scratch,
    ) -> Option<SqlValue<'a>> {
        match self {
            Self::Param(position) => {
                let value = params.get(*position)?;
                Some(scratch.sql_value(value))
            }
            Self::Bool(position, words) => Some(match params.get(*position)? {
                Value::Bool(bool) => SqlValue::Text(words.word(*bool)),
                value => scratch.sql_value(value),
            }),
            Self::Literal(value) => Some(scratch.sql_value(value)),
            Self::Call(function, args) => {
                scratch.out = call(*function, args, params)?;
                Some(scratch.out.as_sql_value())
            }
        }
    }

    /// The parameter, if the operand is one.
    #[inline]
    pub(super) fn param<'a>(&self, params: &'a [Value]) -> Option<&'a Value> {
        match self {
            Self::Param(position) => params.get(*position),
            _ => None,
        }
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Call(..))
    }

    /// Calls `visit` with the position of each parameter.
    pub(super) fn visit_params(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Self::Param(position) | Self::Bool(position, _) => visit(*position),
            Self::Literal(_) => {}
            Self::Call(_, args) => args.iter().for_each(|arg| arg.visit_params(visit)),
        }
    }
}

#[inline]
fn plain(value: &Value) -> Option<SqlValue<'_>> {
    match value {
        Value::Int(int) => Some(SqlValue::Int(*int)),
        Value::Text(text) => Some(SqlValue::Text(text)),
        _ => None,
    }
}

fn call(function: Function, args: &[Operand], params: &[Value]) -> Option<SqlOut> {
    if let (Function::IpKey, [Operand::Param(position)]) = (function, args)
        && let Some(Value::Ip(ip)) = params.get(*position)
    {
        return Some(SqlOut::Key(functions::ip_key_of_ip(*ip)));
    }
    let mut scratches = [const { Scratch::new() }; ARGUMENT_COUNT_MAX];
    let mut values = [SqlValue::Null; ARGUMENT_COUNT_MAX];
    let places = scratches.iter_mut().zip(&mut values);
    for (arg, (scratch, value)) in args.iter().zip(places) {
        *value = arg.value(params, scratch)?;
    }
    functions::call(function, &values[..args.len()]).ok()
}

const ARGUMENT_COUNT_MAX: usize = 3;

/// The buffer for a value that has to be computed.
pub(super) struct Scratch {
    text: String,
    out: SqlOut,
}

thread_local! {
    /// A spare text buffer, so that probes with addresses or times do not allocate.
    static SPARE: Cell<String> = const { Cell::new(String::new()) };
}

impl Scratch {
    pub(super) const fn new() -> Self {
        Self {
            text: String::new(),
            out: SqlOut::Null,
        }
    }

    /// An empty buffer that keeps its capacity from earlier uses.
    pub(super) fn text(&mut self) -> &mut String {
        if self.text.capacity() == 0 {
            self.text = SPARE.take();
        }
        self.text.clear();
        &mut self.text
    }

    fn sql_value<'a>(&'a mut self, value: &'a Value) -> SqlValue<'a> {
        match plain(value) {
            Some(value) => value,
            None => SqlValue::of(value, self.text()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.text.capacity() != 0 {
            SPARE.set(std::mem::take(&mut self.text));
        }
    }
}
