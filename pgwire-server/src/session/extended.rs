//! The extended protocol: Parse, Bind, Describe, Execute and Close, pipelined up to a Sync.

use std::sync::Arc;

use strandline_engine::TransactionStatus;
use strandline_sql::{Parsed, PgType};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Connection;
use super::portal::{Portal, PortalState, RowSource};
use super::pump::{Pumped, Started, complete_tag};
use super::simple::UNNAMED;
use super::statement::{Effect, Plan, PreparedStatement, check_column_count, headers, spread_formats};
use crate::encode::{Format, TimeZone};
use crate::error::{Failure, PgError};
use crate::parameter;
use crate::sqlstate::SqlState;
use crate::telemetry::{self, Protocol};
use crate::wire::frontend::{Bind, Parse, Target};

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(super) async fn parse(&mut self, parse: Parse) -> Result<(), Failure> {
        self.check_statement_name(&parse.name)?;
        // A failed Parse of the unnamed statement leaves none, as in PostgreSQL.
        self.statements.remove(UNNAMED);
        let parameter_types = declared_types(&parse.parameter_types)?;
        let parsing = self.session.parse(&parse.text);
        let mut parsed = self.interrupts.watch(&mut self.reader, parsing).await??;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(PgError::new(SqlState::SYNTAX_ERROR, message).into());
        }
        let plan = match parsed.pop() {
            Some(parsed) => Some(self.plan(parsed, parameter_types).await?),
            None => None,
        };
        self.statements.insert(parse.name, Arc::new(PreparedStatement { plan }));
        self.output.parse_complete();
        Ok(())
    }

    fn check_statement_name(&self, name: &str) -> Result<(), PgError> {
        if name == UNNAMED {
            return Ok(());
        }
        if self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(PgError::new(SqlState::DUPLICATE_STATEMENT, message));
        }
        check_limit("prepared statements", self.statements.len(), self.settings.prepared_statements_max)
    }

    /// Plans a statement, which a failed transaction refuses unless it ends it.
    pub(super) async fn plan(
        &mut self,
        parsed: Parsed,
        parameter_types: Vec<Option<PgType>>,
    ) -> Result<Plan, Failure> {
        let effect = Effect::of(&parsed.statement);
        self.check_transaction(&effect)?;
        let planning = self.session.prepare(parsed, parameter_types);
        let prepared = self.interrupts.watch(&mut self.reader, planning).await??;
        check_column_count(prepared.columns().unwrap_or_default())?;
        Ok(Plan { prepared, effect })
    }

    fn check_transaction(&self, effect: &Effect) -> Result<(), PgError> {
        let failed = self.session.transaction_status() == TransactionStatus::Failed;
        if failed && !effect.recovers() {
            return Err(PgError::failed_transaction());
        }
        Ok(())
    }

    pub(super) fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let statement = self.statement(&bind.statement)?;
        if let Some(plan) = &statement.plan {
            self.check_transaction(&plan.effect)?;
        }
        self.check_portal_name(&bind.portal)?;
        let zone = self.text_style().zone;
        let parameters = bound_parameters(&bind, statement.parameter_types(), &zone)?;
        let formats = match statement.columns() {
            Some(columns) => result_formats(&bind.result_formats, columns.len())?,
            None => Vec::new(),
        };
        let portal = Portal { statement, formats, state: PortalState::Bound(parameters) };
        self.portals.insert(bind.portal, portal);
        self.output.bind_complete();
        Ok(())
    }

    fn check_portal_name(&self, name: &str) -> Result<(), PgError> {
        if name == UNNAMED {
            return Ok(());
        }
        if self.portals.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(PgError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        check_limit("portals", self.portals.len(), self.settings.portals_max)
    }

    fn statement(&self, name: &str) -> Result<Arc<PreparedStatement>, PgError> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = match name {
                UNNAMED => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            PgError::new(SqlState::UNDEFINED_STATEMENT, message)
        })
    }

    pub(super) fn describe(&mut self, target: &Target) -> Result<(), Failure> {
        match target {
            Target::Statement(name) => {
                let statement = self.statement(name)?;
                let types = statement.parameter_types().iter().map(|pg_type| pg_type.oid()).collect();
                self.output.parameter_description(types);
                let count = statement.columns().map_or(0, <[_]>::len);
                self.describe_result(&statement, &vec![Format::Text; count]);
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| undefined_portal(name))?;
                let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
                self.describe_result(&statement, &formats);
            }
        }
        Ok(())
    }

    fn describe_result(&mut self, statement: &PreparedStatement, formats: &[Format]) {
        match statement.columns() {
            Some(columns) => self.output.row_description(&headers(columns, formats)),
            None => self.output.no_data(),
        }
    }

    /// Closing what does not exist is no error.
    pub(super) fn close(&mut self, target: &Target) {
        match target {
            Target::Statement(name) => drop(self.statements.remove(name)),
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        self.output.close_complete();
    }

    pub(super) async fn execute(&mut self, name: &str, max_rows: Option<u32>) -> Result<(), Failure> {
        // The portal is out of the map while it runs: what fails or ends the transaction is gone by itself.
        let mut portal = self.portals.remove(name).ok_or_else(|| undefined_portal(name))?;
        if let Some(plan) = &portal.statement.plan {
            self.check_transaction(&plan.effect)?;
        }
        let ended_transaction = self.execute_portal(&mut portal, max_rows).await?;
        if !ended_transaction {
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(())
    }

    /// Runs or resumes a portal. True when its statement has ended the transaction that it lived in.
    async fn execute_portal(&mut self, portal: &mut Portal, max_rows: Option<u32>) -> Result<bool, Failure> {
        let statement = Arc::clone(&portal.statement);
        let Some(plan) = &statement.plan else {
            self.output.empty_query();
            return Ok(false);
        };
        let source = match std::mem::replace(&mut portal.state, PortalState::CommandDone) {
            PortalState::Bound(parameters) => {
                telemetry::statement_started(Protocol::Extended);
                match self.start(plan, parameters, &portal.formats).await? {
                    Started::Rows(source) => source,
                    Started::Command { tag } => {
                        self.output.command_complete(&tag);
                        return Ok(plan.effect == Effect::EndsTransaction);
                    }
                }
            }
            PortalState::Open(source) => source,
            PortalState::Exhausted(tag) => {
                self.output.command_complete(&complete_tag(tag, 0));
                portal.state = PortalState::Exhausted(tag);
                return Ok(false);
            }
            PortalState::CommandDone => {
                return Err(PgError::new(SqlState::PORTAL_STATE, "a command cannot be run twice").into());
            }
        };
        portal.state = self.pump_portal(source, max_rows).await?;
        Ok(false)
    }

    async fn pump_portal(
        &mut self,
        mut source: RowSource,
        max_rows: Option<u32>,
    ) -> Result<PortalState, Failure> {
        match self.pump(&mut source, max_rows).await? {
            Pumped::Suspended => {
                self.output.portal_suspended();
                Ok(PortalState::Open(source))
            }
            Pumped::Finished { rows } => {
                self.output.command_complete(&complete_tag(source.tag, rows));
                Ok(PortalState::Exhausted(source.tag))
            }
        }
    }
}

fn check_limit(what: &str, count: usize, max: usize) -> Result<(), PgError> {
    if count < max {
        return Ok(());
    }
    let message = format!("the session has {count} {what}, which is the bound");
    Err(PgError::new(SqlState::LIMIT_EXCEEDED, message))
}

fn undefined_portal(name: &str) -> PgError {
    PgError::new(SqlState::UNDEFINED_CURSOR, format!("portal \"{name}\" does not exist"))
}

/// Zero and `unknown` leave the type to the server.
fn declared_types(oids: &[u32]) -> Result<Vec<Option<PgType>>, PgError> {
    let declared = |oid: &u32| match (*oid, PgType::from_oid(*oid)) {
        (0, _) | (_, Some(PgType::Unknown)) => Ok(None),
        (_, Some(pg_type)) => Ok(Some(pg_type)),
        (oid, None) => {
            let message = format!("type with OID {oid} does not exist");
            Err(PgError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    };
    oids.iter().map(declared).collect()
}

fn bound_parameters(
    bind: &Bind,
    types: &[PgType],
    zone: &TimeZone,
) -> Result<Vec<datafusion::scalar::ScalarValue>, PgError> {
    let (given, wanted) = (bind.parameters.len(), types.len());
    if given != wanted {
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
            bind.statement
        );
        return Err(PgError::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let formats = spread_formats(&bind.parameter_formats, given).ok_or_else(|| {
        let formats = bind.parameter_formats.len();
        let message = format!("bind message has {formats} parameter formats but {given} parameters");
        PgError::new(SqlState::PROTOCOL_VIOLATION, message)
    })?;
    let values = bind.parameters.iter().zip(types).zip(formats);
    values
        .enumerate()
        .map(|(index, ((value, pg_type), format))| {
            parameter::decode(value.as_ref(), *pg_type, format, zone).map_err(|error| {
                let error = PgError::from(error);
                PgError { detail: Some(format!("this is parameter ${}", index + 1)), ..error }
            })
        })
        .collect()
}

fn result_formats(formats: &[Format], columns: usize) -> Result<Vec<Format>, PgError> {
    spread_formats(formats, columns).ok_or_else(|| {
        let message =
            format!("bind message has {} result formats but query has {columns} columns", formats.len());
        PgError::new(SqlState::PROTOCOL_VIOLATION, message)
    })
}
