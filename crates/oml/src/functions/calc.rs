//! The arithmetic of `calc`: every operation returns a number or `None`.

use lookaside_value::Value;

use crate::ast::{CalcFunction, CalcOperator};

/// An operand or a result; a float is never NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// A whole number.
    Int(i64),
    /// A finite number.
    Float(f64),
}

impl Number {
    /// The number of an integer or a float; numeric text is not converted.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(int) => Some(Self::Int(*int)),
            Value::Float(float) => finite(*float),
            _ => None,
        }
    }

    /// `-x`, if it fits its type.
    pub(crate) fn negate(self) -> Option<Self> {
        match self {
            Self::Int(int) => int.checked_neg().map(Self::Int),
            Self::Float(float) => Some(Self::Float(-float)),
        }
    }

    fn to_float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(int) => Self::Int(int),
            Number::Float(float) => Self::Float(float),
        }
    }
}

impl CalcOperator {
    /// The result, if there is one: no overflow, no division by zero.
    pub(crate) fn apply(self, left: Number, right: Number) -> Option<Number> {
        if let (Number::Int(a), Number::Int(b)) = (left, right) {
            let int = match self {
                Self::Add => a.checked_add(b),
                Self::Subtract => a.checked_sub(b),
                Self::Multiply => a.checked_mul(b),
                Self::Modulo => a.checked_rem(b),
                Self::Divide => return finite(a as f64 / b as f64),
            };
            return int.map(Number::Int);
        }
        let (a, b) = (left.to_float(), right.to_float());
        match self {
            Self::Add => finite(a + b),
            Self::Subtract => finite(a - b),
            Self::Multiply => finite(a * b),
            Self::Divide => finite(a / b),
            Self::Modulo => None,
        }
    }
}

impl CalcFunction {
    /// The result, if it fits its type.
    pub(crate) fn apply(self, number: Number) -> Option<Number> {
        match (self, number) {
            (Self::Abs, Number::Int(int)) => int.checked_abs().map(Number::Int),
            (Self::Abs, Number::Float(float)) => Some(Number::Float(float.abs())),
            (Self::Round | Self::Floor | Self::Ceil, Number::Int(_)) => Some(number),
            (Self::Round, Number::Float(float)) => whole(float.round()),
            (Self::Floor, Number::Float(float)) => whole(float.floor()),
            (Self::Ceil, Number::Float(float)) => whole(float.ceil()),
        }
    }
}

fn finite(float: f64) -> Option<Number> {
    float.is_finite().then_some(Number::Float(float))
}

fn whole(float: f64) -> Option<Number> {
    // 2^63 is the first float above the range, -2^63 the last one in it.
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    range.contains(&float).then_some(Number::Int(float as i64))
}

#[cfg(test)]
mod tests {
    use super::Number::{Float, Int};
    use super::*;

    #[test]
    fn binary_operations() {
        use CalcOperator::{Add, Divide, Modulo, Multiply, Subtract};
        for (left, operation, right, expected) in [
            (Int(2), Add, Int(3), Some(Int(5))),
            (Int(2), Add, Float(0.5), Some(Float(2.5))),
            (Int(2), Subtract, Int(3), Some(Int(-1))),
            (Int(2), Multiply, Int(3), Some(Int(6))),
            (Float(2.0), Multiply, Int(3), Some(Float(6.0))),
            (Int(6), Divide, Int(3), Some(Float(2.0))),
            (Int(1), Divide, Int(0), None),
            (Float(1.0), Divide, Float(0.0), None),
            (Int(-35), Modulo, Int(16), Some(Int(-3))),
            (Int(1), Modulo, Int(0), None),
            (Float(5.0), Modulo, Int(2), None),
            (Int(i64::MIN), Modulo, Int(-1), None),
            (Int(i64::MAX), Add, Int(1), None),
            (Int(i64::MIN), Subtract, Int(1), None),
            (Int(i64::MAX), Multiply, Int(2), None),
            (Float(f64::MAX), Multiply, Int(2), None),
        ] {
            assert_eq!(
                operation.apply(left, right),
                expected,
                "{left:?} {operation:?} {right:?}"
            );
        }
    }

    #[test]
    fn unary_operations() {
        use CalcFunction::{Abs, Ceil, Floor, Round};
        for (operation, number, expected) in [
            (Abs, Int(-3), Some(Int(3))),
            (Abs, Int(i64::MIN), None),
            (Abs, Float(-0.5), Some(Float(0.5))),
            (Round, Float(2.5), Some(Int(3))),
            (Round, Float(-2.5), Some(Int(-3))),
            (Floor, Float(-2.1), Some(Int(-3))),
            (Ceil, Float(2.1), Some(Int(3))),
            (Ceil, Int(7), Some(Int(7))),
            (Round, Float(1e19), None),
            (Floor, Float(9_223_372_036_854_775_808.0), None),
        ] {
            assert_eq!(
                operation.apply(number),
                expected,
                "{operation:?} {number:?}"
            );
        }
    }

    #[test]
    fn negation() {
        assert_eq!(Int(3).negate(), Some(Int(-3)));
        assert_eq!(Int(i64::MIN).negate(), None);
        assert_eq!(Float(0.5).negate(), Some(Float(-0.5)));
    }

    #[test]
    fn operands() {
        assert_eq!(Number::from_value(&Value::Int(1)), Some(Int(1)));
        assert_eq!(Number::from_value(&Value::Float(f64::NAN)), None);
        assert_eq!(Number::from_value(&Value::Float(f64::INFINITY)), None);
        assert_eq!(Number::from_value(&Value::from("1")), None);
        assert_eq!(Number::from_value(&Value::Null), None);
    }
}
