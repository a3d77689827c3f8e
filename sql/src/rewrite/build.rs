//! Pieces of syntax tree that the rewriter puts in.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, UnaryOperator, Value,
    ValueWithSpan,
};

/// A name that the planner takes as it is.
pub(super) fn ident(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

pub(super) fn object_name(parts: &[&str]) -> ObjectName {
    ObjectName(parts.iter().map(|part| ObjectNamePart::Identifier(ident(part))).collect())
}

pub(super) fn column(relation: &str, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![ident(relation), ident(name)])
}

pub(super) fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan::from(value))
}

pub(super) fn string(text: impl Into<String>) -> Expr {
    value(Value::SingleQuotedString(text.into()))
}

pub(super) fn number(number: impl ToString) -> Expr {
    let text = number.to_string();
    match text.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(value(Value::Number(digits.to_owned(), false))),
        },
        None => value(Value::Number(text, false)),
    }
}

pub(super) fn boolean(truth: bool) -> Expr {
    value(Value::Boolean(truth))
}

/// A constant of bytes.
pub(super) fn bytes(bytes: &[u8]) -> Expr {
    value(Value::HexStringLiteral(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

pub(super) fn null() -> Expr {
    value(Value::Null)
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(function(name, arguments))
}

pub(super) fn function(name: &str, arguments: Vec<Expr>) -> Function {
    Function {
        name: object_name(&[name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: argument_list(arguments),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

pub(super) fn argument_list(arguments: Vec<Expr>) -> FunctionArguments {
    FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments
            .into_iter()
            .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
            .collect(),
        clauses: Vec::new(),
    })
}

pub(super) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

pub(super) fn arrow_cast(expr: Expr, arrow_type: &str) -> Expr {
    call("arrow_cast", vec![expr, string(arrow_type)])
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub(super) fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

pub(super) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// Puts a new expression in the place of another, which it may use.
pub(super) fn replace(place: &mut Expr, with: impl FnOnce(Expr) -> Expr) {
    let old = std::mem::replace(place, null());
    *place = with(old);
}

/// The text of a string literal of any form.
pub(super) fn string_literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => string_literal(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Some(text),
            Value::DollarQuotedString(quoted) => Some(&quoted.value),
            _ => None,
        },
        _ => None,
    }
}

/// The digits of a number literal, with its sign.
pub(super) fn number_literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => number_literal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            number_literal(expr).filter(|digits| !digits.starts_with('-')).map(|digits| format!("-{digits}"))
        }
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => Some(digits.clone()),
        _ => None,
    }
}

/// A decimal number with this many digits after the point, and room for 60 before it.
pub(super) fn decimal(expr: Expr, scale: i64) -> Expr {
    let precision = u64::try_from(scale).unwrap_or_default() + 60;
    cast(expr, DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale)))
}

/// The number of a parameter: `$3` is 3.
pub(super) fn parameter_number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => parameter_number(inner),
        Expr::Value(ValueWithSpan { value: Value::Placeholder(text), .. }) => {
            text.strip_prefix('$')?.parse().ok()
        }
        _ => None,
    }
}
