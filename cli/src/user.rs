//! `strandline user`: create, password, list, delete.

use crate::args::{UserArgs, UserCommand};
use crate::failure::Failure;
use crate::kafka_client::{Admin, Endpoint};
use crate::output::{Alignment, TextTable, print, print_line};
use crate::password;

/// `strandline user`.
pub async fn run(args: UserArgs) -> Result<(), Failure> {
    match args.command {
        UserCommand::Create { name, bootstrap } => create(&Endpoint::of(&bootstrap)?, &name).await,
        UserCommand::Password { name, bootstrap } => change(&Endpoint::of(&bootstrap)?, &name).await,
        UserCommand::List { bootstrap } => list(&Endpoint::of(&bootstrap)?).await,
        UserCommand::Delete { name, bootstrap } => {
            let mut admin = Admin::connect(&Endpoint::of(&bootstrap)?).await?;
            let user = admin.user(&name).await?.ok_or_else(|| unknown(&name))?;
            admin.delete_user(&user).await?;
            print_line(&format!("deleted user \"{name}\""))
        }
    }
}

fn unknown(name: &str) -> Failure {
    Failure::failed(format!("user \"{name}\" does not exist; `strandline user list` shows those that do"))
}

async fn create(endpoint: &Endpoint, name: &str) -> Result<(), Failure> {
    let mut admin = Admin::connect(endpoint).await?;
    if admin.user(name).await?.is_some() {
        return Err(Failure::failed(format!(
            "user \"{name}\" exists already; `strandline user password {name}` changes its password"
        )));
    }
    admin.put_user(name, &new_password(name)?).await?;
    print_line(&format!(
        "created user \"{name}\"; `strandline acl add --allow {name} ...` says what it may do"
    ))
}

async fn change(endpoint: &Endpoint, name: &str) -> Result<(), Failure> {
    let mut admin = Admin::connect(endpoint).await?;
    admin.user(name).await?.ok_or_else(|| unknown(name))?;
    admin.put_user(name, &new_password(name)?).await?;
    print_line(&format!("changed the password of user \"{name}\""))
}

/// Clients prepare other characters in different ways (SASLprep), so that only some would let the
/// user in.
fn new_password(name: &str) -> Result<String, Failure> {
    let password = password::new_of_user(name)?;
    match password.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        true => Ok(password),
        false => Err(Failure::Usage(
            "a password may have letters, digits, spaces and signs of ASCII only: clients do not agree about others"
                .to_owned(),
        )),
    }
}

async fn list(endpoint: &Endpoint) -> Result<(), Failure> {
    let mut admin = Admin::connect(endpoint).await?;
    let mut table = TextTable::new(&[("user", Alignment::Left), ("mechanisms", Alignment::Left)]);
    for user in admin.users().await? {
        let mechanisms: Vec<&str> = user.credentials.iter().map(|(mechanism, _)| mechanism.name()).collect();
        table.push(vec![user.name, mechanisms.join(", ")]);
    }
    print(&table.take_text())
}
