//! Function calls: names without their schema, arguments as PostgreSQL reads them, and the few
//! functions whose answer depends on the session's time zone.

use datafusion::arrow::datatypes::TimeUnit;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, FunctionArguments, WindowFrameBound, WindowSpec,
    WindowType,
};

use super::cast::interval_literal;
use super::expr::Rewrite;
use super::kind::Kind;
use super::scope::Scope;
use super::{Rewriter, build, category, operator};
use crate::error::{SqlError, SqlErrorKind};
use crate::functions::{
    BYTE_LENGTH, DATE_TRUNC, ENCODE, FIELD, ROUND_HALF_EVEN, TIMESTAMPTZ, TIMEZONE, TO_DATE, TO_TIMESTAMP,
    is_own_field,
};
use crate::pg_type::PgType;
use crate::time::zone::Zone;

impl Rewriter<'_> {
    pub(super) fn call(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::Function(function) = expr else { return Ok(None) };
        let name = function_name(function)?;
        if let FunctionArguments::Subquery(query) = &mut function.args {
            if name != "array" {
                return Err(SqlError::unsupported(format!("{name} of a subquery")));
            }
            let query = std::mem::replace(query, Box::new(super::subquery::select_of(build::null())?));
            *expr = self.array_subquery(*query, scope)?;
            return Ok(Some(Kind::of(PgType::TextArray)));
        }
        if function.uses_odbc_syntax || !matches!(function.parameters, FunctionArguments::None) {
            return Err(SqlError::unsupported(format!("this way to call {name}")));
        }
        // `current_date` and its kin are written without parentheses.
        if matches!(function.args, FunctionArguments::None) {
            function.args = build::argument_list(Vec::new());
        }
        function.name = build::object_name(&[&name]);
        let kinds = self.arguments(function, scope)?;
        self.clauses(function, scope)?;
        if !matches!(name.as_str(), "header" | "header_bytes" | "count" | "min" | "max" | "unnest") {
            arguments_as_json(expr, &kinds);
        }
        if name == "generate_subscripts" && scope.always_empty {
            // As many rows as the list has elements, which is none here.
            let list = take_argument(expr, 0).unwrap_or_else(build::null);
            *expr = build::call("unnest", vec![list]);
            return Ok(Some(Kind::of(PgType::Int4)));
        }
        self.specific(expr, &name, &kinds)
    }

    /// Rewrites the arguments and answers what is known about them.
    fn arguments(&mut self, function: &mut Function, scope: &Scope) -> Result<Vec<Option<Kind>>, SqlError> {
        let FunctionArguments::List(FunctionArgumentList { args, clauses, .. }) = &mut function.args else {
            return Ok(Vec::new());
        };
        let mut kinds = Vec::with_capacity(args.len());
        for argument in args.iter_mut() {
            kinds.push(match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr, scope)?,
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => None,
                other => return Err(SqlError::unsupported(format!("the argument {other} of a function"))),
            });
        }
        for clause in clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => {
                    self.exprs(keys.iter_mut().map(|key| &mut key.expr), scope)?;
                }
                FunctionArgumentClause::IgnoreOrRespectNulls(_) => {}
                other => return Err(SqlError::unsupported(format!("{other} in a function call"))),
            }
        }
        Ok(kinds)
    }

    fn clauses(&mut self, function: &mut Function, scope: &Scope) -> Result<(), SqlError> {
        if let Some(filter) = &mut function.filter {
            self.expr(filter, scope)?;
        }
        self.exprs(function.within_group.iter_mut().map(|key| &mut key.expr), scope)?;
        match &mut function.over {
            Some(WindowType::WindowSpec(spec)) => self.window_spec(spec, scope),
            Some(WindowType::NamedWindow(name)) => {
                *name = build::ident(&super::names::fold(name));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn window_spec(&mut self, spec: &mut WindowSpec, scope: &Scope) -> Result<(), SqlError> {
        if let Some(name) = &mut spec.window_name {
            *name = build::ident(&super::names::fold(name));
        }
        self.exprs(&mut spec.partition_by, scope)?;
        self.exprs(spec.order_by.iter_mut().map(|key| &mut key.expr), scope)?;
        let Some(frame) = &mut spec.window_frame else { return Ok(()) };
        let bounds = std::iter::once(&mut frame.start_bound).chain(frame.end_bound.iter_mut());
        for bound in bounds {
            if let WindowFrameBound::Preceding(Some(expr)) | WindowFrameBound::Following(Some(expr)) = bound {
                interval_or_number(expr)?;
                self.expr(expr, scope)?;
            }
        }
        Ok(())
    }

    /// What is special about one function, and what it answers.
    fn specific(&mut self, expr: &mut Expr, name: &str, kinds: &[Option<Kind>]) -> Rewrite {
        match name {
            "generate_subscripts" => Err(SqlError::unsupported("generate_subscripts")),
            "coalesce" | "nullif" | "greatest" | "least" => self.same_kinds(expr, name, kinds),
            "date_trunc" => self.date_trunc(expr, kinds),
            "date_bin" | "time_bucket" => self.time_bucket(expr, kinds),
            "date_part" => {
                let field = argument(expr, 0).and_then(build::string_literal).map(str::to_ascii_lowercase);
                let (Some(field), Some(value)) = (field, take_argument(expr, 1)) else { return Ok(None) };
                *expr = self.field_of(&field, value, kinds.get(1).copied().flatten());
                Ok(Some(Kind::of(PgType::Float8)))
            }
            "to_char" => {
                push_argument(expr, build::string(self.zone_name()));
                Ok(Some(Kind::of(PgType::Text)))
            }
            "to_timestamp" | "to_date" => {
                rename(expr, if name == "to_date" { TO_DATE } else { TO_TIMESTAMP });
                push_argument(expr, build::string(self.zone_name()));
                let pg_type = if name == "to_date" { PgType::Date } else { PgType::Timestamptz };
                Ok(Some(Kind::of(pg_type)))
            }
            "timezone" => {
                let instant = kinds.get(1).copied().flatten().is_some_and(Kind::is_instant);
                let pg_type = if instant { PgType::Timestamp } else { PgType::Timestamptz };
                Ok(Some(Kind::of(pg_type)))
            }
            "clock_timestamp"
            | "statement_timestamp"
            | "transaction_timestamp"
            | "now"
            | "current_timestamp"
            | "localtimestamp"
            | "current_date" => self.clock(expr, name),
            "every" | "sign" | "ceiling" | "variance" => {
                rename(
                    expr,
                    match name {
                        "every" => "bool_and",
                        "sign" => "signum",
                        "variance" => "var",
                        _ => "ceil",
                    },
                );
                Ok(None)
            }
            "length" | "octet_length"
                if kinds.first().copied().flatten() == Some(Kind::of(PgType::Bytea)) =>
            {
                rename(expr, BYTE_LENGTH);
                Ok(Some(Kind::of(PgType::Int4)))
            }
            "encode" => {
                if let Some(bytes) = arguments_mut(expr).next() {
                    self.adapt(bytes, kinds.first().copied().flatten(), Some(Kind::of(PgType::Bytea)))?;
                }
                rename(expr, ENCODE);
                Ok(Some(Kind::of(PgType::Text)))
            }
            "min" | "max" if kinds.first().copied().flatten().is_some_and(Kind::is_headers) => {
                let message = format!("function {name}(json) does not exist");
                Err(SqlError::new(SqlErrorKind::UndefinedFunction, message)
                    .with_hint("cast the headers to text, or take one with header(_headers, 'key')"))
            }
            "concat" | "concat_ws" | "format" => {
                self.text_arguments(expr, kinds);
                Ok(Some(Kind::of(PgType::Text)))
            }
            _ => Ok(numeric(expr, name, kinds)),
        }
    }

    /// What the time is: of the statement, not of the moment, so that every row sees the same.
    fn clock(&self, expr: &mut Expr, name: &str) -> Rewrite {
        if argument(expr, 0).is_some() {
            return Err(SqlError::unsupported(format!("a precision of {name}")));
        }
        let now = build::call("now", Vec::new());
        let local = || build::call(TIMEZONE, vec![build::string(self.zone_name()), now.clone()]);
        let (shown, kind) = match name {
            "current_date" => (build::cast(local(), DataType::Date), Kind::of(PgType::Date)),
            "localtimestamp" => (local(), Kind::of(PgType::Timestamp)),
            _ => (now, nanoseconds()),
        };
        *expr = shown;
        Ok(Some(kind))
    }

    fn text_arguments(&self, expr: &mut Expr, kinds: &[Option<Kind>]) {
        for (argument, kind) in arguments_mut(expr).zip(kinds) {
            self.as_text(argument, *kind);
        }
    }

    /// Arguments that have one type in common: literals take it.
    fn same_kinds(&mut self, expr: &mut Expr, name: &str, kinds: &[Option<Kind>]) -> Rewrite {
        if name == "nullif"
            && let [left, right] = kinds
        {
            category::check(*left, "=", *right)?;
        }
        self.choose(arguments_mut(expr), kinds)
    }

    /// Days begin at midnight of the session's zone, or of the third argument. Text is an instant.
    fn date_trunc(&mut self, expr: &mut Expr, kinds: &[Option<Kind>]) -> Rewrite {
        let mut time = kinds.get(1).copied().flatten();
        if time.is_some_and(|kind| !kind.is_instant() && !kind.is_wall_clock()) {
            return Ok(None);
        }
        let zone = build::string(self.zone_name());
        if let Some(argument) = arguments_mut(expr).nth(1) {
            let instant = Kind::of(PgType::Timestamptz);
            let is_literal = time.is_none() && build::string_literal(argument).is_some();
            if time.is_none() {
                self.adapt(argument, None, Some(instant))?;
            }
            // PostgreSQL has no date_trunc of a date, and takes it for an instant.
            let is_cast = match time {
                Some(kind) => kind.pg_type == PgType::Date,
                None => build::parameter_number(argument).is_some(),
            };
            if is_cast {
                let zone = zone.clone();
                build::replace(argument, |argument| build::call(TIMESTAMPTZ, vec![argument, zone]));
            }
            if is_cast || is_literal {
                time = Some(instant);
            }
        }
        rename(expr, DATE_TRUNC);
        if kinds.len() == 2 {
            push_argument(expr, zone);
        }
        Ok(time)
    }

    fn time_bucket(&mut self, expr: &mut Expr, kinds: &[Option<Kind>]) -> Rewrite {
        let time = kinds.get(1).copied().flatten();
        for (index, argument) in arguments_mut(expr).enumerate() {
            match index {
                0 => interval_literal(argument, None)?,
                1 => {}
                _ => {
                    let instant = Kind::of(PgType::Timestamptz);
                    self.adapt(argument, kinds[index], time.or(Some(instant)))?;
                }
            }
        }
        Ok(time)
    }

    pub(super) fn extract(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::Extract { field, expr: inner, .. } = expr else { return Ok(None) };
        let field = field.to_string().trim_matches('\'').to_ascii_lowercase();
        let kind = self.expr(inner, scope)?;
        let inner = std::mem::replace(inner.as_mut(), build::null());
        *expr = self.field_of(&field, inner, kind);
        Ok(Some(Kind::of(PgType::Float8)))
    }

    /// One field of a time; all but the epoch are read off a clock of the session's zone.
    fn field_of(&self, field: &str, value: Expr, kind: Option<Kind>) -> Expr {
        let local = field != "epoch" && !self.is_utc() && kind.is_some_and(Kind::is_instant);
        let value =
            if local { build::call(TIMEZONE, vec![build::string(self.zone_name()), value]) } else { value };
        let length = field == "epoch" && kind.is_some_and(Kind::is_interval);
        if is_own_field(field) || length {
            return build::call(FIELD, vec![build::string(field), value]);
        }
        build::cast(build::call("date_part", vec![build::string(field), value]), DataType::DoublePrecision)
    }

    /// `t AT TIME ZONE z` is `timezone(z, t)`.
    pub(super) fn at_time_zone(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::AtTimeZone { timestamp, time_zone } = expr else { return Ok(None) };
        let kind = self.expr(timestamp, scope)?;
        self.expr(time_zone, scope)?;
        self.note_parameter(time_zone, PgType::Text);
        if let Some(zone) = build::string_literal(time_zone)
            && Zone::parse(zone).is_none()
        {
            let message = format!("time zone \"{zone}\" not recognized");
            return Err(SqlError::new(SqlErrorKind::InvalidParameter, message));
        }
        let mut timestamp = std::mem::replace(timestamp.as_mut(), build::null());
        let zone = std::mem::replace(time_zone.as_mut(), build::null());
        // A bare string is an instant, as PostgreSQL prefers.
        if kind.is_none() {
            self.adapt(&mut timestamp, None, Some(Kind::of(PgType::Timestamptz)))?;
        }
        let local = kind.is_none_or(Kind::is_instant);
        *expr = build::call(TIMEZONE, vec![zone, timestamp]);
        Ok(kind.map(|_| Kind::of(if local { PgType::Timestamp } else { PgType::Timestamptz })))
    }
}

/// Functions take the headers of a record as the json that they are to clients.
fn arguments_as_json(expr: &mut Expr, kinds: &[Option<Kind>]) {
    for (argument, kind) in arguments_mut(expr).zip(kinds) {
        operator::headers_as_json(argument, *kind);
    }
}

/// A bigint of any size, as the sum of which PostgreSQL answers a numeric.
const WIDE_INTEGER: DataType = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(20, 0));
/// Digits after the point to which `round` can be asked to cut what is shown.
const SHOWN_SCALE_MAX: i64 = 16;

/// Whether an expression is made of literals, which are integers of 32 bits to PostgreSQL.
fn is_small(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_small(inner),
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter().all(|case| is_small(&case.result))
                && else_result.as_deref().is_none_or(is_small)
        }
        Expr::Value(_) => true,
        other => build::number_literal(other).is_some(),
    }
}

