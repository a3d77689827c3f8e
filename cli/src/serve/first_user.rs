//! The first user of a log on which users prove who they are: made once, of the password in the
//! settings. Without it nobody could come in to make one.

use strandline_storage::access::{
    Access, AccessChange, SCRAM_ITERATIONS_DEFAULT, ScramCredential, ScramMechanism, User,
};
use strandline_storage::log::Log;
use strandline_storage::seam::Seams;

use crate::config::{ADMIN, Auth, ClientCertificate, Config};
use crate::failure::Failure;

/// Makes the first user if there is none, and refuses to go on if nobody could come in.
///
/// # Errors
/// No user, no password to make one with, and no port that takes certificates.
pub async fn ensure(log: &Log, config: &Config, seams: &Seams) -> Result<(), Failure> {
    if config.auth != Auth::Required {
        return Ok(());
    }
    let has_users = !log.access().users.is_empty();
    match &config.admin_password {
        Some(_) if has_users => {
            tracing::info!("STRANDLINE_ADMIN_PASSWORD is not looked at: there are users already");
            Ok(())
        }
        Some(password) => {
            let user = admin(password.expose().to_owned(), seams.clone()).await?;
            create(log, user).await
        }
        None if has_users || takes_certificates(config) => Ok(()),
        None => Err(Failure::Usage(format!(
            "nobody could come in: there is no user yet; set STRANDLINE_ADMIN_PASSWORD to the password of a first \
             user \"{ADMIN}\", with which `strandline user create` makes others"
        ))),
    }
}

fn takes_certificates(config: &Config) -> bool {
    let ports = config.kafka.ports();
    ports.iter().any(|(_, port)| port.client_certificate != ClientCertificate::None)
}

/// The first user, with a credential of every mechanism.
async fn admin(password: String, seams: Seams) -> Result<User, Failure> {
    // Hashing a password takes a while, by intention.
    let credentials = tokio::task::spawn_blocking(move || {
        let derive = |mechanism| {
            let salt = seams.rng.bytes16().to_vec();
            ScramCredential::derive(mechanism, &password, salt, SCRAM_ITERATIONS_DEFAULT)
        };
        ScramMechanism::ALL.into_iter().map(derive).collect()
    });
    let credentials = credentials
        .await
        .map_err(|error| Failure::failed(format!("hashing a password was interrupted: {error}")))?;
    Ok(User { name: ADMIN.to_owned(), credentials })
}

async fn create(log: &Log, user: User) -> Result<(), Failure> {
    let edit = move |access: &Access| {
        // Another one may have come in between.
        let changes = if access.users.is_empty() { vec![AccessChange::PutUser(user)] } else { Vec::new() };
        Ok::<_, anyhow::Error>((changes, ()))
    };
    log.change_access(edit).await?;
    tracing::info!("created the first user \"{ADMIN}\"");
    Ok(())
}
