//! Values of C's types as terms.

use crashproof_frontend::bitcode::ir::Type;
use crashproof_prove::term::{Term, Terms};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An integer, an address, or the bits of a floating-point number.
    Scalar(Term),
    /// A structure, array or vector, or a floating-point number of 80 bits.
    Members(Vec<Value>),
}

/// The width of a scalar type; `None` if it is not a scalar, or too wide.
pub(crate) fn bits(ty: &Type) -> Option<u8> {
    match ty {
        Type::Int(bits) if *bits <= 64 => Some(*bits as u8),
        Type::Pointer => Some(64),
        Type::Float(bits @ (16 | 32 | 64)) => Some(*bits as u8),
        _ => None,
    }
}

/// The members of a type held as several scalars, with their offsets.
pub(crate) fn members(ty: &Type) -> Option<Vec<(u64, Type)>> {
    match ty {
        Type::Aggregate(aggregate) => Some(aggregate.members.clone()),
        // As in memory: ten bytes.
        Type::Float(80) => Some(vec![(0, Type::Int(64)), (8, Type::Int(16))]),
        _ => None,
    }
}

/// Builds a value of a type, scalar by scalar; the error names a type that is not supported.
pub(crate) fn build(ty: &Type, scalar: &mut dyn FnMut(u8) -> Term) -> Result<Value, String> {
    if let Some(bits) = bits(ty) {
        return Ok(Value::Scalar(scalar(bits)));
    }
    if let Some(members) = members(ty) {
        let members = members.iter().map(|(_, member)| build(member, scalar));
        return Ok(Value::Members(members.collect::<Result<_, _>>()?));
    }
    match ty {
        Type::Int(bits) => Err(format!("an integer of {bits} bits")),
        Type::Float(bits) => Err(format!("a floating-point number of {bits} bits")),
        Type::Void => Err("a value of type void".into()),
        Type::Unsupported(what) => Err(format!("type {what}")),
        Type::Pointer | Type::Aggregate(_) => unreachable!("built above"),
    }
}

pub(crate) fn choose(terms: &mut Terms, condition: Term, yes: &Value, no: &Value) -> Value {
    match (yes, no) {
        (Value::Scalar(yes), Value::Scalar(no)) => Value::Scalar(terms.choose(condition, *yes, *no)),
        (Value::Members(yes), Value::Members(no)) => {
            Value::Members(yes.iter().zip(no).map(|(yes, no)| choose(terms, condition, yes, no)).collect())
        }
        _ => unreachable!("both values have one type"),
    }
}

/// Whether two values are equal, as a term.
pub(crate) fn equal(terms: &mut Terms, a: &Value, b: &Value) -> Term {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => terms.equal(*a, *b),
        (Value::Members(a), Value::Members(b)) => {
            let start = terms.truth(true);
            a.iter().zip(b).fold(start, |sum, (a, b)| {
                let same = equal(terms, a, b);
                terms.and(sum, same)
            })
        }
        _ => unreachable!("both values have one type"),
    }
}
