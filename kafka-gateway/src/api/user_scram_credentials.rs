//! DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (key 51): users are those that have
//! credentials (KIP-554).
//!
//! # Behavior
//! - A description has mechanisms and iterations, nothing that proves anything. No user named means all. A
//!   user without credentials is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE.
//! - A credential is made from the salted password that the client sends; a user whose last one is deleted is
//!   gone. All of one request becomes durable together, and holds for the next login.
//! - Each user succeeds or fails alone and as a whole: an empty name, and iterations out of their bounds, are
//!   UNACCEPTABLE_CREDENTIAL, an unknown mechanism UNSUPPORTED_SASL_MECHANISM, a credential that is altered
//!   twice DUPLICATE_RESOURCE, the deletion of what is not there RESOURCE_NOT_FOUND. Credentials of two
//!   mechanisms are altered together, as `kafka-configs` does it; KRaft refuses that as if it were twice.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use kafka_protocol::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use kafka_protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{Access, AccessChange, ScramCredential, ScramMechanism, User};

use super::access_change::{Draft, commit};
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

/// `ScramMechanism.type` of the Java client.
const MECHANISMS: [(ScramMechanism, i8); 2] = [(ScramMechanism::Sha256, 1), (ScramMechanism::Sha512, 2)];

fn mechanism(code: i8) -> Result<ScramMechanism, Refusal> {
    let known = MECHANISMS.iter().find(|(_, one)| *one == code).map(|(mechanism, _)| *mechanism);
    let unknown = || (ErrorCode::UnsupportedSaslMechanism, format!("SCRAM mechanism {code} is unknown"));
    known.ok_or_else(unknown)
}

fn mechanism_code(mechanism: ScramMechanism) -> i8 {
    MECHANISMS.iter().find(|(one, _)| *one == mechanism).expect("every mechanism has a code").1
}

pub(super) async fn describe(
    context: Context,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let response = DescribeUserScramCredentialsResponse::default().with_error_message(None);
    let named: Vec<StrBytes> = request.users.into_iter().flatten().map(|user| user.name).collect();
    if let Err((error, reason)) = context.check_authorized(Operation::Describe, Resource::Cluster) {
        let reason = Some(StrBytes::from_string(reason));
        let refused = named.into_iter().map(|name| {
            DescribeUserScramCredentialsResult::default()
                .with_user(name)
                .with_error_code(context.code(error))
                .with_error_message(reason.clone())
        });
        let refused = refused.collect();
        return response
            .with_error_code(context.code(error))
            .with_error_message(reason)
            .with_results(refused);
    }
    let access = context.log().access();
    if named.is_empty() {
        let users = access.users.iter().filter(|user| !user.credentials.is_empty());
        return response.with_results(users.map(|user| described(user)).collect());
    }
    let mut mentions: BTreeMap<StrBytes, usize> = BTreeMap::new();
    named.into_iter().for_each(|name| *mentions.entry(name).or_default() += 1);
    let results = mentions.into_iter().map(|(name, count)| match find(&access, &name, count) {
        Ok(user) => described(user),
        Err((error, reason)) => DescribeUserScramCredentialsResult::default()
            .with_user(name)
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    });
    response.with_results(results.collect())
}

fn find<'a>(access: &'a Access, name: &str, mentions: usize) -> Result<&'a User, Refusal> {
    if mentions > 1 {
        return Err((ErrorCode::DuplicateResource, format!("user \"{name}\" is named more than once")));
    }
    let user = access.users.get(name).filter(|user| !user.credentials.is_empty());
    let missing = || (ErrorCode::ResourceNotFound, format!("user \"{name}\" has no credentials"));
    user.map(AsRef::as_ref).ok_or_else(missing)
}

fn described(user: &User) -> DescribeUserScramCredentialsResult {
    let infos = user.credentials.iter().map(|credential| {
        // The bounds of the number are far below.
        let iterations = i32::try_from(credential.iterations).unwrap_or(i32::MAX);
        CredentialInfo::default()
            .with_mechanism(mechanism_code(credential.mechanism))
            .with_iterations(iterations)
    });
    DescribeUserScramCredentialsResult::default()
        .with_user(StrBytes::from_string(user.name.clone()))
        .with_error_message(None)
        .with_credential_infos(infos.collect())
}

/// What is to become of one credential.
enum Alteration {
    Put(ScramCredential),
    Delete(ScramMechanism),
}

impl Alteration {
    fn mechanism(&self) -> ScramMechanism {
        match self {
            Self::Put(credential) => credential.mechanism,
            Self::Delete(mechanism) => *mechanism,
        }
    }
}

