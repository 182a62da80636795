//! What a column is compared with: a parameter, a literal, or one of our functions of those.

use std::cell::Cell;
use std::net::IpAddr;

use lookaside_value::Value;

use crate::bind::SqlValue;
use crate::functions::{self, Function, SqlOut};

/// An expression without columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// The parameter at this position.
    Param(usize),
    Literal(Value),
    Call(Function, Vec<Self>),
}

impl Operand {
    /// The value for these parameters, as SQLite would compute it; `None` if it would refuse.
    ///
    /// The value borrows from the operand, the parameters or the scratch.
    #[inline]
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
            Self::Literal(value) => Some(scratch.sql_value(value)),
            Self::Call(function, args) => {
                scratch.out = call(*function, args, params)?;
                Some(scratch.out.as_sql_value())
            }
        }
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Call(..))
    }

    /// Calls `visit` with the position of each parameter.
    pub(super) fn visit_params(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Self::Param(position) => visit(*position),
            Self::Literal(_) => {}
            Self::Call(_, args) => args.iter().for_each(|arg| arg.visit_params(visit)),
        }
    }
}

fn call(function: Function, args: &[Operand], params: &[Value]) -> Option<SqlOut> {
    // The commonest call by far is on an address that is an address already: it need not become
    // text to be parsed again.
    if let [Operand::Param(position)] = args
        && let Some(Value::Ip(ip)) = params.get(*position)
    {
        match (function, ip) {
            (Function::Ip4Int, IpAddr::V4(ip)) => {
                return Some(SqlOut::Int(i64::from(u32::from(*ip))));
            }
            (Function::IpKey, ip) => return Some(SqlOut::Key(functions::ip_key_of_ip(*ip))),
            _ => {}
        }
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

/// Where a value that is not at hand as it is needed is written.
pub(super) struct Scratch {
    text: String,
    out: SqlOut,
}

thread_local! {
    /// A text buffer that waits for its next use, so that probes with addresses or times do not
    /// allocate.
    static SPARE: Cell<String> = const { Cell::new(String::new()) };
}

impl Scratch {
    pub(super) const fn new() -> Self {
        Self {
            text: String::new(),
            out: SqlOut::Null,
        }
    }

    /// An empty buffer with room from earlier uses.
    pub(super) fn text(&mut self) -> &mut String {
        if self.text.capacity() == 0 {
            self.text = SPARE.take();
        }
        self.text.clear();
        &mut self.text
    }

    #[inline]
    fn sql_value<'a>(&'a mut self, value: &'a Value) -> SqlValue<'a> {
        match value {
            Value::Int(int) => SqlValue::Int(*int),
            Value::Text(text) => SqlValue::Text(text),
            other => SqlValue::of(other, self.text()),
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
