//! PostgreSQL's dialect but for one rule: the name of a named argument is an identifier, not any
//! expression. With any expression every argument is parsed twice, so that the time grows twofold
//! with every level of nested calls.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

/// The dialect that statements are parsed with.
#[derive(Debug)]
pub(crate) struct StatementDialect;

impl Dialect for StatementDialect {
    // The parser asks for PostgreSQL by this identity in places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        BASE.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        BASE.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        BASE.is_identifier_part(character)
    }

    fn supports_unicode_string_literal(&self) -> bool {
        BASE.supports_unicode_string_literal()
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        BASE.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, character: char) -> bool {
        BASE.is_custom_operator_part(character)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        BASE.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        BASE.prec_value(precedence)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        BASE.supports_filter_during_aggregation()
    }

    fn supports_group_by_expr(&self) -> bool {
        BASE.supports_group_by_expr()
    }

    fn allow_extract_custom(&self) -> bool {
        BASE.allow_extract_custom()
    }

    fn allow_extract_single_quotes(&self) -> bool {
        BASE.allow_extract_single_quotes()
    }

    fn supports_explain_with_utility_options(&self) -> bool {
        BASE.supports_explain_with_utility_options()
    }

    fn supports_listen_notify(&self) -> bool {
        BASE.supports_listen_notify()
    }

    fn supports_factorial_operator(&self) -> bool {
        BASE.supports_factorial_operator()
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        BASE.supports_bitwise_shift_operators()
    }

    fn supports_comment_on(&self) -> bool {
        BASE.supports_comment_on()
    }

    fn supports_load_extension(&self) -> bool {
        BASE.supports_load_extension()
    }

    fn supports_named_fn_args_with_colon_operator(&self) -> bool {
        BASE.supports_named_fn_args_with_colon_operator()
    }

    fn supports_empty_projections(&self) -> bool {
        BASE.supports_empty_projections()
    }

    fn supports_nested_comments(&self) -> bool {
        BASE.supports_nested_comments()
    }

    fn supports_string_escape_constant(&self) -> bool {
        BASE.supports_string_escape_constant()
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        BASE.supports_numeric_literal_underscores()
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        BASE.supports_array_typedef_with_brackets()
    }

    fn supports_geometric_types(&self) -> bool {
        BASE.supports_geometric_types()
    }

    fn supports_notnull_operator(&self) -> bool {
        BASE.supports_notnull_operator()
    }

    fn supports_interval_options(&self) -> bool {
        BASE.supports_interval_options()
    }

    fn supports_select_wildcard_with_alias(&self) -> bool {
        BASE.supports_select_wildcard_with_alias()
    }

    fn supports_comma_separated_trim(&self) -> bool {
        BASE.supports_comma_separated_trim()
    }

    fn supports_xml_expressions(&self) -> bool {
        BASE.supports_xml_expressions()
    }
}