/// The name without its schema, which must be the system's.
fn function_name(function: &Function) -> Result<String, SqlError> {
    let parts: Vec<String> = function.name.0.iter().map(super::names::part_text).collect();
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "pg_catalog" || schema == "public" => Ok(name.clone()),
        [schema, name] if schema == "information_schema" => {
            Err(SqlError::unsupported(format!("the function information_schema.{name}")))
        }
        _ => {
            let message = format!("function {}() does not exist", parts.join("."));
            Err(SqlError::new(SqlErrorKind::UndefinedFunction, message))
        }
    }
}

fn nanoseconds() -> Kind {
    Kind::of_time(PgType::Timestamptz, Some(TimeUnit::Nanosecond))
}

fn interval_or_number(expr: &mut Expr) -> Result<(), SqlError> {
    match build::string_literal(expr) {
        Some(text) if text.trim().parse::<f64>().is_err() => interval_literal(expr, None),
        _ => Ok(()),
    }
}

/// Functions of numbers, which the planner would wrap or round otherwise, and what is left.
fn numeric(expr: &mut Expr, name: &str, kinds: &[Option<Kind>]) -> Option<Kind> {
    let first = kinds.first().copied().flatten();
    match name {
        "sum" => {
            let wide = first.is_some_and(|kind| kind.pg_type == PgType::Int8)
                && !argument(expr, 0).is_some_and(is_small);
            if wide && let Some(argument) = arguments_mut(expr).next() {
                build::replace(argument, |argument| build::cast(argument, WIDE_INTEGER));
                return Some(Kind::of(PgType::Numeric));
            }
            answer(name, first)
        }
        "round" if first.is_some_and(Kind::is_float) && kinds.len() == 1 => {
            rename(expr, ROUND_HALF_EVEN);
            Some(Kind::of(PgType::Float8))
        }
        "round" | "trunc" if first.is_some_and(|kind| kind.pg_type == PgType::Numeric) => {
            let scale = argument(expr, 1).and_then(build::number_literal);
            if let Some(scale) = scale.and_then(|scale| scale.parse().ok())
                && (0..=SHOWN_SCALE_MAX).contains(&scale)
            {
                build::replace(expr, |expr| build::decimal(expr, scale));
            }
            first
        }
        "mod" => {
            let (Some(left), Some(right)) = (take_argument(expr, 0), take_argument(expr, 1)) else {
                return None;
            };
            *expr = build::nested(build::binary(left, BinaryOperator::Modulo, right));
            first
        }
        _ => answer(name, first),
    }
}

