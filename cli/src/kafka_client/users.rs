//! Users and their credentials: AlterUserScramCredentials and DescribeUserScramCredentials.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::{AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest};
use strandline_storage::access::{SCRAM_ITERATIONS_DEFAULT, ScramMechanism};
use strandline_storage::seam::Seams;

use super::admin::{Admin, text};
use super::error::{ClientError, ErrorCode};

const CREDENTIALS_VERSION: i16 = 0;

/// A user, with the mechanisms of its credentials and how often each hashes a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSummary {
    pub name: String,
    pub credentials: Vec<(ScramMechanism, i32)>,
}

impl Admin {
    /// All users, by name.
    pub async fn users(&mut self) -> Result<Vec<UserSummary>, ClientError> {
        self.describe_users(None).await
    }

    /// One user, if there is such a one.
    pub async fn user(&mut self, name: &str) -> Result<Option<UserSummary>, ClientError> {
        Ok(self.describe_users(Some(name)).await?.pop())
    }

    async fn describe_users(&mut self, name: Option<&str>) -> Result<Vec<UserSummary>, ClientError> {
        let named = name.map(|name| vec![UserName::default().with_name(text(name))]);
        let request = DescribeUserScramCredentialsRequest::default().with_users(named);
        let response = self.connection.call(CREDENTIALS_VERSION, &request).await?;
        let what = "users were not listed";
        if let Some(code) = ErrorCode::of(response.error_code) {
            return Err(ClientError::refused(what, code, response.error_message.as_deref()));
        }
        let mut users = Vec::new();
        for result in &response.results {
            match ErrorCode::of(result.error_code) {
                None => {}
                Some(code) if code.is(ResponseError::ResourceNotFound) => continue,
                Some(code) => return Err(ClientError::refused(what, code, result.error_message.as_deref())),
            }
            let credentials = result.credential_infos.iter();
            let credentials =
                credentials.filter_map(|info| Some((mechanism_of(info.mechanism)?, info.iterations)));
            users.push(UserSummary { name: result.user.to_string(), credentials: credentials.collect() });
        }
        users.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(users)
    }

    /// Gives a user a password, by all mechanisms. The server gets what proves it, not the password.
    pub async fn put_user(&mut self, name: &str, password: &str) -> Result<(), ClientError> {
        let seams = Seams::system();
        let upsertion = |mechanism: ScramMechanism| {
            let salt = seams.rng.bytes16();
            let salted = mechanism.salted_password(password, &salt, SCRAM_ITERATIONS_DEFAULT);
            ScramCredentialUpsertion::default()
                .with_name(text(name))
                .with_mechanism(code_of(mechanism))
                .with_iterations(SCRAM_ITERATIONS_DEFAULT.cast_signed())
                .with_salt(salt.to_vec().into())
                .with_salted_password(salted.into())
        };
        let upsertions = ScramMechanism::ALL.into_iter().map(upsertion).collect();
        let request = AlterUserScramCredentialsRequest::default().with_upsertions(upsertions);
        self.alter_users(&request, &format!("user \"{name}\" was not changed")).await
    }

    /// Takes all credentials from a user, which is then none.
    pub async fn delete_user(&mut self, user: &UserSummary) -> Result<(), ClientError> {
        let deletion = |(mechanism, _): &(ScramMechanism, i32)| {
            ScramCredentialDeletion::default().with_name(text(&user.name)).with_mechanism(code_of(*mechanism))
        };
        let deletions = user.credentials.iter().map(deletion).collect();
        let request = AlterUserScramCredentialsRequest::default().with_deletions(deletions);
        self.alter_users(&request, &format!("user \"{}\" was not deleted", user.name)).await
    }

    async fn alter_users(
        &mut self,
        request: &AlterUserScramCredentialsRequest,
        what: &str,
    ) -> Result<(), ClientError> {
        let response = self.connection.call(CREDENTIALS_VERSION, request).await?;
        let mut failures = response.results.iter().filter_map(|result| {
            let code = ErrorCode::of(result.error_code)?;
            Some(ClientError::refused(what, code, result.error_message.as_deref()))
        });
        failures.next().map_or(Ok(()), Err)
    }
}

/// `ScramMechanism.type` of Kafka.
fn code_of(mechanism: ScramMechanism) -> i8 {
    match mechanism {
        ScramMechanism::Sha256 => 1,
        ScramMechanism::Sha512 => 2,
    }
}

fn mechanism_of(code: i8) -> Option<ScramMechanism> {
    ScramMechanism::ALL.into_iter().find(|mechanism| code_of(*mechanism) == code)
}