/// What is to become of each user, once for each that is named.
type Alterations = Vec<(StrBytes, Result<Vec<Alteration>, Refusal>)>;

pub(super) async fn alter(
    context: Context,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let alterations = alterations(request);
    let names: Vec<StrBytes> = alterations.iter().map(|(name, _)| name.clone()).collect();
    let altered = match context.check_authorized(Operation::Alter, Resource::Cluster) {
        Ok(()) => commit(&context, move |draft| alter_all(draft, alterations)).await,
        Err(refusal) => Err(refusal),
    };
    let outcomes = altered.unwrap_or_else(|refusal| names.iter().map(|_| Err(refusal.clone())).collect());
    let results = names.into_iter().zip(outcomes).map(|(name, outcome)| {
        let result = AlterUserScramCredentialsResult::default().with_user(name).with_error_message(None);
        match outcome {
            Ok(()) => result,
            Err((error, reason)) => result
                .with_error_code(context.code(error))
                .with_error_message(Some(StrBytes::from_string(reason))),
        }
    });
    AlterUserScramCredentialsResponse::default().with_results(results.collect())
}

/// One for each user, in the order in which they are named first.
fn alterations(request: AlterUserScramCredentialsRequest) -> Alterations {
    let deletions = request.deletions.into_iter();
    let deletions =
        deletions.map(|deletion| (deletion.name, mechanism(deletion.mechanism).map(Alteration::Delete)));
    let upsertions = request.upsertions.into_iter();
    let upsertions = upsertions.map(|upsertion| {
        let credential = credential(&upsertion).map(Alteration::Put);
        (upsertion.name, credential)
    });
    let mut places: BTreeMap<StrBytes, usize> = BTreeMap::new();
    let mut alterations: Alterations = Vec::new();
    for (name, alteration) in deletions.chain(upsertions) {
        let place = *places.entry(name.clone()).or_insert(alterations.len());
        match alterations.get_mut(place) {
            Some((name, all)) => add(name, all, alteration),
            None => {
                let mut all = Ok(Vec::new());
                add(&name, &mut all, alteration);
                alterations.push((name, all));
            }
        }
    }
    alterations
}

/// Adds one more alteration of a user. One that makes no sense refuses all of them.
fn add(name: &str, all: &mut Result<Vec<Alteration>, Refusal>, alteration: Result<Alteration, Refusal>) {
    let Ok(known) = all else { return };
    match alteration {
        _ if name.is_empty() => {
            *all = Err((ErrorCode::UnacceptableCredential, "user name is empty".to_owned()));
        }
        Ok(one) if known.iter().any(|other| other.mechanism() == one.mechanism()) => {
            let mechanism = one.mechanism().name();
            let reason = format!("the {mechanism} credential of user \"{name}\" is altered more than once");
            *all = Err((ErrorCode::DuplicateResource, reason));
        }
        Ok(one) => known.push(one),
        Err(refusal) => *all = Err(refusal),
    }
}

fn credential(upsertion: &ScramCredentialUpsertion) -> Result<ScramCredential, Refusal> {
    let mechanism = mechanism(upsertion.mechanism)?;
    let iterations = u32::try_from(upsertion.iterations).unwrap_or(0);
    let (salted_password, salt) = (&upsertion.salted_password, upsertion.salt.to_vec());
    ScramCredential::from_salted_password(mechanism, salted_password, salt, iterations)
        .map_err(|error| (ErrorCode::UnacceptableCredential, error.to_string()))
}

fn alter_all(draft: &mut Draft, alterations: Alterations) -> Vec<Result<(), Refusal>> {
    let alter = |(name, all): (StrBytes, Result<Vec<Alteration>, Refusal>)| {
        let change = change(&draft.access, &name, all?)?;
        draft.change(change).map_err(|error| (ErrorCode::UnacceptableCredential, error.to_string()))
    };
    alterations.into_iter().map(alter).collect()
}

fn change(access: &Access, name: &str, all: Vec<Alteration>) -> Result<AccessChange, Refusal> {
    let found = access.users.get(name).map(|user| User::clone(user));
    let mut user = found.unwrap_or_else(|| User { name: name.to_owned(), credentials: Vec::new() });
    for alteration in all {
        match alteration {
            Alteration::Put(credential) => user.put_credential(credential),
            Alteration::Delete(mechanism) => {
                if !user.remove_credential(mechanism) {
                    let reason = format!("user \"{name}\" has no credential of {}", mechanism.name());
                    return Err((ErrorCode::ResourceNotFound, reason));
                }
            }
        }
    }
    let is_gone = user.credentials.is_empty();
    Ok(if is_gone { AccessChange::RemoveUser(name.to_owned()) } else { AccessChange::PutUser(user) })
}