/// What a function answers, given its first argument.
fn answer(name: &str, first: Option<Kind>) -> Option<Kind> {
    let pg_type = match name {
        "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead" | "any_value" | "abs"
        | "round" | "trunc" | "ceil" | "floor" => return first,
        "count" | "row_number" | "rank" | "dense_rank" | "ntile" => PgType::Int8,
        "sum" => {
            return first.map(|kind| if kind.is_integer() { Kind::of(PgType::Int8) } else { kind });
        }
        // The planner's average of numerics is one.
        "avg" if first.is_some_and(|kind| kind.pg_type == PgType::Numeric) => return first,
        "avg" | "stddev" | "stddev_pop" | "variance" | "var_pop" | "random" | "sqrt" | "ln" | "log"
        | "exp" => PgType::Float8,
        "length" | "char_length" | "character_length" | "octet_length" | "strpos" | "array_upper"
        | "array_lower" => PgType::Int4,
        "lower"
        | "upper"
        | "trim"
        | "btrim"
        | "ltrim"
        | "rtrim"
        | "substr"
        | "substring"
        | "replace"
        | "left"
        | "right"
        | "lpad"
        | "rpad"
        | "split_part"
        | "regexp_replace"
        | "concat"
        | "string_agg"
        | "md5"
        | "header"
        | "version"
        | "format_type"
        | "current_setting"
        | "quote_ident"
        | "chr"
        | "reverse"
        | "repeat"
        | "initcap"
        | "translate"
        | "current_database"
        | "current_schema"
        | "current_user"
        | "session_user"
        | "user"
        | "current_catalog"
        | "pg_get_userbyid"
        | "pg_get_serial_sequence" => PgType::Text,
        "header_bytes" | "decode" => PgType::Bytea,
        "bool_and" | "bool_or" | "starts_with" => PgType::Bool,
        "current_schemas" | "string_to_array" | "parse_ident" => PgType::TextArray,
        "to_regclass" => PgType::Regclass,
        "to_regtype" => PgType::Regtype,
        _ => return None,
    };
    Some(Kind::of(pg_type))
}

fn list(expr: &mut Expr) -> Option<&mut Vec<FunctionArg>> {
    match expr {
        Expr::Function(Function { args: FunctionArguments::List(list), .. }) => Some(&mut list.args),
        _ => None,
    }
}

fn arguments_mut(expr: &mut Expr) -> impl Iterator<Item = &mut Expr> {
    list(expr).into_iter().flatten().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

fn argument(expr: &Expr, index: usize) -> Option<&Expr> {
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr else { return None };
    match list.args.get(index) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
        _ => None,
    }
}

fn take_argument(expr: &mut Expr, index: usize) -> Option<Expr> {
    arguments_mut(expr).nth(index).map(|argument| std::mem::replace(argument, build::null()))
}

fn push_argument(expr: &mut Expr, argument: Expr) {
    if let Some(list) = list(expr) {
        list.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    }
}

fn rename(expr: &mut Expr, name: &str) {
    if let Expr::Function(function) = expr {
        function.name = build::object_name(&[name]);
    }
}
